"""The command line on real relays: every command does its work, every failure is one line with the documented code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from examples.dbserver import DatabaseServer
from relay import __version__
from relay.cli import run
from relay.client import RelayClient
from relay.commands.app import cli
from relay.errors import ExitCode
from tests.support.relay_process import RELAY, SECRET, Program, RelayProcess, run_relay
from tests.support.waiting import until

CONF = "[Server]\nLogin = relay\nAuthSecret = s\nServerPort = 1\nHTTPPort = 2\n"
Start = Callable[..., RelayProcess]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A configuration that no relay runs with."""
    path = tmp_path / "relay.conf"
    path.write_text(f"{CONF}[Relay]\nDataDir = {tmp_path / 'data'}\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="session")
def server(mariadb1011: DatabaseServer) -> DatabaseServer:
    """One kind of server is enough here: the commands know nothing of the source."""
    return mariadb1011


def stat_of(relay: RelayProcess) -> dict[str, Any]:
    """What `relay stat --json` prints."""
    shown = run_relay("stat", "--json", "-c", relay.conf)
    assert (shown.returncode, shown.stderr) == (ExitCode.OK, "")
    document: dict[str, Any] = json.loads(shown.stdout)
    return document


def client_in(relay: RelayProcess, name: str) -> dict[str, Any]:
    """The client of that name in the stat document."""
    (found,) = (client for client in relay.stat()["clients"] if client["name"] == name)
    return dict(found)


@pytest.fixture
def table(server: DatabaseServer, db: str) -> str:
    """A table with a key, `db.t`."""
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    return f"{db}.t"


def subscribe(relay: RelayProcess, name: str, table: str) -> None:
    """Make a client known that asks for a table and goes away."""
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        client.add_filter(*table.split("."))


def insert(server: DatabaseServer, table: str, ids: range) -> None:
    """One transaction of rows."""
    server.execute(f"INSERT INTO {table} VALUES {', '.join(f'({number}, NULL)' for number in ids)}")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for no host in particular, and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "relay")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("stat", "-c", "{}/none.conf"), ExitCode.CONFIG),
        (("stat", "-c", "{}/relay.conf", "--set", "Server.Prot=1"), ExitCode.CONFIG),
        (("stat", "-c", "{}/relay.conf", "--set", "x"), ExitCode.USAGE),
        (("stat", "--no-such-flag"), ExitCode.USAGE),
        (("no-such-command",), ExitCode.USAGE),
        (("client", "seek", "only-a-name", "-c", "{}/relay.conf"), ExitCode.USAGE),
        (("tail", "-c", "{}/relay.conf", "no-schema"), ExitCode.USAGE),
        (("stat", "-c", "{}/relay.conf"), ExitCode.NOT_RUNNING),
        (("stat", "--watch", "-c", "{}/relay.conf"), ExitCode.NOT_RUNNING),
        (("stop", "-c", "{}/relay.conf"), ExitCode.NOT_RUNNING),
        (("tail", "-c", "{}/relay.conf"), ExitCode.NOT_RUNNING),
        (("pause", "-c", "{}/relay.conf"), ExitCode.NOT_RUNNING),
        (("pause", "--tcp", "-c", "{}/relay.conf"), ExitCode.REFUSED),
        (("pause", "--tcp", "-c", "{}/relay.conf", "--set", "Server.AdminSecret=a"), ExitCode.NOT_RUNNING),
        (
            ("pause", "--tcp", "-c", "{}/relay.conf", "--set", "Server.AdminSecret=a", "--set", "Server.ServerPort=0"),
            ExitCode.USAGE,
        ),
        (("start", "-c", "{}/relay.conf", "--set", "Relay.DataDir=/proc/1/nowhere"), ExitCode.ENVIRONMENT),
    ],
)
def test_every_failure_is_one_line_with_a_hint_and_its_code(
    conf: Path, arguments: tuple[str, ...], code: ExitCode, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([argument.format(conf.parent) for argument in arguments]) == code
    shown = capfd.readouterr()
    assert shown.out == ""
    assert re.fullmatch(r"relay: [^\n]+ \(hint: [^\n]+\)\n", shown.err)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "usage: no lake, and no configuration that names one (hint: give --lake PATH, "),
        (("--lake", "lake", "--plot", "none/usage.png"), "usage: Invalid value for '--plot': there is no folder '/"),
    ],
)
def test_a_job_that_lacks_its_lake_or_cannot_write_is_refused_at_once(
    arguments: tuple[str, ...],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["spark", "usage", *arguments]) == ExitCode.USAGE
    assert capfd.readouterr().err.startswith(f"relay: {error}")


def test_the_version_is_printed() -> None:
    assert run_relay("--version").stdout == f"relay {__version__}\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [("relay st", "start stat stop"), ("relay client ki", "kick"), ("relay start --a", "--accept-gap")],
)
def test_a_shell_completes_commands_and_options(words: str, found: str) -> None:
    script = run_relay("completion", "bash").stdout
    assert "_RELAY_COMPLETE=bash_complete" in script
    asked = {"_RELAY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(RELAY, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"plain,{word}" for word in found.split()]


def test_every_command_is_found_where_it_is_said_to_be() -> None:
    context = click.Context(cli)
    listed = cli.list_commands(context)
    for command in listed:
        assert cli.get_command(context, command), command
    assert listed == sorted(cli.commands)


def test_every_command_takes_a_configuration(capfd: pytest.CaptureFixture[str]) -> None:
    plain = ("stat", "start", "drain", "stop", "check", "tail", "pause", "resume", "explain")
    for command in (*plain, *(f"client {name}" for name in ("flush", "forget", "seek", "list", "kick"))):
        assert run([*command.split(), "--help"]) == ExitCode.OK
        assert "-c, --config FILE" in capfd.readouterr().out


def test_a_missing_native_core_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    shadow = tmp_path / "sitecustomize.py"
    shadow.write_text("import sys\nsys.modules['relay._native'] = None\n")
    failed = subprocess.run(
        [*RELAY, "stat"], env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}, capture_output=True, text=True
    )
    assert failed.returncode == ExitCode.ENVIRONMENT
    assert "make setup" in failed.stderr


def test_warnings_of_the_configuration_are_told_at_start_and_check(conf: Path) -> None:
    conf.write_text(conf.read_text() + "[MySQL]\ndatabase = x\n")
    told = run_relay("check", "-c", conf)
    assert f"relay: warning: {conf}:9: [MySQL] database has no effect here\n" in told.stderr


def test_stat_shows_the_running_relay_as_text_and_as_json(relay: RelayProcess) -> None:
    document = stat_of(relay)
    assert document["version"] == __version__
    assert {process["name"] for process in document["processes"]} >= {"reader", "broker", "monitor", "server-0"}
    text = run_relay("stat", "-c", relay.conf).stdout
    assert text.startswith(f"relay {__version__}: ")
    assert max(map(len, text.splitlines())) <= 80


def test_commands_go_over_tls_where_the_port_requires_it(
    mariadb1011: DatabaseServer, start_relay: Start, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    settings: dict[str, object] = {"Server.TLS": "required", "Server.TLSCert": certificate, "Server.TLSKey": key}
    relay = start_relay(mariadb1011, settings)
    assert stat_of(relay)["version"] == __version__
    assert json.loads(run_relay("stat", "--tcp", "--json", "-c", relay.conf).stdout)["version"] == __version__
    assert run_relay("stop", "--tcp", "-c", relay.conf).returncode == ExitCode.OK


def test_stat_watches_until_interrupted(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with Program("stat", "--json", "--watch", "-c", relay.conf) as watching:
        assert [json.loads(watching.stdout.readline())["version"] for _ in range(2)] == [__version__] * 2
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 128 + signal.SIGINT


def test_a_clients_queue_can_be_flushed_moved_and_forgotten(
    relay: RelayProcess, server: DatabaseServer, table: str
) -> None:
    subscribe(relay, "a", table)
    insert(server, table, range(5))
    until(lambda: client_in(relay, "a")["waiting"] == 5)
    flushed = run_relay("client", "flush", "a", "-c", relay.conf)
    assert (flushed.returncode, flushed.stdout) == (ExitCode.OK, "flushed a: 5 rows dropped\n")
    until(lambda: client_in(relay, "a")["waiting"] == 0)
    assert client_in(relay, "a")["dropped"]["flush"] == 5
    moved = run_relay("client", "seek", "a", "oldest", "-c", relay.conf)
    assert (moved.returncode, moved.stderr) == (ExitCode.OK, "")
    forgotten = run_relay("client", "forget", "a", "-c", relay.conf)
    assert (forgotten.returncode, forgotten.stdout) == (ExitCode.OK, "forgot a\n")
    until(lambda: not relay.stat()["clients"])
    assert run_relay("client", "flush", "a", "-c", relay.conf).returncode == ExitCode.REFUSED


def test_tail_prints_changes_as_json_lines_and_leaves_no_client_behind(
    relay: RelayProcess, server: DatabaseServer, table: str
) -> None:
    with Program("tail", "-c", relay.conf, table) as tail:
        until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
        server.execute(f"INSERT INTO {table} VALUES (1, 'é\n')", f"UPDATE {table} SET v = NULL", f"DELETE FROM {table}")
        rows = [json.loads(tail.stdout.readline()) for _ in range(3)]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(10) == 128 + signal.SIGINT
    schema, _, name = table.partition(".")
    assert [(row["kind"], row["schema"], row["table"]) for row in rows] == [
        (kind, schema, name) for kind in ("insert", "update", "delete")
    ]
    assert rows[0]["after"] == {"id": 1, "v": "é\n"}
    assert (rows[1]["before"]["v"], rows[1]["after"]["v"]) == ("é\n", None)
    assert rows[2]["before"] == {"id": 1, "v": None}
    until(lambda: not relay.stat()["clients"])


def test_tail_prints_rows_of_a_relay_in_debeziums_envelope(
    relay: RelayProcess, server: DatabaseServer, table: str
) -> None:
    with Program("tail", "-c", relay.conf, "--format", "debezium", table) as tail:
        until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
        server.execute(f"INSERT INTO {table} VALUES (1, 'é')")
        document = json.loads(tail.stdout.readline())
        tail.send_signal(signal.SIGINT)
        assert tail.wait(10) == 128 + signal.SIGINT
    schema, _, name = table.partition(".")
    assert (document["op"], document["before"], document["after"]) == ("c", None, {"id": 1, "v": "é"})
    assert (document["source"]["db"], document["source"]["table"]) == (schema, name)


def test_tail_ends_quietly_when_its_output_is_closed(relay: RelayProcess, server: DatabaseServer, table: str) -> None:
    with Program("tail", "-c", relay.conf, table) as tail:
        until(lambda: any(client["filters"] for client in relay.stat()["clients"]))
        tail.stdout.close()
        insert(server, table, range(1))
        assert tail.wait(10) == ExitCode.OK
        assert tail.stderr.read() == ""


def test_drain_waits_for_a_client_that_empties_its_queue(
    relay: RelayProcess, server: DatabaseServer, table: str
) -> None:
    subscribe(relay, "a", table)
    insert(server, table, range(50))
    until(lambda: client_in(relay, "a")["waiting"] == 50)
    with Program("drain", "-c", relay.conf) as drain:
        until(lambda: relay.stat()["state"] == "draining")
        with RelayClient("127.0.0.1", relay.port, "a", SECRET) as client:
            rows = [client.poll() for _ in range(51)]
        assert [row.after["id"] for row in rows[:50] if row and row.after] == list(range(50))
        assert drain.wait(20) == ExitCode.OK
        receipt = drain.stdout.read()
    assert receipt.endswith("no rows remain\n")
    assert re.search(r"^position +\S+:\d+$", receipt, re.MULTILINE)
    assert relay.wait() == ExitCode.OK


def test_drain_with_rows_left_says_how_many_and_keeps_them(
    relay: RelayProcess, server: DatabaseServer, table: str
) -> None:
    subscribe(relay, "a", table)
    insert(server, table, range(3))
    until(lambda: client_in(relay, "a")["waiting"] == 3)
    drained = run_relay("drain", "--timeout", "0.5", "-c", relay.conf)
    assert drained.returncode == ExitCode.REMAINDER
    assert drained.stdout.endswith("3 rows remain\n")
    assert re.search(r"^a +away +3 +0 ", drained.stdout, re.MULTILINE)
    assert relay.wait() == ExitCode.OK
    relay.start()
    until(lambda: client_in(relay, "a")["waiting"] == 3)
