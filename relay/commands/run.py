"""The commands that query, stop or check a relay as a whole, or read its journal or binlog."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.client import RelayClient, Values
from relay.commands import admin_client
from relay.commands.admin_client import Target, administrative
from relay.commands.app import cli, configurable, configured, with_url
from relay.commands.loader import Loader
from relay.commands.output import closable_output
from relay.commands.progress import Bar
from relay.commands.text import screen
from relay.commands.text import stat as stat_text
from relay.commands.text.select import selected
from relay.config.source_url import is_source_url
from relay.config.tree import Config
from relay.config.values import start_position
from relay.monitoring.stat import Stat
from relay.runtime.signals import handled

_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 1.0
_DRAIN_CHECK_SECONDS: Final = 0.2
_TAIL_PATIENCE: Final = 5.0


@cli.command()
@administrative
@click.option("--json", "as_json", is_flag=True, help="Print JSON on one line.")
@click.option("--watch", is_flag=True, help="Repeat every second, until Ctrl-C.")
@click.option("--client", "clients", multiple=True, metavar="PATTERN",
              help="Only clients with matching names. Repeatable.")  # fmt: skip
@click.option("--table", "tables", multiple=True, metavar="PATTERN",
              help="Only these tables (SCHEMA.TABLE). Repeatable.")  # fmt: skip
def stat(target: Target, as_json: bool, watch: bool, clients: tuple[str, ...], tables: tuple[str, ...]) -> None:
    """Show the state of the running relay.

    A PATTERN is a shell file pattern: `shop.*`, `cache-?`. The --client patterns also select CDC connections by user,
    the --table patterns by table.
    """

    def document() -> dict[str, Any]:
        with target.connect() as connection:
            return selected(connection.stat(), clients, tables)

    with closable_output():
        if watch and not as_json:
            screen.watch(lambda: admin_client.converted(document(), Stat), _WATCH_SECONDS)
        while as_json:
            click.echo(msgspec.json.encode(document()).decode())
            if not watch:
                return
            time.sleep(_WATCH_SECONDS)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else stat_text.WIDTH
        click.echo(stat_text.stat(admin_client.converted(document(), Stat), max(stat_text.WIDTH, width)))


@cli.command()
@administrative
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Time limit. Default: DrainTimeout.")
def drain(target: Target, timeout: float | None) -> None:
    """Stop reading, wait for empty queues, and stop the relay. Print a receipt."""
    deadline = time.monotonic() + (target.config.relay.drain_timeout if timeout is None else timeout)
    with target.connect() as client:
        client.drain()
        document = admin_client.converted(client.stat(), Stat)
        total = stat_text.remainder(document)
        with click.progressbar(length=max(total, 1), label="draining", file=sys.stderr) as bar:
            while not (done := stat_text.drained(document)) and time.monotonic() < deadline:
                time.sleep(_DRAIN_CHECK_SECONDS)
                document = admin_client.converted(client.stat(), Stat)
                bar.update(max(0, total - stat_text.remainder(document) - bar.pos))
            bar.update(bar.length - bar.pos if done and bar.length else 0)
        client.stop()
    _await_end(target.config)
    click.echo(stat_text.receipt(document))
    if left := stat_text.remainder(document):
        raise RelayError(ErrorCode.REMAINDER, "drain", f"{left} rows remain in queues")


@cli.command()
@administrative
def stop(target: Target) -> None:
    """Stop the running relay. It saves its state first."""
    with target.connect() as client:
        client.stop()
    _await_end(target.config)
    click.echo("stopped")


def _await_end(config: Config) -> None:
    if not admin_client.wait_until_ended(config, _STOP_SECONDS):
        cause = f"still running after {_STOP_SECONDS:.0f} s"
        raise RelayError(ErrorCode.UNEXPECTED, "stop", cause, position=config.relay.data_dir)


@cli.command()
@administrative
def pause(target: Target) -> None:
    """Stop reading from the source; clients are still served."""
    with target.connect() as client:
        client.pause()
        until = time.monotonic() + _PAUSE_SECONDS
        while client.stat()["state"] not in ("paused", "stopped"):
            if time.monotonic() > until:
                click.echo("pausing at the end of the current transaction")
                return
            time.sleep(0.05)
    click.echo("paused")


@cli.command()
@administrative
def resume(target: Target) -> None:
    """End a pause, or retry after a fatal error."""
    with target.connect() as client:
        client.resume()
    click.echo("resumed")


@cli.command()
@configurable
@with_url
def check(load: Loader, url: str | None) -> None:
    """Check configuration, this machine, grants and source.

    With the URL of the source, mysql://LOGIN@HOST/, and no configuration, check grants and source.
    """
    from relay.commands import check as preflight  # imports a database driver that few commands need

    if url is not None:
        load.use(url)
    if cause := preflight.report(load(), only_source=load.file is None and url is not None):
        raise RelayError(ErrorCode.CHECK_FAILED, "check", cause)


@cli.command()
@configurable
@click.option("--from", "start", metavar="POSITION",
              help="Read from the source, starting at oldest, newest, FILE:POS or a GTID set.")  # fmt: skip
@click.option("--to-end", is_flag=True, help="With --from: stop at the current end of the binlog.")
@click.option("--file", "from_files", is_flag=True, help="Read the binlog files given as arguments, in that order.")
@click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True,
              help="Same as a table argument; required with --file. Repeatable.")  # fmt: skip
@click.option("--rows", is_flag=True, help="With --from or --file: print the values of rows, one row per line.")
@click.option("--json", "as_json", is_flag=True, help="With --from or --file: print one JSON document per line.")
@click.option("--format", "form_name", type=click.Choice(["debezium"]),
              help="Print rows in Debezium's envelope, one JSON document per line.")  # fmt: skip
@click.argument("arguments", nargs=-1, metavar="[URL] [SCHEMA.TABLE]... | --file FILE...")
def tail(
    load: Loader,
    start: str | None,
    to_end: bool,
    from_files: bool,
    patterns: tuple[str, ...],
    rows: bool,
    as_json: bool,
    form_name: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Print changes, until Ctrl-C.

    By default, print changed rows from the running relay as JSON lines. With --from or --file, print all events of the
    source's binlog or of binlog files, or only those of some tables. A table is SCHEMA.TABLE; * means all.

    With the URL of the source, mysql://LOGIN@HOST/, neither a relay nor a configuration is necessary: it prints changed
    rows from the source as JSON lines, from now on if --from does not say otherwise.
    """
    from_url = bool(arguments) and is_source_url(arguments[0]) and not from_files
    if from_url:
        load.use(arguments[0])
        arguments, start, rows, as_json = arguments[1:], start or "newest", True, True
        patterns = patterns if arguments or patterns else ("*.*",)
    tables = patterns if from_files else (*arguments, *patterns)
    if not all(schema and table for schema, _, table in (pattern.partition(".") for pattern in tables)):
        raise click.BadParameter("a table must be SCHEMA.TABLE; * means all")
    if from_files and (start or not arguments):
        raise click.UsageError("--file needs binlog files as arguments, and excludes --from")
    if to_end and not start:
        raise click.UsageError("--to-end needs --from")
    debezium = form_name == "debezium"
    if debezium and as_json and not from_url:
        raise click.UsageError("--json and --format exclude each other")
    with closable_output():
        if not from_files and start is None:
            _tail_relay(load(), tables or ("*.*",), debezium)
            return
        from relay.commands import tail as events  # imports a database driver that few commands need
        from relay.commands.text.events import Form

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        form = Form(tables=tables, rows=rows or debezium, json=as_json, debezium=debezium, width=width)
        if start is None:
            found = events.from_files([Path(name) for name in arguments], form, _note)
        else:
            found = events.from_source(load(), start, to_end, form, _note)
        for line in found:
            click.echo(line)


def _note(text: str) -> None:
    click.echo(f"relay: note: {text}", err=True)


def _tail_relay(config: Config, tables: tuple[str, ...], debezium: bool) -> None:
    patterns = [(schema, table) for schema, _, table in (each.partition(".") for each in tables)]
    name = f"relay-tail-{socket.gethostname()}-{os.getpid()}"
    host, port = admin_client.classic_address(config)
    secret, tls = config.server.auth_secret, admin_client.tls_context(config)
    values: Values = "python" if debezium else "msgpack"
    connection = RelayClient(host, port, name, secret, patience=_TAIL_PATIENCE, tls=tls, values=values)
    interrupted = False
    # SIGTERM and SIGHUP leave no client behind either.
    with handled((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        try:
            connection.connect()
            for schema, table in patterns:
                connection.add_filter(schema, table)
            for row in connection:
                click.echo(msgspec.json.encode(row.debezium()).decode() if debezium else stat_text.row(row))
        except KeyboardInterrupt:
            interrupted = True  # if in the login, the relay may know the name already
            raise
        finally:
            connection.close()
            if interrupted or connection.client_id:
                try:
                    _remove_filters(connection, patterns)
                except RelayError:  # a login that was under way may have taken the name over
                    _remove_filters(connection, patterns)
                _forget(config, name)


def _remove_filters(connection: RelayClient, patterns: Sequence[tuple[str, str]]) -> None:
    """Remove the filters on a new connection, because an interrupt leaves a reply half read."""
    connection.close()
    for schema, table in patterns:
        connection.remove_filter(schema, table)
    connection.close()


def _forget(config: Config, name: str) -> None:
    """Remove the client, which has no filters and no connection any more, if this user may do that."""
    try:
        connection = admin_client.local(config)
    except RelayError:
        return
    with connection:
        connection.forget(name)


def _parse_position(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return start_position("newest" if value.lower() == "now" else value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@cli.command()
@configured
@click.option("--from", "start", default="oldest", metavar="POSITION", callback=_parse_position,
              help="Start: FILE:POS, a GTID set, or oldest (default), the oldest in journal and source.")  # fmt: skip
@click.option("--to", "end", default="newest", metavar="POSITION", callback=_parse_position,
              help="End: FILE:POS, a GTID set, or newest (default), the end of the journal.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on one line.")
def verify(config: Config, start: str, end: str, as_json: bool) -> None:
    """Compare the journal with the source's binlog.

    Compare row by row. The library mysql-replication reads the binlog.
    """
    from relay.verify import run  # imports mysql-replication, which no other command needs

    with Bar(sys.stderr, "verifying") as bar:

        def show(progress: run.Progress) -> None:
            if bar.due(progress.seconds):  # called for every transaction, but the text is made only to be shown
                bar.show(progress.seconds, progress.done, progress.text)

        report = run.run(config, start, end, show)
    click.echo(msgspec.json.encode(report).decode() if as_json else report.text())
    if report.differences:
        raise RelayError(ErrorCode.DIFFERENCE, "verify", report.verdict, position=report.range)
    if report.incomplete:
        raise RelayError(ErrorCode.UNVERIFIED, "verify", report.incomplete, position=report.range)


@cli.command()
@configured
@click.option("--look", is_flag=True, help="Only report damage. Change nothing, and do not connect to the source.")
def repair(config: Config, look: bool) -> None:
    """Repair the journal of a stopped relay. Read damaged parts again from the source."""
    from relay.base.log import logger
    from relay.repair import run  # few commands need the native core

    began = time.monotonic()
    with Bar(sys.stderr, "scanning") as bar:
        found = run.run(
            config, not look, click.echo, lambda done: bar.show(time.monotonic() - began, done, ""), logger("repair")
        )
    if not found:
        click.echo("the journal is not damaged")
    left = [finding for finding in found if look or finding.failure]
    if left:
        cause = f"{len(left)} of {len(found)} damaged parts are not repaired"
        raise RelayError(StopCode.JOURNAL_CORRUPT, "repair the journal", cause, position=config.relay.data_dir,
                         hint="`relay repair` repairs them" if look else left[0].hint)  # fmt: skip


@cli.command()
@configured
@click.argument("table", required=False, default="")
@click.option("--at", "where", default="", metavar="POSITION",
              help="Show the definition at FILE:POS, or after a GTID or GTID set.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the histories as JSON on one line.")
def schema(config: Config, table: str, where: str, as_json: bool) -> None:
    """Show the schema history of tables.

    Show the columns, since when, by which statement, and with what proof.

    TABLE is SCHEMA.TABLE or a shell file pattern such as `shop.*`. Without TABLE, print one line per table. The relay
    does not need to run.
    """
    from relay.commands.text import schema as schema_text  # few commands need the native core
    from relay.monitoring import schema_report

    data_dir, patterns = Path(config.relay.data_dir), [table] if table else []
    if where:
        found = schema_report.as_of(data_dir, patterns, where)
    else:
        found = schema_report.histories(data_dir, patterns, newest=not (table or as_json))
    if table and not found:
        cause, hint = "it does not have this table", "`relay schema` lists all tables"
        raise RelayError(ErrorCode.USAGE, "read the schema history", cause, position=table, hint=hint)
    with closable_output():
        if as_json:
            click.echo(msgspec.json.encode(found).decode())
        else:
            click.echo(schema_text.details(found) if table else schema_text.overview(found))
