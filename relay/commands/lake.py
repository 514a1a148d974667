"""The commands of the lake. They import their further dependencies when they run."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from relay.base.errors import ErrorCode, RelayError, StopCode, printable
from relay.commands.app import cli, configured
from relay.commands.loader import Loader
from relay.commands.progress import Bar
from relay.commands.text.columns import size_text
from relay.config.tree import Config
from relay.config.values import lake_path, tables
from relay.runtime.signals import handled

if TYPE_CHECKING:
    from relay.lake.documents import Table as DocumentTable
    from relay.lake.exporter import Exporter, Progress
    from relay.lake.snapshot.run import Progress as TableProgress
    from relay.lake.snapshot.run import Snapshots

_IDLE_SECONDS: Final = 0.2
_MAX_NAMES: Final = 3  # of tables, in a message
_FOLLOWED_SECONDS: Final = 3.0  # added to RollSeconds: a running export commits within this time


def parse_tables(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Parse the patterns `schema.table` of an option, as its callback."""
    try:
        return [pattern for value in values for pattern in tables(value)]
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_lake(_: click.Context, __: click.Parameter, value: str | None) -> str:
    """Parse a lake's path or URL, as the callback of an option; "" if it is not given."""
    try:
        return lake_path(value or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def lake_of(config: Config, given: str, option: str = "--to") -> str:
    """Return the lake of a command: the value of `option`, else `[Lake] Path`.

    Raises `RelayError` (usage) without both.
    """
    if not (given or config.lake.path):
        raise RelayError(ErrorCode.USAGE, "usage", f"no lake: give {option} PATH, or set [Lake] Path")
    return given or config.lake.path


def existing_lake(load: Loader, given: str) -> str:
    """Return the lake of a command that only reads or merges it: the value of --lake, else `[Lake] Path`.

    Raises `RelayError` (usage) without both, and where there is no configuration.
    """
    if not given and load.file is None:
        hint = "give --lake PATH, or -c FILE of a configuration with [Lake] Path"
        raise RelayError(ErrorCode.USAGE, "usage", "no lake, and no configuration that names one", hint=hint)
    return given or lake_of(load(), "", "--lake")


@cli.command()
@configured
@click.option("--to", metavar="PATH", callback=parse_lake, help="Folder or URL of the lake. Default: [Lake] Path.")
@click.option("--follow", is_flag=True, help="Continue with new changes, until Ctrl-C.")
@click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True, callback=parse_tables,
              help="Only these tables; * matches any name. Repeatable. Default: [Lake] Tables.")  # fmt: skip
@click.option("--accept-gap", is_flag=True, help="Continue after changes that the journal lost, and record the gap.")
def export(config: Config, to: str, follow: bool, patterns: list[str], accept_gap: bool) -> None:
    """Export changes from the journal to a lake of Parquet files.

    The relay may run meanwhile. Continue where the last export to the lake ended.
    """
    from relay.ingest.reading import rules
    from relay.lake.exporter import Exporter, Settings
    from relay.lake.storage import open_storage

    lake = config.lake
    positional = config.relay.on_unproven == "positional"
    chosen = patterns or lake.tables
    settings = Settings(chosen, lake.roll_seconds, lake.roll_bytes, accept_gap, positional, rules(config))
    path = lake_of(config, to)
    journal = Path(config.relay.data_dir) / "journal"
    if not any(journal.glob("*.seg")):
        raise RelayError(
            StopCode.JOURNAL_LOST, "export", "there is no journal", position=str(journal),
            hint="name the relay's configuration with -c; `relay start` creates the journal",
        )  # fmt: skip
    began = time.monotonic()
    exporter = Exporter(open_storage(path), journal, settings)
    if exporter.left_out:
        names = ", ".join(map(str, exporter.left_out))
        click.echo(f"relay: note: not exported any more, so incomplete in the lake: {printable(names)}", err=True)
    with Bar(sys.stderr, "exporting") as bar, _catch_signals() as interrupted:
        progress = _run(exporter, follow, interrupted, _progress_on(bar, began))
    click.echo(_summary(progress, path, time.monotonic() - began))


@contextmanager
def _catch_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT (Ctrl-C) or SIGTERM has arrived.

    The export then commits what it has read, and ends.
    """
    arrived = False

    def note(_number: int, _frame: object) -> None:
        nonlocal arrived
        arrived = True

    with handled((signal.SIGINT, signal.SIGTERM), note):
        yield lambda: arrived


def _run(
    exporter: Exporter, follow: bool, interrupted: Callable[[], bool], show: Callable[[Progress], None]
) -> Progress:
    """Export up to what is flushed now; with `follow`, until a signal."""
    progress = exporter.step()
    goal = progress.flushed
    while not interrupted() and (follow or not (progress.caught_up or progress.read >= goal)):
        show(progress)
        if progress.caught_up:
            time.sleep(_IDLE_SECONDS)
        progress = exporter.step()
    return exporter.finish()


def _progress_on(bar: Bar, began: float) -> Callable[[Progress], None]:
    first: int | None = None

    def show(progress: Progress) -> None:
        nonlocal first
        seconds = time.monotonic() - began
        first = progress.place.position if first is None else first
        if bar.due(seconds):
            length = progress.flushed - first
            done = (progress.read - first) / length if length > 0 else 1.0
            lag = f"lag {progress.lag_seconds:.1f} s, {size_text(progress.lag_bytes)}"
            bar.show(seconds, done, f"{progress.rows:,} rows  {progress.rows / seconds:,.0f} rows/s  {lag}")

    return show


def _summary(progress: Progress, path: str, seconds: float) -> str:
    place, size = progress.place, size_text(progress.bytes)
    return (
        f"exported {progress.written:,} rows in {progress.files:,} files, {size},"
        f" in {seconds:.1f} s, {progress.written / seconds:,.0f} rows/s\n"
        f"{path} is at {place.file}:{place.offset}, seq {place.seq:,},"
        f" {size_text(progress.lag_bytes)} behind the journal"
    )


@cli.command()
@configured
@click.option("--to", metavar="PATH", callback=parse_lake, help="Folder or URL of the lake. Default: [Lake] Path.")
@click.option("--table", "patterns", metavar="SCHEMA.TABLE", multiple=True, callback=parse_tables,
              help="Only these tables; * matches any name. Repeatable. Default: [Lake] Tables.")  # fmt: skip
def snapshot(config: Config, to: str, patterns: list[str]) -> None:
    """Copy the existing rows of tables into the lake.

    Copy all tables whose rows are not complete in the lake, in pages, while changes continue. Continue where the last
    snapshot stopped.
    """
    from relay.lake.snapshot import run
    from relay.lake.storage import open_storage
    from relay.source.failures import SourceLost

    storage, wanted = open_storage(lake_of(config, to)), patterns or config.lake.tables
    try:
        with Bar(sys.stderr, "fetching") as bar, run.only_one(config):
            fetching = _Fetching(bar)
            with run.Snapshots(config, storage, wanted, show=fetching.show) as snapshots:
                todo = snapshots.todo()
                fetching.totals = snapshots.sizes(todo)
                failed = [error for table in todo if (error := _failure(snapshots, table))]
                click.echo(fetching.summary(len(todo)))
                waiting = snapshots.waiting()
                if waiting and not snapshots.wait_until_complete(config.lake.roll_seconds + _FOLLOWED_SECONDS):
                    some = ", ".join(map(str, waiting[:_MAX_NAMES])) + ", ..." * (len(waiting) > _MAX_NAMES)
                    click.echo(
                        f"{len(waiting):,} tables ({some}) are complete when the export has reached their snapshots:"
                        " run `relay start` or `relay export`"
                    )
                failed += map(snapshots.unseen_error, snapshots.unseen())
                for error in failed[1:]:
                    click.echo(error.line(), err=True)
                if failed:
                    raise failed[0]
    except SourceLost as error:
        hint = f"{error.hint}; then run it again: it continues where it stopped"
        raise RelayError(error.code, "snapshot", error, hint=hint) from error


def _failure(snapshots: Snapshots, table: DocumentTable) -> RelayError | None:
    """Read a table. Return the error if that is impossible: the other tables continue."""
    try:
        snapshots.fetch(table)
    except RelayError as error:
        return error
    return None


class _Fetching:
    """The progress of all tables together. The total is an estimate that improves."""

    def __init__(self, bar: Bar) -> None:
        self.totals: dict[DocumentTable, int] = {}
        self._rows: dict[DocumentTable, int] = {}
        self._bar = bar
        self._began = time.monotonic()

    def show(self, progress: TableProgress) -> None:
        self.totals[progress.table], self._rows[progress.table] = progress.total, progress.rows
        rows, total = sum(self._rows.values()), sum(self.totals.values())
        seconds = time.monotonic() - self._began
        speed = f"{rows / max(seconds, 1e-3):,.0f} rows/s"
        self._bar.show(seconds, rows / max(total, 1), f"{rows:,} of about {total:,} rows  {speed}  {progress.table}")

    def summary(self, tables: int) -> str:
        rows, seconds = sum(self._rows.values()), time.monotonic() - self._began
        return f"fetched {rows:,} rows of {tables:,} tables in {seconds:.1f} s, {rows / max(seconds, 1e-3):,.0f} rows/s"
