"""Constructed events that no server here writes; and every event code has a test, every field a description."""

from __future__ import annotations

import ast
import inspect
import struct
import zlib
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import GtidSet
from relay.binlog import events
from relay.binlog.decoder import DECODED, Decoder
from relay.binlog.events import EventType
from relay.binlog.events.collations import CHARSET_OF
from relay.binlog.rowvalues import Row
from relay.errors import RelayError, StopCode
from relay.source.facts import collations
from tests.binlog import test_events
from tests.support import FIXTURES
from tests.support.event_binlogs import events_of_file, recorded

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SOURCE = bytes.fromhex(UUID.replace("-", ""))
TABLE = struct.pack("<IHH", 7, 0, 1) + b"\4shop\0\1t\0" + b"\1\3\0\1"
ROWS_HEAD = struct.pack("<IHH", 7, 0, 1)
IMAGES = b"\0\x2a\0\0\0"
LIVE = {EventType.HEARTBEAT, EventType.HEARTBEAT_V2, EventType.ANONYMOUS_GTID, EventType.START_ENCRYPTION}
"""Tested with a server too, but not of those that stand in its log."""


def event(kind: int, body: bytes, *, end: int = 0, server: int = 7, flags: int = 0) -> bytes:
    """An event without a checksum."""
    return struct.pack("<IBIIIH", 1700000000, kind, server, 19 + len(body), end, flags) + body


def decode(kind: int, body: bytes, *before: bytes) -> Any:
    """The struct of one event, after others."""
    decoder = Decoder(checksums=False)
    for earlier in before:
        decoder.decode(earlier)
    return decoder.decode(event(kind, body))


def packed(data: bytes) -> bytes:
    """As MariaDB compresses statements and images."""
    return b"\x82" + len(data).to_bytes(2, "big") + zlib.compress(data)


def varlen(number: int) -> bytes:
    """As mysql::serialization writes numbers below 2^63."""
    more = max(0, (number.bit_length() - 1) // 7)
    if more >= 8:
        return b"\xff" + number.to_bytes(8, "little")
    return (number << more + 1 | (1 << more) - 1).to_bytes(more + 1, "little")


class Made(NamedTuple):
    """A body that no server wrote, and what has to come of it."""

    kind: int
    body: bytes
    struct: type[Any]
    fields: dict[str, Any]


MADE = [
    Made(EventType.WRITE_ROWS_V0, ROWS_HEAD + b"old", events.RowsV0Event, {"type": 20, "table_id": 7, "body": b"old"}),
    Made(EventType.UPDATE_ROWS_V0, ROWS_HEAD + b"rows", events.RowsV0Event, {"type": 21, "flags": 1}),
    Made(EventType.DELETE_ROWS_V0, ROWS_HEAD + b"rows", events.RowsV0Event, {"type": 22}),
    Made(EventType.IGNORABLE, b"whatever", events.IgnorableEvent, {"body": b"whatever"}),
    Made(EventType.TRANSACTION_CONTEXT, b"context", events.TransactionContextEvent, {"body": b"context"}),
    Made(EventType.VIEW_CHANGE, b"view", events.ViewChangeEvent, {"body": b"view"}),
    Made(
        EventType.WRITE_ROWS_COMPRESSED, ROWS_HEAD + b"\2\0\1\1" + packed(IMAGES), events.WriteRowsEvent,
        {"version": 2, "compressed": True, "row_data": IMAGES, "row_data_size": 5, "column_count": 1},
    ),
    Made(
        EventType.UPDATE_ROWS_COMPRESSED, ROWS_HEAD + b"\2\0\1\1\1" + packed(IMAGES * 2), events.UpdateRowsEvent,
        {"version": 2, "compressed": True, "row_data": IMAGES * 2, "column_update_bitmap": b"\1"},
    ),
    Made(
        EventType.DELETE_ROWS_COMPRESSED, ROWS_HEAD + b"\2\0\1\1" + packed(IMAGES), events.DeleteRowsEvent,
        {"version": 2, "compressed": True, "extra": None},
    ),
    Made(172, b"rows in parts", events.UnknownEvent, {"type": 172, "body": b"rows in parts"}),
    Made(EventType.LOAD, b"of MySQL 4", events.UnknownEvent, {"type": 6, "body": b"of MySQL 4"}),
]  # fmt: skip


@pytest.mark.parametrize("made", MADE, ids=lambda made: str(made.kind))
def test_an_event_that_no_server_wrote(made: Made) -> None:
    found = decode(made.kind, made.body, event(EventType.TABLE_MAP, TABLE))
    assert type(found) is made.struct
    assert {name: getattr(found, name) for name in made.fields} == made.fields
    assert msgspec.json.decode(msgspec.json.encode(found), type=events.Event) == found


def test_every_code_that_is_decoded_is_under_test() -> None:
    written = test_events.BOTH | test_events.MYSQL | test_events.MARIADB | LIVE
    made = {made.kind for made in MADE if made.struct is not events.UnknownEvent}
    assert set(DECODED) == written | made
    assert not written & made, "a server writes it"


@pytest.mark.parametrize(("mysql", "mariadb"), [("mysql97", "mariadb118")])
def test_every_struct_comes_of_some_code(mysql: str, mariadb: str) -> None:
    known = {made.struct for made in MADE}
    for kind in (mysql, mariadb):
        known |= {type(found) for found in recorded(kind).all()}
    live = {events.HeartbeatEvent, events.HeartbeatV2Event, events.AnonymousGtidEvent, events.StartEncryptionEvent}
    assert known | live == set(get_args(events.Event))


NAMED = {
    events.Header: "checksum event_type timestamp server_id event_length next_event_pos flags",
    events.AnnotateRowsEvent: "statement",
    events.BinlogCheckpointEvent: "filename",
    events.StartEncryptionEvent: "scheme key_version nonce",
    events.FormatDescriptionEvent: "format server_version timestamp header_len post_header_lengths",
    events.MariadbGtidEvent: "sequence_nr domain_id flags commit_id",
    events.GtidListEvent: "gtid_cnt gtid",
    events.MariadbGtid: "domain_id server_id sequence_nr",
    events.HeartbeatEvent: "timestamp next_position type flags",
    events.IntvarEvent: "value type",
    events.QueryEvent: "thread_id seconds database errornr status statement",
    events.RandEvent: "first_seed second_seed",
    events.RotateEvent: "position filename",
    events.RowsEvent: "type table_id flags column_count column_bitmap column_update_bitmap row_data_size row_data",
    events.TableMapEvent: "table_id database table column_count column_types metadata null_indicator",
    events.UserVarEvent: "name is_null type charset_nr value flags",
    events.XidEvent: "transaction_nr",
}
"""Fields as MariaDB's C API names them (MARIADB_RPL_EVENT)."""


@pytest.mark.parametrize("kind", NAMED)
def test_fields_have_the_names_of_the_c_api(kind: type[msgspec.Struct]) -> None:
    assert set(NAMED[kind].split()) <= set(kind.__struct_fields__)
    if issubclass(kind, events.BinlogEvent):
        assert kind.__struct_fields__[0] == "header"


@pytest.mark.parametrize("name", events.__all__)
def test_every_public_name_and_every_field_is_documented(name: str) -> None:
    kind = getattr(events, name)
    if not isinstance(kind, type):
        return
    assert inspect.getdoc(kind)
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    for statement, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign | ast.Assign) and name != "EventType":
            described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            assert described, f"{name}: line {statement.lineno} has no description"


def test_a_binlog_that_mariadb_encrypted() -> None:
    """Recorded from MariaDB 11.8.6 with file_key_management, whose plugin is not among the packages of the tests."""
    first, second, third, *_ = events_of_file(FIXTURES / "mariadb118-encrypted.binlog")
    decoder = Decoder()
    assert isinstance(decoder.decode(first), events.FormatDescriptionEvent)
    found = decoder.decode(second)
    assert isinstance(found, events.StartEncryptionEvent)
    assert (found.scheme, found.key_version, len(found.nonce)) == (1, 1, 12)
    assert found.header.event_length == 40
    with pytest.raises(RelayError):
        decoder.decode(third)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (b"", (None,) * 8),  # MySQL 5.6
        (b"\2" + struct.pack("<qq", 3, 4), (3, 4, *(None,) * 6)),  # 5.7
        (
            b"\2" + struct.pack("<qq", 3, 4) + (1 << 55 | 600).to_bytes(7, "little") + (500).to_bytes(7, "little")
            + b"\xfc\x10\x02" + struct.pack("<II", 1 << 31 | 90704, 80046) + struct.pack("<Q", 9),
            (3, 4, 600, 500, 528, 90704, 80046, 9),
        ),
    ],
)  # fmt: skip
def test_a_gtid_of_older_servers_and_of_a_replica(more: bytes, found: tuple[int | None, ...]) -> None:
    for kind in (EventType.GTID, EventType.ANONYMOUS_GTID):
        decoded = decode(kind, b"\1" + SOURCE + struct.pack("<q", 5) + more)
        assert msgspec.structs.astuple(decoded)[1:] == (1, UUID, 5, *found)


def test_a_tagged_gtid_of_a_replica_with_a_field_that_is_newer() -> None:
    source = b"".join(varlen(byte) for byte in SOURCE)
    numbers = [varlen(2) + varlen(5 << 1), varlen(3) + varlen(3) + b"red", varlen(4) + varlen(2 << 1)]
    times = [
        varlen(5) + varlen(3 << 1),
        varlen(6) + varlen(1 << 60),
        varlen(7) + varlen(1 << 50),
        varlen(8) + varlen(300),
    ]
    rest = [varlen(9) + varlen(90704), varlen(10) + varlen(80400), varlen(11) + varlen(2**63 + 1), varlen(12) + b"new"]
    fields = b"".join([varlen(0) + varlen(1), varlen(1) + source, *numbers, *times, *rest])
    found = decode(EventType.GTID_TAGGED, varlen(1) + varlen(len(fields)) + varlen(11) + fields)
    assert found.gtid == f"{UUID}:red:5"
    assert (found.commit_flag, found.last_committed, found.sequence_number, found.transaction_length) == (1, 2, 3, 300)
    assert (found.immediate_commit_timestamp, found.original_commit_timestamp) == (1 << 60, 1 << 50)
    assert (found.immediate_server_version, found.original_server_version) == (90704, 80400)
    assert (found.commit_group_ticket, found.unknown) == (2**63 + 1, varlen(12) + b"new")


def test_a_set_of_gtids() -> None:
    text = f"{UUID}:1-5:9:red:3"
    assert decode(EventType.PREVIOUS_GTIDS, GtidSet(text).encode()).gtid_set == text


def test_extra_row_information_of_ndb_and_of_newer_servers() -> None:
    extra = b"\0\5\1abc" + b"\1\3\0" + b"\7new"
    body = ROWS_HEAD + (len(extra) + 2).to_bytes(2, "little") + extra + b"\1\1" + IMAGES
    found = decode(EventType.WRITE_ROWS, body)
    assert found.extra == events.ExtraRowInfo(3, None, 1, b"abc", b"\7new")
    assert found.table_map is None


def test_status_variables_that_no_server_here_wrote() -> None:
    status = (
        b"\2\3std\0" + b"\7\4\0" + b"\x08\x21\0" + b"\x09" + bytes(8) + b"\x0a\1\0\0\0" + b"\x0c\xfe" + b"\x10\1"
        + b"\x77newer"
    )  # fmt: skip
    body = struct.pack("<IIBHH", 1, 2, 1, 1062, len(status)) + status + b"d\0" + b"SELECT '\xff'"
    found = decode(EventType.QUERY, body)
    assert (found.thread_id, found.seconds, found.errornr, found.database) == (1, 2, 1062, "d")
    assert found.statement == "SELECT '\ufffd'"
    expected = events.QueryStatus(
        catalog="std", lc_time_names=4, charset_database=33, table_map_for_update=0, master_data_written=1,
        updated_db_names=(), explicit_defaults_for_timestamp=True, unknown=b"\x77newer",
    )  # fmt: skip
    assert found.status == expected


@pytest.mark.parametrize(
    ("collation", "statement"),
    [(8, "SELECT 'é'"), (63, "SELECT '\ufffd'"), (51, "SELECT 'й'"), (9999, "SELECT '\ufffd'")],
)
def test_statements_are_converted_from_the_character_set_of_their_session(collation: int, statement: str) -> None:
    status = b"\4" + collation.to_bytes(2, "little") * 3
    body = struct.pack("<IIBHH", 1, 0, 0, 0, len(status)) + status + b"\0SELECT '\xe9'"
    assert decode(EventType.QUERY, body).statement == statement


def test_a_payload_that_is_not_compressed() -> None:
    inner = event(EventType.XID, bytes(8)) + event(EventType.QUERY, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0BEGIN")
    body = b"\1\1" + bytes([len(inner)]) + b"\2\3\xfc\xff\0" + b"\0" + inner
    found = decode(EventType.TRANSACTION_PAYLOAD, body)
    assert (found.compression_type, found.payload_size, found.uncompressed_size) == (255, len(inner), len(inner))
    assert [type(each) for each in found.events] == [events.XidEvent, events.QueryEvent]
    nested = event(EventType.TRANSACTION_PAYLOAD, body)
    with pytest.raises(RelayError, match="another compressed transaction"):
        decode(EventType.TRANSACTION_PAYLOAD, b"\1\1" + bytes([len(nested)]) + b"\2\3\xfc\xff\0" + b"\0" + nested)


def test_rows_of_a_table_that_was_not_mapped_are_refused_by_name() -> None:
    found = decode(EventType.WRITE_ROWS_V1, ROWS_HEAD + b"\1\1" + IMAGES)
    with pytest.raises(RelayError, match="table 7 is malformed: no table map came before it") as refused:
        Decoder().rows(found)
    assert refused.value.code is StopCode.UNKNOWN_EVENT
    only_ends_a_statement = decode(EventType.WRITE_ROWS, struct.pack("<IHH", 0xFFFFFF, 0, 1) + b"\2\0\0")
    assert Decoder().rows(only_ends_a_statement) == []


def test_a_length_that_depends_on_the_server_is_not_guessed_before_it_is_known() -> None:
    timed = event(EventType.TABLE_MAP, TABLE.replace(b"\1\3\0\1", b"\1\x0b\0\1"))  # TIME of before MySQL 5.6
    written = event(EventType.WRITE_ROWS_V1, ROWS_HEAD + b"\1\1" + b"\0" + (12345).to_bytes(3, "little"))
    described = struct.pack("<H50sIB", 4, b"5.5.1", 0, 19) + bytes(27)
    decoder = Decoder(checksums=False)
    decoder.decode(timed)
    with pytest.raises(RelayError) as refused:
        decoder.rows(decoded(decoder, written))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    decoder.decode(event(EventType.FORMAT_DESCRIPTION, described))
    decoder.decode(timed)
    assert decoder.rows(decoded(decoder, written)) == [Row(None, {"@1": "01:23:45"})]


def decoded(decoder: Decoder, data: bytes) -> events.WriteRowsEvent:
    found = decoder.decode(data)
    assert isinstance(found, events.WriteRowsEvent)
    return found


def test_collations_are_those_of_the_servers(server: DatabaseServer) -> None:
    with server.connect() as connection:
        theirs = collations(connection)
    assert len(theirs) > 200
    assert theirs == {number: CHARSET_OF.get(number) for number in theirs}
