"""TIME, DATETIME and TIMESTAMP in the formats before MySQL 5.6 and MariaDB 10.1 equal a SELECT."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Columns, RowImages
from relay.binlog.decoder import Decoder
from relay.binlog.events import WriteRowsEvent, table_maps
from relay.client import RelayClient
from relay.errors import RelayError, StopCode
from tests.support import source_rows
from tests.support.arrow_values import as_column
from tests.support.binlogs import event_type, place, record, split
from tests.support.consumer import Consumer
from tests.support.journal_rows import Journaled
from tests.support.relay_process import RelayProcess
from tests.support.source_rows import selected
from tests.support.value_cases import DATETIMES, TIMES, TIMESTAMPS

pytestmark = pytest.mark.every_server

VALUES = {
    "TIME": [*TIMES, "'838:59:59.999999'", "'-838:59:59.999999'", "'00:00:00.000001'", "'-00:00:00.000001'"],
    "DATETIME": [*DATETIMES, "'9999-12-31 23:59:59.999999'", "'1000-01-01'", "'0001-01-01 00:00:00.1'", "'2024-00-00'"],
    "TIMESTAMP": [*TIMESTAMPS, "'2038-01-19 03:14:07.999999'", "'1970-01-01 00:00:01'"],
}
COLUMNS = [f"{kind}({digits})" for kind in VALUES for digits in range(7)]


@pytest.fixture(params=["mariadb1011", "mariadb118"])
def mariadb(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """Each MariaDB in turn, making columns in the old formats; global settings are as they were afterwards."""
    running: DatabaseServer = request.getfixturevalue(request.param)
    [(metadata, newer)] = running.execute("SELECT @@GLOBAL.binlog_row_metadata, @@GLOBAL.mysql56_temporal_format")
    running.execute("SET GLOBAL mysql56_temporal_format = OFF")
    yield running
    running.execute(f"SET GLOBAL binlog_row_metadata = {metadata}, GLOBAL mysql56_temporal_format = {newer}")


def write(server: DatabaseServer, db: str, table: str) -> None:
    """Fill a table with a column for each type and number of digits; NULL in each at least once."""
    columns = ", ".join(f"c{number} {sql} NULL" for number, sql in enumerate(COLUMNS))
    rows = itertools.zip_longest(*(VALUES[sql.split("(")[0]] for sql in COLUMNS), fillvalue="NULL")
    values = ", ".join(f"({', '.join(row)}, DEFAULT)" for row in [("NULL",) * len(COLUMNS), *rows])
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        cursor.execute(f"CREATE TABLE {table} ({columns}, id INT PRIMARY KEY AUTO_INCREMENT)")
        names = ", ".join(f"c{number}" for number in range(len(COLUMNS)))
        cursor.execute(f"INSERT INTO {table} ({names}, id) VALUES {values}")
        connection.commit()


def test_old_temporals_of_every_length_are_what_a_select_gives(
    mariadb: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb)
    start = source_rows.binlog_end(mariadb)
    write(mariadb, db, "t")
    [event] = [event for event in source_rows.rows_events(mariadb, start) if event.table.schema == db]
    assert {column.type for column in event.table.columns} == {3, 7, 11, 12}
    table = source_rows.from_schema(mariadb, event.table)
    rows = Journaled(table, source_rows.packed(table), event.kind, event.body)
    expected = selected(mariadb, db, "t")
    assert [after for _, after in rows.texts()] == expected
    typed = [
        {name: value and str(value).encode() for name, value in (after or {}).items()} for _, after in rows.typed()
    ]
    assert typed == expected
    batch = rows.columns()
    for number in range(len(COLUMNS)):
        name = f"c{number}"
        kind, texts = batch.schema.field(name).type, f"{name}__text"
        asides: Any = batch.column(texts).to_pylist() if texts in batch.schema.names else itertools.repeat(None)
        for row, value, aside in zip(expected, batch.column(name).to_pylist(), asides, strict=False):
            wanted: tuple[object, object]
            try:
                wanted = (as_column(kind, row[name]), None)
            except ValueError:  # a date that no calendar has
                wanted = (None, (row[name] or b"").decode())
            assert (value, aside) == wanted, f"{COLUMNS[number]} {row[name]!r}"


def test_a_relay_reads_old_temporals_with_and_without_full_metadata(
    mariadb: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb)
    relay = start_relay(mariadb, {"Relay.TimeZone": "UTC"})

    def add_filter(client: RelayClient) -> None:
        client.add_filter(db)

    consumer = Consumer(relay.port, "old", add_filter)
    for metadata in ("FULL", "NO_LOG"):
        mariadb.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
        write(mariadb, db, metadata.lower())
    expected = [(table, row) for table in ("full", "no_log") for row in selected(mariadb, db, table)]
    consumer.wait_for(len(expected))
    consumer.stop()
    got = [
        (row.table, {name: None if value is None else str(value).encode() for name, value in (row.after or {}).items()})
        for row in consumer.rows
    ]
    assert got == expected


def test_the_decoder_of_events_needs_to_be_told_the_digits(
    mariadb: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    """Unless the events have the statement that made the table."""
    db = make_db(mariadb)
    mariadb.execute("SET GLOBAL binlog_row_metadata = FULL", f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v TIME(2))")
    start = place(mariadb)
    mariadb.execute(f"INSERT INTO {db}.t VALUES (1, '-01:02:03.45')")
    decoder = Decoder()
    events = [decoder.decode(packet[5:]) for packet in split(record(mariadb, start)) if event_type(packet) >= 0]
    [rows] = [event for event in events if isinstance(event, WriteRowsEvent)]
    with pytest.raises(RelayError, match=rf"column v of {db}\.t") as refused:
        decoder.rows(rows)
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert rows.table_map is not None
    told = table_maps.TableMap(rows.table_id, db, "t", rows.table_map.columns)
    [row] = decoder.rows(rows, source_rows.from_schema(mariadb, told))
    assert row.after == {"id": "1", "v": "-01:02:03.45"}


@pytest.mark.parametrize(
    ("kind", "digits", "value"),
    [
        (11, 1, b"\0\0\0\0"), (11, 1, b"\xff\xff\xff\xff"), (11, 6, b"\xff" * 6), (12, 1, b"\xff" * 6),
        (12, 6, b"\xff" * 8), (12, 0, b"\xff" * 8), (7, 1, b"\1\2\3\4\x0a"), (7, 4, b"\1\2\3\4\x27\x10"),
        (7, 6, b"\1\2\3\4\x0f\x42\x40"),
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused_by_name(kind: int, digits: int, value: bytes) -> None:
    column = ["v", 1, kind, digits, False, True, False, "", [], ""]
    packed = msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, [column]])
    with pytest.raises(ValueError, match=r"column v of shop\.t holds bytes that are no value"):
        RowImages(packed, 1, b"\1\1\xfe" + value).render("poll")
    if kind == 11:  # those of dates stand as text, or not at all
        with pytest.raises(ValueError, match=r"column v of shop\.t holds bytes that are no value"):
            Columns(packed).add(1, b"\1\1\xfe" + value)


def test_a_fraction_of_more_than_six_digits_is_no_definition() -> None:
    for kind in (7, 11, 12):
        column = ["v", 1, kind, 7, False, True, False, "", [], ""]
        with pytest.raises(ValueError, match=rf"column v of shop\.t: column type {kind}"):
            RowImages(msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, [column]]), 1, b"\1\1\xfe")
