"""The CDC service on a constructed journal: what single clients do, and that it does not affect the others."""

from __future__ import annotations

import hashlib
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from relay.cdc.service import IDLE_SECONDS, POLL_SECONDS, QUIET_SECONDS
from relay.cdc.versions import Versions
from relay.runtime.process_status import CDCStatus
from tests.support.cdc_client import USERS_LINE, CdcClient, Refused, Reset, credentials
from tests.support.cdc_in_process import ServiceInProcess, config_of, inside
from tests.support.chance import seeds
from tests.support.journal_builder import ID, INSERT, NAME, NOON, column, row
from tests.support.waiting import until

ONE, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "0e9cc2d6-9af3-11ee-a9a5-0242ac110002"


def statement(running: ServiceInProcess, text: str, gtid: str) -> None:
    running.made.writer.ddl(running.made.place, NOON, "shop", text)
    running.made.commit(gtid=gtid)


def filled(running: ServiceInProcess, table: int, transactions: int, sequence: int = 1000) -> None:
    """Adds transactions of 6 KiB each to a table of Made's."""
    for number in range(transactions):
        running.made.rows(INSERT, *(row(each, b"x" * 55) for each in range(100)), table=table)
        running.made.commit(gtid=f"0-1-{sequence + number}")


def ids(client: CdcClient, count: int) -> list[int]:
    return [each["id"] for each in client.rows(count)]


def test_a_name_that_is_no_text_is_shown_and_stops_nothing(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        (tmp_path / "cdcusers").write_bytes(b"\xff\xfe" + USERS_LINE.encode()[7:])
        with CdcClient(running.port) as client:
            client.say((b"\xff\xfe:" + hashlib.sha1(b"maxpwd").digest()).hex().encode())
            assert client.line() == b"OK"
            shown = msgspec.msgpack.decode(msgspec.msgpack.encode(running.status()), type=CDCStatus)
            assert [stream.user for stream in shown.streams] == [r"\udcff\udcfe"]


def test_who_asks_for_many_tables_waits_for_the_last_one_only(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        client = running.client()
        for number in range(50):
            client.say(b"REQUEST-DATA shop.no%d\n" % number)
            assert client.line().startswith(b"ERR NO-FILE")
        client.say(b"REQUEST-DATA shop.t\n")
        assert client.line().startswith(b"ERR NO-FILE")
        assert running.service._waiting_for_table.tables() == [("shop", "t")]
        running.made.rows(INSERT, row(7), table=running.made.define(ID, NAME, table="no0"))
        running.made.commit(gtid="0-1-1")
        running.made.inserted(1, gtid="0-1-2")
        running.flush()
        assert ids(client, 1) == [1]
        assert running.service._waiting_for_table.tables() == []
        client.socket.close()
        until(lambda: not running.service.connections)
        assert running.service._streaming.tables() == []


@pytest.mark.parametrize("times", [1, 2000])
def test_any_number_of_commands_may_be_sent_ahead_and_are_answered_in_order(tmp_path: Path, times: int) -> None:
    with inside(tmp_path) as running:
        running.made.inserted(1, gtid="0-1-1")
        running.flush()
        until(lambda: running.service.position == running.committed)
        client = running.client()
        client.say(b"QUERY-LAST-TRANSACTION\nREQUEST-DATA a.b\nBOGUS\r\nQUERY-TRANSACTION 0-1-2\n" * times)
        for _ in range(times):
            assert client.line().startswith(b'{"GTID": "0-1-1", "events": 1, "timestamp": 1700000000, ')
            assert client.line() == b"ERR NO-FILE File 'a.b.000001.avro' not found."
            assert client.line() == b"ERR: Unknown command"
            assert client.line() == b'{"GTID": "0-1-2", "events": 0, "timestamp": 0, "tables": []}'
        client.say(b"REQUEST-DATA shop.t\nBOGUS\nREQUEST-DATA shop.t\nCLOSE")
        assert client.line() == b"ERR: Unknown command"
        assert client.line() == b"ERR REQUEST-DATA while streaming."
        assert client.line().startswith(b'{"namespace":')


def test_requests_are_answered_under_a_load_that_never_rests(tmp_path: Path) -> None:
    with inside(tmp_path) as running:

        def committed() -> int:
            """Whenever somebody looks there is more."""
            running.made.inserted(1, gtid="0-1-1")
            return running.made.writer.committed()

        running.do(lambda: setattr(running.service, "_committed", committed))
        assert running.client().last()["events"] == 1
        assert ids(running.client().request("shop.t"), 100) == [1] * 100


def test_connections_that_have_no_room_where_they_are_shown_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.cdc.service._SHOWN_BYTES", 1500)
    with inside(tmp_path) as running:
        for _ in range(5):
            running.client()
        status = running.status()
        assert len(status.streams) + status.left_out == 5
        assert 0 < len(status.streams) < 5


def test_a_request_that_is_answered_twice_begins_one_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table comes while the same request, said once more, waits until all is known."""
    monkeypatch.setattr("relay.cdc.versions.STEP_BYTES", 1)
    with inside(tmp_path) as running:
        client = running.client().request("shop.t")
        assert client.line().startswith(b"ERR NO-FILE")
        [connection] = running.service.connections
        running.looking = False
        for number in (1, 2):
            running.made.inserted(number, gtid=f"0-1-{number}")
        running.flush()
        client.say(b"REQUEST-DATA shop.t\n")
        until(lambda: running.service._delayed)
        running.looking = True
        assert ids(client, 2) == [1, 2]
        running.made.inserted(3, gtid="0-1-3")
        running.flush()
        assert ids(client, 1) == [3]
        assert connection.stream and connection.stream.rows == 3


def test_a_question_that_cannot_be_answered_ends_who_asked_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    with inside(tmp_path) as running:
        running.made.inserted(1, gtid="0-1-1")
        running.flush()
        good = running.client().request("shop.t")
        assert ids(good, 1) == [1]
        monkeypatch.setattr(Versions, "find", faulty)
        for before in (lambda: None, lambda: setattr(running.service, "level", False)):
            running.do(before)  # the answer comes at once, or once all is known
            client = running.client()
            client.command("QUERY-TRANSACTION 0-1-1")
            assert client.line() == b"ERR fatal error: ZeroDivisionError('by nothing')"
            with pytest.raises(Reset):
                client.more()
        running.made.inserted(2, gtid="0-1-2")
        running.flush()
        assert ids(good, 1) == [2]
    assert [event for event, _ in running.logged] == ["cdc_stream_failed"] * 2


def test_rows_before_one_that_cannot_be_sent_are_sent(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        running.made.inserted(1, gtid="0-1-1")
        partial = bytes([2, 1]) + b"\0" + (5).to_bytes(4, "little")  # of two columns the first
        running.made.inserted(2, gtid="0-1-2")
        running.made.writer.rows(running.made.table, INSERT, running.made.place, NOON, 1, partial)
        running.made.commit(gtid="0-1-3")
        running.flush()
        for form in ("JSON", "AVRO"):
            client = running.client(form).request("shop.t")
            rows = iter(client.lines() if form == "JSON" else client.records())
            assert len([next(rows) for _ in range(3 if form == "JSON" else 2)])
            with pytest.raises(Refused, match=r"ERR fatal error: rows of shop\.t do not hold all columns"):
                next(rows)


def test_rows_before_a_transaction_without_a_gtid_are_sent(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        running.made.inserted(1, gtid=f"{ONE}:1")
        running.made.inserted(2)
        running.made.inserted(3, gtid=f"{ONE}:2")
        running.flush()
        client = running.client().request("shop.t")
        assert ids(client, 1) == [1]
        with pytest.raises(Refused, match="ERR fatal error: the source writes no GTIDs"):
            client.rows(1)
    [(event, fields)] = running.logged
    assert (event, str(fields["code"])) == ("cdc_stream_failed", "check_failed")  # as `relay check` does


def test_the_schema_names_the_statement_that_made_it_and_no_other(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        statement(running, "CREATE TABLE T (id INT, name VARCHAR(80))", "0-1-1")
        statement(running, "CREATE TABLE shop.other (t INT)", "0-1-2")
        statement(running, "CREATE TABLE elsewhere.t (id INT)", "0-1-3")
        running.made.inserted(1, gtid="0-1-4")
        running.flush()
        assert next(running.client().request("shop.t").lines()).document["gtid"] == "0-1-1"


@pytest.mark.parametrize(
    ("before", "gtids"),
    [
        ("0-1-100,1-1-20,2-1-200", ["1-1-21", "0-1-101", "1-1-22"]),
        (f"{OTHER}:1-200,{ONE}:1-100:blue:1-500", [f"{OTHER}:1", f"{ONE}:101", f"{OTHER}:2"]),
        (f"{ONE}:1-500:blue:1-7:9-100", [f"{OTHER}:1", f"{ONE}:blue:101", f"{OTHER}:2"]),
    ],
    ids=["MariaDB", "MySQL", "tag"],
)
def test_nothing_is_left_out_behind_a_transaction_from_before_the_journal(
    tmp_path: Path, before: str, gtids: list[str]
) -> None:
    """Whoever stored one of a domain has seen no row of the journal, of other domains neither."""
    source = gtids[1].rpartition(":")[0]
    with inside(tmp_path) as running:
        domain = running.do(lambda: running.service._store.domain(source)) if source else 0
        running.made.writer.source(4, "binlog.000001", before, "server one")
        for number, gtid in enumerate(gtids):
            running.made.inserted(number, gtid=gtid)
        running.flush()
        for sequence, expected in ((1, [0, 1, 2]), (100, [0, 1, 2]), (101, [1, 2])):
            assert ids(running.client().request("shop.t", f"{domain}-1-{sequence}"), len(expected)) == expected
        later = running.client().request("shop.t", f"{domain}-1-102")
        assert later.line().startswith(b'{"namespace":')
        running.made.inserted(3, gtid=gtids[1].replace("101", "102"))
        running.flush()
        assert later.line().endswith(b'"id": 3, "name": "x"}')  # and no schema once more


def test_tables_that_are_waited_for_are_those_that_the_configuration_of_now_allows(tmp_path: Path) -> None:
    with inside(tmp_path, Tables="shop.a, shop.b") as running:
        hidden, known = running.client().request("shop.t"), running.client().request("shop.a")
        assert hidden.line() == b"ERR NO-FILE File 'shop.t.000001.avro' not found."
        assert known.line().startswith(b"ERR NO-FILE")
        running.made.inserted(1, gtid="0-1-1")
        running.flush()
        until(lambda: running.service.position == running.committed)
        running.do(lambda: running.service.apply(config_of(tmp_path, {"CDC.Tables": "shop.t"})))
        assert ids(hidden, 1) == [1]
        running.made.rows(INSERT, row(2), table=running.made.define(ID, NAME, table="a"))
        running.made.commit(gtid="0-1-2")
        running.made.inserted(3, gtid="0-1-3")
        running.flush()
        assert ids(hidden, 1) == [3]
        known.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            known.more()


def test_credentials_that_come_drop_by_drop_have_their_time_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.protocol.cdc_session.LOGIN_PATIENCE", 0.3)
    with inside(tmp_path) as running, CdcClient(running.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.socket.settimeout(0.01)
        sent = 0
        while not client.received:
            try:
                client.more()
            except TimeoutError:
                client.say(b"61")
                sent += 1
                assert sent < 60
        assert client.line() == b"ERROR: Authentication failed"


def test_an_idle_stream_goes_on_where_retention_has_deleted_its_place(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        running.made.inserted(1, gtid="0-1-1")
        running.flush()
        plain, seeking = running.client().request("shop.t"), running.client().request("shop.t", "0-1-3000")
        assert ids(plain, 1) == [1]
        assert seeking.line().startswith(b'{"namespace":')
        until(lambda: all(each.stream and each.stream.caught_up for each in running.service.connections))
        filled(running, running.made.define(ID, NAME, table="other"), 50)
        running.flush()
        until(lambda: running.service.position == running.committed)
        running.made.writer.drop_before(running.committed)
        running.do(running.service.release)
        assert running.made.writer.first() > 1 << 17
        for number, gtid in ((2, "0-1-2000"), (3, "0-1-3000")):
            running.made.table = running.made.define(ID, NAME)
            running.made.inserted(number, gtid=gtid)
            running.flush()
        assert [plain.line()[-21:] for _ in range(2)] == [b'"id": 2, "name": "x"}', b'"id": 3, "name": "x"}']
        assert seeking.line().endswith(b'"id": 3, "name": "x"}')


def test_what_retention_deletes_before_it_was_looked_at_is_passed_over(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        running.looking = False
        filled(running, running.made.table, 50)
        filled(running, running.made.define(ID, NAME, table="other"), 40)
        running.made.writer.drop_before(running.made.flush() - (1 << 17))
        running.made.table = running.made.define(ID, NAME)
        running.made.inserted(7, gtid="0-1-2000")
        running.flush()
        running.looking = True
        assert ids(running.client().request("shop.t"), 1) == [7]
        assert running.client().last()["GTID"] == "0-1-2000"


def test_a_version_whose_first_rows_are_deleted_begins_with_those_that_are_there(tmp_path: Path) -> None:
    with inside(tmp_path) as running:
        running.made.inserted(1, gtid="0-1-1")
        other = column("label", 15, 80, "utf8mb4")
        running.made.table = running.made.define(ID, other)
        filled(running, running.made.table, 50)
        running.made.inserted(2, gtid="0-1-2000")
        running.made.inserted(3, gtid="0-1-2001")
        running.flush()
        for gtid, expected in (("", [0, 1]), ("0-1-1", [0, 1]), ("0-1-2000", [2, 3]), ("0-1-2001", [3])):
            assert ids(running.client().request("shop.t.2", gtid), len(expected)) == expected
        running.made.writer.drop_before(running.committed - (1 << 17))
        first = running.client().request("shop.t.2").rows(1)[0]
        assert first["sequence"] > 1000 and first["event_number"] == 1
        missing = running.client().request("shop.t.1")
        assert missing.line() == b"ERR NO-FILE File 'shop.t.000001.avro' not found."


def test_a_question_of_somebody_who_is_gone_is_looked_into_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[None] = []

    def endless(*_: object) -> Iterator[None]:
        while True:
            looked.append(None)
            yield None

    monkeypatch.setattr(Versions, "find", endless)
    with inside(tmp_path) as running:
        client = running.client()
        client.command("QUERY-TRANSACTION 0-1-1")
        until(lambda: len(looked) > 10)
        client.abort()
        until(lambda: not running.service.connections)
        so_far = running.do(lambda: len(looked))
        assert running.do(lambda: len(looked)) <= so_far + 1


SAID = [
    credentials("maxuser", "maxpwd"), b"REGISTER UUID=a, TYPE=JSON\n", b"REGISTER UUID=b, TYPE=AVRO\n", b"REQUEST-DATA",
    b"REQUEST-DATA shop.t\n", b"REQUEST-DATA shop.t.1 0-1-5\n", b"REQUEST-DATA shop.t 0-1-99999\n",
    b"REQUEST-DATA shop.late\n", b"REQUEST-DATA shop.late.2\n", b"QUERY-LAST-TRANSACTION\n",
    b"QUERY-TRANSACTION 0-1-7\n", b"QUERY-TRANSACTION x\n", b"CLOSE", b"CLOSE\n", b"\r\n", b"\0\xff",
    b"BOGUS\n" * 300, b"x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(4))
def test_whatever_others_say_and_however_they_leave_a_stream_goes_on(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with inside(tmp_path, AuthAttempts="1000000") as running:
        running.made.inserted(0, gtid="0-1-1")
        running.flush()
        good = running.client().request("shop.t")
        late = running.made.define(ID, NAME, table="late")
        others: list[CdcClient] = []
        for number in range(1, 120):
            if dice.random() < 0.3:
                others.append(CdcClient(running.port))
                if dice.random() < 0.9:
                    others[-1].say(b"".join(SAID[: dice.randint(1, 3)]))
            for other in dice.sample(others, min(len(others), 4)):
                if dice.random() < 0.15:
                    dice.choice((other.abort, other.socket.close))()
                    others.remove(other)
                    continue
                with suppress(OSError):  # it was sent away
                    other.say(dice.choice(SAID))
            if number > 60:
                running.made.rows(INSERT, row(number), table=late)
            running.made.inserted(number, gtid=f"0-1-{number + 1}")
            running.flush()
        assert ids(good, 120) == list(range(120))
        for other in others:
            other.abort()
        until(lambda: len(running.service.connections) == 1)
        assert running.service._waiting_for_table.tables() == []
        assert running.service._streaming.tables() == [("shop", "t")]
    assert {event for event, _ in running.logged} <= {"auth_failed"}


def test_the_longer_nothing_comes_the_rarer_the_looks_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("relay.cdc.service.time", clock)
    with inside(tmp_path) as running:
        until(lambda: running.service.caught_up)
        assert running.do(running.service.step) == IDLE_SECONDS, "nobody is there"
        running.client()
        pauses = []
        for quiet in (0.0, 0.25, 0.5, 1.0, 3600.0):
            now[0] = 1000.0 + quiet
            pauses.append(running.do(running.service.step))
        assert pauses == [POLL_SECONDS, POLL_SECONDS, 0.01, QUIET_SECONDS, QUIET_SECONDS]
        filled(running, running.made.define(ID, NAME, table="t"), 1)
        running.flush()
        until(lambda: running.service.position == running.committed)
        assert running.do(running.service.step) == POLL_SECONDS, "rows come again"
