"""python -m tests.names KIND [--seconds N]: a source with default metadata, a relay, and a replica with FULL.

Writers define tables and fill them at full speed. Each row of the relay's journal must have the names that the same row
has in the replica's binlog.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from examples.dbserver import KINDS, PASSWORD, USER, DatabaseServer
from relay.binlog import Flag
from tests import replicas
from tests.names import lives
from tests.names.sides import BinlogSide, JournalSide, Rows
from tests.relayproc import RelayProcess, write_conf

MOST_BEHIND: Final = 4_000  # transactions that one side lacks, before writers wait
PHASE_SECONDS: Final = 20
STUCK_SECONDS, SETTLED_SECONDS = 60, 5
STATEMENTS, ROWS, UNPROVEN = 20, 1_000, 0.001  # a second; a second; of all
_DELAY: Final = {
    True: "SET GLOBAL binlog_group_commit_sync_delay = {0}",
    False: "SET GLOBAL binlog_commit_wait_count = 100, binlog_commit_wait_usec = {0}",
}
_WORKERS: Final = "SELECT * FROM performance_schema.replication_applier_status_by_worker"
_FAST: Final = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--max-binlog-size=256M")


class Found(NamedTuple):
    """What was compared."""

    rows: Counter[str]
    wrong: list[str]


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.option("--seconds", default=120, show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the statements; the order in which they meet is chance.")
def main(kind: str, seconds: int, seed: int) -> None:
    """Run; the status is 1 if a row has a wrong name, or a bar was missed."""
    with tempfile.TemporaryDirectory(prefix="relay-names-") as folder, _servers(kind) as (source, replica):
        conf = write_conf(Path(folder), source, {"Relay.OnUnproven": "positional", "Relay.SegmentBytes": "64MiB"})
        relay = RelayProcess(conf).start()
        try:
            found, counts, took = _run(relay, Path(folder), source, replica, seconds, seed)
        except AssertionError:
            click.echo(relay.stat()["stop"])
            click.echo(replica.execute(_WORKERS if replica.kind.mysql else "SHOW ALL REPLICAS STATUS"))
            raise
        finally:
            relay.stop(60)
        causes = Counter(
            line.partition("cause=")[2][:100]
            for line in relay.stderr.read_text().splitlines()
            if "schema_unproven" in line
        )
    sys.exit(_report(KINDS[kind].title, found, counts, took, causes))


@contextmanager
def _servers(kind: str) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    mysql = KINDS[kind].mysql
    gtids = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON") if mysql else ()
    full = ("--binlog-row-metadata=FULL", "--log-slave-updates" if not mysql else "--log-replica-updates")
    parallel = () if mysql else ("--slave-parallel-threads=4",)
    with (
        DatabaseServer(kind, options=(*_FAST, *gtids, "--server-id=101")) as source,
        DatabaseServer(kind, options=(*_FAST, *gtids, *full, *parallel, "--server-id=102")) as replica,
    ):
        source.execute("SET GLOBAL max_connections = 500", *(f"CREATE DATABASE {each}" for each in lives.SCHEMAS))
        verb, host, how = (
            ("REPLICATION SOURCE", "SOURCE", "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1")
            if mysql
            else ("MASTER", "MASTER", "MASTER_USE_GTID=slave_pos")
        )
        replica.execute(
            f"CHANGE {verb} TO {host}_HOST='127.0.0.1', {host}_PORT={source.port}, {host}_USER='{USER}',"
            f" {host}_PASSWORD='{PASSWORD}', {how}",
            "START REPLICA",
        )
        yield source, replica


def _run(
    relay: RelayProcess, folder: Path, source: DatabaseServer, replica: DatabaseServer, seconds: int, seed: int
) -> tuple[Found, lives.Counts, float]:
    statements, failed, rows, held = (multiprocessing.Value("q", 0) for _ in range(4))
    counts = lives.Counts(statements, failed, rows, held, multiprocessing.Value("d", time.time() + seconds))
    while relay.stat()["source"]["state"] != "streaming":
        time.sleep(0.1)
    began = time.monotonic()
    with replicas.opened(replica, replicas.here(replica, Flag.SKIP_HEARTBEAT, 4711)) as stream:
        truth = BinlogSide(stream)
        threading.Thread(target=truth.run, daemon=True).start()
        account, address = (USER, PASSWORD), ("127.0.0.1", source.port)
        work = [lives.define] * lives.DEFINERS + [lives.fill] * lives.FILLERS
        writers = [
            multiprocessing.Process(target=each, args=(address, account, seed * 100 + n, source.kind.mysql, counts))
            for n, each in enumerate(work)
        ]
        for writer in writers:
            writer.start()
        found = _compare(JournalSide(folder / "data" / "journal"), truth, source, writers, counts)
    assert all(writer.exitcode == 0 for writer in writers), "a writer ended with an error"
    return found, counts, time.monotonic() - began


def _compare(
    ours: JournalSide,
    truth: BinlogSide,
    source: DatabaseServer,
    writers: list[multiprocessing.Process],
    counts: lives.Counts,
) -> Found:
    """Compare until the writers have ended and both sides are level, with progress."""
    found = Found(Counter(), [])
    left: dict[str, Rows] = {}
    right: dict[str, Rows] = {}
    began = told = heard = time.monotonic()
    delayed = 0.0
    while True:
        now, before = time.monotonic(), found.rows["compared"]
        left.update(ours.transactions())
        while truth.found:
            gtid, rows = truth.found.popleft()
            right[gtid] = rows
        for gtid in left.keys() & right.keys():
            _judge(found, gtid, left.pop(gtid), right.pop(gtid))
        heard = now if found.rows["compared"] > before else heard
        counts.held.value = max(len(left), len(right)) > MOST_BEHIND
        if now - delayed > PHASE_SECONDS:
            phase, delayed = int((now - began) / PHASE_SECONDS), now
            source.execute(_DELAY[source.kind.mysql].format((0, 200_000, 1_000)[phase % 3]))
        if now - told > 10:
            told = now
            _progress(now - began, found, counts, len(left), len(right))
        if not (left or right or any(writer.is_alive() for writer in writers)) and now - heard > SETTLED_SECONDS:
            return found
        if now - heard > STUCK_SECONDS:
            raise AssertionError(f"{len(left)} and {len(right)} transactions are on one side only")
        time.sleep(0.2)


def _judge(found: Found, gtid: str, ours: Rows, truth: Rows) -> None:
    found.rows["compared"] += sum(each.rows for each in truth)
    found.rows["unproven"] += sum(each.rows for each in ours if each.unproven)
    if [each for each in ours if not each.unproven] == truth:
        return
    one = [(each.table, each.kind) for each in ours for _ in range(each.rows)]
    other = [(each.table, each.kind) for each in truth for _ in range(each.rows)]
    if one != other:
        found.wrong.append(f"{gtid}: other rows: {ours} instead of {truth}")
        found.rows["wrong"] += max(len(one), len(other))
        return
    names = ((left, right) for left, right in zip(_each(ours), _each(truth), strict=True))
    wrong = [(left, right) for left, right in names if left[:1] != ("@1",) and left != right]
    found.rows["wrong"] += len(wrong)
    found.wrong.extend(f"{gtid}: {truth[0].table} {left} instead of {right}" for left, right in wrong[:1])


def _each(rows: Rows) -> Iterator[tuple[str, ...]]:
    return (each.names for each in rows for _ in range(each.rows))


def _progress(seconds: float, found: Found, counts: lives.Counts, left: int, right: int) -> None:
    click.echo(
        f"{seconds:6.0f} s  {counts.statements.value / seconds:5.1f} statements/s"
        f"  {counts.rows.value / seconds:7.0f} rows/s  compared {found.rows['compared']:9}"
        f"  unproven {found.rows['unproven']:5}  wrong {found.rows['wrong']:5}  waiting {left}/{right}"
    )


def _report(title: str, found: Found, counts: lives.Counts, took: float, causes: Counter[str]) -> int:
    compared, wrong, unproven = (found.rows[key] for key in ("compared", "wrong", "unproven"))
    statements, rows = counts.statements.value / took, counts.rows.value / took
    click.echo(
        f"{title}: {took:.0f} s, {counts.statements.value} statements ({statements:.1f}/s,"
        f" {counts.failed.value} more failed), {compared} rows ({rows:.0f}/s): {wrong} wrong, {unproven} unproven"
    )
    for line in found.wrong[:10]:
        click.echo(f"  wrong: {line}")
    for cause, times in causes.most_common(10):
        click.echo(f"  unproven, {times} times: {cause}")
    met = not wrong and unproven <= UNPROVEN * compared and statements >= STATEMENTS and rows >= ROWS
    click.echo("the bars are met" if met else "the bars are not met")
    return int(not met)


if __name__ == "__main__":
    main()
