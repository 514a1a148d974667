"""Commits for tests of the lake's log: tables, versions, files of a few bytes, places.

python -m tests.lakelog URL NAME N      # N commits of a racer of that name
"""

from __future__ import annotations

import sys

from relay.lake import paths
from relay.lake.documents import (
    ChangeKind,
    DataFile,
    Field,
    Gap,
    Marker,
    MarkerKind,
    Place,
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
    """Of a table of one column."""
    return TableVersion(table, generation, number, [Field("id", "int", "id", "int")], ["id"])


def place(seq: int, file: str = "binlog.000001", offset: int | None = None, identity: str = SOURCE) -> Place:
    """An exporter's, by default at 100 bytes of the binlog a number."""
    return Place(1, 0, 64 + 100 * seq, seq, file, 100 * seq if offset is None else offset, "", identity, 1_795_000_000)


def named(first: int, last: int, table: Table = ORDERS, kind: ChangeKind = "changes", chunk: str = "") -> DataFile:
    """A file in the log only."""
    path = paths.part_name(table, DATE, kind, first, last, 1, chunk)
    return DataFile(path, table, 1, DATE, kind, first, last, last - first + 1, 3, "00" * 32)


def sealed(storage: Storage, first: int, last: int, table: Table = ORDERS, content: bytes = b"row") -> DataFile:
    """A file that is there."""
    path = paths.part_name(table, DATE, "changes", first, last, 1)
    with storage.writer(path) as file:
        for _ in range(first, last + 1):
            file.write(content)
    return DataFile(path, table, 1, DATE, "changes", first, last, last - first + 1, file.bytes, file.sha256)


def marker(kind: MarkerKind, seq: int, table: Table = ORDERS) -> Marker:
    """With a statement to match."""
    return Marker(table, kind, seq, 1_795_000_000, f"{kind} {table}")


def snapshot(
    lowest: int,
    end: int | None = None,
    table: Table = ORDERS,
    file: str = "binlog.000001",
    identity: str = SOURCE,
) -> Snapshot:
    """One under way, or one that was done at `end`, in the numbers of `place`."""
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
    """Make so many commits, each again until it wins its number; their gaps say who made them."""
    log = LakeLog(open_storage(url))
    log.state()
    for at in range(each):
        while True:
            try:
                log.commit("snapshot", gap=Gap(1, f"{name}{at}"))
            except Conflict:
                continue  # the state has the others' commits now
            break


if __name__ == "__main__":
    race(sys.argv[1], sys.argv[2], int(sys.argv[3]))
