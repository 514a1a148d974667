"""A running relay takes new settings of its CDC port, and streams continue."""

from __future__ import annotations

import os
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.errors import RelayError
from tests.commands.test_cli import self_signed
from tests.runtime.test_reload_live import edit, reload
from tests.support import cdc_client
from tests.support.cdc_client import CdcClient, Refused
from tests.support.cdc_relay import CdcRelay
from tests.support.waiting import patience, until

pytestmark = pytest.mark.usefixtures("full_metadata")


@pytest.fixture
def server(mariadb118: DatabaseServer) -> DatabaseServer:
    """One kind of server is enough here: the port's settings know nothing of the source."""
    return mariadb118


def connected(running: CdcRelay) -> CdcClient:
    """One that has said nothing."""
    running.clients.append(CdcClient(running.port))
    return running.clients[-1]


def may_log_in(running: CdcRelay, user: str, password: str) -> bool:
    """Whether the port lets that user in."""
    try:
        connected(running).login(user, password).socket.close()
    except Refused:
        return False
    return True


def changed(running: CdcRelay, **settings: str) -> None:
    """Have the running relay take these keys of [CDC], while its process of the port stays the one that it is."""
    pid = running.relay.pids()["cdc-0"]
    edit(running.relay, **{f"CDC__{key}": value for key, value in settings.items()})
    answer = reload(running.relay)
    assert (set(answer["changed"]), answer["restarted"]) == ({f"[CDC] {key}" for key in settings}, [])
    assert running.relay.pids()["cdc-0"] == pid


def test_who_may_log_in_changes_and_streams_go_on(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str, tmp_path: Path
) -> None:
    running = bench(AuthAttempts=1000)
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    streaming = running.stream(f"{db}.t")
    assert streaming.rows(1)[0]["id"] == 1
    one, other = (USER, PASSWORD), (cdc_client.USER, cdc_client.SECRET)
    assert [may_log_in(running, *each) for each in (one, other)] == [True, False]
    file = tmp_path / "other users"
    file.write_text(cdc_client.USERS_LINE)
    changed(running, Users=str(file))
    assert [may_log_in(running, *each) for each in (one, other)] == [False, True]
    changed(running, ServiceUser="always")
    assert [may_log_in(running, *each) for each in (one, other)] == [True, True]
    changed(running, ServiceUser="never", Users=str(tmp_path / "nobody"))
    assert [may_log_in(running, *each) for each in (one, other)] == [False, False]
    changed(running, AuthAttempts="1")
    began = time.monotonic()
    assert [may_log_in(running, *each) for each in (other, other, other)] == [False, False, False]
    assert time.monotonic() - began > 1, "they wait for their turn"
    changed(running, ServiceUser="always")
    changed(running, AuthAttempts="1000", From="192.0.2.0/24")
    assert connected(running).closed()
    changed(running, From="192.0.2.0/24, 127.0.0.1")
    assert may_log_in(running, *one)
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    assert streaming.rows(1)[0]["id"] == 2


def test_tables_that_are_taken_away_are_not_there_any_more_and_come_back(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    streaming = running.stream(f"{db}.t")
    assert streaming.rows(1)[0]["id"] == 1
    early = running.client().request(f"{db}.later")
    assert early.line().startswith(b"ERR NO-FILE")
    changed(running, Tables="other.*")
    late = running.client().request(f"{db}.t")
    assert late.line() == f"ERR NO-FILE File '{db}.t.000001.avro' not found.".encode()
    server.execute(f"CREATE TABLE {db}.later (id INT PRIMARY KEY)", f"INSERT INTO {db}.later VALUES (7)")
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    assert streaming.rows(1)[0]["id"] == 2, "what has begun goes on"
    early.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        early.more()
    early.socket.settimeout(patience(20))
    changed(running, Tables="*.*")
    assert [each.rows(1)[0]["id"] for each in (early, late)] == [7, 1]


def test_how_many_may_connect_and_how_commands_end_changes(bench: Callable[..., CdcRelay]) -> None:
    running = bench()
    before = running.client()
    changed(running, MaxStreams="2", CommandGap="10s")
    patient = running.client()
    patient.say(b"QUERY-LAST-")
    time.sleep(0.5)  # more than the gap that there was
    patient.say(b"TRANSACTION\n")
    assert patient.line().startswith(b'{"GTID"')
    assert connected(running).closed()
    before.say(b"QUERY-LAST-")
    assert before.line() == b"ERR: Unknown command", "who is connected keeps the former gap"
    changed(running, MaxStreams="3", CommandGap="1ms")
    hasty = running.client()
    hasty.say(b"QUERY-LAST-")
    assert hasty.line() == b"ERR: Unknown command"


def test_what_only_a_start_applies_is_named_and_nothing_else_happens(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench(Values="maxscale")
    server.execute(f"CREATE TABLE {db}.t (d DECIMAL(40, 2))", f"INSERT INTO {db}.t VALUES (0.1)")
    pids = running.relay.pids()
    edit(running.relay, CDC__Values="exact", CDC__Codec="deflate", CDC__Workers="2", CDC__Port="1", CDC__Enabled="no",
         CDC__Address="192.0.2.1")  # fmt: skip
    answer = reload(running.relay)
    keys = {f"[CDC] {name}" for name in ("Enabled", "Address", "Port", "Values", "Codec", "Workers")}
    assert (answer["changed"], set(answer["waiting"])) == ([], keys)
    assert running.relay.pids() == pids
    assert running.stream(f"{db}.t").take(1)[0].raw.endswith(b'"d": 0.10000000000000001}')
    assert (running.seen()["address"], running.seen()["port"]) == ("127.0.0.1", running.port)


def test_tls_begins_and_certificates_are_renewed_while_streams_go_on(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    running = bench(**{"Server.TLSCert": certificate, "Server.TLSKey": key})
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1)")
    naked = running.stream(f"{db}.t")
    assert naked.rows(1)[0]["id"] == 1
    changed(running, TLS="required")
    veiled = running.encrypted(certificate).login(USER, PASSWORD).register().request(f"{db}.t")
    assert veiled.rows(1)[0]["id"] == 1
    plain = connected(running)
    plain.say(cdc_client.credentials(USER, PASSWORD))
    assert plain.closed() or not plain.received.startswith(b"OK")
    former = tmp_path / "former.pem"
    former.write_bytes(certificate.read_bytes())
    self_signed(tmp_path)
    running.relay.signal(signal.SIGHUP)

    def renewed() -> bool:
        try:
            running.encrypted(certificate).socket.close()
        except ssl.SSLCertVerificationError:
            return False
        return True

    until(renewed)
    with pytest.raises(ssl.SSLCertVerificationError):
        running.encrypted(former)
    certificate.write_text("no certificate")
    with pytest.raises(RelayError, match="load certificate"):
        reload(running.relay)
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    assert [each.rows(1)[0]["id"] for each in (naked, veiled)] == [2, 2]


def test_a_process_that_is_killed_while_it_reloads_comes_back_with_the_new_settings(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    for table in ("t", "hidden"):
        server.execute(f"CREATE TABLE {db}.{table} (id INT PRIMARY KEY)", f"INSERT INTO {db}.{table} VALUES (1)")
    for table in ("t", "hidden", "t"):
        pid = running.relay.pids()["cdc-0"]
        edit(running.relay, CDC__Tables=f"{db}.{table}")
        os.kill(pid, signal.SIGKILL)
        assert reload(running.relay)["changed"] == ["[CDC] Tables"]
        until(lambda former=pid: running.relay.pids().get("cdc-0", former) != former)  # type: ignore[misc]
        assert running.stream(f"{db}.{table}").rows(1)[0]["id"] == 1
        [other] = {"t", "hidden"} - {table}
        assert running.client().request(f"{db}.{other}").line().startswith(b"ERR NO-FILE")
