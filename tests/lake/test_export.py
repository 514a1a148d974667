"""The export of a real journal: every change once, typed, by table and date, up to what is flushed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalReader
from relay.errors import RelayError
from relay.lake.exporter import Exporter, Settings
from relay.lake.storage import open_storage
from tests.support.exported_lake import Lake, changes, export
from tests.support.reader_process import Reader
from tests.support.source_rows import binlog_end

pytestmark = pytest.mark.brands

MakeReader = Callable[..., Reader]


def exporter(lake: Lake, reader: Reader, **settings: Any) -> Exporter:
    return Exporter(open_storage(str(lake.folder)), reader.journal_dir, Settings(**settings))


def flushed(reader: Reader, server: DatabaseServer) -> None:
    """Wait until all that the server has written is flushed in the journal."""
    place = binlog_end(server)
    reader.until(lambda: (reader.arena.source()["file"], reader.arena.source()["position"]) >= place)
    committed = reader.arena.committed
    reader.until(lambda: JournalReader(reader.journal_dir).flushed() >= committed)


def test_every_change_arrives_once_and_typed(
    server: DatabaseServer, db: str, make_reader: MakeReader, full_metadata: None, lake: Lake
) -> None:
    reader = make_reader(server).streaming()
    before = int(time.time())
    server.execute(
        f"USE {db}",
        "CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2), at DATETIME(6), kind ENUM('new','old'))",
        "CREATE TABLE notes (note VARCHAR(50) CHARACTER SET utf8mb4)",
        "INSERT INTO orders VALUES (1, 9.50, '2026-11-20 12:00:00.25', 'new'), (2, -1, NULL, NULL)",
        "BEGIN",
        "UPDATE orders SET total = 10 WHERE id = 1",
        "INSERT INTO notes VALUES ('é')",
        "DELETE FROM orders WHERE id = 2",
        "COMMIT",
    )
    flushed(reader, server)
    progress = export(exporter(lake, reader, tables=[f"{db}.*"]))

    orders = lake.rows(db, "orders")
    at = datetime(2026, 11, 20, 12, 0, 0, 250000)
    assert changes(orders, "id", "total", "at", "kind") == [
        ("insert", 1, Decimal("9.50"), at, "new"),
        ("insert", 2, Decimal("-1.00"), None, None),
        ("update_preimage", 1, Decimal("9.50"), at, "new"),
        ("update_postimage", 1, Decimal("10.00"), at, "new"),
        ("delete", 2, Decimal("-1.00"), None, None),
    ]
    first, second, preimage, postimage, deleted = orders
    [note] = lake.rows(db, "notes")
    assert note["note"] == "é"
    assert preimage["_seq"] == postimage["_seq"], "an update is one change"
    assert [first["_seq"], second["_seq"]] == [first["_seq"], first["_seq"] + 1]
    assert [postimage["_seq"], note["_seq"], deleted["_seq"]] == [second["_seq"] + each for each in (1, 2, 3)]
    assert {row["_commit_version"] for row in (preimage, postimage, note, deleted)} == {deleted["_seq"]}
    assert first["_commit_version"] == second["_seq"]
    stamp = first["_commit_timestamp"]
    assert before <= stamp.timestamp() <= time.time()
    assert first["_file"] == deleted["_file"] == progress.place.file
    assert first["_pos"] < deleted["_pos"] <= progress.place.offset
    assert first["_schema_version"] == 1
    assert bool(first["_gtid"]) == bool(progress.place.gtid)
    known = lake.table(db, "orders")
    assert {file.date for file in known.files.values()} == {stamp.strftime("%Y-%m-%d")}
    assert known.version.key == ["id"] and known.last_marker == "create" and known.complete_from == known.reset
    assert progress.written == 6 and progress.place.seq == deleted["_seq"]
    lake.check()


def test_statements_change_columns_and_leave_markers(
    server: DatabaseServer, db: str, make_reader: MakeReader, full_metadata: None, lake: Lake
) -> None:
    reader = make_reader(server).streaming()
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t ADD COLUMN w VARCHAR(10)",
        "INSERT INTO t VALUES (2, 2, 'two')",
        "ALTER TABLE t MODIFY v BIGINT",
        "INSERT INTO t VALUES (3, 3000000000, 'three')",
        "ALTER TABLE t ADD COLUMN x INT DEFAULT 5",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (4, 4, 'four', 5)",
        "DROP TABLE t",
    )
    flushed(reader, server)
    export(exporter(lake, reader, tables=[f"{db}.*"]))
    rows = [{"v": None, "w": None, **row} for row in lake.rows(db, "t")]
    assert changes(rows, "id", "v", "w", "_schema_version") == [
        ("insert", 1, 1, None, 1),
        ("insert", 2, 2, "two", 2),
        ("insert", 3, 3000000000, "three", 3),
        ("reset", None, None, None, 3),
        ("truncate", None, None, None, 4),
        ("insert", 4, 4, "four", 4),
        ("drop", None, None, None, 4),
    ]
    sequences = [row["_seq"] for row in rows]
    assert sequences == sorted(set(sequences)), "a statement's marker has a number of its own"
    known = lake.table(db, "t")
    assert [(version.version, version.generation) for version in known.versions] == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert (known.last_marker, known.reset) == ("drop", sequences[-1])


def test_a_table_that_is_left_out_later_is_no_longer_known_whole(
    mariadb1011: DatabaseServer, make_db: Callable[..., str], make_reader: MakeReader, lake: Lake
) -> None:
    db = make_db(mariadb1011)
    reader = make_reader(mariadb1011).streaming()
    mariadb1011.execute(f"USE {db}", "CREATE TABLE a (id INT)", "CREATE TABLE b (id INT)", "INSERT INTO b VALUES (1)")
    flushed(reader, mariadb1011)
    export(exporter(lake, reader, tables=[f"{db}.*"]))
    assert lake.table(db, "b").complete_from is not None
    for told in (["b"], []):
        mariadb1011.execute(f"INSERT INTO {db}.a VALUES (2)", f"INSERT INTO {db}.b VALUES (2)")
        flushed(reader, mariadb1011)
        engine = exporter(lake, reader, tables=[f"{db}.a"])
        assert [table.table for table in engine.left_out] == told
        export(engine)
    assert lake.table(db, "a").complete_from is not None
    assert lake.table(db, "b").complete_from is None
    assert [row["id"] for row in lake.rows(db, "b")] == [1]
    counts = lake.sequences()
    assert set(counts.values()) == {1}


def test_files_are_rolled_by_size_and_a_transaction_is_whole_in_one_commit(
    mariadb1011: DatabaseServer, make_db: Callable[..., str], make_reader: MakeReader, lake: Lake
) -> None:
    db = make_db(mariadb1011)
    reader = make_reader(mariadb1011).streaming()
    mariadb1011.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(3000))",
        "BEGIN",
        *["INSERT INTO t (v) VALUES " + ", ".join(["(REPEAT('x', 3000))"] * 1000)] * 8,
        "COMMIT",
    )
    flushed(reader, mariadb1011)
    engine = exporter(lake, reader, tables=[f"{db}.*"], roll_bytes=1 << 20, roll_seconds=3600)
    counts = set[int]()
    progress = engine.step()
    while not progress.caught_up:
        counts.add(len(lake.rows(db, "t")))
        progress = engine.step()
    engine.finish()
    assert counts <= {0, 8_000}, "no part of a transaction is to be seen"
    files = sorted(lake.table(db, "t").files.values(), key=lambda file: file.first)
    assert len(files) > 1
    assert all(earlier.last < later.first for earlier, later in pairwise(files))
    assert [row["id"] for row in lake.rows(db, "t")] == list(range(1, 8_001))


def test_the_second_of_two_exporters_stops_by_name(
    mariadb1011: DatabaseServer, make_db: Callable[..., str], make_reader: MakeReader, lake: Lake
) -> None:
    db = make_db(mariadb1011)
    reader = make_reader(mariadb1011).streaming()
    one, other = (exporter(lake, reader, tables=[f"{db}.*"]) for _ in range(2))
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT)", f"INSERT INTO {db}.t VALUES (1)")
    flushed(reader, mariadb1011)
    export(one)
    with pytest.raises(RelayError) as stopped:
        export(other)
    assert stopped.value.code == "lake_conflict"
    assert [row["id"] for row in lake.rows(db, "t")] == [1]
    lake.check()
