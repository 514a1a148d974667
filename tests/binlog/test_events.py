"""Every event that a server writes decodes to its struct, with all fields as the server itself shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from examples.dbserver import KINDS, DatabaseServer
from relay.binlog import events
from relay.binlog.decoder import Decoder
from relay.binlog.events import EventType, GtidExtra, HeaderFlag, MariadbGtidFlag, RowsFlag, table_maps
from relay.binlog.events.column_types import Type
from relay.binlog.rowvalues import Row
from relay.errors import RelayError, StopCode
from tests.support import source_rows
from tests.support.binlogs import place, record, split
from tests.support.event_binlogs import EventLog, Listed, recorded, rows_events

pytestmark = pytest.mark.every_server

BOTH = {
    EventType.QUERY, EventType.STOP, EventType.ROTATE, EventType.INTVAR, EventType.APPEND_BLOCK, EventType.DELETE_FILE,
    EventType.RAND, EventType.USERVAR, EventType.FORMAT_DESCRIPTION, EventType.XID, EventType.BEGIN_LOAD_QUERY,
    EventType.EXECUTE_LOAD_QUERY, EventType.TABLE_MAP, EventType.INCIDENT, EventType.XA_PREPARE,
}  # fmt: skip
MYSQL = {
    EventType.ROWS_QUERY, EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.GTID,
    EventType.PREVIOUS_GTIDS, EventType.PARTIAL_UPDATE_ROWS, EventType.TRANSACTION_PAYLOAD, EventType.GTID_TAGGED,
}  # fmt: skip
MARIADB = {
    EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1, EventType.ANNOTATE_ROWS,
    EventType.BINLOG_CHECKPOINT, EventType.MARIADB_GTID, EventType.GTID_LIST, EventType.QUERY_COMPRESSED,
    EventType.WRITE_ROWS_COMPRESSED_V1, EventType.UPDATE_ROWS_COMPRESSED_V1, EventType.DELETE_ROWS_COMPRESSED_V1,
}  # fmt: skip
SHOWN_TYPES = {
    "User var": "USERVAR", "Format_desc": "FORMAT_DESCRIPTION", "Xa_prepare": "XA_PREPARE",
    "Gtid_tagged_log_event": "GTID_TAGGED", "Update_rows_partial": "PARTIAL_UPDATE_ROWS",
}  # fmt: skip
"""Names in SHOW BINLOG EVENTS that are not those of the types but for case."""
SHOWN_FLAGS = {RowsFlag.STATEMENT_END: "STMT_END_F", RowsFlag.SQL_FOREIGN_KEYS: "USE_SQL_FOREIGN_KEY_F"}


@pytest.fixture(params=list(KINDS))
def log(request: pytest.FixtureRequest) -> EventLog:
    """The binlog of each server, which holds an event of nearly every type."""
    return recorded(request.param)


def raw_events(stream: bytes) -> Iterator[bytes]:
    """The events of a recorded stream."""
    return (packet[5:] for packet in split(stream) if packet[4] == 0)


def of_type(log: EventLog, kind: type[Any]) -> list[Any]:
    """The events of a log that are of that kind, and not of one derived from it."""
    return [event for event in log.all() if type(event) is kind]


def the(log: EventLog, kind: type[Any]) -> Any:
    """The only one of that kind."""
    (event,) = of_type(log, kind)
    return event


def test_the_log_holds_every_type_that_the_server_can_be_made_to_write(log: EventLog) -> None:
    found = {event.header.event_type for event in log.all()}
    assert found == BOTH | (MYSQL if log.kind == "mysql97" else MARIADB)


def test_nothing_is_left_over_as_unknown(log: EventLog) -> None:
    for event in log.all():
        assert not isinstance(event, events.UnknownEvent)
        assert not getattr(event, "unknown", b"")
        if isinstance(event, events.QueryEvent):
            assert event.status.unknown == b"", event
        if isinstance(event, events.RowsEvent) and event.extra:
            assert event.extra.unknown == b"", event


def listed(log: EventLog) -> Iterator[tuple[int, bytes, events.Event, Listed]]:
    """Each event, where it begins and its bytes, with the line that the server has of it."""
    for name, lines in log.listed.items():
        rest, at, decoder = iter(lines), 4, Decoder()
        for raw in log.files[name]:
            event, line = decoder.decode(raw), next(rest, None)
            if line is None:  # written after the list was made
                assert isinstance(event, events.StopEvent | events.BinlogCheckpointEvent)
                break
            yield at, raw, event, line
            if isinstance(event, events.TransactionPayloadEvent):
                for inner in event.events:
                    assert next(rest).info == shown(log, inner)
            at += len(raw)
        assert next(rest, None) is None


def test_the_headers_are_what_the_server_lists(log: EventLog) -> None:
    for at, raw, event, line in listed(log):
        header, kind = event.header, EventType(event.header.event_type).name.replace("MARIADB_", "")
        assert (line.position, line.server_id, line.end) == (at, header.server_id, header.next_event_pos)
        assert SHOWN_TYPES.get(line.type, line.type).upper() == kind
        assert header.event_length == len(raw)
        assert header.checksum == int.from_bytes(raw[-4:], "little")


def test_the_bodies_are_what_the_server_lists(log: EventLog) -> None:
    compared = set()
    for _, _, event, line in listed(log):
        said = shown(log, event)
        if said is not None:
            assert said == re.sub("set foreign_key_checks=.; ", "", line.info), event
            compared.add(type(event))
    assert len(compared) > 20, compared


def shown(log: EventLog, event: events.Event) -> str | None:
    """What SHOW BINLOG EVENTS says of an event, put together from its fields; None where it says nothing."""
    match event:
        case events.FormatDescriptionEvent():
            return f"Server ver: {event.server_version}, Binlog ver: {event.format}"
        case events.PreviousGtidsEvent():
            return event.gtid_set
        case events.GtidEvent():
            return f"SET @@SESSION.GTID_NEXT= '{event.gtid}'"
        case events.MariadbGtidEvent():
            if event.flags & MariadbGtidFlag.PREPARED_XA:
                return f"XA START {event.xid} GTID {event.gtid}"
            alter = " START ALTER" if event.flags_extra & GtidExtra.START_ALTER else ""
            alter = f" COMMIT ALTER id={event.sa_seq_no}" if event.flags_extra & GtidExtra.COMMIT_ALTER else alter
            return ("" if event.flags & MariadbGtidFlag.STANDALONE else "BEGIN ") + f"GTID {event.gtid}{alter}"
        case events.ExecuteLoadQueryEvent():
            return f"use `{event.database}`; {event.statement} ;file_id={event.file_id}"
        case events.QueryEvent():
            if "\xe9" in event.statement:
                return None  # it is listed in the session's character set
            named = event.database and not event.header.flags & HeaderFlag.SUPPRESS_USE
            use = f"use `{event.database}`; " if named else ""
            xid = f" /* xid={event.status.ddl_xid} */" if event.status.ddl_xid and log.kind == "mysql97" else ""
            return use + event.statement + xid
        case events.TableMapEvent():
            return f"table_id: {event.table_id} ({event.database}.{event.table})"
        case events.RowsEvent():
            names = [f" {name}" for flag, name in SHOWN_FLAGS.items() if event.flags & flag]
            return f"table_id: {event.table_id} flags:{''.join(names)}"
        case events.XidEvent():
            return f"COMMIT /* xid={event.transaction_nr} */"
        case events.XaPrepareEvent():
            return f"XA COMMIT {event.xid} ONE PHASE" if event.one_phase else f"XA PREPARE {event.xid}"
        case events.IntvarEvent():
            return f"{('', 'LAST_INSERT_ID', 'INSERT_ID')[event.type]}={event.value}"
        case events.RandEvent():
            return f"rand_seed1={event.first_seed},rand_seed2={event.second_seed}"
        case events.BeginLoadQueryEvent() | events.AppendBlockEvent():
            return f";file_id={event.file_id};block_len={len(event.block_data)}"
        case events.DeleteFileEvent():
            return f";file_id={event.file_id}"
        case events.AnnotateRowsEvent():
            return event.statement
        case events.RowsQueryEvent():
            return f"# {event.statement}"
        case events.TransactionPayloadEvent():
            return f"compression='ZSTD', decompressed_size={event.uncompressed_size} bytes"
        case events.IncidentEvent():
            return f"#{event.incident} (LOST_EVENTS)"
        case events.RotateEvent():
            return f"{event.filename};pos={event.position}"
        case events.GtidListEvent():
            return f"[{','.join(str(gtid) for gtid in sorted(event.gtid, key=str))}]"
        case events.BinlogCheckpointEvent():
            return event.filename
    return None


def test_user_variables(log: EventLog) -> None:
    found = {event.name: event for event in of_type(log, events.UserVarEvent)}
    assert {name: (event.type, event.is_null, event.flags) for name, event in found.items()} == {
        "v": (0, False, 0), "n": (0, True, 0), "i": (2, False, 0), "d": (4, False, 0), "f": (1, False, 0),
        "u": (2, False, 1),
    }  # fmt: skip
    assert found["v"].value == b"text"
    assert found["i"].value == (-5).to_bytes(8, "little", signed=True)
    assert found["u"].value == b"\xff" * 8
    assert found["d"].value[:2] == b"\x02\x01"
    assert found["f"].value == bytes.fromhex("000000000000f83f")
    assert found["v"].charset_nr in (255, 2304, 45)


def test_status_variables_tell_of_the_session(log: EventLog) -> None:
    by_statement = {event.statement: event.status for event in log.all() if isinstance(event, events.QueryEvent)}
    formatted = by_statement["INSERT INTO t (a) VALUES (DATE_FORMAT(NOW(6), '%W'))"]
    assert (formatted.time_zone, formatted.lc_time_names, formatted.catalog) == ("+03:00", 4, "std")
    assert formatted.microseconds is not None
    latin = by_statement["INSERT INTO t (a) VALUES ('é')"]  # converted from latin1
    assert latin.charset is not None and latin.charset[0] == 8
    stepped = by_statement["INSERT INTO t (a) VALUES ('z')"]
    assert stepped.auto_increment == (5, 2)
    assert stepped.flags2 is not None and stepped.flags2 & 1 << 26, "foreign_key_checks was off"
    (view,) = (status for statement, status in by_statement.items() if " VIEW " in statement)
    assert view.invoker == ("root", "localhost")
    assert view.ddl_xid or log.kind == "mariadb1011"
    if log.kind == "mysql97":
        created = by_statement["CREATE DATABASE ev CHARACTER SET utf8mb4"]
        assert (created.default_collation_for_utf8mb4, created.default_table_encryption) == (255, False)
        assert created.updated_db_names == ("ev",)
        assert by_statement["CREATE TABLE keyed (a INT PRIMARY KEY)"].sql_require_primary_key is True
        assert formatted.enable_cascade_triggers is False
    if log.kind == "mariadb118":
        collations = by_statement["CREATE DATABASE ev CHARACTER SET utf8mb4"].character_set_collations
        assert collations is not None and (45, 2304) in collations  # utf8mb4 and utf8mb4_uca1400_ai_ci


@pytest.mark.parametrize("kind", ["mariadb1011", "mariadb118"])
def test_an_alter_in_two_phases(kind: str) -> None:
    log = recorded(kind)
    begun, done = (event for event in of_type(log, events.QueryEvent) if event.statement == "ALTER TABLE t ADD c INT")
    assert begun.status.gtid_flags3 == GtidExtra.START_ALTER
    assert done.status.gtid_flags3 == GtidExtra.COMMIT_ALTER
    gtids = of_type(log, events.MariadbGtidEvent)
    (first,) = (event for event in gtids if event.flags_extra & GtidExtra.START_ALTER)
    (second,) = (event for event in gtids if event.flags_extra & GtidExtra.COMMIT_ALTER)
    assert second.sa_seq_no == done.status.start_alter_seq_no == first.sequence_nr


@pytest.mark.parametrize("kind", ["mariadb1011", "mariadb118"])
def test_gtids_of_mariadb(kind: str) -> None:
    log = recorded(kind)
    found = of_type(log, events.MariadbGtidEvent)
    prepared, completed = (event for event in found if event.xid)
    assert prepared.flags & MariadbGtidFlag.PREPARED_XA and completed.flags & MariadbGtidFlag.COMPLETED_XA
    assert prepared.xid == completed.xid == events.XaId(7, b"g1", b"b1")
    (elsewhere,) = (event for event in found if event.domain_id == 5)
    assert elsewhere.gtid == f"5-{elsewhere.header.server_id}-1"
    assert elsewhere.header.flags & HeaderFlag.SKIP_REPLICATION
    assert all(event.thread_id for event in found) == (kind == "mariadb118")
    state = of_type(log, events.GtidListEvent)[-1]
    assert state.gtid_cnt == 2
    assert {gtid.domain_id: gtid.sequence_nr for gtid in state.gtid}[5] == 1


@pytest.mark.parametrize("kind", ["mysql97"])
def test_gtids_of_mysql(kind: str) -> None:
    log = recorded(kind)
    plain, tagged = of_type(log, events.GtidEvent), the(log, events.GtidTaggedEvent)
    assert [event.sequence_nr for event in plain] == list(range(1, len(plain) + 1))
    assert (tagged.tag, tagged.sequence_nr, tagged.source_id) == ("blue", 1, plain[0].source_id)
    for event in [*plain, tagged]:
        assert event.immediate_server_version == event.original_server_version == 90704
        assert event.immediate_commit_timestamp == event.original_commit_timestamp
        assert abs(event.immediate_commit_timestamp // 1_000_000 - event.header.timestamp) <= 5
    lengths: list[int] = []  # of transactions as they lie in the file
    for raw in log.files["binlog.000001"]:
        if raw[4] in (EventType.GTID, EventType.GTID_TAGGED, EventType.ROTATE):
            lengths.append(0)
        if lengths:
            lengths[-1] += len(raw)
    told = [event.transaction_length for event in log.all() if isinstance(event, events.GtidEvent)]
    assert told == lengths[:-1]
    assert of_type(log, events.PreviousGtidsEvent)[-1].gtid_set == f"{tagged.source_id}:1-{len(plain)}:blue:1"


def test_table_maps_tell_everything(log: EventLog) -> None:
    found = next(event for event in of_type(log, events.TableMapEvent) if event.table == "kinds")
    columns = {column.name: column for column in found.columns}
    assert list(columns) == ["p", "k", "l", "e", "s", "u", "y"]
    assert (found.column_count, len(found.column_types), found.database) == (7, 7, "ev")
    assert columns["p"].geometry == 1
    assert columns["e"].labels == ("a".encode("latin1"), "ä".encode("latin1")) and columns["e"].label_collation == 8
    assert columns["s"].labels == (b"c", b"d") and columns["s"].type == Type.SET
    assert columns["u"].unsigned and not columns["k"].nullable and columns["e"].nullable
    assert columns["k"].collation == 8
    assert found.primary_key == ((2, 7), (1, 0))
    assert [column.primary for column in found.columns] == [False, True, True, False, False, False, False]
    assert found.null_indicator == b"\x78"


@pytest.mark.parametrize("kind", ["mysql97"])
def test_table_maps_of_mysql_tell_what_only_mysql_has(kind: str) -> None:
    found = next(event for event in of_type(recorded(kind), events.TableMapEvent) if event.table == "documents")
    assert [column.visible for column in found.columns] == [True, True, True, False]
    assert [column.dimensions for column in found.columns] == [None, None, 3, None]
    parts = [event.extra for _, event in rows_events(recorded(kind)) if event.extra]
    assert parts == [events.ExtraRowInfo(partition_id=3), events.ExtraRowInfo(partition_id=2, source_partition_id=3)]


def test_files_that_statements_load(log: EventLog) -> None:
    begun = of_type(log, events.BeginLoadQueryEvent)
    blocks = of_type(log, events.AppendBlockEvent)
    execute, deleted = the(log, events.ExecuteLoadQueryEvent), the(log, events.DeleteFileEvent)
    assert [event.file_id for event in begun] == [execute.file_id, deleted.file_id]
    data = begun[0].block_data + b"".join(block.block_data for block in blocks)
    assert data == "".join(f"{number}\t{'l' * 100}\n" for number in range(1000, 4000)).encode()
    named = execute.statement.encode()[execute.fn_pos_start : execute.fn_pos_end].decode()
    assert named.split() == ["LOCAL", "INFILE", named.split("'")[1].join("''"), "IGNORE", "INTO"]
    assert execute.dup_handling == 1


def test_compressed_events_are_inflated(log: EventLog) -> None:
    if log.kind == "mysql97":
        payload = the(log, events.TransactionPayloadEvent)
        kinds = [type(event) for event in payload.events]
        assert kinds == [events.QueryEvent, events.TableMapEvent, events.WriteRowsEvent, events.XidEvent]
        assert payload.uncompressed_size == sum(event.header.event_length for event in payload.events)
        assert payload.payload_size < payload.uncompressed_size
    else:
        assert "long, " * 60 in the(log, events.QueryCompressedEvent).statement
    rows = [(decoder, event) for decoder, event in rows_events(log) if b"x" * 300 in event.row_data]
    decoder, event = rows[0]
    assert event.compressed == (log.kind != "mysql97")
    assert event.row_data_size == len(event.row_data)
    assert next(row.after["a"] for row in decoder.rows(event) if row.after) == "x" * 300


def test_rows_of_the_log(log: EventLog) -> None:
    found: dict[str, list[Row]] = {}
    for decoder, event in rows_events(log):
        assert event.table_map is not None
        found.setdefault(event.table_map.table, []).extend(decoder.rows(event))
    point = b"\0\0\0\0\1\1\0\0\0" + bytes.fromhex("000000000000f03f0000000000000040")
    kinds: dict[str, Any] = {"p": point, "k": "k", "l": "l", "e": "ä", "s": "c,d", "u": str(2**64 - 1), "y": "2026"}
    assert found["kinds"] == [Row(None, kinds)]
    if log.kind == "mysql97":
        before, after = found["documents"][-1].before, found["documents"][-1].after
        assert before is not None and after is not None
        assert str(before["d"]).startswith('{"a": 1, ') and str(after["d"]).startswith('{"a": 2, ')
        assert found["parts"] == [Row(None, {"a": "3"}), Row({"a": "3"}, {"a": "6"})]


def test_events_go_to_json_and_messagepack_and_back(log: EventLog) -> None:
    for event in log.all():
        assert msgspec.json.decode(msgspec.json.encode(event), type=events.Event) == event
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=events.Event) == event


def test_rows_can_be_read_of_an_event_that_came_as_json(log: EventLog) -> None:
    decoder, event = next(rows_events(log))
    again: events.Event = msgspec.json.decode(msgspec.json.encode(event), type=events.Event)
    assert isinstance(again, events.WriteRowsEvent)
    assert Decoder().rows(again) == decoder.rows(event) == [Row(None, {"id": "1", "a": "x", "r": None})]


@pytest.mark.usefixtures("full_metadata")
def test_rows_are_what_select_prints(server: DatabaseServer, db: str) -> None:
    start = place(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT UNSIGNED PRIMARY KEY, a VARCHAR(9), e ENUM('x','y'), d DECIMAL(5,2), f FLOAT,"
        " b BINARY(3), l TINYBLOB)",
        f"INSERT INTO {db}.t VALUES (4000000000, 'é', 'y', 1.5, 1.1, 'q', 0xff00)",
        f"INSERT INTO {db}.t (id) VALUES (1)",
        f"UPDATE {db}.t SET a = '', l = '' WHERE id = 1",
    )
    decoder = Decoder()
    found = [decoder.decode(raw) for raw in raw_events(record(server, start))]
    rows = [row for event in found if isinstance(event, events.RowsEvent) for row in decoder.rows(event)]
    second: dict[str, Any] = {"id": "1", "a": None, "e": None, "d": None, "f": None, "b": None, "l": None}
    first: dict[str, Any] = {
        "id": "4000000000", "a": "é", "e": "y", "d": "1.50", "f": "1.1", "b": b"q\0\0", "l": b"\xff\0",
    }  # fmt: skip
    assert rows == [Row(None, first), Row(None, second), Row(second, second | {"a": "", "l": b""})]


def test_a_definition_names_what_the_table_map_does_not(server: DatabaseServer, db: str) -> None:
    server.execute(
        f"CREATE TABLE {db}.t (id INT UNSIGNED, a VARCHAR(9) CHARACTER SET latin1, e ENUM('x','y'), b BINARY(3))"
    )
    start = place(server)
    server.execute(f"INSERT INTO {db}.t VALUES (4000000000, 'é', 'y', 'q')", f"CREATE TABLE {db}.other (id INT)")
    decoder = Decoder()
    found = [decoder.decode(raw) for raw in raw_events(record(server, start))]
    (written,) = (event for event in found if isinstance(event, events.WriteRowsEvent))
    assert written.table_map is not None
    table_map = table_maps.TableMap(written.table_id, db, "t", written.table_map.columns)
    definition = source_rows.from_schema(server, table_map)
    named: dict[str, Any] = {"id": "4000000000", "a": "é", "e": "y", "b": b"q\0\0"}
    assert decoder.rows(written, definition) == [Row(None, named)]
    known = ("4000000000", "é") if server.kind.mysql else ("-294967296", b"\xe9")
    assert decoder.rows(written) == [Row(None, {"@1": known[0], "@2": known[1], "@3": "2", "@4": b"q"})]
    fewer = msgspec.structs.replace(definition, columns=definition.columns[:3])
    with pytest.raises(RelayError) as refused:
        decoder.rows(written, fewer)
    assert refused.value.code is StopCode.SCHEMA_UNPROVEN
    assert f"{db}.t" in str(refused.value)


def test_a_table_map_that_is_repeated_is_described_once(log: EventLog) -> None:
    described: dict[tuple[str, int, bytes], object] = {}
    repeated = 0
    for name, _, event in log.decoded():
        if isinstance(event, events.TableMapEvent):
            key = (name, event.table_id, event.optional_metadata)
            repeated += key in described
            assert described.setdefault(key, event.columns) is event.columns
    assert repeated
