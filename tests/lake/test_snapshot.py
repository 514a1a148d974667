"""The snapshot of a lake's tables: existing rows arrive while changes flow, and both together equal the source."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pymysql.connections import Connection

from examples.dbserver import DatabaseServer
from relay.errors import RelayError
from relay.lake.documents import Table
from relay.lake.snapshot import estimate, table
from relay.lake.snapshot.plan import Plan
from relay.lake.snapshot.run import Progress, Snapshots, only_one
from relay.lake.storage import open_storage
from tests.support import forks
from tests.support.lake_kill import killed
from tests.support.lake_state import current
from tests.support.snapshot_lake import Lake, MakeReader, running, writer

pytestmark = pytest.mark.brands


@pytest.fixture
def make_lake(server: DatabaseServer, db: str, tmp_path: Path, make_reader: MakeReader) -> Callable[[], Lake]:
    return lambda: Lake(server, db, tmp_path, make_reader)


def test_rows_of_before_and_changes_of_after_are_the_table(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DATE)",
        "INSERT INTO t VALUES (1, 'one', '2024-02-29'), (2, 'two', NULL), (3, NULL, '2024-01-01')",
        "CREATE TABLE none (id INT PRIMARY KEY)",
    )
    lake = make_lake()
    lake.fetch()
    assert lake.known("t").complete_from is not None
    lake.check("t", "none")
    server.execute(f"UPDATE {db}.t SET v = 'TWO', id = 7 WHERE id = 2", f"DELETE FROM {db}.t WHERE id = 3")
    server.execute(f"INSERT INTO {db}.t VALUES (9, 'nine', NULL)", f"INSERT INTO {db}.none VALUES (5)")
    lake.export()
    lake.check("t", "none")
    lake.fetch()
    assert len([line for line in lake.records if line.startswith("snapshot_begins ")]) == 2


def busy(chance: random.Random) -> list[str]:
    """A transaction on t and n: inserts, updates, key changes and deletes."""
    statements = []
    for _ in range(chance.randint(1, 4)):
        one, other = chance.randrange(600), chance.randrange(600)
        statements.append(
            chance.choice([
                f"REPLACE INTO t VALUES ({one}, {chance.random()}, 'new')",
                f"UPDATE t SET v = {chance.random()}, w = NULL WHERE id BETWEEN {one} AND {one + 3}",
                f"UPDATE IGNORE t SET id = {one} WHERE id = {other}",
                f"DELETE FROM t WHERE id = {one}",
                f"INSERT INTO n VALUES ({one}, 'x')",
                f"UPDATE n SET v = v + 1 WHERE v = {one}",
                f"DELETE FROM n WHERE v = {one} LIMIT 1",
            ])
        )  # fmt: skip
    return statements


def test_heavy_writing_meanwhile_leaves_no_gap_and_no_duplicate(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE, w VARCHAR(20))",
        "CREATE TABLE n (v INT, w VARCHAR(20))",
        f"INSERT INTO t VALUES {', '.join(f'({number}, 0, NULL)' for number in range(0, 600, 2))}",
        f"INSERT INTO n VALUES {', '.join(f'({number % 50}, NULL)' for number in range(200))}",
    )
    lake = make_lake()
    with running(*(writer(server, db, seed, busy) for seed in range(3))), lake.exporting():
        lake.fetch(most_rows=7)
    lake.export()
    assert lake.known("t").complete_from is not None
    lake.check("t", "n")


MANY = f"INSERT INTO t VALUES {', '.join(f'({number}, {number})' for number in range(40))}"


@pytest.fixture
def forty(
    mariadb118: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    tmp_path: Path,
    make_reader: MakeReader,
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    """A lake of a table t of forty rows; each page of five is a file and a commit."""
    monkeypatch.setattr(table, "FILE_BYTES", 1)
    db = make_db(mariadb118)
    mariadb118.execute(f"USE {db}", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", MANY)
    return Lake(mariadb118, db, tmp_path, make_reader)


def fetch_and(lake: Lake, at: int, do: Callable[[], object]) -> None:
    """Fetches; when `at` rows are read something happens, once."""
    pending = [do]

    def show(progress: Progress) -> None:
        if progress.rows >= at and pending:
            pending.pop()()

    lake.fetch(most_rows=5, show=show)
    assert not pending


def begun(lake: Lake) -> list[str]:
    """What was said of beginnings: with how many rows, or why again."""
    return [line.partition(f"table={lake.db}.t ")[2] for line in lake.records if line.startswith("snapshot_begins")]


def test_a_killed_snapshot_goes_on_behind_its_last_commit(forty: Lake) -> None:
    assert forks.killed(lambda: None, lambda: fetch_and(forty, 20, lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert forty.known("t").complete_from is None
    forty.fetch(most_rows=5)
    assert begun(forty) == ["rows=15"]
    assert sum(file.rows for file in forty.known("t").files.values()) == 40
    forty.check("t")


def test_killed_before_and_after_every_write_it_is_whole_in_the_end(forty: Lake, tmp_path: Path) -> None:
    at = 0
    while killed(tmp_path / "lake", at := at + 1, lambda: forty.fetch(most_rows=5)):
        pass
    assert at > 10
    forty.check("t")


@pytest.mark.parametrize("key", ["v, id", "id DESC", "v"])
def test_another_key_that_the_export_has_not_come_to_begins_it_again(forty: Lake, key: str) -> None:
    columns = "id INT, v INT NOT NULL, PRIMARY KEY (id, v)" if key == "v, id" else "id INT PRIMARY KEY, v INT NOT NULL"
    forty.server.execute(f"USE {forty.db}", "DROP TABLE t", f"CREATE TABLE t ({columns})", MANY)
    assert forks.killed(lambda: None, lambda: fetch_and(forty, 20, lambda: os.kill(os.getpid(), signal.SIGKILL)))
    forty.server.execute(f"ALTER TABLE {forty.db}.t DROP PRIMARY KEY, ADD PRIMARY KEY ({key})")
    forty.fetch(most_rows=5)
    assert begun(forty)[0] == "rows=0"
    forty.export()
    forty.fetch(most_rows=5)
    forty.export()
    forty.check("t")


@pytest.mark.parametrize("change", ["MODIFY v INT NULL", "MODIFY v BIGINT NOT NULL, ADD w INT NOT NULL DEFAULT 7"])
def test_an_alteration_of_its_rows_meanwhile_begins_it_again(forty: Lake, change: str) -> None:
    def alter() -> None:
        forty.server.execute(f"ALTER TABLE {forty.db}.t {change}")
        forty.export()

    fetch_and(forty, 20, alter)
    forty.export()
    assert "a reset came" in begun(forty)[1]
    assert forty.known("t").complete_from is not None
    forty.check("t")


def test_columns_that_came_meanwhile_begin_it_again(forty: Lake) -> None:
    fetch_and(forty, 20, lambda: forty.server.execute(f"ALTER TABLE {forty.db}.t ADD w INT"))
    forty.export()
    assert begun(forty)[1] == "reason=its columns have changed"
    forty.check("t")


@pytest.mark.parametrize("key", ["PRIMARY KEY", "KEY"])
def test_another_character_set_begins_it_again(
    server: DatabaseServer,
    db: str,
    make_lake: Callable[[], Lake],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    columns = f"id INT NOT NULL, v VARCHAR(20) CHARACTER SET utf8mb4, {key} (id)"
    server.execute(f"USE {db}", f"CREATE TABLE t ({columns})", "INSERT INTO t VALUES (1, 'Größe'), (2, 'ß')")
    lake = make_lake()
    pending = ["CONVERT TO CHARACTER SET latin1"]

    def altered(metadata: Connection[Any], plan: Plan) -> estimate.Size:
        """Alters the table between the plan and the first SELECT."""
        if pending:
            server.execute(f"ALTER TABLE {db}.t {pending.pop()}")
            lake.export()
        return estimate.size(metadata, plan)

    monkeypatch.setattr(table, "size", altered)
    lake.fetch()
    lake.export()
    assert begun(lake) == ["rows=0", "reason=its columns have changed", "rows=0"]
    lake.check("t")


def test_a_table_emptied_meanwhile_is_complete_as_it_is(forty: Lake) -> None:
    def truncate() -> None:
        forty.server.execute(f"TRUNCATE {forty.db}.t", f"INSERT INTO {forty.db}.t VALUES (1000, 1)")
        forty.export()

    fetch_and(forty, 20, truncate)
    forty.check("t")
    assert forty.known("t").last_marker == "truncate"


def test_rows_without_a_key_that_were_gone_before_they_were_read_are_not_there(
    server: DatabaseServer, db: str, make_lake: Callable[[], Lake]
) -> None:
    server.execute(f"CREATE TABLE {db}.t (v INT)", f"INSERT INTO {db}.t VALUES (1), (1), (2)")
    lake = make_lake()
    server.execute(f"DELETE FROM {db}.t", f"CREATE TABLE {db}.u (v INT)")
    lake.export()
    lake.fetch()
    server.execute(f"INSERT INTO {db}.t VALUES (1), (3)", f"DELETE FROM {db}.t WHERE v = 1")
    lake.export()
    lake.check("t")


def test_a_table_dropped_meanwhile_is_none(forty: Lake) -> None:
    def drop() -> None:
        forty.server.execute(f"DROP TABLE {forty.db}.t")
        forty.export()

    fetch_and(forty, 20, drop)
    assert forty.known("t").last_marker == "drop"


def test_what_is_read_is_complete_when_the_export_has_passed_its_end(forty: Lake) -> None:
    forty.server.execute(f"UPDATE {forty.db}.t SET v = -1")
    with forty.snapshots() as snapshots:
        [name] = snapshots.todo()
        snapshots.fetch(name)
        assert snapshots.waiting() == [name] and snapshots.todo() == []
        assert forty.known("t").complete_from is None
        forty.export()
        assert snapshots.waiting() == []
    forty.check("t")


def test_a_binlog_that_ends_without_a_change_is_waited_for_by_nobody(forty: Lake) -> None:
    forty.server.execute("FLUSH BINARY LOGS")
    forty.fetch()
    assert forty.known("t").complete_from is not None


def test_the_estimate_is_corrected_by_the_range_of_the_key(forty: Lake) -> None:
    forty.fetch(most_rows=5)
    assert [progress.total for progress in forty.shown[1:]][-3:] == [40, 40, 40]
    assert [progress.rows for progress in forty.shown] == [5, 10, 15, 20, 25, 30, 35, 40, 40]


def test_a_second_snapshot_is_refused_by_name(forty: Lake) -> None:
    config = forty.reader.context.config
    with (
        only_one(config),
        pytest.raises(RelayError, match=f"process {os.getpid()} already makes one"),
        only_one(config),
    ):
        pass


def test_a_lake_without_an_export_is_refused(forty: Lake, tmp_path: Path) -> None:
    with pytest.raises(RelayError, match="nothing was exported to this lake yet"):
        Snapshots(forty.reader.context.config, open_storage(str(tmp_path / "other")), ["*.*"])


def test_columns_that_are_left_out_are_not_fetched(forty: Lake) -> None:
    server, db = forty.server, forty.db
    server.execute(f"CREATE TABLE {db}.s (id INT PRIMARY KEY, secret TEXT, v INT)")
    server.execute(f"INSERT INTO {db}.s VALUES (1, 'key', 2)", f"CREATE TABLE {db}.hidden (id INT PRIMARY KEY)")
    config = forty.reader.context.config
    source = msgspec.structs.replace(config.source, exclude_columns=["*.*.secret"], exclude_tables=["*.hidden"])
    with Snapshots(msgspec.structs.replace(config, source=source), forty.storage, [f"{db}.*"]) as snapshots:
        assert snapshots.todo() == [Table(db, "s"), Table(db, "t")]
        snapshots.fetch(Table(db, "s"))
    assert [field.name for field in forty.known("s").version.fields] == ["id", "v"]


def test_rows_of_the_past_of_a_versioned_table_are_fetched_too(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path, make_reader: MakeReader
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(
        f"USE {db}",
        "CREATE TABLE p (id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
        "CREATE TABLE q (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        *(f"INSERT INTO {name} (id, v) VALUES (1, 1), (2, 2), (3, 3)" for name in "pq"),
        *(f"UPDATE {name} SET v = 7 WHERE id < 3" for name in "pq"),
        *(f"DELETE FROM {name} WHERE id = 2" for name in "pq"),
    )
    lake = Lake(mariadb118, db, tmp_path, make_reader)
    lake.fetch(most_rows=2)
    for name in "pq":
        past = mariadb118.execute(f"SELECT COUNT(*) FROM {db}.{name} FOR SYSTEM_TIME ALL")
        assert [(sum(file.rows for file in lake.known(name).files.values()),)] == past == [(5,)]


def test_a_hash_that_mariadb_keeps_for_a_unique_key_is_a_column_without_values(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path, make_reader: MakeReader
) -> None:
    """It stands in the binlog's rows, and no SELECT gives it: the export goes on in the snapshot's version."""
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v TEXT, UNIQUE (v))")
    mariadb118.execute(f"INSERT INTO {db}.t VALUES (1, 'one'), (2, NULL)")
    lake = Lake(mariadb118, db, tmp_path, make_reader)
    lake.fetch()
    mariadb118.execute(f"INSERT INTO {db}.t VALUES (3, 'three')")
    lake.export()
    known = lake.known("t")
    assert known.complete_from is not None
    [version] = known.versions
    assert [field.name for field in version.fields if not field.side] == ["id", "v", "DB_ROW_HASH_1"]
    assert current(str(lake.storage.url()), Table(db, "t"))[1].total() == 3
