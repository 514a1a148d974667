"""A damaged schema history: it is reported, and no row gets a name that its table did not have then."""

from __future__ import annotations

import random
import signal
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.errors import RelayError, StopCode
from relay.schema.facts import ANY, Proof, Reply, Unreadable, Version
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import ABSENT, Schema, Unknown
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.waiting import until

FLIPS = 700
TABLES = [TableName("shop", f"t{number}") for number in range(30)]


def flipped(path: Path, at: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def near(path: Path, text: bytes) -> None:
    """Change the first byte of each place where the file has that text."""
    data = path.read_bytes()
    assert text in data
    path.write_bytes(data.replace(text, bytes([text[0] ^ 1]) + text[1:]))


def overwritten(path: Path) -> None:
    """All pages but the first."""
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:4096] + random.Random(1).randbytes(size - 4096))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "head": lambda path: flipped(path, 3),
    "pages": overwritten,
    "a table's row": lambda path: near(path, b"\xa3old"),
    "a statement": lambda path: near(path, b"RENAME COLUMN"),
    "how far it is": lambda path: near(path, b"covered"),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "no bytes": lambda path: path.write_bytes(b""),
    "no file": lambda path: path.unlink(),
}


OF_ONE_TABLE = ("a table's row", "a statement")


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named_and_rows_keep_their_names(
    server: DatabaseServer,
    db: str,
    make_reader: Callable[..., Reader],
    capfd: pytest.CaptureFixture[str],
    damage: str,
) -> None:
    server.execute(f"CREATE TABLE {db}.asked (id INT PRIMARY KEY, old INT, other INT)")
    running = make_reader(server).streaming()
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, first INT, other INT)",
        f"ALTER TABLE {db}.t RENAME COLUMN first TO old",
        f"INSERT INTO {db}.t VALUES (1, 1, 1)",
        f"INSERT INTO {db}.asked VALUES (1, 1, 1)",
    )
    running.until(lambda: running.count("t") == 1 and running.count("asked") == 1)
    running.signal(signal.SIGTERM)
    DAMAGE[damage](running.context.data_dir / SCHEMA_FILE)
    server.execute(
        f"INSERT INTO {db}.t VALUES (2, 2, 2)",
        f"ALTER TABLE {db}.t RENAME COLUMN old TO new, RENAME COLUMN other TO old",
        f"INSERT INTO {db}.t VALUES (3, 3, 3)",
        f"INSERT INTO {db}.asked VALUES (2, 2, 2)",
    )
    capfd.readouterr()
    again = make_reader(server).streaming()
    again.until(lambda: again.count("t") == 3 and again.count("asked") == 2)
    assert "schema_damaged" in capfd.readouterr().err
    rows = [names for names, _ in again.rows("t")]
    right = ["id,old,other", "id,old,other", "id,new,old"]
    assert all(name in (known, "@1,@2,@3") for name, known in zip(rows, right, strict=True)), f"wrong names: {rows}"
    assert damage in OF_ONE_TABLE or rows == right, "the journal's statements are not used"
    assert [names for names, _ in again.rows("asked")] == ["id,old,other", "id,old,other"]


def test_what_was_skipped_is_not_forgotten_with_the_history(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader]
) -> None:
    running = make_reader(server, {"Relay.OnUnknown": "skip"}).streaming()
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    server.execute("SET SESSION binlog_format = STATEMENT", f"UPDATE {db}.t SET id = 2")
    server.execute(f"INSERT INTO {db}.t VALUES (3)")
    running.until(lambda: running.count("t") == 2)
    running.signal(signal.SIGTERM)
    path = running.context.data_dir / SCHEMA_FILE
    with closing(Store(path)) as store:
        assert list(store.versions(ANY)) == [], "a statement that is understood changes no table"
    path.unlink()
    again = make_reader(server).streaming()
    with closing(Store(path, read_only=True)) as store:
        assert any("was skipped at" in str(version.state) for version in store.versions(ANY))
    server.execute(f"INSERT INTO {db}.t VALUES (4)")
    again.until(lambda: again.count("t") == 3)
    assert {names for names, _ in again.rows("t")} == {"id"}


def test_a_history_that_breaks_while_it_is_used_is_made_anew(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb118)
    relay = start_relay(mariadb118)
    mariadb118.execute(*(f"CREATE TABLE {db}.t{number} (id INT PRIMARY KEY, a INT)" for number in range(50)))
    until(lambda: "t49" in run_relay("schema", "-c", relay.conf, f"{db}.t49").stdout)
    path = relay.conf.parent / "data" / SCHEMA_FILE
    with closing(sqlite3.connect(path)) as db_file:
        db_file.execute("PRAGMA writable_schema = ON")
        db_file.execute("UPDATE sqlite_master SET rootpage = 1000000 WHERE name IN ('versions', 'versions_by_table')")
        db_file.commit()
        ((version,),) = db_file.execute("PRAGMA schema_version")
        db_file.execute(f"PRAGMA schema_version = {version + 1}")
    mariadb118.execute(f"ALTER TABLE {db}.t3 RENAME COLUMN a TO b", f"INSERT INTO {db}.t3 VALUES (1, 1)")
    until(lambda: "schema_damaged table=*" in relay.stderr.read_text())
    until(lambda: run_relay("schema", "-c", relay.conf, f"{db}.t3").stdout.count("RENAME COLUMN a TO b"))
    until(lambda: [t["total"]["insert"] for t in relay.stat()["usage"]["tables"] if t["table"] == "t3"] == [1])
    assert relay.stat()["stop"] is None
    assert path.with_name(path.name + ".damaged").exists()


def kept(path: Path, damaged: Collection[TableName] = ()) -> dict[TableName, tuple[list[Version], Reply | None]]:
    """All that a file says of tables, but those damaged."""
    with closing(Store(path, read_only=True)) as store:
        return {
            table: (list(store.versions(table)), store.reply(table)) for table in [*TABLES, ANY] if table not in damaged
        }


def test_no_byte_changes_what_a_table_is_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "schema.db"
    with closing(Store(path)) as store:
        store.put_fact("covered", "12345")
        store.put_replies(
            Reply(table, Unknown(f"asked {table}"), BinlogPosition("b.1", 7), BinlogPosition("b.1", 9))
            for table in TABLES[::2]
        )
        store.add(
            Version(
                table, Unknown(f"{number} of {table}"), BinlogPosition("b.1", number), number, Proof.STATEMENT, "ALTER"
            )
            for number in range(10, 14)
            for table in TABLES
        )
        store.add([Version(TableName("shop", ""), Schema("utf8mb4"), BinlogPosition("b.1", 20), 20, Proof.STATEMENT)])
        store.add([Version(ANY, ABSENT, BinlogPosition("b.1", 30), 30, Proof.ROWS)])
        store.commit()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    whole, right = path.read_bytes(), kept(path)
    chance = random.Random(17)
    noticed = 0
    for at in [*range(100), *(chance.randrange(len(whole)) for _ in range(FLIPS))]:
        path.write_bytes(whole)
        flipped(path, at)
        try:
            with closing(Store(path)) as store:
                damaged = store.verify()
                assert store.fact("covered") == "12345", f"byte {at} changes a fact"
            found = kept(path, damaged)
        except Unreadable:
            noticed += 1
            continue
        except RelayError as error:
            if error.code is not StopCode.NEWER_FORMAT:  # a named stop as well
                raise
            noticed += 1
            continue
        noticed += bool(damaged)
        for table, facts in right.items():
            versions, answer = found[table] if table not in damaged else facts
            assert versions == facts[0], f"byte {at} changes versions of {table}"
            assert answer in (facts[1], None), f"byte {at} changes the answer about {table}"
    assert noticed > FLIPS / 10, "the bytes that were changed are those that nobody reads"
