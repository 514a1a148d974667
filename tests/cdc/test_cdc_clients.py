"""The CDC port of a running relay: a client from the specification alone, and the habits of the public clients."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import fastavro
import pytest

from examples.dbserver import DatabaseServer
from tests.support.cdc_client import HEAD, SECRET, USER, CdcClient, Line, Row, credentials, triplet_of
from tests.support.cdc_source import KINDS, Service, relay_on
from tests.support.public_cdc_clients import (
    CLIENTS,
    CdcLastTransaction,
    Connectfit,
    CppConnector,
    GivesUp,
    PublicClient,
)
from tests.support.server_variables import full_metadata_of

OK, CLOSED = b"OK\n", b""
DENIED = b"ERROR: Authentication failed\n"
STRANGER = b"ERR, code 12, msg: Registration failed\n"
REGISTER = b"REGISTER UUID=XXX-YYY_YYY, TYPE=JSON"
EACH = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
ENDS = pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"], ids=["no end", "LF", "CRLF"])
FORMS = pytest.mark.parametrize("form", ["JSON", "AVRO"])


@pytest.fixture(scope="module", params=KINDS)
def cdc(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A relay on a source of each kind."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    with full_metadata_of(server), relay_on(server, tmp_path_factory.mktemp("cdc")) as running:
        yield running


@pytest.fixture
def db(cdc: Service) -> Iterator[str]:
    """A database with a table t: three rows in two transactions, another table's row between the second's two."""
    name = cdc.database()
    cdc.server.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT, s VARCHAR(40))",
        f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (1, 10, 'one')",
        "BEGIN",
        f"INSERT INTO {name}.t VALUES (2, 20, 'two')",
        f"INSERT INTO {name}.other VALUES (1)",
        f"INSERT INTO {name}.t VALUES (3, NULL, 'a \"b\" \\\\ {{x}}')",
        "COMMIT",
    )
    cdc.await_rows(f"{name}.t", 3)
    yield name
    cdc.server.execute(f"DROP DATABASE {name}")


def ids(rows: list[Row]) -> list[int]:
    return [row["id"] for row in rows]


def heads(rows: list[Row]) -> list[tuple[str, int, int]]:
    """(event_type, event_number, id) of each row."""
    return [(row["event_type"], row["event_number"], row["id"]) for row in rows]


def records(client: CdcClient, count: int) -> list[Row]:
    """The next records of a stream of Avro."""
    found = client.records()
    return [next(found)[1] for _ in range(count)]


def read(client: CdcClient, form: str, count: int) -> list[Row]:
    """The next rows of a stream in either form."""
    return client.rows(count) if form == "JSON" else records(client, count)


class Recorder(CdcClient):
    """Keeps all that it has heard."""

    heard = b""

    def more(self) -> bool:
        before = len(self.received)
        there = super().more()
        self.heard += self.received[before:]
        return there


# -- states and commands


def hears(client: CdcClient, answer: bytes) -> None:
    """The answer, whole and nothing else; `CLOSED`: the end."""
    if answer == CLOSED:
        assert client.closed(), bytes(client.received)
        return
    while len(client.received) < len(answer):
        assert client.more(), bytes(client.received)
    assert bytes(client.received) == answer
    client.received.clear()


LOGIN = credentials(USER, SECRET)
SAID: list[list[tuple[bytes, bytes]]] = [
    [(b"BOGUS", DENIED), (b"", CLOSED)],
    [(credentials(USER, "wrong"), DENIED), (b"", CLOSED)],
    [(credentials("nobody", SECRET), DENIED), (b"", CLOSED)],
    [(LOGIN.upper(), OK), (b"REQUEST-DATA {db}.t", STRANGER), (b"", CLOSED)],
    [(LOGIN, OK), (b"REGISTER UUID=x, TYPE=json", STRANGER), (b"", CLOSED)],
    [(LOGIN, OK), (b"CLOSE", CLOSED)],
    [(LOGIN, OK), (REGISTER, OK), (REGISTER, b"ERR: Unknown command\n"), (b"CLOSE", CLOSED)],
    [(LOGIN, OK), (REGISTER, OK), (b"REQUEST-DATA", b"ERR REQUEST-DATA with no data.\n"), (b"CLOSE", CLOSED)],
    [(LOGIN, OK), (REGISTER, OK), (b"REQUEST-DATA   ", b"ERR NO-FILE Filename not specified.\n")],
    [(LOGIN, OK), (REGISTER, OK), (b"REQUEST-DATA {db}.no", b"ERR NO-FILE File '{db}.no.000001.avro' not found.\n")],
    [(LOGIN, OK), (REGISTER, OK), (b"REQUEST-DATA {db}.t.9", b"ERR NO-FILE File '{db}.t.000009.avro' not found.\n")],
    [(LOGIN, OK), (REGISTER, OK), (b"REQUEST-DATA ../t", b"ERR NO-FILE File '../t.000001.avro' not found.\n")],
    [(LOGIN, OK), (b"REGISTER UUID=,TYPE=AVRO", OK), (b"HELLO", b"ERR: Unknown command\n"), (b"CLOSE", CLOSED)],
]


def test_each_state_answers_to_the_byte(cdc: Service, db: str) -> None:
    for conversation in SAID:
        with cdc.client() as client:
            for said, answer in conversation:
                client.say(said.replace(b"{db}", db.encode()))
                hears(client, answer.replace(b"{db}", db.encode()))


def test_the_credentials_of_maxscales_documentation_are_none(cdc: Service) -> None:
    with cdc.client() as client:
        client.say(b"666f6f6261723a3137336363643535253331")
        client.socket.shutdown(socket.SHUT_WR)
        hears(client, DENIED)
        hears(client, CLOSED)


@ENDS
def test_commands_end_in_any_way_and_come_in_any_pieces(cdc: Service, db: str, end: bytes) -> None:
    with cdc.client(end) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.stream(f"{db}.t")
        assert ids(client.rows(3)) == [1, 2, 3]
    with cdc.client(end) as client:
        for command in (LOGIN, REGISTER, f"REQUEST-DATA {db}.t".encode()):
            for byte in command + end:
                client.say(bytes([byte]))
            if command.startswith(b"REQUEST"):
                assert ids(client.rows(3)) == [1, 2, 3]
            else:
                assert client.line() == b"OK"


def test_all_may_be_said_at_once(cdc: Service, db: str) -> None:
    with cdc.client() as client:
        client.say(LOGIN + b"\n" + REGISTER + b"\nREQUEST-DATA " + db.encode() + b".t\n")
        assert [client.line(), client.line()] == [b"OK", b"OK"]
        assert ids(client.rows(3)) == [1, 2, 3]


def test_a_stream_is_ended_by_close_and_by_the_clients_end(cdc: Service, db: str) -> None:
    for say in (b"CLOSE", b"CLOSE\n", None):
        with cdc.client() as client:
            client.stream(f"{db}.t").rows(3)
            if say:
                client.say(say)
            else:
                client.socket.shutdown(socket.SHUT_WR)
            assert client.closed()


def test_a_second_request_is_refused_between_rows_and_the_stream_goes_on(cdc: Service, db: str) -> None:
    with cdc.client(b"\n") as client:
        client.stream(f"{db}.t").rows(3)
        client.request(f"{db}.other")
        assert client.line() == b"ERR REQUEST-DATA while streaming."
        cdc.server.execute(f"INSERT INTO {db}.t VALUES (4, 4, 'four')")
        assert ids(client.rows(1)) == [4]


# -- what streams hold


def test_the_schema_comes_first_and_says_what_rows_have(cdc: Service, db: str) -> None:
    with cdc.client() as client:
        first, *rows = next_lines(client.stream(f"{db}.t"), 4)
    schema = first.document
    assert list(schema) == ["namespace", "type", "name", "table", "database", "version", "gtid", "fields"]
    assert (schema["table"], schema["database"], schema["version"]) == ("t", db, 1)
    names = [each["name"] for each in schema["fields"]]
    assert names == [*HEAD, "id", "v", "s"]
    assert [list(row.document) for row in rows] == [names] * 3
    assert b": " not in first.raw and all(row.raw.startswith(b'{"domain": ') for row in rows)
    written = cdc.server.execute(f"SELECT id, v, s FROM {db}.t ORDER BY id")
    assert [tuple(row.document[name] for name in ("id", "v", "s")) for row in rows] == list(written)


@FORMS
def test_history_and_what_comes_later_are_one_stream(cdc: Service, db: str, form: str) -> None:
    with cdc.client() as client:
        rows = (row for _, row in schemas_and_rows(client.stream(f"{db}.t", form=form), form))
        assert heads([next(rows) for _ in range(3)]) == [("insert", 1, 1), ("insert", 1, 2), ("insert", 3, 3)]
        cdc.server.execute(
            "BEGIN",
            f"DELETE FROM {db}.other",
            f"UPDATE {db}.t SET v = v + 1 WHERE id < 3",
            f"DELETE FROM {db}.t WHERE id = 3",
            "COMMIT",
        )
        later = [next(rows) for _ in range(5)]
    assert heads(later) == [
        ("update_before", 2, 1), ("update_after", 3, 1), ("update_before", 4, 2), ("update_after", 5, 2),
        ("delete", 6, 3),
    ]  # fmt: skip
    assert [row["v"] for row in later[:4]] == [10, 11, 20, 21]
    assert len({row["sequence"] for row in later}) == 1 and cdc.is_last(later[0])
    [[server_id]] = cdc.server.execute("SELECT @@server_id")
    assert {row["server_id"] for row in later} == {server_id}


def test_containers_of_avro_are_such_as_stock_readers_read(cdc: Service, db: str) -> None:
    cdc.server.execute(f"ALTER TABLE {db}.t ADD COLUMN w INT", f"INSERT INTO {db}.t VALUES (4, 4, 'd', 1)")
    expected = cdc.await_rows(f"{db}.t", 4)
    with Recorder(cdc.port) as client:
        records(client.stream(f"{db}.t", form="AVRO"), 4)
    heard = client.heard[client.heard.index(b"Obj\x01") :]
    second = heard.rindex(b"Obj\x01")
    containers = heard[:second], heard[second:]
    read = [list(fastavro.reader(io.BytesIO(container))) for container in containers]
    assert read == [expected[:3], expected[3:]]


def test_a_stream_goes_on_whichever_server_made_the_next_transaction(cdc: Service, db: str) -> None:
    """MariaDB lets a session write as another server would, as after a failover; in MySQL a tag stands beside it."""
    another = "SET gtid_next = 'AUTOMATIC:blue'" if cdc.server.kind.mysql else "SET SESSION server_id = 77"
    *_, third = cdc.await_rows(f"{db}.t", 3)
    cdc.server.execute(another, f"INSERT INTO {db}.t VALUES (4, 4, 'd')")
    cdc.server.execute(f"INSERT INTO {db}.t VALUES (5, 5, 'e')")
    fourth, fifth = cdc.await_rows(f"{db}.t", 5)[3:]
    if cdc.server.kind.mysql:
        assert fourth["domain"] != third["domain"] == fifth["domain"]
        assert fifth["sequence"] == third["sequence"] + 1
        expected = [5]  # the tag's transaction is of another domain
    else:
        assert fourth["server_id"] == 77 and fourth["domain"] == third["domain"]
        expected = [4, 5]
    following = dict(third, sequence=third["sequence"] + 1)
    for gtid, found in ((triplet_of(following), expected), (triplet_of(fourth), [4, 5]), (triplet_of(third), [2, 3])):
        with cdc.client() as client:
            assert ids(client.stream(f"{db}.t", gtid).rows(len(found))) == found


def test_only_the_schema_in_force_stands_before_the_first_row_of_a_transaction(cdc: Service, db: str) -> None:
    cdc.server.execute(f"ALTER TABLE {db}.t ADD COLUMN w INT", f"INSERT INTO {db}.t VALUES (4, 4, 'd', 1)")
    cdc.await_rows(f"{db}.t", 4)
    with cdc.client() as client:
        *_, last = client.stream(f"{db}.t").rows(4)
    with cdc.client() as client:
        schema, row = next_lines(client.stream(f"{db}.t", triplet_of(last)), 2)
    assert schema.is_schema and schema.document["version"] == 2
    assert row.document == last


# -- values

TYPES = {
    "big": ("BIGINT UNSIGNED", "18446744073709551615"),
    "small": ("INT UNSIGNED", "4294967295"),
    "dec": ("DECIMAL(40,20)", "12345678901234567890.12345678901234567890"),
    "ratio": ("FLOAT", "1.5"),
    "twice": ("DOUBLE", "0.1"),
    "state": ("ENUM('new','it''s')", "'it''s'"),
    "tags": ("SET('a','b','c')", "'a,c'"),
    "bits": ("BIT(10)", "b'1000000001'"),
    "made": ("DATETIME(3)", "'2026-01-02 03:04:05.678'"),
    "span": ("TIME", "'-01:02:03'"),
    "year": ("YEAR", "2026"),
    "raw": ("VARBINARY(8)", "x'00ff7b7d'"),
    "blob": ("BLOB", "x'6162'"),
    "none": ("TEXT", "''"),
    "text": ("TEXT", r"'a \"b\" {c} \\ / \n\t ü 😀'"),
    "doc": ("JSON", "'{\"a\": [1, {}]}'"),
    "more words": ("INT", "NULL"),
    "timestamp": ("INT", "7"),
}
"""Their bytes are held to tests/fixtures/cdc by test_cdc_fixtures.py; here each client reads the same of them."""


@pytest.mark.parametrize("values", ["exact", "maxscale"])
def test_every_client_gets_the_same_values_in_either_form(
    tmp_path: Path, mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], values: str
) -> None:
    name = make_db(mariadb118)
    columns = ", ".join(f"`{column}` {kind}" for column, (kind, _) in TYPES.items())
    row = ", ".join(value for _, value in TYPES.values())
    with relay_on(mariadb118, tmp_path, {"CDC.Values": values, "CDC.Codec": "deflate"}) as own:
        mariadb118.execute(f"CREATE TABLE {name}.t ({columns})", f"INSERT INTO {name}.t VALUES ({row})")
        [found] = own.await_rows(f"{name}.t", 1)
        for client in CLIENTS:
            with client(own.port) as running:
                assert next(running.follow(USER, SECRET, f"{name}.t")) == found
        with own.client() as avro:
            [record] = records(avro.stream(f"{name}.t", form="AVRO"), 1)
        assert {column: _as_text(value, values) for column, value in record.items()} == found


def _as_text(value: object, values: str) -> object:
    """Bytes of Avro as JSON has them: as digits, or, in MaxScale's form, as text that is UTF-8."""
    if not isinstance(value, bytes):
        return value
    with suppress(UnicodeDecodeError):
        if values == "maxscale":
            return value.decode()
    return value.hex()


# -- the public clients


@EACH
def test_each_public_client_reads_history_and_what_comes_later(
    cdc: Service, db: str, client: type[PublicClient]
) -> None:
    with client(cdc.port) as running:
        rows = running.follow(USER, SECRET, f"{db}.t")
        found = [next(rows) for _ in range(3)]
        cdc.server.execute(
            f"UPDATE {db}.t SET v = NULL WHERE id = 1",
            f"ALTER TABLE {db}.t ADD COLUMN w VARCHAR(10) AFTER id",
            f"INSERT INTO {db}.t VALUES (4, 'w', 40, 'four')",
            f"DELETE FROM {db}.t WHERE id = 2",
        )
        found += [next(rows) for _ in range(4)]
    assert heads(found) == [
        ("insert", 1, 1), ("insert", 1, 2), ("insert", 3, 3), ("update_before", 1, 1), ("update_after", 1 + 1, 1),
        ("insert", 1, 4), ("delete", 1, 2),
    ]  # fmt: skip
    assert [row["v"] for row in found] == [10, 20, None, 10, None, 40, 20]
    assert [row.get("w", "-") for row in found] == ["-"] * 5 + ["w", None]
    assert [schema["version"] for schema in running.schemas] == [1, 2]


@EACH
def test_a_wrong_password_is_an_error_to_each_public_client(cdc: Service, client: type[PublicClient]) -> None:
    with client(cdc.port) as running, pytest.raises(GivesUp, match="failed"):
        running.login(USER, "wrong")


def test_a_stop_of_the_relay_ends_each_public_client(tmp_path: Path, mariadb118: DatabaseServer) -> None:
    with relay_on(mariadb118, tmp_path) as own, ExitStack() as stack:
        name = own.database()
        mariadb118.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
        own.await_rows(f"{name}.t", 1)
        streams = [stack.enter_context(client(own.port)).follow(USER, SECRET, f"{name}.t") for client in CLIENTS]
        assert [next(rows)["id"] for rows in streams] == [1] * len(CLIENTS)
        assert own.relay.stop() == 0
        for rows in streams:
            with pytest.raises(GivesUp, match="Connection reset by peer"):
                next(rows)
        mariadb118.execute(f"DROP DATABASE {name}")


@pytest.mark.parametrize("client", [each for each in CLIENTS if each is not Connectfit], ids=lambda c: c.__name__)
def test_a_table_that_is_not_there_is_an_error_to_most_public_clients(
    cdc: Service, db: str, client: type[PublicClient]
) -> None:
    with client(cdc.port) as running, pytest.raises(GivesUp, match=f"ERR NO-FILE File '{db}.no.000001.avro'"):
        next(running.follow(USER, SECRET, f"{db}.no"))


def test_the_client_that_waits_for_a_table_gets_it(cdc: Service, db: str) -> None:
    with Connectfit(cdc.port) as client:
        rows = client.follow(USER, SECRET, f"{db}.late")
        cdc.server.execute(f"CREATE TABLE {db}.late (id INT PRIMARY KEY)", f"INSERT INTO {db}.late VALUES (7)")
        assert next(rows)["id"] == 7
        assert [schema["table"] for schema in client.schemas] == ["late"]


def test_the_script_for_the_last_transaction_prints_it(cdc: Service, db: str) -> None:
    with CppConnector(cdc.port) as client:
        rows = client.follow(USER, SECRET, f"{db}.t")
        third = [next(rows) for _ in range(3)][-1]
    with CdcLastTransaction(cdc.port) as script:
        script.login(USER, SECRET)
        script.register("JSON")
        assert script.last()["GTID"] == triplet_of(third)


def next_lines(client: CdcClient, count: int) -> list[Line]:
    lines = client.lines()
    return [next(lines) for _ in range(count)]


def schemas_and_rows(client: CdcClient, form: str) -> Iterator[tuple[Row, Row]]:
    """Each row with the schema that stands before it."""
    if form == "AVRO":
        yield from client.records()
        return
    schema: Row = {}
    for line in client.lines():
        if line.is_schema:
            schema = line.document
        else:
            yield schema, line.document
