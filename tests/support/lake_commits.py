"""Commits for tests of the lake's log: tables, versions, files of a few bytes, binlog positions.

python -m tests.support.lake_commits URL NAME N      # N commits of a racer of that name
"""

from __future__ import annotations

import sys

from relay.lake import paths
from relay.lake.documents import (
    ChangeKind,
    DataFile,
    ExportPosition,
    Field,
    Gap,
    Marker,
    MarkerKind,
    Snapshot,
    Table,
    TableVersion,
)
from relay.lake.log import Conflict, LakeLog
from relay.lake.storage import Storage, open_storage

ORDERS = Table("shop", "orders")
DATE = "2026-11-20"
SOURCE = "mysql:5d7a1c1e-0000-0000-0000-000000000001"


def version(number: int = 1, table: Table = ORDERS, generation: int = 1) -> TableVersion:
    """A version of a table with one column."""
    return TableVersion(table, generation, number, [Field("id", "int", "id", "int")], ["id"])


def place(seq: int, file: str = "binlog.000001", offset: int | None = None, identity: str = SOURCE) -> ExportPosition:
    """A position of an exporter, by default with 100 bytes of binlog per number."""
    return ExportPosition(
        1, 0, 64 + 100 * seq, seq, file, 100 * seq if offset is None else offset, "", identity, 1_795_000_000
    )


def named(first: int, last: int, table: Table = ORDERS, kind: ChangeKind = "changes", chunk: str = "") -> DataFile:
    """A file that exists only in the log."""
    path = paths.part_name(table, DATE, kind, first, last, 1, chunk)
    return DataFile(path, table, 1, DATE, kind, first, last, last - first + 1, 3, "00" * 32)


def sealed(storage: Storage, first: int, last: int, table: Table = ORDERS, content: bytes = b"row") -> DataFile:
    """A file that exists."""
    path = paths.part_name(table, DATE, "changes", first, last, 1)
    with storage.writer(path) as file:
        for _ in range(first, last + 1):
            file.write(content)
    return DataFile(path, table, 1, DATE, "changes", first, last, last - first + 1, file.bytes, file.sha256)


def marker(kind: MarkerKind, seq: int, table: Table = ORDERS) -> Marker:
    """A marker with a matching statement."""
    return Marker(table, kind, seq, 1_795_000_000, f"{kind} {table}")


def snapshot(
    lowest: int,
    end: int | None = None,
    table: Table = ORDERS,
    file: str = "binlog.000001",
    identity: str = SOURCE,
) -> Snapshot:
    """A snapshot under way, or one that ended at `end`, in the numbers of `place`."""
    return Snapshot(
        table,
        "one",
        1,
        lowest,
        ["7"],
        7,
        7,
        done=end is not None,
        end_file="" if end is None else file,
        end_offset=100 * (end or 0),
        identity=identity,
    )


def race(url: str, name: str, each: int) -> None:
    """Makes that many commits, each repeated until it gets its number. The commits' gaps name their maker."""
    log = LakeLog(open_storage(url))
    log.state()
    for at in range(each):
        while True:
            try:
                log.commit("snapshot", gap=Gap(1, f"{name}{at}"))
            except Conflict:
                continue  # the state now includes the others' commits
            break


if __name__ == "__main__":
    race(sys.argv[1], sys.argv[2], int(sys.argv[3]))
