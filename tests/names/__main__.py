"""python -m tests.names KIND [--seconds N]: a source with default metadata, a relay, and a replica with FULL.

Writers define tables and fill them at full speed. Each row of the relay's journal must have the names and the values
that the same row has in the replica's binlog.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from multiprocessing import Process
from pathlib import Path
from typing import Final

import click

from examples.dbserver import KINDS, DatabaseServer
from relay.binlog import Flag
from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import Unknown
from tests.names import stand, writers
from tests.names.comparison import Comparison
from tests.names.sides import BinlogSide, JournalSide
from tests.support import replicated_streams
from tests.support.relay_process import RelayProcess, write_conf

STATEMENTS, ROWS, UNPROVEN = 20, 1_000, 0.001
"""The requirements: statements and rows per second, and the largest share of unproven rows. No row may be wrong."""
MOST_BEHIND: Final = 4_000  # transactions that one side lacks; with more, the writers wait
_PHASE_SECONDS: Final = 20
_TOLD_EVERY: Final = 10
_LEVEL_SECONDS: Final = 5  # without new rows after the end of the writers, before the run ends
_STUCK_SECONDS: Final = 60
_SETTINGS: Final = {
    "Relay.OnUnproven": "positional", "Relay.OnPartialImage": "send", "Relay.SegmentBytes": "16MiB",
    "Relay.JournalKeepBytes": "256MiB", "Relay.JournalKeepAge": "0s",
}  # fmt: skip
_UNPROVEN: Final = re.compile(r' schema_unproven table="?([^" ]+)"? position=(\S+):(\d+) cause=(.*)')
_MOST_TOLD: Final = 8


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.option("--seconds", default=120, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the statements. The order between writers is random.")
def main(kind: str, seconds: int, seed: int) -> None:
    """Run the servers, the relay and the writers. The exit code is 1 if a requirement is not met."""
    with tempfile.TemporaryDirectory(prefix="relay-names-") as name, stand.servers(kind) as (source, replica):
        folder = Path(name)
        relay = RelayProcess(write_conf(folder, source, _SETTINGS)).start()
        try:
            while relay.stat()["source"]["state"] != "streaming":
                time.sleep(0.1)
            run = _Run(source, replica, folder / "data" / "journal", seconds)
            run.run(seed)
        except AssertionError as error:
            raise AssertionError(f"{error}; relay: {relay.stat()['stop']}") from error
        finally:
            relay.stop(60)
        causes = _causes(relay.stderr.read_text(), folder / "data" / SCHEMA_FILE)
    sys.exit(run.report(causes))


class _Run:
    def __init__(self, source: DatabaseServer, replica: DatabaseServer, journal: Path, seconds: int) -> None:
        self._source = source
        self._replica = replica
        self._journal = journal
        self._found = Comparison()
        self._counts = writers.Counts(
            multiprocessing.Value("q", 0), multiprocessing.Value("q", 0), multiprocessing.Value("b", 0),
            multiprocessing.Value("d", time.time() + seconds),
        )  # fmt: skip
        self._began = time.monotonic()

    def run(self, seed: int) -> None:
        """Write and compare until the writers have ended and both sides have the same transactions."""
        description = replicated_streams.here(self._replica, Flag.SKIP_HEARTBEAT, 4711)
        with replicated_streams.opened(self._replica, description) as stream:
            truth = BinlogSide(stream)
            work = [writers.define] * writers.DEFINERS + [writers.fill] * writers.FILLERS
            processes = [
                Process(target=each, args=(self._source.port, n, seed * 100 + n, self._source.kind.mysql, self._counts))
                for n, each in enumerate(work)
            ]
            for process in processes:
                process.start()
            try:
                self._compare(truth, processes)
            finally:
                for process in processes:
                    process.kill()
                truth.closing.set()
                self._replica.kill()  # ends the wait of the thread
                truth.thread.join()
        assert not any(process.exitcode for process in processes), "a writer ended with an error"

    def _compare(self, truth: BinlogSide, processes: list[Process]) -> None:
        ours, found = JournalSide(self._journal), self._found
        told = heard = self._began
        phase = -1
        while True:
            now, before = time.monotonic(), found.rows
            found.add(ours.transactions(), truth.new())
            heard = now if found.rows > before else heard
            self._counts.held.value = max(found.waiting) > MOST_BEHIND
            if phase != (phase := int((now - self._began) / _PHASE_SECONDS)):
                stand.delay(self._source, phase)
            if now - told > _TOLD_EVERY:
                told = now
                self._tell(now - self._began)
            writing = any(process.is_alive() for process in processes)
            if not writing and found.waiting == (0, 0) and now - heard > _LEVEL_SECONDS:
                return
            if now - heard > _STUCK_SECONDS or not truth.thread.is_alive():
                raise AssertionError(
                    f"{found.waiting} transactions are on one side only; replica: {stand.fault(self._replica)}"
                )
            time.sleep(0.1)

    def _tell(self, seconds: float) -> None:
        found = self._found
        click.echo(
            f"{seconds:6.0f} s  {self._counts.statements.value / seconds:5.1f} statements/s"
            f"  {found.rows / seconds:7.0f} rows/s  {found.rows:9} rows: {found.wrong} wrong,"
            f" {found.unproven} unproven  waiting {found.waiting[0]}/{found.waiting[1]}"
        )

    def report(self, causes: list[str]) -> int:
        """Print the result. Returns 1 if a requirement is not met."""
        found, counts = self._found, self._counts
        took = time.monotonic() - self._began
        statements, rows = counts.statements.value / took, found.rows / took
        click.echo(
            f"{self._source.kind.title}: {took:.0f} s, {counts.statements.value} statements ({statements:.1f}/s,"
            f" {counts.failed.value} more failed), {found.rows} rows ({rows:.0f}/s): {found.wrong} wrong,"
            f" {found.unproven} unproven"
        )
        for line in found.differences:
            click.echo(f"  wrong: {line}")
        for line in causes:
            click.echo(f"  unproven: {line}")
        met = not found.wrong and found.unproven <= UNPROVEN * found.rows and statements >= STATEMENTS and rows >= ROWS
        click.echo("the requirements are met" if met else "a requirement is not met")
        return int(not met)


def _causes(log: str, history: Path) -> list[str]:
    """The first tables with unproven rows and their versions in the schema history, then the causes of the others."""
    found = _UNPROVEN.findall(log)
    lines = []
    with closing(Store(history, read_only=True)) as store:
        for name, file, position, cause in found[:_MOST_TOLD]:
            lines.append(f"{name} at {file}:{position}: {cause}")
            place = BinlogPosition(file, int(position))
            before = [each for each in store.versions(TableName(*name.split("."))) if each.since <= place]
            for version in before[:3]:
                known = version.state.cause if isinstance(version.state, Unknown) else "known"
                lines.append(f"  {version.since} {version.proof}: {version.statement[:200]!r}: {known}")
    more = Counter(re.sub(r"\d+", "#", cause) for *_, cause in found[_MOST_TOLD:])
    return lines + [f"{times} times more: {cause}" for cause, times in more.most_common(_MOST_TOLD)]


if __name__ == "__main__":
    main()
