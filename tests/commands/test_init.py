"""`relay init` at a real terminal and without one, on real servers: the file that it writes starts a relay."""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.cli import run
from relay.client import RelayClient
from relay.config import ini
from relay.config.load import load
from relay.errors import ExitCode, RelayError
from tests.support.relay_process import Program, RelayProcess
from tests.support.terminal import Terminal
from tests.support.waiting import until

CTRL_C = b"\x03"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The file to write, in a folder of its own, so that anything left behind shows."""
    folder = tmp_path / "conf"
    folder.mkdir()
    return folder / "relay.conf"


def ports() -> list[str]:
    """Free ports for a relay beside others."""
    return ["--set", f"Server.ServerPort={free_port()}", "--set", f"Server.HTTPPort={free_port()}"]


def known(server: DatabaseServer, data: Path) -> list[str]:
    """All that is asked for, except secrets."""
    flags = {"Server.Port": server.port, "Server.Login": USER, "Relay.DataDir": data}
    return [*ports(), *(word for flag, value in flags.items() for word in ("--set", f"{flag}={value}"))]


@contextmanager
def started(conf: Path) -> Iterator[RelayProcess]:
    """A relay with that file."""
    relay = RelayProcess(conf)
    try:
        yield relay.start()
    finally:
        relay.end()


def test_answers_at_a_terminal_become_a_file_that_starts_a_relay_and_delivers_a_row(
    mysql97: DatabaseServer, conf: Path, tmp_path: Path, make_db: Callable[[DatabaseServer], str]
) -> None:
    with Terminal("init", "-c", conf, *ports()) as terminal:
        terminal.answer("Host of the source [127.0.0.1]: ", "")
        terminal.answer("Port of the source [3306]: ", "many")
        terminal.answer("is not a whole number\nPort of the source [3306]: ", str(mysql97.port))
        terminal.answer("Account on the source: ", USER)
        terminal.answer("Password of that account: ", PASSWORD)
        terminal.answer("Secret of the clients (empty: a new one): ", "")
        terminal.answer("Folder for data [", str(tmp_path / "data"))
        assert terminal.wait() == ExitCode.OK
        assert f"MySQL {mysql97.execute('SELECT VERSION()')[0][0]}" in terminal.screen
        assert f"  relay start -c {conf}\n  relay tail -c {conf} " in terminal.screen
        assert PASSWORD not in terminal.screen
    assert conf.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in conf.parent.iterdir()] == [conf.name]
    secret = load(str(conf), {}, {})[0].server.auth_secret
    assert len(secret) == 32 and secret not in terminal.screen
    db = make_db(mysql97)
    mysql97.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    with started(conf) as relay, RelayClient("127.0.0.1", relay.port, "first", secret) as client:
        client.add_filter(db, "t")
        mysql97.execute(f"INSERT INTO {db}.t VALUES (7)")
        row = until(client.poll)
    assert row.after == {"id": 7}


def test_without_a_terminal_options_and_environment_become_a_file_whose_relay_delivers_a_row_to_tail(
    mariadb118: DatabaseServer,
    conf: Path,
    tmp_path: Path,
    make_db: Callable[[DatabaseServer], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RELAY_SERVER_PASSWORD", PASSWORD)
    assert run(["init", "-c", str(conf), *known(mariadb118, tmp_path / "data")]) == ExitCode.OK
    monkeypatch.delenv("RELAY_SERVER_PASSWORD")
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    with started(conf) as relay, Program("tail", "-c", conf) as tail:
        until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
        mariadb118.execute(f"INSERT INTO {db}.t VALUES (7)")
        assert json.loads(tail.stdout.readline())["after"] == {"id": 7}


def test_without_a_terminal_the_missing_keys_are_named_and_nothing_is_asked(
    conf: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["init", "-c", str(conf)]) == ExitCode.USAGE
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("relay: init: Server.Login and Server.Password must be given")
    assert "--set Server.Login=..." in shown.err
    assert "RELAY_SERVER_LOGIN, RELAY_SERVER_PASSWORD" in shown.err
    monkeypatch.setenv("RELAY_SERVER_LOGIN", USER)
    assert run(["init", "-c", str(conf)]) == ExitCode.USAGE
    assert "init: Server.Password must be given" in capfd.readouterr().err
    assert not list(conf.parent.iterdir())


def test_a_url_gives_the_source_beforehand(mysql97: DatabaseServer, conf: Path, tmp_path: Path) -> None:
    url = f"mysql://{USER}:{PASSWORD}@127.0.0.1:{mysql97.port}/"
    command = ["init", url, "-c", str(conf), *ports(), "--set", f"Relay.DataDir={tmp_path / 'data'}"]
    assert run(command) == ExitCode.OK
    server = load(str(conf), {}, {})[0].server
    assert (server.ip_addr, server.port, server.login, server.password) == (
        ["127.0.0.1"], mysql97.port, USER, PASSWORD,
    )  # fmt: skip


def test_a_file_is_not_overwritten_without_a_yes_or_force(
    mysql97: DatabaseServer, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_SERVER_PASSWORD", PASSWORD)
    command = ["init", "-c", str(conf), *known(mysql97, tmp_path / "data")]
    conf.write_text("mine\n")
    with Terminal(*command) as terminal:
        terminal.answer("relay.conf exists. Overwrite it? [y/N]: ", "")
        assert terminal.wait() == ExitCode.USAGE
    assert run([*command, "--yes"]) == ExitCode.USAGE
    assert conf.read_text() == "mine\n"
    assert run([*command, "--force"]) == ExitCode.OK
    assert f"Login = {USER}\n" in conf.read_text()
    assert conf.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("answer", "code"), [("n", ExitCode.CHECK_FAILED), ("y", ExitCode.OK)])
def test_if_a_check_fails_a_terminal_is_asked_whether_to_write(
    conf: Path, tmp_path: Path, answer: str, code: ExitCode
) -> None:
    flags = [f"Server.Port={free_port()}", f"Server.Login={USER}", f"Relay.DataDir={tmp_path / 'data'}"]
    command = ["init", "-c", str(conf), *ports(), *(word for flag in flags for word in ("--set", flag))]
    with Terminal(*command, "--set", "Server.IPAddr=127.0.0.1") as terminal:
        terminal.answer("Password of that account: ", "wrong")
        terminal.answer("Secret of the clients", "chosen")
        terminal.answer("1 finding prevents the relay from working. Write ", answer)
        assert terminal.wait() == code
        assert "Connection refused" in terminal.screen
    assert conf.exists() == (answer == "y")
    assert not conf.exists() or load(str(conf), {}, {})[0].server.auth_secret == "chosen"


def test_if_a_check_fails_without_a_terminal_only_yes_writes(
    mysql97: DatabaseServer,
    conf: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RELAY_SERVER_PASSWORD", "wrong")
    command = ["init", "-c", str(conf), *known(mysql97, tmp_path / "data")]
    assert run(command) == ExitCode.CHECK_FAILED
    shown = capfd.readouterr()
    assert "Access denied" in shown.out and "GRANT REPLICATION SLAVE" in shown.out
    assert "--yes writes the file all the same" in shown.err
    assert not list(conf.parent.iterdir())
    assert run([*command, "--yes"]) == ExitCode.OK
    assert conf.exists()


def test_ctrl_c_leaves_nothing_behind(conf: Path) -> None:
    with Terminal("init", "-c", conf, "--set", f"Server.Login={USER}") as terminal:
        terminal.answer("Host of the source", "")
        terminal.answer("Port of the source", "")
        terminal.press("Password of that account: ", b"half" + CTRL_C)
        assert terminal.wait() == 128 + signal.SIGINT
        assert terminal.echoes()
    assert not list(conf.parent.iterdir())


def test_secrets_stay_in_files_of_their_own_and_paths_are_found_from_anywhere(
    mariadb118: DatabaseServer, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("password").write_text(PASSWORD + "\n")
    Path("secret").write_text("s\n")
    files = ["--set", "Server.PasswordFile=password", "--set", "Server.AuthSecretFile=secret"]
    assert run(["init", "-c", str(conf), *known(mariadb118, Path("data")), *files]) == ExitCode.OK
    monkeypatch.chdir("/")
    config = load(str(conf), {}, {})[0]
    assert (config.server.password, config.server.auth_secret) == (PASSWORD, "s")
    assert config.relay.data_dir == str(tmp_path / "data")
    assert f"PasswordFile = {tmp_path / 'password'}\n" in conf.read_text()
    assert PASSWORD not in conf.read_text()


@pytest.mark.parametrize("value", ["plain", "", " blanks ", '"quoted"', '"', '""', "a = b ; # //", "é\udcff", "end\r"])
def test_any_value_is_read_back_as_it_was_given(value: str) -> None:
    content = f"[Server]\n{ini.line('Password', value)}\n".encode("utf-8", "surrogateescape")
    ([entry], ignored) = ini.parse(content, "relay.conf")
    assert (entry.section, entry.key, entry.value, ignored) == ("Server", "Password", value, [])


def test_a_value_with_a_line_break_is_refused() -> None:
    with pytest.raises(RelayError, match="Password has a line break"):
        ini.line("Password", "a\nb")


def test_the_file_belongs_to_the_user_that_the_relay_becomes(conf: Path, tmp_path: Path) -> None:
    user = pwd.getpwnam("daemon") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    settings = {
        "Relay.User": user.pw_name, "Relay.DataDir": tmp_path / "data", "Server.Port": free_port(),
        "Server.Login": USER, "Server.Password": PASSWORD,
    }  # fmt: skip
    flags = [word for flag, value in settings.items() for word in ("--set", f"{flag}={value}")]
    assert run(["init", "-c", str(conf), "--yes", *ports(), *flags]) == ExitCode.OK
    found = conf.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (user.pw_uid, 0o600)


def test_a_folder_that_cannot_be_written_to_is_reported_before_anything_is_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "-c", str(tmp_path / "none" / "relay.conf")]) == ExitCode.ENVIRONMENT
    assert f"cannot write to {tmp_path / 'none'}" in capfd.readouterr().err


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(conf: Path, tmp_path: Path) -> None:
    conf.mkdir()
    flags = [f"Server.Port={free_port()}", f"Server.Login={USER}", "Server.Password=", f"Relay.DataDir={tmp_path}"]
    command = ["init", "-c", str(conf), "--force", "--yes", *(word for flag in flags for word in ("--set", flag))]
    assert run(command) == ExitCode.ENVIRONMENT
    assert list(conf.parent.iterdir()) == [conf]


def test_a_command_for_the_password_is_kept_and_no_password_is_asked_for(
    mysql97: DatabaseServer, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From now on the server knows the password, and asks nobody for it in readable form.
    mysql97.connect(unix_socket=None, host="127.0.0.1", port=mysql97.port, user=USER, password=PASSWORD).close()
    tool = tmp_path / "print token"
    tool.write_text(f"#!/bin/sh\necho {PASSWORD}\n")
    tool.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    command = ["init", "-c", str(conf), *known(mysql97, tmp_path / "data")]
    assert run([*command, "--set", "Server.PasswordCommand='./print token' {host}"]) == ExitCode.OK
    monkeypatch.chdir("/")
    assert load(str(conf), {}, {})[0].server.password == (f"{tmp_path}/./print token", "{host}")
