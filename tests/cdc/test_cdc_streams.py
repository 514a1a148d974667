"""The CDC port of a running relay on real servers: what clients are sent, from which position, and how streams end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from examples.dbserver import DatabaseServer
from tests.support.cdc_client import CdcClient, Row, triplet_of
from tests.support.cdc_relay import CdcRelay
from tests.support.waiting import until

pytestmark = [pytest.mark.usefixtures("full_metadata"), pytest.mark.brands]


mariadb_only = pytest.mark.parametrize("server", ["mariadb118"], indirect=True)


def changes(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row["event_type"], row["id"]) for row in rows]


def records(client: CdcClient, count: int) -> list[tuple[Row, Row]]:
    """As many of a stream of AVRO, each with its schema."""
    found = []
    for each in client.records():
        found.append(each)
        if len(found) == count:
            break
    return found


def test_versions_of_a_table_keep_their_numbers(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {db}.t VALUES (1)",
        f"ALTER TABLE {db}.t ADD a INT",
        f"INSERT INTO {db}.t VALUES (2, 2)",
        f"ALTER TABLE {db}.t ADD KEY (a)",
        f"INSERT INTO {db}.t VALUES (3, 3)",
        f"ALTER TABLE {db}.t DROP a",
        f"INSERT INTO {db}.t VALUES (4)",
    )
    running.stream(f"{db}.t.3")
    for life in range(2):
        if life:
            running.relay.stop()
            running.relay.start()
        lines = [line.document for line in islice(running.stream(f"{db}.t").lines(), 7)]
        assert [line.get("version") or line["id"] for line in lines] == [1, 1, 2, 2, 3, 3, 4]
        for schema, row in (lines[2:4], lines[5:7]):  # the statement's, which came just before
            assert schema["gtid"] == triplet_of(row | {"sequence": row["sequence"] - 1})
        for number, first in ((1, 1), (2, 2), (3, 4)):
            lines = [line.document for line in islice(running.stream(f"{db}.t.{number}").lines(), 2)]
            assert [lines[0]["version"], lines[1]["id"]] == [number, first]
        schemas = [schema for schema, _ in records(running.stream(f"{db}.t.000001", form="AVRO"), 4)]
        assert [len(schema["fields"]) for schema in schemas] == [7, 8, 8, 7]
        missing = running.client().request(f"{db}.t.4")
        assert missing.line() == f"ERR NO-FILE File '{db}.t.000004.avro' not found.".encode()


def test_a_stream_goes_on_at_the_transaction_that_is_named(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench(**{"Relay.SegmentBytes": "64KiB", "Workers": 2})
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, b BLOB)", f"CREATE TABLE {db}.other (id INT, b BLOB)")
    for number in range(20):
        server.execute(
            "BEGIN",
            f"INSERT INTO {db}.other VALUES ({number}, REPEAT('x', 20000))",
            f"INSERT INTO {db}.t (id, b) VALUES ({number}, 'a'), ({1000 + number}, 'b')",
            "COMMIT",
        )
        if number == 9:
            server.execute(f"ALTER TABLE {db}.t ADD c INT DEFAULT 1")
    whole = [line.raw for line in running.stream(f"{db}.t").take(40)]
    rows = running.stream(f"{db}.t").rows(40)
    assert {row["event_number"] for row in rows} == {2, 3}
    for life in range(2):
        if life:
            running.relay.kill()
            running.relay.start()
        for first in (0, 8, 10, 20, 38):
            gtid = triplet_of(rows[first])
            assert [line.raw for line in running.stream(f"{db}.t", gtid).take(40 - first)] == whole[first:]
            avro = [row["id"] for _, row in records(running.stream(f"{db}.t", gtid, "AVRO"), 40 - first)]
            assert avro == [row["id"] for row in rows[first:]]
        assert [line.raw for line in running.stream(f"{db}.t", "0-0-0").take(40)] == whole
    domain, _, sequence = (rows[-1][name] for name in ("domain", "server_id", "sequence"))
    later = running.stream(f"{db}.t", f"{domain}-77-{sequence + 1}")
    server.execute(f"INSERT INTO {db}.t VALUES (5000, 'c', 1)")
    assert changes(later.rows(1)) == [("insert", 5000)]


@mariadb_only
def test_a_table_that_is_not_there_yet_is_streamed_once_it_is(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench(Tables=f"{db}.t, {db}.u*")
    early = running.client().request(f"{db}.t")
    hidden = running.client().request(f"{db}.secret")
    second = running.client().request(f"{db}.t.2")
    for client in (early, hidden, second):
        assert client.line().startswith(b"ERR NO-FILE")
    server.execute(
        f"CREATE TABLE {db}.t (id INT)",
        f"CREATE TABLE {db}.secret (id INT)",
        f"INSERT INTO {db}.secret VALUES (7)",
        f"INSERT INTO {db}.t VALUES (1)",
        f"ALTER TABLE {db}.t MODIFY id BIGINT",
        f"INSERT INTO {db}.t VALUES (2)",
    )
    assert changes(early.rows(2)) == [("insert", 1), ("insert", 2)]
    assert changes(second.rows(1)) == [("insert", 2)]
    assert hidden.last()["events"] == 1
    assert not hidden.received


def test_transactions_are_told_with_their_events_and_tables(
    bench: Callable[..., CdcRelay], server: DatabaseServer, db: str
) -> None:
    running = bench()
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"CREATE TABLE {db}.u (id INT PRIMARY KEY)")
    server.execute("BEGIN", f"INSERT INTO {db}.t VALUES (1), (2)", f"INSERT INTO {db}.u VALUES (1)",
                   f"UPDATE {db}.t SET id = 3 WHERE id = 2", "COMMIT")  # fmt: skip
    row = running.stream(f"{db}.t").rows(1)[0]
    gtid = triplet_of(row)
    told = running.client().last()
    assert (told["GTID"], told["events"], sorted(told["tables"])) == (gtid, 5, [f"{db}.t", f"{db}.u"])
    assert abs(told["timestamp"] - row["timestamp"]) < 60
    running.relay.stop()
    running.relay.start()
    client = running.client()
    until(lambda: client.last() == told)
    server.execute(f"DELETE FROM {db}.u")
    until(lambda: client.last()["tables"] == [f"{db}.u"])
    assert client.transaction(gtid) == told
    unknown = {"GTID": "9-9-999999999", "events": 0, "timestamp": 0, "tables": []}
    assert client.transaction("9-9-999999999") == unknown
