"""The log of a running relay: a separate process, whose fatal errors stop nothing else, and an orderly end."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.client import RelayClient
from relay.errors import ExitCode
from tests.support import waiting
from tests.support.csv_lines import content, csv_lines, json_lines
from tests.support.recipe import Recipe
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.source_rows import binlog_end
from tests.support.waiting import patience

Start = Callable[..., RelayProcess]
until = partial(waiting.until, seconds=60)
LOG = {"Logger.Path": "log/", "Logger.Schema": "*"}


def folder_of(relay: RelayProcess) -> Path:
    return relay.conf.parent / "log"


def ids(relay: RelayProcess, db: str) -> list[int]:
    lines = csv_lines(content(folder_of(relay)))
    return [int(line[5].text) for line in lines if (line[1].text, line[3].text) == (db.encode(), b"I")]


def status(relay: RelayProcess) -> dict[str, Any]:
    found: dict[str, Any] = relay.stat()["log"]["status"]
    return found


@pytest.fixture
def db(mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    """A database with an empty table t."""
    name = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    return name


def test_the_originals_configuration_starts_the_log_unchanged(
    mariadb1011: DatabaseServer, db: str, tmp_path: Path
) -> None:
    conf = tmp_path / "replicaterelay.conf"
    http, port = free_port(), free_port()
    conf.write_text(f"""[MySQL]
# MySQL access for schema
host=127.0.0.1
port={mariadb1011.port}
login={USER}
password={PASSWORD}
database={db}

[Server]
IPAddr=127.0.0.1
Port={mariadb1011.port}
Login={USER}
Password={PASSWORD}
Database={db}
AuthSecret=Freedelity
AdminSecret=AdminPassword
ServerPort={port}
HTTPAddress=127.0.0.1
HTTPPort={http}

# replication logger : name of database and eventually list of tables to exclude from logging
[Logger]
Path={tmp_path}/log/
Schema={db}
Excludes=table_to_exclude1,table_to_exclude2

[Relay]
DataDir={tmp_path}/data
""")
    relay = RelayProcess(conf).start()
    try:
        mariadb1011.execute(f"CREATE TABLE {db}.table_to_exclude2 (id INT)")
        mariadb1011.execute(f"INSERT INTO {db}.table_to_exclude2 VALUES (1)", f"INSERT INTO {db}.t VALUES (7)")
        days = {time.strftime("%Y%m%d")}
        [line] = until(lambda: (tmp_path / "log").is_dir() and csv_lines(content(tmp_path / "log")))
        days.add(time.strftime("%Y%m%d"))  # midnight may have passed
        [file] = (tmp_path / "log").glob("relaylogs-*")
        assert file.name in {f"relaylogs-{day}.txt" for day in days}
        assert [field.text for field in line[1:]] == [db.encode(), b"t", b"I", b"id", b"7"]
    finally:
        relay.end()


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_transaction_is_logged_with_all_its_rows_in_their_order(
    server: DatabaseServer, make_db: Callable[[DatabaseServer], str], full_metadata: None, start_relay: Start, form: str
) -> None:
    name = make_db(server)
    server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    relay = start_relay(server, LOG | {"Logger.Schema": name, "Logger.Format": form})
    [(before,)] = server.execute(f"SELECT @@{'gtid_executed' if server.kind.mysql else 'gtid_binlog_pos'}")
    server.execute(
        f"USE {name}", "BEGIN", "INSERT INTO t VALUES (1, 'a'), (2, NULL)", "UPDATE t SET v = 'é\n' WHERE id = 2",
        "DELETE FROM t WHERE id = 1", "COMMIT",
    )  # fmt: skip
    until(lambda: status(relay)["lines"] == 4)
    written = content(folder_of(relay))
    if form == "csv":
        told = [";".join(field.text.decode() for field in line[3:]) for line in csv_lines(written)]
        assert told == ["I;id;1;v;a", "I;id;2;v;", "U;id;2;2;v;;é\n", "D;id;1;v;a"]
        return
    records = json_lines(written)
    assert [record["kind"] for record in records] == ["insert", "insert", "update", "delete"]
    assert records[2]["before"]["v"] is None and records[2]["after"]["v"] == "é\n"
    [(file, gtid)] = {(record["file"], record["gtid"]) for record in records}
    assert binlog_end(server)[0] == file
    # Tests before this one may have left GTIDs of other domains and tags.
    if server.kind.mysql:
        assert server.execute(f"SELECT GTID_SUBTRACT(@@gtid_executed, '{before}')")[0][0] == gtid
    else:
        after = server.execute("SELECT @@gtid_binlog_pos")[0][0]
        assert set(after.split(",")) - set(before.split(",")) == {gtid}


def _place(document: dict[str, Any], name: str) -> tuple[str, int]:
    return document["file"], document[name]


def test_the_log_is_in_the_stat_document_and_a_drain_waits_for_it(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Schema": db})
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1), (2)")
    until(lambda: status(relay)["lines"] == 2)
    document = relay.stat()
    shown = document["log"]["status"]
    assert document["log"]["path"] == str(folder_of(relay)) + "/"
    assert (shown["state"], shown["stop"]) == ("following", None)
    assert (folder_of(relay) / shown["log_file"]).is_file()
    assert shown["bytes"] == len(content(folder_of(relay)))
    until(lambda: _place(relay.stat()["log"]["status"], "offset") == _place(relay.stat()["source"], "position"))
    assert "logger" in {process["name"] for process in document["processes"]}
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (3)")
    drained = run_relay("drain", "-c", relay.conf)
    assert drained.returncode == ExitCode.OK, drained.stderr
    assert relay.wait() == 0
    assert ids(relay, db) == [1, 2, 3]


def test_the_program_of_the_page_prints_rows_as_they_are_logged(
    mariadb1011: DatabaseServer, db: str, start_relay: Start, tmp_path: Path
) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Format": "json"})
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    [file] = until(lambda: list(folder_of(relay).glob("*.jsonl")), what="no file")
    with closing(Recipe("../csv-log", tmp_path, {}, command=("program.py", str(file)))) as program:
        program.start()
        until(lambda: "insert t {'id': 1}\n" in program.printed(), what="the first row is not printed")
        mariadb1011.execute(f"DELETE FROM {db}.t")
        until(lambda: "delete t {'id': 1}\n" in program.printed(), what="a later row is not printed")


def test_a_restart_goes_on_where_the_log_ended(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, LOG)
    for number in range(2):
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES ({2 * number})")
        if number:
            relay.kill()
        else:
            assert relay.stop() == 0
            assert "process=logger" not in relay.stderr.read_text(), "it ended by itself"
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES ({2 * number + 1})")
        relay.start()
    until(lambda: ids(relay, db) == [0, 1, 2, 3])


def test_a_stop_of_the_log_is_shown_and_stops_nothing_else(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Schema": db})
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: status(relay)["lines"] == 1)
    [file] = folder_of(relay).glob("relaylogs-*")
    whole = file.read_bytes()
    file.write_bytes(b"")
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (2)")
    stop = until(lambda: status(relay)["stop"])
    assert stop["code"] == "log_damaged" and "--accept-gap" in stop["hint"]
    assert "code=log_damaged" in relay.stderr.read_text()
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter("*")
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES (3)")
        assert [row.after for row in client.poll_many(wait=patience(10))] == [{"id": 3}], "clients are served as before"
    document = relay.stat()
    assert (document["state"], document["stop"], document["log"]["status"]["state"]) == ("running", None, "stopped")
    file.write_bytes(whole)
    assert run_relay("resume", "-c", relay.conf).returncode == 0
    until(lambda: ids(relay, db) == [1, 2, 3] and status(relay)["stop"] is None)


def test_a_folder_that_cannot_be_written_is_tried_again(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Path": "in/the/way", "Logger.Schema": db})
    relay.stop()
    folder = relay.conf.parent / "in/the/way"
    shutil.rmtree(folder)
    folder.write_text("no folder")
    relay.start()
    stop = until(lambda: status(relay)["stop"])
    assert stop["code"] == "log_storage" and str(folder) in stop["text"] and "[Logger]" in stop["hint"]
    assert relay.stat()["state"] == "running"
    folder.unlink()
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: status(relay)["stop"] is None and status(relay)["lines"] == 1)


def test_a_reload_gives_the_log_its_new_settings(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Schema": db})
    mariadb1011.execute(f"CREATE TABLE {db}.u (id INT)", f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: status(relay)["lines"] == 1)
    relay.conf.write_text(relay.conf.read_text().replace("[Logger]", "[Logger]\nExcludes = u\nFormat = json"))
    reloaded = run_relay("reload", "-c", relay.conf)
    assert reloaded.returncode == ExitCode.OK, reloaded.stderr
    mariadb1011.execute(f"INSERT INTO {db}.u VALUES (2)", f"INSERT INTO {db}.t VALUES (3)")
    [file] = until(lambda: [*folder_of(relay).glob("relaylogs-*.jsonl")])
    [record] = until(lambda: json_lines(file.read_bytes()))
    assert (record["table"], record["after"]["id"].digits) == ("t", "3")


def test_two_relays_do_not_share_a_folder(
    mariadb1011: DatabaseServer, db: str, start_relay: Start, tmp_path: Path
) -> None:
    shared = LOG | {"Logger.Path": tmp_path / "shared", "Logger.Schema": db}
    one = start_relay(mariadb1011, shared)
    until(lambda: status(one)["state"] == "following")
    other = start_relay(mariadb1011, shared)
    stop = until(lambda: status(other)["stop"])
    assert stop["code"] == "log_storage" and f"process {one.pids()['logger']} holds it" in stop["text"]
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: status(one)["lines"] == 1)
    assert len(csv_lines(content(tmp_path / "shared"))) == 1


@pytest.mark.slow
def test_a_lost_journal_is_a_stop_of_the_log_until_it_is_accepted(
    mariadb1011: DatabaseServer, db: str, start_relay: Start
) -> None:
    relay = start_relay(mariadb1011, LOG | {"Logger.Schema": db})
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: status(relay)["lines"] == 1)
    relay.stop()
    shutil.rmtree(relay.conf.parent / "data")
    relay.start()
    stop = until(lambda: status(relay)["stop"])
    assert stop["code"] == "journal_lost" and "--accept-gap" in stop["hint"]
    assert relay.stat()["state"] == "running"
    relay.accept_gap()
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (2)")
    until(lambda: len(csv_lines(content(folder_of(relay)))) == 3)
    _, gap, _ = csv_lines(content(folder_of(relay)))
    assert gap[3].text == b"G" and b"the log was written from" in gap[5].text
    assert ids(relay, db) == [1, 2]


@pytest.mark.slow
def test_retention_waits_for_the_log(mariadb1011: DatabaseServer, db: str, start_relay: Start) -> None:
    relay = start_relay(
        mariadb1011,
        LOG
        | {
            "Logger.Schema": db,
            "Relay.SegmentBytes": "64KiB",
            "Relay.JournalKeepBytes": "0",
            "Relay.JournalKeepAge": "0",
            "Relay.JournalMaxBytes": "16MiB",
        },
    )
    mariadb1011.execute(f"ALTER TABLE {db}.t ADD COLUMN v VARCHAR(1000)")
    logger = until(lambda: relay.pids().get("logger"))
    os.kill(logger, signal.SIGSTOP)
    try:
        rows = ", ".join(f"({number}, REPEAT('x', 1000))" for number in range(1000))
        mariadb1011.execute(f"INSERT INTO {db}.t VALUES {rows}")
        until(lambda: relay.stat()["journal"]["flushed"] > 1_000_000)
        time.sleep(2.5)  # two turns of retention
        assert relay.stat()["journal"]["first"] < 200_000
    finally:
        os.kill(logger, signal.SIGCONT)
    until(lambda: ids(relay, db) == list(range(1000)))
    until(lambda: relay.stat()["journal"]["first"] > 200_000)
