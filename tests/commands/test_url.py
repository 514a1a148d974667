"""Commands with the URL of a source and no configuration, on real servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.config.load import load
from relay.errors import ExitCode
from tests.support.relay_process import RELAY, Program, RelayProcess, run_relay
from tests.support.terminal import Terminal
from tests.support.waiting import patience, until

USUAL = (6001, 6081)


def url_of(server: DatabaseServer, password: str | None = PASSWORD) -> str:
    return f"mysql://{USER}{'' if password is None else f':{password}'}@127.0.0.1:{server.port}/"


@pytest.fixture
def db(server: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    name = make_db(server)
    server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(9))")
    server.execute(f"CREATE TABLE {name}.other (id INT PRIMARY KEY)")
    return name


@contextmanager
def started(tmp_path: Path, *arguments: str) -> Iterator[RelayProcess]:
    """`relay start` with these arguments and its data in a folder that did not exist."""
    relay = RelayProcess(tmp_path / "data" / "relay.conf", *ports())
    relay.stdout, relay.stderr = tmp_path / "out", tmp_path / "err"
    relay.configured_by = (*arguments, "--data", tmp_path / "data")
    try:
        yield relay.start()
    finally:
        relay.end()


def ports() -> list[str]:
    return ["--set", f"Server.ServerPort={free_port()}", "--set", f"Server.HTTPPort={free_port()}"]


def shown_arguments(pid: int) -> str:
    """The command line of a process, as `ps` shows it to every user."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def test_tail_prints_the_rows_that_change_in_the_tables_named_and_ps_shows_no_password(
    server: DatabaseServer, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = tmp_path / "lines"
    with lines.open("wb") as output:
        tail = subprocess.Popen([*RELAY, "tail", url_of(server), f"{db}.t"], stdout=output)
    ids = iter(range(1000))

    def printed() -> list[dict[str, Any]]:
        """The documents, after one more insert: what came before it read the binlog's end is not there."""
        server.execute(f"INSERT INTO {db}.other VALUES ({(number := next(ids))})")
        server.execute(f"INSERT INTO {db}.t VALUES ({number}, 'v{number}')")
        return [json.loads(line) for line in lines.read_text().splitlines(keepends=True) if line.endswith("\n")]

    try:
        found = until(printed)
        assert shown_arguments(tail.pid).endswith(f"tail {url_of(server, None)} {db}.t")
        for document in found:
            number = document["after"]["id"]
            values = {"id": number, "v": f"v{number}"}
            assert {name: document[name] for name in ("kind", "schema", "table", "before", "after")} == {
                "kind": "insert", "schema": db, "table": "t", "before": None, "after": values,
            }  # fmt: skip
    finally:
        tail.send_signal(signal.SIGINT)
        assert tail.wait(patience(20)) == 128 + signal.SIGINT


def test_a_relay_without_a_configuration_serves_and_keeps_all_but_the_password_for_the_next_start(
    server: DatabaseServer, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    conf = data / "relay.conf"
    with started(tmp_path, url_of(server)) as relay:
        assert relay.ready.endswith(f" config={conf}")
        assert "AuthSecret of" in relay.stderr.read_text() and str(conf) in relay.stderr.read_text()
        assert PASSWORD not in shown_arguments(relay.pid)
        assert conf.stat().st_mode & 0o777 == 0o600 and data.stat().st_mode & 0o777 == 0o700
        secret = load(str(conf), {}, {})[0].server.auth_secret
        assert len(secret) == 32 and PASSWORD not in conf.read_text()
        with Program("tail", "--data", data, *relay.flags) as tail:
            until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
            server.execute(f"INSERT INTO {db}.t VALUES (7, 'a')")
            assert json.loads(tail.stdout.readline())["after"] == {"id": 7, "v": "a"}
        assert json.loads(run_relay("stat", "--json", "--data", data).stdout)["state"] == "running"
        assert relay.stop() == 0
    monkeypatch.setenv("RELAY_PASSWORD", PASSWORD)
    with started(tmp_path) as relay:
        assert load(str(conf), {}, {})[0].server.auth_secret == secret
        assert relay.stat()["state"] == "running"


def test_ports_in_use_are_replaced_by_free_ones_in_the_configuration_that_is_made(tmp_path: Path) -> None:
    with ExitStack() as held:
        for port in USUAL:
            with suppress(OSError):  # somebody else's
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        done = run_relay(
            "start", "mysql://u:p@127.0.0.1:1/", "--data", tmp_path / "data", "--set", "Relay.Workers=none"
        )
    assert done.returncode == ExitCode.CONFIG, done.stderr
    server = load(str(tmp_path / "data" / "relay.conf"), {}, {})[0].server
    assert server.bind_address == "127.0.0.1"
    assert not {server.server_port, server.http_port} & {*USUAL, 0}


@pytest.mark.parametrize(("password", "code"), [(PASSWORD, ExitCode.OK), ("wrong", ExitCode.CHECK_FAILED)])
def test_a_password_that_is_nowhere_is_asked_for_at_a_terminal(
    server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, code: ExitCode
) -> None:
    monkeypatch.chdir(tmp_path)
    with Terminal("check", url_of(server, None)) as terminal:
        terminal.answer(f"Password of {USER}@127.0.0.1: ", password)
        assert terminal.wait() == code, terminal.screen
        assert password not in terminal.screen
        assert "DataDir" not in terminal.screen, "a URL alone is about the source"


def test_a_terminal_shows_that_the_relay_is_ready_once_and_what_to_do_without_a_source(tmp_path: Path) -> None:
    with Terminal("start", "mysql://u:p@127.0.0.1:1/", "--data", tmp_path / "data", *ports()) as terminal:
        terminal.press("ready classic=", b"")
        terminal.press("hint=", b"\x03")
        assert terminal.wait() == ExitCode.OK, terminal.screen
    assert terminal.screen.count("ready classic=") == 1
    assert "check that the server runs" in terminal.screen


def test_without_a_terminal_a_password_that_is_nowhere_is_missed_by_name(
    server: DatabaseServer, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*RELAY, "tail", url_of(server, None)], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()}, check=False, timeout=patience(60),
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    assert f"there is no password for {USER}@127.0.0.1 (hint: set RELAY_PASSWORD" in done.stderr


def test_a_folder_without_a_configuration_asks_for_the_url(tmp_path: Path) -> None:
    for command in ("start", "stat", "tail"):
        done = run_relay(command, "--data", tmp_path)
        assert done.returncode == ExitCode.CONFIG
        assert f"{tmp_path}/relay.conf" in done.stderr and "relay start mysql://LOGIN@HOST/" in done.stderr
    done = run_relay("stat", "--data", tmp_path, "-c", tmp_path / "relay.conf")
    assert done.returncode == ExitCode.USAGE
