"""A running relay takes a new configuration: by command, by signal, and whatever dies meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Callable
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from relay.errors import ErrorCode, ExitCode, RelayError
from tests.commands.test_cli import self_signed
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess, run_relay
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]
JSON_LOG: dict[str, object] = {"Relay.LogFormat": "json"}


@pytest.fixture(scope="session")
def server(mariadb1011: DatabaseServer) -> DatabaseServer:
    """One kind of server is enough here: a configuration knows nothing of the source."""
    return mariadb1011


def edit(relay: RelayProcess, **settings: str | None) -> None:
    """Change the file that the relay was started with; `settings` as Source__Tables="shop.*", None removes the key."""
    parser = RawConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(relay.conf)
    for name, value in settings.items():
        section, _, key = name.partition("__")
        section = section.replace("_", " ")
        if not parser.has_section(section):
            parser.add_section(section)
        if value is None:
            parser.remove_option(section, key)
        else:
            parser.set(section, key, value)
    with relay.conf.open("w") as file:
        parser.write(file)


def reload(relay: RelayProcess, secret: str = ADMIN_SECRET) -> dict[str, Any]:
    """Give the command with that AdminSecret and return the answer."""
    with AdminClient("127.0.0.1", relay.port, secret) as admin:
        answer = admin.reload()
    assert answer["missing"] == []
    return answer


def may_log_in(relay: RelayProcess, name: str, secret: str) -> bool:
    """Whether a client can log in."""
    try:
        with RelayClient("127.0.0.1", relay.port, name, secret):
            return True
    except RelayError as error:
        if error.code is not ErrorCode.LOGIN_REFUSED:
            raise
        return False


def test_secrets_and_rights_change_and_nobody_is_disconnected(server: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(server, JSON_LOG)
    with RelayClient("127.0.0.1", relay.port, "a", SECRET) as client:
        client.add_filter("shop", "orders")
        pids = relay.pids()
        edit(relay, Server__AuthSecret="new", Server__AdminSecret="new-admin", Client_shop__Secret="own",
             Client_shop__Tables="shop.*", Relay__MaxFilters="1")  # fmt: skip
        answer = reload(relay)
        assert answer["changed"] == [
            "[Server] AuthSecret",
            "[Server] AdminSecret",
            "[Relay] MaxFilters",
            "[Client shop]",
        ]
        assert (answer["restarted"], answer["waiting"]) == ([], [])
        assert relay.pids() == pids
        assert client.poll() is None, "who is connected stays so"
        with pytest.raises(RelayError, match="MaxFilters"):
            client.add_filter("shop", "items")
    assert [may_log_in(relay, "b", secret) for secret in (SECRET, "new")] == [False, True]
    assert [may_log_in(relay, "shop", secret) for secret in ("new", "own")] == [False, True]
    with RelayClient("127.0.0.1", relay.port, "shop", "own") as client:
        client.add_filter("shop", "orders")
        with pytest.raises(RelayError, match="may not have rows"):
            client.add_filter("stats", "orders")
    refused = run_relay("reload", "--tcp", "-c", relay.conf, "--set", f"Server.AdminSecret={ADMIN_SECRET}")
    assert (refused.returncode, "`relay reload` on its own machine" in refused.stderr) == (ExitCode.REFUSED, True)
    edit(relay, Server__UnlistedClients="deny", Server__LegacyKeys="no", Relay__NullText="nil")
    done = run_relay("reload", "-c", relay.conf)
    assert done.stdout.splitlines() == [
        "changed: [Server] LegacyKeys, [Server] UnlistedClients",
        "needs a restart of the relay: [Relay] NullText",
    ]
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert [may_log_in(relay, "b", "new"), may_log_in(relay, "shop", "own")] == [False, True]
    written = relay.stderr.read_text() + relay.stdout.read_text()
    for secret in ("new-admin", "own\n", '"own"', SECRET, ADMIN_SECRET):
        assert secret not in written
    assert [line["command"] for line in relay.logged("admin")] == ["reload", "reload"]


def test_a_signal_reloads_too_and_the_command_needs_no_admin_secret(
    server: DatabaseServer, start_relay: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.settimeout(patience(20))
    manager.bind(str(tmp_path / "n"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
    relay = start_relay(server, {**JSON_LOG, "Server.AdminSecret": ""})
    edit(relay, Server__AuthSecret="second")
    relay.signal(signal.SIGHUP)
    told = b""
    while not told.endswith(b"RELOADING=1"):
        told = manager.recv(4096).partition(b"\n")[0]
    while told != b"READY=1":
        told = manager.recv(4096)
    manager.close()
    assert len(relay.logged("reloaded")) == 1
    assert relay.logged("reloaded")[0]["changed"] == "[Server] AuthSecret"
    assert may_log_in(relay, "a", "second")
    edit(relay, Server__AuthSecret="third")
    done = run_relay("reload", "-c", relay.conf)
    assert (done.returncode, done.stdout) == (ExitCode.OK, "changed: [Server] AuthSecret\n")
    assert len(relay.logged("reloaded")) == 2
    assert may_log_in(relay, "a", "third")


def test_what_is_not_valid_is_refused_and_changes_nothing(server: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(server, JSON_LOG, "--set", "Server.AuthAttempts=7")
    edit(relay, Server__AuthSecret="new", Relay__MaxFilters="many")
    relay.signal(signal.SIGHUP)
    until(lambda: len(relay.logged("reload_refused")) == 1)
    assert "MaxFilters" in relay.logged("reload_refused")[0]["error"]
    assert [may_log_in(relay, "a", secret) for secret in ("new", SECRET)] == [False, True]
    edit(relay, Relay__MaxFilters=None, Server__TLS="required", Server__TLSCert=__file__, Server__TLSKey=__file__)
    with pytest.raises(RelayError, match="load certificate") as refused:
        reload(relay)
    assert refused.value.code is ErrorCode.ADMIN_REFUSED
    edit(relay, Server__TLS=None, Server__AuthSecret=SECRET, Server__AuthAttempts="9")
    answer = reload(relay)
    assert answer["changed"] == ["[Server] TLSCert", "[Server] TLSKey"], (
        "the flag stands over the file, as at the start"
    )
    assert may_log_in(relay, "a", SECRET)


def test_keys_of_the_source_restart_the_reader_alone_and_rows_go_on(
    server: DatabaseServer, db: str, start_relay: Start
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"CREATE TABLE {db}.hidden (id INT PRIMARY KEY)")
    relay = start_relay(server, {"Relay.SegmentBytes": "64KiB"})
    with RelayClient("127.0.0.1", relay.port, "a", SECRET) as client:
        client.add_filter(db, "*")
        server.execute(f"INSERT INTO {db}.hidden VALUES (1)", f"INSERT INTO {db}.t VALUES (1)")
        until(lambda: relay.stat()["clients"][0]["matched"] == 2)
        before = relay.pids()
        edit(relay, Source__ExcludeTables="*.hidden", Relay__Workers="3")
        answer = reload(relay)
        assert (answer["changed"], answer["restarted"]) == (["[Source] ExcludeTables"], ["reader"])
        assert answer["waiting"] == ["[Relay] Workers"]
        after = relay.pids()
        assert {name for name in before if before[name] != after[name]} == {"reader"}
        server.execute(f"INSERT INTO {db}.hidden VALUES (2)", f"INSERT INTO {db}.t VALUES (2)")
        until(lambda: relay.stat()["clients"][0]["matched"] == 3)
        rows = [client.poll() for _ in range(3)]
        assert [(row.table, row.after) for row in rows if row] == [
            ("hidden", {"id": 1}),
            ("t", {"id": 1}),
            ("t", {"id": 2}),
        ]
        assert {process["name"]: process["restarts"] for process in relay.stat()["processes"]}["reader"] == 0


def test_what_the_journal_keeps_changes_while_it_is_read(server: DatabaseServer, db: str, start_relay: Start) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, word TEXT)")
    relay = start_relay(server, {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": "0"})
    for number in range(8):
        server.execute(f"INSERT INTO {db}.t VALUES ({number}, '{'x' * 60_000}')")
    until(lambda: relay.stat()["rows"]["insert"] == 8)
    first, reader = relay.stat()["journal"]["first"], relay.pids()["reader"]
    edit(relay, Relay__JournalKeepAge="0s")
    assert reload(relay)["changed"] == ["[Relay] JournalKeepAge"]
    until(lambda: relay.stat()["journal"]["first"] > first + 200_000)
    assert relay.pids()["reader"] == reader


def test_a_reader_that_has_stopped_by_name_goes_on_with_what_was_corrected(
    server: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(server, {"Server.Password": "wrong"})
    assert relay.stat()["stop"]["code"] == "source_denied"
    edit(relay, Server__Password=PASSWORD)
    assert reload(relay)["restarted"] == ["reader"]
    until(lambda: relay.stat()["state"] == "running")
    until(lambda: relay.stat()["source"]["watch"]["trouble"] == "")  # the monitor asks as who it may be now, too


def served_certificate(relay: RelayProcess) -> bytes:
    """The certificate that the relay shows, DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", relay.port), patience(20)) as plain,
        context.wrap_socket(plain) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""


def test_a_renewed_certificate_is_shown_though_no_key_has_changed(
    server: DatabaseServer, start_relay: Start, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    relay = start_relay(server, {"Server.TLS": "required", "Server.TLSCert": certificate, "Server.TLSKey": key})
    first = served_certificate(relay)
    assert first == ssl.PEM_cert_to_DER_cert(certificate.read_text())
    self_signed(tmp_path)
    relay.signal(signal.SIGHUP)
    wanted = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    assert wanted != first
    until(lambda: {served_certificate(relay) for _ in range(8)} == {wanted})


def limits(relay: RelayProcess) -> int:
    """How many filters each server's client may have: what all processes that answer work with, or they differ."""
    found = set()
    for name in ("w0", "w1"):  # one client of each server process
        with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
            have = 0
            with contextlib.suppress(RelayError):
                while have < 9:
                    client.add_filter("shop", f"t{have}")
                    have += 1
            for number in range(have):
                client.remove_filter("shop", f"t{number}")
        found.add(have)
    assert len(found) == 1, found
    return found.pop()


def test_processes_that_are_killed_while_it_reloads_come_back_with_the_new_configuration(
    server: DatabaseServer, start_relay: Start
) -> None:
    relay = start_relay(server, JSON_LOG)
    victims = ["broker", "reader", "server-0", "server-1", "monitor"]
    for number, victim in enumerate(victims):
        wanted = number + 2
        edit(relay, Relay__MaxFilters=str(wanted), Server__AuthAttempts=str(100 + wanted))
        pid = relay.pids()[victim]
        if victim.startswith("server"):  # the one that was asked might die
            relay.signal(signal.SIGHUP)
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
            assert reload(relay)["changed"] == ["[Server] AuthAttempts", "[Relay] MaxFilters"]
        until(lambda expected=number + 1: len(relay.logged("reloaded")) == expected)  # type: ignore[misc]
        assert relay.logged("reloaded")[-1]["missing"] == ""
        until(lambda name=victim: name in relay.pids())  # type: ignore[misc]
        assert limits(relay) == wanted
    assert {name for line in relay.logged("died") if (name := line["process"])} == set(victims)
