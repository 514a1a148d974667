"""`relay tail` from a source and from binlog files: lines for people and for programs, and how it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.binlog import events
from relay.cli import run
from relay.commands.tail import from_source
from relay.commands.text.events import Form
from relay.config.load import load
from relay.errors import ExitCode
from relay.schema import source_tables
from relay.schema.facts import Reply
from tests.binlog.test_binlog_files import folder_of
from tests.support.relay_process import Program
from tests.support.replicated_streams import here, work
from tests.support.waiting import until

FAILURE = r"relay: [^\n]+ \(hint: [^\n]+\)\n"


class Shown(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Tail = Callable[..., Shown]


@pytest.fixture
def tail(capfd: pytest.CaptureFixture[str]) -> Tail:
    """Runs it to its end: tail("--file", path)."""

    def run_tail(*arguments: str | Path) -> Shown:
        code = run(["tail", *map(str, arguments)])
        return Shown(code, *capfd.readouterr())

    return run_tail


@pytest.fixture
def conf(server: DatabaseServer, relay_conf: Callable[..., Path]) -> Path:
    """A configuration for the source; no relay runs with it."""
    return relay_conf(server)


@pytest.mark.usefixtures("full_metadata")
def test_all_events_of_a_source_to_its_end_for_people(tail: Tail, server: DatabaseServer, db: str, conf: Path) -> None:
    start = here(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v TEXT, b BLOB)",
        f"INSERT INTO {db}.t VALUES (1, 'x\ty', 0xff00), (2, NULL, '')",
        f"UPDATE {db}.t SET v = 'z' WHERE id = 1",
        f"DELETE FROM {db}.t WHERE id = 2",
    )
    shown = tail("-c", conf, "--from", f"{start.file_name}:{start.start_position}", "--to-end", "--rows")
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    lines = shown.stdout.splitlines()
    assert f"-- {start.file_name}  2" in "\n".join(lines)
    for wanted in (
        rf" +\d+  \d\d:\d\d:\d\d  QUERY +CREATE TABLE {db}\.t .*",
        rf" +\d+  \d\d:\d\d:\d\d  TABLE_MAP +{db}\.t, 3 columns",
        r" {12}insert    id=1, v=x\\ty, b=0xff00",
        r" {12}insert    id=2, v=NULL, b=0x",
        r" {12}update    id=1, v: x\\ty -> z",
        r" {12}delete    id=2, v=NULL, b=0x",
        r" +\d+  \d\d:\d\d:\d\d  XID +COMMIT, \d+",
    ):
        assert [line for line in lines if re.fullmatch(wanted, line)], (wanted, lines)


@pytest.mark.usefixtures("young_binlog")
@pytest.mark.parametrize("place", ["oldest", "newest", "gtid"])
def test_every_place_can_be_begun_at(tail: Tail, server: DatabaseServer, db: str, conf: Path, place: str) -> None:
    before = here(server).gtid_set
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    shown = tail("-c", conf, "--from", before if place == "gtid" else place, "--to-end")
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    assert (f"CREATE TABLE {db}.t" in shown.stdout) is (place != "newest")


@pytest.mark.usefixtures("full_metadata")
def test_json_lines_hold_every_field_and_rows_one_by_one(
    tail: Tail, server: DatabaseServer, db: str, conf: Path
) -> None:
    start = here(server)
    work(server, db)
    place = f"{start.file_name}:{start.start_position}"
    shown = tail("-c", conf, "--from", place, "--to-end", "--json")
    documents = [json.loads(line) for line in shown.stdout.splitlines()]
    assert all(document.keys() == {"file", "position", "event"} for document in documents)
    typed = [msgspec.convert(document["event"], events.Event, builtin_types=()) for document in documents]
    found = [event for event in typed if isinstance(event, events.RowsEvent)]
    with_rows = tail("-c", conf, "--from", place, "--to-end", "--json", "--rows", f"{db}.*")
    rows = [json.loads(line) for line in with_rows.stdout.splitlines()]
    assert len(rows) >= len(found) > 8
    assert {row["kind"] for row in rows} == {"insert", "update", "delete"}
    assert all(
        row.keys() == {"file", "position", "kind", "schema", "table", "before", "after"} and row["schema"] == db
        for row in rows
    )
    assert rows[0] | {"position": 0} == {
        "file": start.file_name, "position": 0, "kind": "insert", "schema": db, "table": "m", "before": None,
        "after": {"id": 1},
    }  # fmt: skip


@pytest.mark.usefixtures("full_metadata")
def test_rows_come_in_debeziums_envelope_from_a_source_and_from_files(
    tail: Tail, server: DatabaseServer, db: str, conf: Path
) -> None:
    start = here(server)
    name, place = start.file_name, f"{start.file_name}:{start.start_position}"
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, d DECIMAL(4, 2), b BLOB)",
        f"INSERT INTO {db}.t VALUES (1, 1.5, 'x'), (2, NULL, NULL)",
        f"UPDATE {db}.t SET d = 2 WHERE id = 1",
        f"DELETE FROM {db}.t WHERE id = 2",
    )
    shown = [
        tail("-c", conf, "--from", place, "--to-end", "--format", "debezium", f"{db}.*"),
        tail("--file", folder_of(server) / name, "--format", "debezium", "--table", f"{db}.*"),
    ]
    for each in shown:
        documents = [json.loads(line) for line in each.stdout.splitlines()]
        assert [(document["op"], document["before"], document["after"]) for document in documents] == [
            ("c", None, {"id": 1, "d": "1.50", "b": "eA=="}),
            ("c", None, {"id": 2, "d": None, "b": None}),
            ("u", {"id": 1, "d": "1.50", "b": "eA=="}, {"id": 1, "d": "2.00", "b": "eA=="}),
            ("d", {"id": 2, "d": None, "b": None}, None),
        ]
        sources = [document["source"] for document in documents]
        assert {(source["db"], source["table"], source["file"]) for source in sources} == {(db, "t", name)}
        assert [source["row"] for source in sources] == [0, 1, 0, 0]
        assert len({source["gtid"] for source in sources}) == 3


@pytest.mark.usefixtures("full_metadata")
def test_files_are_read_in_the_order_they_are_named_without_a_configuration(
    tail: Tail, server: DatabaseServer, db: str, tmp_path: Path
) -> None:
    server.execute("FLUSH BINARY LOGS")
    first = here(server).file_name
    work(server, db)
    second = here(server).file_name
    paths = [Path(shutil.copy(folder_of(server) / name, tmp_path)) for name in (first, second)]
    shown = tail("--file", *paths, "--json", "--rows", "--table", f"{db}.t", "--table", f"{db}.m")
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {row["table"] for row in rows} == {"t", "m"}
    assert list(dict.fromkeys(row["file"] for row in rows)) == [first, second]
    assert [row["kind"] for row in rows][-2:] == ["delete", "delete"]


def test_a_file_that_was_cut_is_read_to_there_and_said_so(
    tail: Tail, server: DatabaseServer, db: str, tmp_path: Path
) -> None:
    server.execute("FLUSH BINARY LOGS")
    name = here(server).file_name
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    path = tmp_path / name
    path.write_bytes((folder_of(server) / name).read_bytes()[:-3])
    shown = tail("--file", path)
    assert shown.returncode == ExitCode.OK
    assert "FORMAT_DESCRIPTION" in shown.stdout
    assert re.fullmatch(
        rf"relay: note: {re.escape(str(path))}:\d+: the last event is incomplete: [^\n]+\n", shown.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--file",), ExitCode.USAGE),
        (("--file", "{}/x", "--from", "oldest"), ExitCode.USAGE),
        (("--file", "{}/x", "--table", "t"), ExitCode.USAGE),
        (("--to-end",), ExitCode.USAGE),
        (("--file", "{}/none"), ExitCode.ENVIRONMENT),
        (("--file", "{}/text"), ExitCode.USAGE),
        (("--file", "{}/encrypted"), ExitCode.STOPPED),
        (("-c", "{}/relay.conf", "--from", "binlog.999999:4"), ExitCode.STOPPED),
        (("-c", "{}/relay.conf", "--from", "binlog.000001:3"), ExitCode.USAGE),
        (("-c", "{}/relay.conf", "--from", "nonsense"), ExitCode.USAGE),
        (("-c", "{}/relay.conf", "--from", "oldest", "--set", "Server.Port=1"), ExitCode.SOURCE),
        (("-c", "{}/relay.conf", "--from", "oldest", "--set", "Server.Password=x"), ExitCode.SOURCE),
    ],
)
def test_every_failure_is_one_line_with_a_hint_and_its_code(
    tail: Tail, mariadb118: DatabaseServer, relay_conf: Callable[..., Path], arguments: tuple[str, ...], code: ExitCode
) -> None:
    folder = relay_conf(mariadb118).parent
    (folder / "text").write_text("hello")
    (folder / "encrypted").write_bytes(b"\xfdbin" + bytes(600))
    shown = tail(*(argument.format(folder) for argument in arguments))
    assert (shown.returncode, shown.stdout) == (code, "")
    assert re.fullmatch(FAILURE, shown.stderr)


def test_it_waits_for_more_and_ends_with_ctrl_c(server: DatabaseServer, db: str, conf: Path) -> None:
    with Program("tail", "-c", conf, "--from", "newest") as process:
        assert "ROTATE" in process.stdout.readline()
        server.execute(f"CREATE TABLE {db}.t (id INT)")
        assert any(f"CREATE TABLE {db}.t" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 128 + signal.SIGINT
        assert process.stderr.read().strip() == ""


def test_a_source_that_is_lost_is_named_with_where_to_go_on(server: DatabaseServer, db: str, conf: Path) -> None:
    start = here(server)
    place = f"{start.file_name}:{start.start_position}"
    with Program("tail", "-c", conf, "--from", place) as process:
        assert "ROTATE" in process.stdout.readline()
        dumps = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
        server.execute(*(f"KILL {row[0]}" for row in server.execute(dumps)))
        assert process.wait(20) == ExitCode.SOURCE
        said = process.stderr.read()
    assert re.fullmatch(FAILURE, said)
    assert f"--from {place})" in said


def test_the_next_host_is_tried_if_one_does_not_answer(tail: Tail, server: DatabaseServer, conf: Path) -> None:
    hosts = "Server.IPAddr=127.0.0.9,127.0.0.1"
    shown = tail("-c", conf, "--from", "newest", "--to-end", "--set", hosts)
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    assert "FORMAT_DESCRIPTION" in shown.stdout


def test_it_ends_quietly_when_its_output_is_closed(server: DatabaseServer, db: str, tmp_path: Path) -> None:
    server.execute("FLUSH BINARY LOGS")
    name = here(server).file_name
    work(server, db)
    path = shutil.copy(folder_of(server) / name, tmp_path)
    with Program("tail", "--json", "--file", *[path] * 20) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == ExitCode.OK
        assert process.stderr.read() == ""


@pytest.mark.parametrize("columns", [80, 200])
def test_in_a_terminal_lines_are_cut_at_its_width(
    mysql97: DatabaseServer, make_db: Callable[..., str], columns: int
) -> None:
    db = make_db(mysql97)
    mysql97.execute("FLUSH BINARY LOGS")
    name = here(mysql97).file_name
    statement = f"CREATE TABLE {db}.t (id INT COMMENT '{'x' * 150}')"
    mysql97.execute(statement)
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "relay", "tail", "--file", str(folder_of(mysql97) / name)]
    with subprocess.Popen(command, stdout=terminal, env={**os.environ, "COLUMNS": ""}) as process:
        os.close(terminal)
        shown = b""
        try:
            while more := os.read(controller, 1 << 16):
                shown += more
        except OSError:  # the terminal is closed
            pass
        os.close(controller)
        assert process.wait(20) == ExitCode.OK
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) == columns
    assert [line for line in lines if line.endswith("…")]


def test_a_file_alone_is_read_with_an_assumed_character_set_and_says_so(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], tail: Tail
) -> None:
    db = make_db(mariadb1011)
    mariadb1011.execute(f"ALTER DATABASE {db} CHARACTER SET latin1", "FLUSH BINARY LOGS")
    name = here(mariadb1011).file_name
    mariadb1011.execute(
        "SET collation_server = latin1_swedish_ci",
        f"CREATE TABLE {db}.t (id INT, a TEXT, b VARCHAR(20))", f"INSERT INTO {db}.t VALUES (1, 'é', 'é')",
        f"ALTER DATABASE {db} CHARACTER SET utf8mb4", f"CREATE TABLE {db}.u (a TEXT)",
        f"INSERT INTO {db}.u VALUES ('é')", "FLUSH BINARY LOGS",
    )  # fmt: skip
    shown = tail("--file", str(folder_of(mariadb1011) / name), "--json", "--rows")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["after"] for row in rows if row.get("schema") == db] == [{"id": 1, "a": "é", "b": "é"}, {"a": "é"}]
    assumed, contradicted = [line for line in shown.stderr.splitlines() if db in line]
    assert "is assumed to be latin1: CREATE TABLE" in assumed
    assert "may be another: ALTER DATABASE" in contradicted


def test_rows_from_now_on_have_names_although_tables_change_while_their_definitions_are_read(
    server: DatabaseServer, db: str, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute(f"CREATE TABLE {db}.t (a ENUM('x', 'y'))")
    read, columns, notes = source_tables.query_all, iter("bc"), list[str]()

    def with_a_step(*arguments: Any) -> Iterator[list[Reply]]:
        replies = read(*arguments)
        yield next(replies)
        for column in columns:
            server.execute(f"INSERT INTO {db}.t (a) VALUES ('x')", f"ALTER TABLE {db}.t ADD {column} INT FIRST")
            break
        yield from replies

    monkeypatch.setattr(source_tables, "query_all", with_a_step)
    config, _ = load(str(conf), {}, {})
    form = Form(tables=(f"{db}.*",), rows=True, json=True)
    rows = from_source(config, "newest", False, form, notes.append)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, rows)

        def came() -> bool:
            server.execute(f"INSERT INTO {db}.t (a) VALUES ('x')")  # one behind the end of the binlog that it read
            return first.done()

        until(came)
        assert json.loads(first.result())["after"] == {"c": None, "b": None, "a": "x"}
    assert not notes
