"""The log of a constructed journal: layout, values, names, and how long files stay."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay._native import JournalReader, LineReader
from relay.linelog import files
from relay.linelog.files import Name
from relay.linelog.zone import Zone
from tests.support.csv_lines import content, csv_lines, json_lines
from tests.support.journal_builder import DELETE, ID, INSERT, NOON, UPDATE, Made, body, column, row
from tests.support.line_log import day, ids, log, names

DAY = 86400
TINY, LONG, FLOAT, DOUBLE, LONGLONG, DATETIME, VARCHAR, DECIMAL, ENUM, BLOB, STRING = (
    1, 3, 4, 5, 8, 18, 15, 246, 247, 252, 254
)  # fmt: skip
# As the original writes it, but for `t`, a TEXT, which it leaves out, and the digits of the DECIMAL, which it pads.
ORIGINAL = (
    '22:13:20;shop;l1;U;id;1;1;ti;-1;-1;dc;"12.50";;f;1.25;1.25;vc;"a \\"q\\"";"z";'
    'dt;"2024-01-02 03:04:05";"2024-01-02 03:04:05";en;"b";"b";bi;7;7;t;"text";"text"\n'
)


def read(made: Made, form: str = "csv", **options: Any) -> bytes:
    choices = {"wanted": lambda schema, table: True, "zone": lambda at: (0, 0, 1 << 40)} | options
    reader = LineReader(made.folder, form=form, **choices)
    assert reader.read(made.flush(), 1 << 30, 1 << 20, 1 << 20).why == "end"
    return reader.take()


def test_lines_have_the_layout_of_the_original(made: Made) -> None:
    columns = [
        ID, column("ti", TINY), column("dc", DECIMAL, 8 << 8 | 2), column("f", FLOAT, 4),
        column("vc", VARCHAR, 80, "utf8mb4"),
        column("dt", DATETIME), column("en", ENUM, 1, "utf8mb4", ("a", "b")), column("bi", LONGLONG),
        column("t", BLOB, 2, "utf8mb4"),
    ]  # fmt: skip
    moment = ((2024 * 13 + 1) << 5 | 2) << 17 | 3 << 12 | 4 << 6 | 5

    def image(nulls: int, decimal: bytes, text: bytes) -> bytes:
        return b"".join((
            nulls.to_bytes(2, "little"), struct.pack("<ib", 1, -1), decimal, struct.pack("<f", 1.25),
            bytes([len(text)]) + text, (moment + (1 << 39)).to_bytes(5, "big"), b"\2", struct.pack("<q", 7),
            struct.pack("<H", 4) + b"text",
        ))  # fmt: skip

    table = made.define(*columns, table="l1")
    made.rows(UPDATE, image(0, b"\x80\x00\x0c\x32", b'a "q"'), image(4, b"", b"z"), table=table, columns=9)
    made.commit()
    assert read(made).decode() == ORIGINAL


@pytest.mark.parametrize("form", ["csv", "json"])
def test_names_and_values_are_data(made: Made, form: str) -> None:
    awkward = 'a;b"c\\d\ne\rf\0g<é>'
    table = made.writer.define(
        msgspec.msgpack.encode(["s;h", awkward, 1, 1, 1, True, [ID, column(awkward, VARCHAR, 80, "utf8mb4")]])
    )
    made.rows(INSERT, row(1, awkward.encode()), table=table)
    made.commit()
    if form == "csv":
        [line] = csv_lines(read(made))
        assert [field.text.decode() for field in line[1:]] == ["s;h", awkward, "I", "id", "1", awkward, awkward]
    else:
        [record] = json_lines(read(made, "json"))
        assert (record["schema"], record["table"]) == ("s;h", awkward)
        assert record["after"][awkward] == awkward


def test_json_lines_tell_where_a_row_is_from(made: Made) -> None:
    made.rows(INSERT, row(1), row(2, None))
    made.rows(UPDATE, row(1), row(1, b"new"))
    made.rows(DELETE, row(2, None))
    made.commit(gtid="0-1-7")
    made.inserted(3)
    records = [json.loads(line) for line in read(made, "json", zone=lambda at: (-12600, 0, 1 << 40)).splitlines()]
    head = {"time": "2023-11-14T18:43:20-03:30", "schema": "shop", "table": "t", "file": "binlog.000001"}
    first = {**head, "position": 104, "gtid": "0-1-7"}
    assert records == [
        {**first, "kind": "insert", "after": {"id": 1, "name": "x"}},
        {**first, "kind": "insert", "after": {"id": 2, "name": None}},
        {
            **first,
            "position": 204,
            "kind": "update",
            "before": {"id": 1, "name": "x"},
            "after": {"id": 1, "name": "new"},
        },
        {**first, "position": 304, "kind": "delete", "before": {"id": 2, "name": None}},
        {**head, "position": 454, "gtid": None, "kind": "insert", "after": {"id": 3, "name": "x"}},
    ]


def test_columns_that_an_image_lacks_are_left_out(made: Made) -> None:
    images = b"\x02" + b"\x01" + b"\x02" + b"\x00" + struct.pack("<i", 1) + b"\x00" + b"\x01z"
    made.place += 100
    made.writer.rows(made.table, UPDATE, made.place, NOON, 1, images)
    made.commit()
    assert read(made) == b'22:13:20;shop;t;U;id;1;;name;;"z"\n'
    [record] = json_lines(read(made, "json"))
    assert (list(record["before"]), list(record["after"])) == (["id"], ["name"])


@pytest.mark.parametrize(
    ("schemas", "excludes", "logged"),
    [
        (["shop"], [], ["t", "u", "tmp_1"]),
        (["sho*"], ["t"], ["u", "tmp_1"]),
        (["shop"], ["shop.t"], ["u", "tmp_1"]),
        (["*"], ["*.tmp_*", "other.t", "crm*"], ["t", "u"]),
        (["shop", "crm"], ["t*"], ["u"]),
        (["sho"], [], []),
        (["crm"], [], []),
    ],
)
def test_schemas_and_excludes_choose_tables(
    made: Made, folder: Path, schemas: list[str], excludes: list[str], logged: list[str]
) -> None:
    for number, table in enumerate(("t", "u", "tmp_1")):
        made.rows(INSERT, row(number), table=made.define(ID, column("name", VARCHAR, 80, "utf8mb4"), table=table))
        made.commit()
    log(made, folder, schemas=schemas, excludes=excludes)
    assert [line[2].text.decode() for line in csv_lines(content(folder))] == logged


def test_files_are_named_by_the_date_of_the_event_and_never_go_back(made: Made, folder: Path) -> None:
    for number, when in enumerate((NOON, NOON + DAY, NOON - 5 * DAY, NOON + DAY, NOON + 3 * DAY)):
        made.place += 100
        made.writer.rows(made.table, INSERT, made.place, when, 1, body(INSERT, 2, row(number)))
        made.commit(when)
    log(made, folder)
    assert names(folder) == [f"relaylogs-{day(NOON + days * DAY)}.txt" for days in (0, 1, 3)]
    counts = [len((folder / name).read_bytes().splitlines()) for name in names(folder)]
    assert counts == [1, 3, 1]
    assert ids(folder) == [0, 1, 2, 3, 4]


def test_an_event_of_the_future_is_in_todays_file(made: Made, folder: Path) -> None:
    future = int(time.time()) + 400 * DAY
    made.place += 100
    made.writer.rows(made.table, INSERT, made.place, future, 1, body(INSERT, 2, row(1)))
    made.commit()
    before = time.time()
    log(made, folder)
    assert names(folder)[0] in {f"relaylogs-{day(int(now))}.txt" for now in (before, time.time())}


@pytest.mark.parametrize(
    ("name", "clock", "file"),
    [("UTC", "22:13:20", "20231114"), ("+02:00", "00:13:20", "20231115"), ("-11:30", "10:43:20", "20231114"),
     ("Europe/Brussels", "23:13:20", "20231114"), ("Asia/Tokyo", "07:13:20", "20231115")],
)  # fmt: skip
def test_times_and_dates_are_in_the_zone_that_is_asked_for(
    made: Made, folder: Path, name: str, clock: str, file: str
) -> None:
    made.inserted(1)
    log(made, folder, zone=Zone(name))
    assert content(folder).decode().startswith(f"{clock};shop;t;I")
    assert names(folder) == [f"relaylogs-{file}.txt"]


@pytest.fixture
def machine_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_machines_zone_is_not_that_of_values(made: Made, folder: Path, machine_in_tokyo: None) -> None:
    local = Zone("local")
    os.environ["TZ"] = "America/New_York"  # as relay.processes.row_logger makes [Relay] TimeZone the process's
    time.tzset()
    made.rows(INSERT, b"\0" + struct.pack("<i", 1) + NOON.to_bytes(4, "big"),
              table=made.define(ID, column("at", 17)))  # fmt: skip
    made.commit()
    log(made, folder, zone=local, utc=False)
    assert content(folder) == b'07:13:20;shop;t;I;id;1;at;"2023-11-14 17:13:20"\n'
    assert time.localtime(NOON).tm_hour == 17


def test_offsets_follow_summer_time() -> None:
    zone = Zone("Europe/Brussels")
    change = 1711846800  # 2024-03-31 01:00 UTC
    assert [zone.offset(change + seconds)[0] for seconds in (-1, 0, 1)] == [3600, 7200, 7200]
    east, since, until = zone.offset(change - 1)
    assert since <= change - 1 < until <= change and east == 3600


def test_a_file_that_is_full_is_followed_by_another_of_the_same_day(made: Made, folder: Path) -> None:
    for number in range(40):
        made.inserted(number)
    log(made, folder, rotate_bytes=300)
    made.inserted(40)
    engine = log(made, folder, rotate_bytes=300)
    assert ids(folder) == list(range(41))
    first, *rest = names(folder)
    stem = f"relaylogs-{day(NOON)}"
    assert {first, *rest} == {f"{stem}.txt", *(f"{stem}.{part}.txt" for part in range(2, len(rest) + 2))}
    assert len(rest) >= 3
    sizes = [(folder / str(name)).stat().st_size for name in files.names(folder)]
    assert all(300 <= size < 300 + 64 for size in sizes[:-1]), "one event more at most"
    assert engine.finish().log_file == str(files.names(folder)[-1])


def test_names_are_read_as_they_are_written_and_no_others() -> None:
    for name in (Name(19675, 1, "txt"), Name(19675, 2, "txt"), Name(19675, 12, "jsonl")):
        assert Name.parse(str(name)) == name
    assert str(Name(19675, 1, "txt")) == "relaylogs-20231114.txt"
    for text in ("relaylogs-20231114.1.txt", "relaylogs-20231314.txt", "relaylogs-20231114.txt.gz", "relaylogs-23.txt",
                 "relaylogs-20231114.02.txt", "arelaylogs-20231114.txt", "relaylogs-20231114.txt\n"):  # fmt: skip
        assert Name.parse(text) is None, text


def test_old_files_of_the_log_are_deleted_and_nothing_else(made: Made, folder: Path) -> None:
    now = int(time.time())
    old = [f"relaylogs-{day(now - 9 * DAY)}{rest}" for rest in (".txt", ".2.txt", ".jsonl")]
    kept = [
        f"relaylogs-{day(now - 2 * DAY)}.txt",
        f"relaylogs-{day(now - 9 * DAY)}.txt.gz",
        "relaylogs-old.txt",
        "notes",
    ]
    for name in (*old, *kept):
        (folder / name).write_text("kept\n")
    made.inserted(1)  # in 2023: older than any, and the current one
    log(made, folder, keep_seconds=3 * DAY)
    current = f"relaylogs-{day(NOON)}.txt"
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {*kept, current}
    assert (folder / current).read_bytes().endswith(b';id;1;name;"x"\n')
    other = folder.parent / "other"
    other.mkdir()
    (other / old[0]).write_text("kept\n")
    log(made, other)
    assert (other / old[0]).exists(), "without KeepFor everything is kept"


def test_progress_tells_how_far_the_log_is(made: Made, folder: Path) -> None:
    made.inserted(1, 2)
    engine = log(made, folder)
    progress = engine.finish()
    flushed = JournalReader(made.folder).flushed()
    assert progress.covered == flushed and progress.committed == flushed
    assert (progress.lines, progress.bytes) == (2, len(content(folder)))
    assert (progress.file, progress.offset, progress.behind_since) == ("binlog.000001", made.place, 0.0)
    made.inserted(3)
    made.flush()
    assert engine.step().lines == 3
