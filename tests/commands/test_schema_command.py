"""`relay schema`: the history of tables, of a running or a stopped relay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from examples.dbserver import DatabaseServer
from relay.errors import ExitCode
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.waiting import until

Start = Callable[..., RelayProcess]


def shown(relay: RelayProcess, *arguments: str) -> Any:
    """The documents that it prints."""
    run = run_relay("schema", "-c", relay.conf, *arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def position(server: DatabaseServer) -> str:
    """Where the binlog stands."""
    statement = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    file, place = server.execute(statement)[0][:2]
    return f"{file}:{place}"


def known(relay: RelayProcess, table: str) -> bool:
    """Whether it has come to the table."""
    return run_relay("schema", "-c", relay.conf, table).returncode == 0


def names(version: dict[str, Any]) -> list[str]:
    """Of its columns."""
    return [column["name"] for column in version["columns"]]


def test_a_table_is_shown_as_statements_made_it(server: DatabaseServer, db: str, start_relay: Start) -> None:
    server.execute(f"CREATE TABLE {db}.before (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)")
    relay = start_relay(server)
    rename = f"ALTER TABLE {db}.t RENAME COLUMN old TO new"
    server.execute(f"CREATE TABLE {db}.t (id BIGINT UNSIGNED PRIMARY KEY, old ENUM('x', 'y') NOT NULL)")
    middle = position(server)
    server.execute(rename, f"CREATE TABLE {db}.gone (id INT)", f"DROP TABLE {db}.gone")
    until(lambda: known(relay, f"{db}.gone") and len(shown(relay, f"{db}.gone")[0]["versions"]) == 2)
    assert shown(relay, f"{db}.gone")[0]["versions"][0]["state"] == "absent"

    [table] = shown(relay, f"{db}.t")
    newest, oldest = table["versions"]
    assert names(newest) == ["id", "new"] and names(oldest) == ["id", "old"]
    assert (newest["proof"], newest["statement"]) == ("statement", rename)
    assert [column["type"] for column in newest["columns"]] == ["bigint unsigned", "enum('x','y')"]
    assert [column["key"] for column in newest["columns"]] == [True, False]
    [before] = shown(relay, f"{db}.before")
    assert [version["proof"] for version in before["versions"]] == ["source"]
    assert before["versions"][0]["columns"][1]["charset"] == "latin1"

    [then] = shown(relay, f"{db}.t", "--at", middle)
    assert names(then["versions"][0]) == ["id", "old"]
    [since] = shown(relay, f"{db}.t", "--at", f"{newest['file']}:{newest['position']}")
    assert names(since["versions"][0]) == ["id", "new"]
    for version in (newest, oldest):
        if version["gtid"]:
            [then] = shown(relay, f"{db}.t", "--at", version["gtid"])
            assert names(then["versions"][0]) == names(version)
    assert newest["gtid"] or not server.kind.mysql
    relay.stop()
    assert [each["table"] for each in shown(relay, f"{db}.*")] == ["before", "gone", "t"]
    text = run_relay("schema", "-c", relay.conf, f"{db}.t").stdout
    assert rename in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    listed = run_relay("schema", "-c", relay.conf).stdout.splitlines()
    assert any(line.split()[:2] == [f"{db}.t", "2"] and line.endswith(" statement") for line in listed)


def test_it_reads_while_the_reader_writes_and_names_what_is_damaged(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    db = make_db(mariadb118)
    relay = start_relay(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT)", f"CREATE TABLE {db}.u (id INT)")
    until(lambda: known(relay, f"{db}.u"))
    file = relay.conf.parent / "data" / "schema.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db_file:
        db_file.execute("BEGIN IMMEDIATE")
        db_file.execute("UPDATE versions SET statement = 'x' WHERE table_name = 't'")
        assert shown(relay, f"{db}.t")[0]["damaged"] == ""
        db_file.execute("COMMIT")
    [table] = shown(relay, f"{db}.t")
    assert "schema.db" in table["damaged"] and not table["versions"]
    assert "damaged" in run_relay("schema", "-c", relay.conf, f"{db}.t").stdout
    assert shown(relay, f"{db}.u")[0]["versions"]
    relay.stop()
    file.write_bytes(b"no database at all" * 1000)
    broken = run_relay("schema", "-c", relay.conf)
    assert broken.returncode == ExitCode.STOPPED and "creates a new one" in broken.stderr
    file.unlink()
    assert run_relay("schema", "-c", relay.conf).returncode == ExitCode.USAGE


def test_what_is_not_there_is_said(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    make_db(mariadb118)
    relay = start_relay(mariadb118)
    for arguments in (["no.such"], ["--at", "nonsense"], ["--at", "0-987-5"]):
        run = run_relay("schema", "-c", relay.conf, *arguments)
        assert run.returncode == ExitCode.USAGE, (arguments, run.stdout, run.stderr)
