"""The verbs that ask, end or examine a relay as a whole, or read what it reads."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from relay import admin, render, screen
from relay.bar import Bar
from relay.client import RelayClient
from relay.config import Config
from relay.config_keys import start_position
from relay.errors import ErrorCode, RelayError, StopCode
from relay.narrow import narrowed
from relay.verbs import cli, configurable, configured

_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 1.0
_DRAIN_LOOK_SECONDS: Final = 0.2
_TAIL_PATIENCE: Final = 5.0


@contextmanager
def _as_long_as_read() -> Iterator[None]:
    """End quietly when whoever reads our output has had enough, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        # What is still buffered is to go nowhere when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cli.command()
@configured
@click.option("--json", "as_json", is_flag=True, help="The document itself, on one line.")
@click.option("--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@click.option("--client", "clients", multiple=True, metavar="PATTERN", help="Of clients, those so named. Repeatable.")
@click.option("--table", "tables", multiple=True, metavar="PATTERN", help="Of tables, those SCHEMA.TABLE. Repeatable.")
def stat(config: Config, as_json: bool, watch: bool, clients: tuple[str, ...], tables: tuple[str, ...]) -> None:
    """Show what the running relay does.

    Patterns are those that shells have for files: `shop.*`, `cache-?`. Of connections to the CDC port those are shown
    whose user matches as clients do, and whose table matches.
    """

    def look() -> dict[str, Any]:
        return narrowed(admin.stat(config), clients, tables)

    with _as_long_as_read():
        if watch and not as_json:
            screen.watch(lambda: admin.typed(look()), _WATCH_SECONDS)
        while as_json:
            click.echo(msgspec.json.encode(look()).decode())
            if not watch:
                return
            time.sleep(_WATCH_SECONDS)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else render.WIDTH
        click.echo(render.stat(admin.typed(look()), max(render.WIDTH, width)))


@cli.command()
@configured
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Patience; default DrainTimeout.")
def drain(config: Config, timeout: float | None) -> None:
    """Stop reading, let the queues empty, stop, and print a receipt."""
    deadline = time.monotonic() + (config.relay.drain_timeout if timeout is None else timeout)
    with admin.connect(config) as client:
        client.drain()
        document = admin.typed(client.stat())
        total = render.remainder(document)
        with click.progressbar(length=max(total, 1), label="draining", file=sys.stderr) as bar:
            while not (done := render.drained(document)) and time.monotonic() < deadline:
                time.sleep(_DRAIN_LOOK_SECONDS)
                document = admin.typed(client.stat())
                bar.update(max(0, total - render.remainder(document) - bar.pos))
            bar.update(bar.length - bar.pos if done and bar.length else 0)
        client.stop()
    _await_end(config)
    click.echo(render.receipt(document))
    if left := render.remainder(document):
        raise RelayError(ErrorCode.REMAINDER, "drain", f"{left} rows remain in queues")


@cli.command()
@configured
def stop(config: Config) -> None:
    """Have the running relay persist its state and exit."""
    if config.server.admin_secret:
        with admin.connect(config) as client:
            client.stop()
    else:
        signal_relay(config, signal.SIGTERM, "stop")
    _await_end(config)
    click.echo("stopped")


def signal_relay(config: Config, number: signal.Signals, operation: str) -> None:
    """Send the running relay a signal."""
    pid = admin.running_pid(config)
    if pid is None:
        raise RelayError(ErrorCode.NOT_RUNNING, operation, "nobody holds the lock", position=config.relay.data_dir)
    try:
        os.kill(pid, number)
    except PermissionError as error:
        raise RelayError(
            ErrorCode.ENVIRONMENT, operation, error, position=f"process {pid}", hint="be its user, or set AdminSecret"
        ) from None


def _await_end(config: Config) -> None:
    if not admin.wait_until_ended(config, _STOP_SECONDS):
        raise RelayError(
            ErrorCode.UNEXPECTED, "stop", f"still running after {_STOP_SECONDS:.0f} s", position=config.relay.data_dir
        )


@cli.command()
@configured
def pause(config: Config) -> None:
    """Stop reading from the source; clients are still served."""
    with admin.connect(config) as client:
        client.pause()
        until = time.monotonic() + _PAUSE_SECONDS
        while client.stat()["state"] not in ("paused", "stopped"):
            if time.monotonic() > until:
                click.echo("pausing, at the end of the transaction that is being read")
                return
            time.sleep(0.05)
    click.echo("paused")


@cli.command()
@configured
def resume(config: Config) -> None:
    """End a pause, or try again after a named stop."""
    with admin.connect(config) as client:
        client.resume()
    click.echo("resumed")


@cli.command()
@configured
def check(config: Config) -> None:
    """Check configuration, grants and source before the first start."""
    from relay import check as preflight  # opens a database driver that no other verb needs

    failures = 0
    for finding in preflight.run(config):
        click.echo(finding)
        failures += finding.level is preflight.Level.FAIL
    if failures:
        raise RelayError(ErrorCode.CHECK_FAILED, "check", f"{failures} of the findings keep the relay from working")


@cli.command()
@configurable
@click.option("--from", "place", metavar="PLACE",
              help="Straight from the source: oldest, newest, FILE:POS or a GTID set.")  # fmt: skip
@click.option("--to-end", is_flag=True, help="With --from: end where the source's binlog ends.")
@click.option("--file", "from_files", is_flag=True, help="From binlog files: the arguments are files, in their order.")
@click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True,
              help="As an argument; may be repeated. The way to say it with --file.")  # fmt: skip
@click.option("--rows", is_flag=True, help="With --from or --file: the values of rows, a line a row.")
@click.option("--json", "as_json", is_flag=True, help="With --from or --file: a JSON document a line.")
@click.argument("arguments", nargs=-1, metavar="[SCHEMA.TABLE]... | --file FILE...")
def tail(
    load: Callable[[], Config],
    place: str | None,
    to_end: bool,
    from_files: bool,
    patterns: tuple[str, ...],
    rows: bool,
    as_json: bool,
    arguments: tuple[str, ...],
) -> None:
    """Print what changes, until Ctrl-C.

    From the running relay: rows, as JSON lines. With --from or --file: all events of the source's binlog or of files,
    or the rows of some tables. Tables are SCHEMA.TABLE, * for all.
    """
    tables = patterns if from_files else (*arguments, *patterns)
    if not all(schema and table for schema, _, table in (pattern.partition(".") for pattern in tables)):
        raise click.BadParameter("tables are SCHEMA.TABLE, * for all")
    if from_files and (place or not arguments):
        raise click.UsageError("--file needs the names of binlog files, and no --from")
    if to_end and not place:
        raise click.UsageError("--to-end needs --from")
    with _as_long_as_read():
        if not from_files and place is None:
            _tail_relay(load(), tables or ("*.*",))
            return
        from relay import tail as events  # opens a database driver that few verbs need
        from relay.eventlines import Form

        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        form = Form(tables=tables, rows=rows, json=as_json, width=width)
        if place is None:
            found = events.from_files([Path(name) for name in arguments], form, _note)
        else:
            found = events.from_source(load(), place, to_end, form)
        for line in found:
            click.echo(line)


def _note(text: str) -> None:
    click.echo(f"relay: note: {text}", err=True)


def _tail_relay(config: Config, tables: tuple[str, ...]) -> None:
    patterns = [table.partition(".")[::2] for table in tables]
    name = f"relay-tail-{socket.gethostname()}-{os.getpid()}"
    host, port = admin.classic_address(config)
    secret, tls = config.server.auth_secret, admin.tls_context(config)
    with RelayClient(host, port, name, secret, patience=_TAIL_PATIENCE, tls=tls) as connection:
        try:
            for schema, table in patterns:
                connection.add_filter(schema, table)
            for row in connection:
                click.echo(render.row(row))
        finally:
            # On a new connection: an interrupt leaves a reply half read. Nothing may go on queueing for this name.
            connection.close()
            for schema, table in patterns:
                connection.remove_filter(schema, table)
            if config.server.admin_secret:
                with admin.connect(config) as commands:
                    commands.forget(name)


def _parse_position(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return start_position("newest" if value.lower() == "now" else value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@cli.command()
@configured
@click.option("--from", "start", default="oldest", metavar="POS", callback=_parse_position,
              help="FILE:POS, a GTID set, or oldest (the default): what journal and source still have.")  # fmt: skip
@click.option("--to", "end", default="newest", metavar="POS", callback=_parse_position,
              help="FILE:POS, a GTID set, or newest (the default): all that the journal has.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The report as a document, on one line.")
def verify(config: Config, start: str, end: str, as_json: bool) -> None:
    """Compare the journal row by row with the source's binlog, read by mysql-replication."""
    from relay.verify import run  # opens mysql-replication, which no other verb needs

    with Bar(sys.stderr, "verifying") as bar:

        def show(progress: run.Progress) -> None:
            if bar.due(progress.seconds):  # called for every transaction: the words are made when they are shown
                bar.show(progress.seconds, progress.done, progress.text)

        report = run.run(config, start, end, show)
    click.echo(msgspec.json.encode(report).decode() if as_json else report.text())
    if report.differences:
        raise RelayError(ErrorCode.DIFFERENCE, "verify", report.verdict, position=report.range)
    if report.incomplete:
        raise RelayError(ErrorCode.UNVERIFIED, "verify", report.incomplete, position=report.range)


@cli.command()
@configured
@click.option("--look", is_flag=True, help="Only say what is damaged: change nothing, and ask nobody.")
def repair(config: Config, look: bool) -> None:
    """Find what is damaged in the journal of a stopped relay, and read it again from the source."""
    from relay.log import logger
    from relay.repair import run  # the native core is needed by few verbs only

    began = time.monotonic()
    with Bar(sys.stderr, "looking") as bar:
        found = run.run(
            config, not look, click.echo, lambda done: bar.show(time.monotonic() - began, done, ""), logger("repair")
        )
    if not found:
        click.echo("the journal is whole")
    left = [finding for finding in found if look or finding.failure]
    if left:
        cause = f"{len(left)} of {len(found)} damaged places are not mended"
        raise RelayError(StopCode.JOURNAL_CORRUPT, "repair the journal", cause, position=config.relay.data_dir,
                         hint="`relay repair` mends them" if look else left[0].hint)  # fmt: skip


@cli.command()
@configured
@click.argument("table", required=False, default="")
@click.option("--at", "where", default="", metavar="PLACE",
              help="As rows at FILE:POS have it, or as a GTID or GTID set leaves it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The histories as a list, on one line.")
def schema(config: Config, table: str, where: str, as_json: bool) -> None:
    """Show what the relay knows of tables: their columns, since when, by which statement, and what proves it.

    TABLE is SCHEMA.TABLE, or a pattern as shells have for files: `shop.*`. Without it each table takes one line. The
    relay may run or not.
    """
    from relay import schemareport, schematext  # the native core is needed by few verbs only

    data_dir, patterns = Path(config.relay.data_dir), [table] if table else []
    if where:
        found = schemareport.as_of(data_dir, patterns, where)
    else:
        found = schemareport.histories(data_dir, patterns, newest=not (table or as_json))
    if table and not found:
        hint = "`relay schema` lists those that are"
        raise RelayError(ErrorCode.USAGE, "read the schema history", "it has no such table", position=table, hint=hint)
    with _as_long_as_read():
        if as_json:
            click.echo(msgspec.json.encode(found).decode())
        else:
            click.echo(schematext.details(found) if table else schematext.overview(found))
