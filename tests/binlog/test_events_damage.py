"""Damaged events: the result is always an event or a `RelayError` that says what and where."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from examples.dbserver import KINDS
from relay.binlog.decoder import Decoder
from relay.binlog.events import Event, EventType, HeaderFlag, RowsEvent, TransactionPayloadEvent
from relay.errors import RelayError, StopCode
from tests.support.event_binlogs import EventLog, recorded, resized

FLIPS = 60  # of each event, in each of which some bits change
EXPECTED = {StopCode.UNKNOWN_EVENT, StopCode.UNSUPPORTED_COLUMN, StopCode.PARTIAL_IMAGE}


@pytest.fixture(params=list(KINDS))
def log(request: pytest.FixtureRequest) -> EventLog:
    """The binlog of each server, which holds an event of nearly every type."""
    return recorded(request.param)


def samples(log: EventLog) -> Iterator[tuple[bytes | None, bytes]]:
    """The two shortest events of each type and of each table, without checksums, with the table map before them."""
    found: dict[tuple[int, bytes | None], list[bytes]] = {}
    last: bytes | None = None
    for event in log.stripped():
        if event[4] == EventType.TABLE_MAP:
            last = event
        is_rows = EventType(event[4]).name.startswith(("WRITE", "UPDATE", "DELETE_R", "PARTIAL"))
        found.setdefault((event[4], last if is_rows else None), []).append(event)
    for (_, table_map), of_kind in found.items():
        for event in sorted(set(of_kind), key=len)[:2]:
            yield table_map, event


def attempt(decoder: Decoder, data: bytes) -> Event | None:
    """The event, and its rows read if it has any; None if it was refused as it should be."""
    try:
        event = decoder.decode(data)
        for each in event.events if isinstance(event, TransactionPayloadEvent) else (event,):
            if isinstance(each, RowsEvent):
                decoder.rows(each)
    except RelayError as error:
        refused = error
    else:
        return event
    assert refused.code in EXPECTED, refused
    assert refused.cause and refused.operation in ("read an event", "read a table map", "read rows")
    return None


def prepared(log: EventLog, table_map: bytes | None) -> Decoder:
    """A decoder without checksums that knows the server and the table."""
    decoder = Decoder(checksums=False)
    decoder.decode(next(iter(log.files.values()))[0])
    if table_map is not None:
        decoder.decode(table_map)
    return decoder


def test_an_event_that_is_cut_short(log: EventLog) -> None:
    refused = whole = 0
    for table_map, event in samples(log):
        for length in range(19, min(len(event), 600)):
            if attempt(prepared(log, table_map), resized(event[:length])) is None:
                refused += 1
            else:
                whole += 1
    assert refused > 500, "hardly anything was refused"
    assert whole, "what ends in text or bytes is whole at any length"


def test_an_event_with_wrong_bits(log: EventLog) -> None:
    chance = random.Random(log.kind)
    outcomes = set()
    for table_map, event in samples(log):
        decoder = prepared(log, table_map)
        for _ in range(FLIPS):
            damaged = bytearray(event)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(19, len(event)) if len(event) > 19 else 4] ^= 1 << chance.randrange(8)
            outcomes.add(attempt(decoder, bytes(damaged)) is None)
            if table_map is not None:
                attempt(decoder, table_map)
    assert outcomes == {True, False}


def test_a_row_event_of_a_table_map_with_wrong_bits(log: EventLog) -> None:
    chance = random.Random(log.kind)
    for table_map, event in samples(log):
        for _ in range(FLIPS if table_map is not None else 0):
            assert table_map is not None
            damaged = bytearray(table_map)
            damaged[chance.randrange(27, len(damaged))] ^= 1 << chance.randrange(8)
            decoder = prepared(log, None)
            if attempt(decoder, bytes(damaged)) is not None:
                attempt(decoder, event)


@pytest.mark.parametrize("at", [0, 4, 17, 25, -10, -1])
def test_no_damage_gets_by_a_checksum(log: EventLog, at: int) -> None:
    for raw in log.files.values():
        decoder = Decoder()
        decoder.decode(raw[0])
        for event in raw[1:2]:
            damaged = bytearray(event)
            damaged[at] ^= 0x10
            with pytest.raises(RelayError) as refused:
                decoder.decode(bytes(damaged))
            assert refused.value.code is StopCode.CHECKSUM_MISMATCH
            assert refused.value.position.startswith("position ")


def test_a_length_that_is_not_the_events(log: EventLog) -> None:
    described, event, *_ = next(iter(log.files.values()))
    decoder = Decoder()
    decoder.decode(described)
    for data in (b"", event[:18], event[:-1], event + b"x"):
        with pytest.raises(RelayError) as refused:
            decoder.decode(data)
        assert refused.value.code is StopCode.UNKNOWN_EVENT
    assert decoder.decode(memoryview(event)) == decoder.decode(event)


def test_a_file_that_is_in_use_has_the_checksum_of_one_that_is_not(log: EventLog) -> None:
    described = bytearray(next(iter(log.files.values()))[0])
    described[17] |= HeaderFlag.BINLOG_IN_USE
    assert Decoder().decode(bytes(described)).header.flags == HeaderFlag.BINLOG_IN_USE
    described[17] |= HeaderFlag.ARTIFICIAL
    with pytest.raises(RelayError, match="checksum"):
        Decoder().decode(bytes(described))
