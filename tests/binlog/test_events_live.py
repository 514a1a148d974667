"""Events over a connection: heartbeats, checksums in every setting, and comparison with a reference reader."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication import event as their_event
from pymysqlreplication import row_event as their_rows

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import events
from relay.binlog.decoder import Decoder
from relay.binlog.events import EventType, HeaderFlag
from relay.errors import RelayError, StopCode
from relay.source import commands
from relay.source.connect import take_socket
from tests.support.binlogs import StreamPosition, packets_from, place
from tests.support.waiting import patience

pytestmark = pytest.mark.brands

HEARTBEAT_V2 = 0x02  # flag of the dump
FLAGS_AT = 9
SERVER_ID = 79


def dumped(
    server: DatabaseServer, start: StreamPosition, checksum: str = "@@global.binlog_checksum", flags: int = 0
) -> Generator[bytes, None, None]:
    """Events of a dump that waits at its end, with heartbeats; `checksum` is what the replica says it takes."""
    with closing(server.connect()) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"SET @master_binlog_checksum = {checksum}, @source_binlog_checksum = {checksum}")
            cursor.execute("SET @mariadb_slave_capability = 4, @master_heartbeat_period = 100000000")
        request = bytearray(commands.binlog_dump(SERVER_ID, start.file, start.position))
        request[FLAGS_AT] |= flags
        with closing(take_socket(connection)) as taken:
            taken.settimeout(patience(20))
            taken.sendall(request)
            for payload in packets_from(taken.recv, bytearray()):
                assert payload[0] == 0, payload
                yield payload[1:]


def until_heartbeat(raw: Iterator[bytes], decoder: Decoder) -> list[events.Event]:
    """The events up to and with the first heartbeat."""
    found: list[events.Event] = []
    for data in raw:
        found.append(decoder.decode(data))
        if isinstance(found[-1], events.HeartbeatEvent | events.HeartbeatV2Event):
            return found
    raise AssertionError("the dump ended")


def end_of(found: list[events.Event], start: StreamPosition) -> int:
    """Where the events before the heartbeat end; the server may have written one more since."""
    return max([start.position, *(event.header.next_event_pos for event in found[:-1])])


def test_a_heartbeat_says_where_the_server_stands(server: DatabaseServer) -> None:
    start = place(server)
    with closing(dumped(server, start)) as raw:
        found = until_heartbeat(raw, Decoder())
    rotate, beat = found[0], found[-1]
    assert isinstance(rotate, events.RotateEvent)
    assert (rotate.filename, rotate.position) == start
    assert rotate.header.flags & HeaderFlag.ARTIFICIAL and rotate.header.timestamp == 0
    assert isinstance(beat, events.HeartbeatEvent)
    assert (beat.filename, beat.next_position) == (start.file, end_of(found, start))
    assert (beat.timestamp, beat.type, beat.flags) == (0, EventType.HEARTBEAT, beat.header.flags)


@pytest.mark.parametrize("kind", ["mysql97"])
def test_a_heartbeat_of_the_second_version(kind: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    start = place(server)
    with closing(dumped(server, start, flags=HEARTBEAT_V2)) as raw:
        found = until_heartbeat(raw, Decoder())
    beat = found[-1]
    assert isinstance(beat, events.HeartbeatV2Event)
    assert (beat.filename, beat.position) == (start.file, end_of(found, start))
    assert beat.header.event_type == EventType.HEARTBEAT_V2


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])
def test_a_server_without_checksums_and_without_gtids(kind: str, own_server: Callable[..., DatabaseServer]) -> None:
    options = ["--binlog-checksum=NONE"]
    server = own_server(kind, *options, *(["--gtid-mode=OFF"] if kind == "mysql97" else []))
    start, decoder = place(server), Decoder()
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)", "INSERT INTO d.t VALUES (1)")
    with closing(dumped(server, start)) as raw:
        found = until_heartbeat(raw, decoder)
        server.execute("SET GLOBAL binlog_checksum = CRC32")
        later = until_heartbeat(raw, decoder)
        while later[-1].header.checksum is None:
            later = until_heartbeat(raw, decoder)
    described = next(event for event in found if isinstance(event, events.FormatDescriptionEvent))
    assert described.checksum_algorithm == 0
    assert all(event.header.checksum is None for event in found if event is not described)
    written = next(event for event in found if isinstance(event, events.WriteRowsEvent))
    assert [row.after for row in decoder.rows(written)] == [{"a": "1"}]
    if kind == "mysql97":
        anonymous = next(event for event in found if isinstance(event, events.AnonymousGtidEvent))
        assert (anonymous.gtid, anonymous.sequence_nr) == ("", 0)
        assert anonymous.immediate_server_version == 90704


def test_a_replica_that_takes_no_checksums_gets_them_all_the_same_but_for_the_first(
    server: DatabaseServer, db: str
) -> None:
    start = place(server)
    server.execute(f"CREATE TABLE {db}.t (a INT)")
    with closing(dumped(server, start, checksum="'NONE'")) as raw:
        found = until_heartbeat(raw, Decoder())
    assert any(isinstance(event, events.QueryEvent) and db in event.statement for event in found)
    assert isinstance(found[0], events.RotateEvent) and found[0].filename == start.file
    assert [event.header.checksum is None for event in found] == [True] + [False] * (len(found) - 1)


def test_damage_on_the_way_is_named_with_its_place(server: DatabaseServer, db: str) -> None:
    start = place(server)
    server.execute(f"CREATE TABLE {db}.t (a INT)")
    decoder = Decoder()
    with closing(dumped(server, start)) as raw:
        for data in raw:
            end = int.from_bytes(data[13:17], "little")
            if data[4] == EventType.QUERY:
                break
            decoder.decode(data)
    damaged = bytearray(data)
    damaged[30] ^= 1
    with pytest.raises(RelayError) as refused:
        decoder.decode(bytes(damaged))
    assert refused.value.code is StopCode.CHECKSUM_MISMATCH
    assert refused.value.position == f"{start.file}:{end - len(data)}"
    assert isinstance(decoder.decode(data), events.QueryEvent)


@pytest.mark.filterwarnings("ignore:'(passwd|db)' is deprecated:DeprecationWarning")
def test_the_witness_reads_the_same(server: DatabaseServer, db: str) -> None:
    start = place(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(9))",
        f"INSERT INTO {db}.t VALUES (1, 'x'), (2, NULL)",
        f"UPDATE {db}.t SET a = 'y'",
        f"DELETE FROM {db}.t WHERE id = 1",
        "FLUSH BINARY LOGS",
    )
    with closing(dumped(server, start)) as raw:
        ours = [event for event in until_heartbeat(raw, Decoder()) if event.header.event_type in COMPARED]
    mysql = server.kind.mysql
    theirs = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD},
        server_id=SERVER_ID + 1, log_file=start.file, log_pos=start.position, resume_stream=True,
        only_events=list(COMPARED.values()),
    )  # fmt: skip
    with closing(theirs):
        seen = list(theirs)
    assert len(ours) >= 8
    assert [of_ours(event) for event in ours] == [of_theirs(event) for event in seen]
    gtids = [event for event in ours if isinstance(event, events.GtidEvent | events.MariadbGtidEvent)]
    assert bool(gtids) and all(isinstance(event, events.GtidEvent) == mysql for event in gtids)


COMPARED: dict[int, Any] = {
    EventType.QUERY: their_event.QueryEvent,
    EventType.ROTATE: their_event.RotateEvent,
    EventType.XID: their_event.XidEvent,
    EventType.GTID: their_event.GtidEvent,
    EventType.MARIADB_GTID: their_event.MariadbGtidEvent,
    EventType.TABLE_MAP: their_rows.TableMapEvent,
    EventType.WRITE_ROWS: their_rows.WriteRowsEvent,
    EventType.UPDATE_ROWS: their_rows.UpdateRowsEvent,
    EventType.DELETE_ROWS: their_rows.DeleteRowsEvent,
    EventType.WRITE_ROWS_V1: their_rows.WriteRowsEvent,
    EventType.UPDATE_ROWS_V1: their_rows.UpdateRowsEvent,
    EventType.DELETE_ROWS_V1: their_rows.DeleteRowsEvent,
}


def of_ours(event: events.Event) -> tuple[Any, ...]:
    """What both have of an event."""
    header = event.header
    common = (header.event_type, header.timestamp, header.server_id, header.next_event_pos, header.flags)
    match event:
        case events.QueryEvent():
            own: tuple[Any, ...] = event.thread_id, event.seconds, event.errornr, event.database, event.statement
        case events.RotateEvent():
            own = event.position, event.filename
        case events.XidEvent():
            own = (event.transaction_nr,)
        case events.GtidEvent():
            own = event.gtid, event.last_committed, event.sequence_number
        case events.MariadbGtidEvent():
            own = event.gtid, event.flags
        case events.TableMapEvent():
            own = event.table_id, event.database, event.table, event.column_count
        case events.RowsEvent():
            own = event.table_id, event.flags, event.column_count
        case _:
            raise AssertionError(event)
    return *common, *own


def of_theirs(event: Any) -> tuple[Any, ...]:
    """The same of an event of mysql-replication."""
    packet = event.packet
    own: tuple[Any, ...]
    common = (packet.event_type, packet.timestamp, packet.server_id, packet.log_pos, packet.flags)
    match event:
        case their_event.QueryEvent():
            own = event.slave_proxy_id, event.execution_time, event.error_code, event.schema.decode(), event.query
        case their_event.RotateEvent():
            own = event.position, event.next_binlog
        case their_event.XidEvent():
            own = (event.xid,)
        case their_event.GtidEvent():
            own = event.gtid, event.last_committed, event.sequence_number
        case their_event.MariadbGtidEvent():
            own = event.gtid, event.flags
        case their_rows.TableMapEvent():
            own = event.table_id, event.schema, event.table, event.column_count
        case _:
            own = event.table_id, event.flags, event.number_of_columns
    return *common, *own
