"""Rows of one table from the journal for CDC clients: which rows, in which order, after which schema."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from relay._native import CdcReader, CdcScan, JournalError, JournalReader
from relay.errors import RelayError
from relay.journal.frames import Definition
from tests.support.cdc_rows import read
from tests.support.journal_builder import DELETE, ID, INSERT, NAME, NOON, UPDATE, Made, body, column, definition, row
from tests.support.process_memory import anonymous_bytes

FORMS = pytest.mark.parametrize("form", ["json", "avro"])
OTHER = "0e9cc2d6-9af3-11ee-a9a5-0242ac110002"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "journal")


def heads(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """(sequence, event_number, event_type, id) of each row."""
    return [(r["sequence"], r["event_number"], r["event_type"], r["id"]) for r in rows]


def test_a_row_is_a_line_in_the_order_and_with_the_blanks_of_the_protocol(made: Made) -> None:
    made.rows(INSERT, row(7, b'a"b\\c\n\x7f/'))
    made.commit(gtid="2-3000-11")
    [part] = read(made.folder, made.writer.flush()).parts
    schema, line = part.split(b"\n")[:-1]
    assert line == (
        b'{"domain": 2, "server_id": 3000, "sequence": 11, "event_number": 1, "timestamp": 1700000000,'
        b' "event_type": "insert", "id": 7, "name": "a\\"b\\\\c\\n\x7f/"}'
    )
    assert schema == (
        b'{"namespace":"MaxScaleChangeDataSchema.avro","type":"record","name":"ChangeRecord","table":"t",'
        b'"database":"shop","version":1,"gtid":"2-3000-11","fields":[{"name":"domain","type":"long"},'
        b'{"name":"server_id","type":"long"},{"name":"sequence","type":"long"},{"name":"event_number","type":"long"},'
        b'{"name":"timestamp","type":"long"},{"name":"event_type","type":{"type":"enum","name":"EVENT_TYPES",'
        b'"symbols":["insert","update_before","update_after","delete"]}},{"name":"id","type":["null","int"],'
        b'"real_type":"","length":-1,"unsigned":false},{"name":"name","type":["null","string"],"real_type":"",'
        b'"length":-1,"unsigned":false}]}'
    )


@FORMS
def test_rows_are_the_same_whatever_the_pace(made: Made, form: str) -> None:
    for number in range(1, 60):
        made.rows(INSERT, row(number), row(-number))
        made.rows(UPDATE, row(number), row(number))
        made.commit(gtid=f"0-1-{number}")
    until = made.writer.flush()
    whole = read(made.folder, until, form=form).rows
    assert len(whole) == 4 * 59
    assert read(made.folder, until, form=form, max_bytes=1).rows == whole
    assert read(made.folder, until, form=form, max_bytes=333).rows == whole


@FORMS
def test_statements_are_no_stop_but_the_definition_behind_them_is(made: Made, form: str) -> None:
    made.inserted(1, gtid="0-1-1")
    for number, text in enumerate(("ALTER TABLE `T` ADD COLUMN more VARCHAR(80)", "DROP VIEW v"), 2):
        made.writer.ddl(made.place + 10, NOON, "shop", text)
        made.commit(gtid=f"0-1-{number}")
    wider = made.define(ID, NAME, column("more", 15, 80, "utf8mb4"), version=2)
    made.writer.ddl(made.place + 10, NOON, "shop", "CREATE TABLE t SELECT ...")
    made.rows(INSERT, row(2) + b"\1y", table=wider, columns=3)
    made.commit(gtid="0-1-4")
    found = read(made.folder, made.writer.flush(), form=form)
    assert [(stop.why, stop.text) for stop in found.stops] == [("schema", "")] * 2
    first, second = found.parts
    assert heads(found.rows) == [(1, 1, "insert", 1), (4, 1, "insert", 2)]
    assert [each.get("more") for each in found.rows] == [None, "y"]
    assert first != second


def test_a_definition_that_is_expected_is_no_stop(made: Made) -> None:
    made.inserted(1, gtid="0-1-1")
    reader = CdcReader(JournalReader(made.folder), schema="shop", table="t", domain=lambda source: 1)
    reader.expect(definition(ID, NAME, version=9))
    assert reader.read(made.writer.flush(), 1 << 20).why == "end"
    assert reader.take()[0] == 1


@FORMS
def test_a_definition_with_the_same_fields_is_no_new_one(tmp_path: Path, form: str) -> None:
    made = Made(tmp_path / "journal", segment_bytes=1 << 12)
    for number in range(1, 200):
        made.inserted(number, gtid=f"0-1-{number}")
    again = made.define(ID, NAME, version=2)
    made.rows(INSERT, row(200), table=again)
    made.commit(gtid="0-1-200")
    found = read(made.folder, made.writer.flush(), form=form)
    assert [stop.why for stop in found.stops] == ["schema"]
    assert [r["id"] for r in found.rows] == list(range(1, 201))


@FORMS
def test_seeking_begins_with_the_whole_transaction_that_is_asked_for(made: Made, form: str) -> None:
    other = made.define(ID, NAME, table="other")
    for number in (1, 2, 3):
        made.inserted(number, number, gtid=f"0-1-{number}")
    made.inserted(100, gtid="7-1-50")
    made.rows(INSERT, row(1), table=other)
    made.commit(gtid="0-2-5")
    made.inserted(200, gtid="7-1-51")
    made.inserted(6, gtid="0-9-6")
    until = made.writer.flush()

    def sequences(domain: int, sequence: int) -> list[object]:
        return [r["sequence"] for r in read(made.folder, until, form=form, seek=(domain, sequence)).rows]

    assert sequences(0, 0) == [1, 1, 2, 2, 3, 3, 50, 51, 6]
    assert sequences(0, 2) == [2, 2, 3, 3, 50, 51, 6]
    assert sequences(0, 4) == [51, 6]  # from the other table's on, whatever server it was made on
    assert sequences(7, 51) == [51, 6]
    assert sequences(0, 7) == sequences(3, 1) == []


@FORMS
def test_mysqls_transactions_have_the_number_of_their_source_and_the_servers_id(made: Made, form: str) -> None:
    asked = []

    def domain(source: str) -> int:
        asked.append(source)
        return {f"{OTHER}": 4, f"{OTHER}:blue": 9}[source]

    for number, gtid in enumerate((f"{OTHER}:5000000003", f"{OTHER}:blue:7", f"{OTHER}:5000000004")):
        made.rows(INSERT, row(number))
        made.place += 50
        made.writer.commit(made.place, NOON, gtid, 3_000_000_000 + number)
    found = read(made.folder, made.writer.flush(), form=form, domain=domain)
    assert [(r["domain"], r["server_id"], r["sequence"]) for r in found.rows] == [
        (4, 3_000_000_000, 5000000003), (9, 3_000_000_001, 7), (4, 3_000_000_002, 5000000004),
    ]  # fmt: skip
    assert asked == [OTHER, f"{OTHER}:blue"]
    assert found.reader.gtid == (4, 3_000_000_002, 5000000004)


def test_other_tables_need_no_gtid_and_no_readable_definition(made: Made) -> None:
    strange = made.writer.define(definition(ID, column("what", 200), table="strange"))
    made.writer.rows(strange, INSERT, 100, NOON, 1, body(INSERT, 2, row(1)))
    made.commit()
    made.inserted(1, gtid="0-1-1")
    assert [r["id"] for r in read(made.folder, made.writer.flush()).rows] == [1]


def test_a_transaction_whose_beginning_is_gone_is_left_out(tmp_path: Path) -> None:
    made = Made(tmp_path / "journal", segment_bytes=1 << 12)
    for number in range(200):
        made.rows(INSERT, row(number))
    made.commit(gtid="0-1-1")
    made.inserted(1000, gtid="0-1-2")
    until = made.writer.flush()
    reader = CdcReader(JournalReader(made.folder), schema="shop", table="t", domain=lambda source: 1)
    made.writer.drop_before(made.writer.segments()[2].base)
    assert [r["id"] for r in read(made.folder, until).rows] == [1000]
    with pytest.raises(JournalError) as error:
        reader.read(until, 1 << 20)
    assert error.value.code == "journal_lost"


def test_a_gap_is_told_between_the_rows_around_it(made: Made) -> None:
    made.inserted(1, gtid="0-1-1")
    made.writer.gap(made.place + 1, "binlog.000001", "binlog purged")
    made.inserted(2, gtid="0-1-9")
    reader = CdcReader(JournalReader(made.folder), schema="shop", table="t", domain=lambda source: 1)
    until = made.writer.flush()
    assert reader.read(until, 1 << 20).why == "schema"
    reached = reader.read(until, 1 << 20)
    assert (reached.why, reached.text) == ("gap", "binlog purged")
    assert reader.take()[1].count(b"\n") == 1
    assert reader.read(until, 1 << 20).why == "end"
    assert reader.take()[1].count(b"\n") == 1


def test_rows_without_an_end_before_a_gap_belong_to_no_transaction(made: Made) -> None:
    made.rows(INSERT, row(1))
    made.writer.ddl(made.place, NOON, "shop", "ALTER TABLE t COMMENT 'lost'")
    made.writer.gap(made.place + 1, "binlog.000001", "binlog purged")
    made.inserted(2, gtid="0-1-9")
    until = made.writer.flush()
    assert heads(read(made.folder, until).rows) == [(9, 1, "insert", 2)]
    scan = CdcScan(JournalReader(made.folder))
    assert scan.read(until, 1 << 20)
    assert scan.last.images == 1
    assert scan.statements() == []


@FORMS
def test_readers_keep_no_memory_for_rows_that_were_taken(made: Made, form: str) -> None:
    for number in range(1, 60):
        made.inserted(*range(100), gtid=f"{OTHER}:{number}")
    until, journal, readers = made.writer.flush(), JournalReader(made.folder), []
    before = anonymous_bytes()
    for _ in range(500):
        reader = CdcReader(journal, schema="shop", table="t", domain=lambda source: 1, form=form)
        reader.expect(definition(ID, NAME))
        assert reader.read(until, 1 << 16).why == "full"
        assert len(reader.take()[1]) >= 1 << 16
        readers.append(reader)
    assert anonymous_bytes() - before < 500 * (1 << 14)


def test_images_that_lack_columns_are_refused_by_name(made: Made) -> None:
    made.inserted(1, gtid="0-1-1")
    partial = bytes([2, 1]) + b"\0" + struct.pack("<i", 5)
    made.writer.rows(made.table, DELETE, 100, NOON, 1, partial)
    made.commit(gtid="0-1-2")
    with pytest.raises(RelayError) as error:
        read(made.folder, made.writer.flush())
    assert error.value.code == "partial_image"


def test_names_that_nothing_proves_are_refused_unless_positions_will_do(made: Made) -> None:
    proven = msgspec.msgpack.decode(definition(ID, NAME), type=Definition)
    unproven = made.writer.define(msgspec.msgpack.encode(msgspec.structs.replace(proven, proven=False)))
    made.rows(INSERT, row(1), table=unproven)
    made.commit(gtid="0-1-1")
    until = made.writer.flush()
    with pytest.raises(RelayError) as error:
        read(made.folder, until)
    assert error.value.code == "schema_unproven"
    assert [r["id"] for r in read(made.folder, until, positional=True).rows] == [1]


def test_names_are_avros_and_no_two_are_the_same(made: Made) -> None:
    names = ("Timestamp", "event_type", "a b", "a_b", "a-b", "1st", "größe")
    table = made.define(*(column(name, 3) for name in names))
    image = b"\0" + b"".join(struct.pack("<i", number) for number in range(len(names)))
    made.rows(INSERT, image, table=table, columns=len(names))
    made.commit(gtid="0-1-1")
    for form in ("json", "avro"):
        [found] = read(made.folder, made.writer.flush(), form=form).rows
        assert list(found)[6:] == ["Timestamp_", "event_type_", "a_b", "a_b_", "a_b__", "_1st", "gr____e"]


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@FORMS
@pytest.mark.usefixtures("in_berlin")
def test_timestamps_are_in_utc_or_in_the_zone_of_the_process(made: Made, form: str) -> None:
    table = made.define(ID, column("at", 17, 3))  # TIMESTAMP(3)
    made.rows(INSERT, b"\0" + struct.pack("<i", 1) + struct.pack(">IH", NOON, 5000), table=table)
    made.commit(gtid="0-1-1")
    until = made.writer.flush()
    for values, fraction in (("exact", "500"), ("maxscale", "500000")):
        for utc, hour in ((True, 22), (False, 23)):
            [found] = read(made.folder, until, form=form, values=values, utc=utc).rows
            assert found["at"] == f"2023-11-14 {hour}:13:20.{fraction}"


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_streams_are_containers_of_blocks(made: Made, codec: str) -> None:
    for number in range(1, 500):
        made.inserted(number, gtid=f"0-1-{number}")
    found = read(made.folder, made.writer.flush(), form="avro", codec=codec, max_bytes=1000)
    assert [r["id"] for r in found.rows] == list(range(1, 500))
    [part] = found.parts
    assert part.startswith(b"Obj\x01\x04\x14avro.codec" + bytes([2 * len(codec)]) + codec.encode() + b"\x16avro.schema")


def test_unknown_forms_are_refused(made: Made) -> None:
    journal = JournalReader(made.folder)
    for form, values in (("xml", "exact"), ("json", "mysql")):
        with pytest.raises(ValueError, match="not"):
            CdcReader(journal, schema="shop", table="t", domain=lambda source: 1, form=form, values=values)


def test_every_line_is_json_with_the_fields_of_its_schema(made: Made) -> None:
    made.rows(INSERT, row(1, bytes(range(1, 32)) + b"\xff"))
    made.commit(gtid="0-1-1")
    [part] = read(made.folder, made.writer.flush()).parts
    schema, line = (json.loads(line) for line in part.split(b"\n")[:-1])
    assert [field["name"] for field in schema["fields"]] == list(line)
    assert line["name"] == bytes(range(1, 32)).decode() + "?"
