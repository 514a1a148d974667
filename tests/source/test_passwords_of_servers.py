"""Passwords from a command on real servers: every connection asks anew, and nothing is lost while they change."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pymysql
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.base.log import logger
from relay.client import RelayClient
from relay.commands import tail
from relay.commands.checks.source import check
from relay.commands.text.events import Form
from relay.config.values import Command
from relay.errors import ErrorCode, ExitCode, RelayError, StopCode
from relay.ingest import hosts
from relay.repair import run as repair
from relay.source import passwords
from relay.source.connect import Account, connect
from relay.verify import run as verify
from tests.ingest.test_source_login import WORD, FakeSource
from tests.net.test_certificates import HERE, Certificates
from tests.repair.test_repair import spoil_rows
from tests.support.fault_proxy import FaultProxy
from tests.support.pam_server import TOKEN_USER, pam_server
from tests.support.purging import purge
from tests.support.reader_process import Reader
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o700)
    return path


def connections(server: DatabaseServer, user: str) -> list[int]:
    return [row[0] for row in server.execute(f"SELECT id FROM information_schema.processlist WHERE user = '{user}'")]


def kill(server: DatabaseServer, *users: str) -> None:
    for user in users:
        for number in connections(server, user):
            with suppress(pymysql.err.OperationalError):  # one that has ended meanwhile
                server.execute(f"KILL {number}")


ROTATING = """#!{python}
import secrets, sys, pymysql
word = secrets.token_hex(12)
with pymysql.connect(unix_socket={socket!r}, user="root", ssl_disabled=True) as connection:
    connection.cursor().execute(f"ALTER USER {{sys.argv[1]}}@'%' IDENTIFIED BY '{{word}}'")
open({calls!r}, "a").write(word + " " + " ".join(sys.argv[1:]) + "\\n")
print(word)
"""


@pytest.mark.parametrize("kind", ["mysql97"])
def test_each_connection_of_the_reader_has_a_password_of_its_own(
    own_server: Callable[..., DatabaseServer], kind: str, make_reader: Callable[..., Reader], tmp_path: Path,
    certificates: Certificates,
) -> None:  # fmt: skip
    certificates.use("right")
    server = own_server(
        kind, f"--ssl-ca={certificates.ca}", f"--ssl-cert={certificates.cert}", f"--ssl-key={certificates.key}"
    )
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "CREATE USER looker@'%'",
                   "GRANT SELECT ON *.* TO looker@'%'")  # fmt: skip
    calls = tmp_path / "calls"
    rotate = program(
        tmp_path / "rotate", ROTATING.format(python=sys.executable, socket=server.socket, calls=str(calls))
    )
    command = f"{rotate} {{login}} {{host}}:{{port}}"
    with FaultProxy(server.port, HERE) as proxy:
        settings = {
            "Server.Port": str(proxy.port), "Server.Password": "", "Server.PasswordCommand": command,
            "Server.SourceTLS": "verify", "Server.SourceCA": str(certificates.ca),
            "MySQL.Login": "looker", "MySQL.PasswordCommand": command,
        }  # fmt: skip
        running = make_reader(server, settings).streaming()
        for number in range(3):
            server.execute(f"INSERT INTO d.t VALUES ({2 * number})")
            proxy.cut()  # and no KILL: that of MySQL spins until the other thread wakes, and was seen to hang
            server.execute(f"INSERT INTO d.t VALUES ({2 * number + 1})")
            running.until(lambda: running.count() == 2 * number + 2)  # noqa: B023
        address = f"{HERE}:{proxy.port}"
    called = [line.split() for line in calls.read_text().splitlines()]
    assert {(login, at) for _, login, at in called} == {(USER, address), ("looker", address)}
    assert len({word for word, *_ in called}) == len(called) >= 4 * 2


def test_a_command_that_hangs_delays_neither_heartbeats_nor_rows_nor_the_end(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Callable[..., Reader],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(passwords, "TIMEOUT", 1e6)
    hangs, pid = tmp_path / "hangs", tmp_path / "pid"
    script = program(
        tmp_path / "p", f"#!/bin/sh\n[ -e {hangs} ] && echo $$ > {pid} && exec sleep 1000\necho {PASSWORD}\n"
    )
    running = make_reader(mariadb118, {"Server.Password": "", "Server.PasswordCommand": str(script)}).streaming()
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    hangs.touch()
    until(pid.exists, what="an idle source is not checked over a connection of its own")
    mariadb118.execute(f"INSERT INTO {db}.t VALUES (1)")
    running.until(lambda: running.count() == 1)
    kill(mariadb118, USER)
    running.until(lambda: running.arena.source_state == "reconnecting")
    pid.unlink()
    until(pid.exists)
    beat = running.arena.heartbeat(0)
    running.until(lambda: running.arena.heartbeat(0) > beat)
    assert running.signal(signal.SIGTERM) == 0
    assert not Path(f"/proc/{pid.read_text().strip()}/cmdline").exists(), "the command outlives the reader"


def test_a_password_that_stays_wrong_ends_the_attempts(
    mariadb118: DatabaseServer, make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "TOKEN_SECONDS", 1.0)
    running = make_reader(mariadb118, {"Server.Password": "", "Server.PasswordCommand": "echo wrong"})
    running.until(lambda: running.arena.source_state == "reconnecting")
    assert running.wait() == ExitCode.SOURCE
    assert running.stop("code") == StopCode.SOURCE_DENIED and "Access denied" in running.stop("text")


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_whole_relay_goes_on_while_passwords_change_and_shows_that_there_is_none(
    own_server: Callable[..., DatabaseServer], kind: str, start_relay: Callable[..., RelayProcess], tmp_path: Path
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2)")
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    settings = {
        "Server.Password": "", "Server.PasswordCommand": f"cat {secret}", "Relay.LogFormat": "json",
        "Lake.Path": tmp_path / "lake", "Lake.RollSeconds": "1s",
    }  # fmt: skip
    relay = start_relay(server, settings)
    until(lambda: relay.logged("snapshot_done"), what="the snapshotter does not log in")
    with RelayClient(HERE, relay.port, "client", SECRET) as client:
        client.add_filter("d")
        for number in range(2):
            word = f"altered-{number}"
            # In this order, the source rejects the password for a while.
            server.execute(f"ALTER USER {USER}@'%' IDENTIFIED BY '{word}'", f"INSERT INTO d.t VALUES ({number + 10})")
            kill(server, USER)
            until(lambda: len(relay.logged("source_lost")) > number)  # noqa: B023
            secret.write_text(word)
            until(lambda: relay.stat()["source"]["state"] == "streaming", what="it does not log in again")
        secret.unlink()
        failure = "PasswordCommand cat exited with status 1: cat: "

        def without_password() -> bool:
            kill(server, USER)  # a login may have been under way that still had it
            source = relay.stat()["source"]
            return source["state"] == "no_password" and failure in source["watch"]["trouble"]

        until(without_password, what="the page does not say why")
        assert failure in relay.logged("password_failed")[0]["cause"]
        secret.write_text(word)
        server.execute("INSERT INTO d.t VALUES (20)")
        rows = [client.poll(wait=patience(20)) for _ in range(3)]
        assert [row.after["id"] for row in rows if row and row.after] == [10, 11, 20], "each row once"
    assert relay.stop() == 0
    text = relay.stderr.read_text() + relay.stdout.read_text()
    assert PASSWORD not in text and "altered-" not in text


def test_all_commands_log_in_with_what_the_command_prints(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Callable[..., Reader],
    tmp_path: Path,
) -> None:  # fmt: skip
    purge(mariadb118)
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    settings = {"Server.Password": "", "Server.PasswordCommand": f"cat {secret}", "Source.StartPosition": "oldest"}
    running = make_reader(mariadb118, settings).streaming()
    db = make_db(mariadb118)
    mariadb118.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    running.until(lambda: running.count() == 1)
    assert running.signal(signal.SIGTERM) == 0
    spoil_rows(running.journal_dir)
    config = running.context.config

    def repaired() -> RelayError | None:
        [finding] = repair.run(config, True, lambda _: None, lambda _: None, logger("repair"))
        return finding.failure

    def verified() -> int:
        return verify.run(config, "oldest", "newest", lambda _: None).differences

    def events() -> list[str]:
        return list(tail.from_source(config, "oldest", True, Form(), print))

    def failed_checks() -> list[str]:
        return [str(finding) for finding in check(config, HERE, None) if "PasswordCommand" in finding.text]

    secret.unlink()
    errors = [repaired()]
    for command in (verified, events):
        with pytest.raises(RelayError) as failed:
            command()
        errors.append(failed.value)
    for error in errors:
        assert error is not None and "PasswordCommand cat exited with status 1: cat: " in str(error)
        assert (error.code, error.exit_code) == (ErrorCode.PASSWORD_COMMAND, ExitCode.SOURCE)
    assert len(failed_checks()) == 1 and "as the relay's user" in failed_checks()[0]
    secret.write_text(PASSWORD)
    assert repaired() is None
    assert verified() == 0
    assert len(events()) > 3
    assert failed_checks() == []


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("switch", [b"", b"sha256_password", b"mysql_clear_password"])
def test_what_a_command_prints_is_sent_in_readable_form_to_verified_sources_only(
    tmp_path: Path, switch: bytes, tls: bool
) -> None:
    with FakeSource(HERE, tmp_path, b"caching_sha2_password", switch, tls=tls) as fake:
        account = Account(
            HERE, fake.port, "relay", Command(("echo", WORD.decode())), "required" if tls else "off",
            keys=("first-use",), pins=str(tmp_path / "pins"), send=True,
        )  # fmt: skip
        with pytest.raises(RelayError) as refused:
            connect(account)
        assert WORD not in fake.told
        assert refused.value.code is StopCode.SOURCE_DENIED and "SourceTLS = verify" in refused.value.hint


@pytest.mark.parametrize("kind", ["mariadb118"])
def test_a_server_that_takes_tokens_gets_them_in_clear_text_inside_verified_tls(
    kind: str, certificates: Certificates, make_reader: Callable[..., Reader], tmp_path: Path
) -> None:
    certificates.use("right")
    options = (f"--ssl-ca={certificates.ca}", f"--ssl-cert={certificates.cert}", f"--ssl-key={certificates.key}")
    token = tmp_path / "token"
    with pam_server(kind, *options) as server:
        long = "t" * 500  # PAM reads no more than 511
        server.accept(long)
        token.write_text(long)
        account = Account(HERE, server.port, TOKEN_USER, Command(("cat", str(token))), "verify", str(certificates.ca))
        connect(account).close()
        for mode in ("required", "off"):
            with pytest.raises(RelayError) as refused:
                connect(msgspec.structs.replace(account, tls=mode, send=True))
            assert refused.value.code is StopCode.SOURCE_DENIED and "SourceTLS = verify" in refused.value.hint
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
        settings = {
            "Server.Login": TOKEN_USER, "Server.Password": "", "Server.PasswordCommand": f"cat {token}",
            "Server.SourceTLS": "verify", "Server.SourceCA": str(certificates.ca),
        }  # fmt: skip
        running = make_reader(server, settings).streaming()
        for number in range(3):
            server.accept(f"token-{number}")
            token.write_text(f"token-{number}")
            server.execute(f"INSERT INTO d.t VALUES ({number})")
            kill(server, TOKEN_USER)
            running.until(lambda: running.arena.source_state == "streaming" and running.count() == number + 1)  # noqa: B023
