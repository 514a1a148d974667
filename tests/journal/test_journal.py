"""The journal: frames as written and as read, rollover, retention, a full disk."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from relay._native import JournalError, JournalReader, JournalWriter, crc32, crc32c
from relay.errors import ErrorCode, StopCode
from relay.journal import frames
from tests.support.written_journal import SEGMENT, UUID, content, packed, rows_of, transaction


def test_every_kind_of_frame_is_a_struct(tmp_path: Path, writer: JournalWriter) -> None:
    writer.source(4, "binlog.000001", f"{UUID}:1-5", "server one")
    table = writer.define(packed())
    writer.rows(table, 2, 150, 1700000000, 3, b"\x01\xff\xffbody")
    writer.ddl(170, 1700000001, "test", "ALTER TABLE `t` ADD ü INT")
    writer.commit(180, 1700000002, f"{UUID}:6", 3_000_000_000)
    writer.file(4, "binlog.000002")
    writer.gap(99, "binlog.000002", "purged")
    at, found = zip(*content(tmp_path, writer), strict=True)
    assert found == (
        frames.Source(0, 1, "", "", ""),
        frames.Source(4, 1, "binlog.000001", f"{UUID}:1-5", "server one"),
        frames.Table(0, packed()),
        frames.Rows(2, at[2], 150, 1700000000, 3, 1, b"\x01\xff\xffbody"),
        frames.Ddl(170, 1700000001, "test", "ALTER TABLE `t` ADD ü INT"),
        frames.Commit(180, 1700000002, 5, f"{UUID}:6", 3_000_000_000),
        frames.File(4, "binlog.000002"),
        frames.Gap(99, "binlog.000002", "purged"),
    )
    assert writer.state() == ("binlog.000002", 4, f"{UUID}:1-6", "server one", 5)


def rewritten(folder: Path, writer: JournalWriter, change: Callable[[bytes], bytes]) -> int:
    """The journal's last frame with another payload, in as many blocks of 8 bytes; the frame's position."""
    writer.flush()
    at = content(folder, writer)[-1][0]
    [segment] = folder.glob("*.seg")
    data = bytearray(segment.read_bytes())
    offset = at - writer.first()
    [length] = struct.unpack_from("<I", data, offset)
    payload = change(bytes(data[offset + 8 : offset + 8 + length]))
    assert (len(payload) + 7) // 8 == (length + 7) // 8
    data[offset : offset + 8 + len(payload)] = struct.pack("<II", len(payload), crc32c(payload)) + payload
    segment.write_bytes(data)
    return at


def test_commits_of_before_they_said_their_server_are_read(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    writer.rows(table, 1, 150, 1, 1, b"row")
    writer.commit(160, 1, "0-1-7", 5)
    rewritten(tmp_path, writer, lambda payload: b"\x95" + payload[1:-5])
    assert content(tmp_path, writer)[-1][1] == frames.Commit(160, 1, 2, "0-1-7", 0)
    assert JournalWriter(tmp_path, SEGMENT).state() == ("", 160, "0-1-7", "", 2)


def test_what_later_releases_may_add_to_commits_is_passed_over(tmp_path: Path, writer: JournalWriter) -> None:
    writer.commit(160, 1, "0-1-70", 5)
    rewritten(tmp_path, writer, lambda payload: b"\x97" + payload[1:] + b"\x01")
    assert content(tmp_path, writer)[-1][1] == frames.Commit(160, 1, 1, "0-1-70", 5)
    assert JournalWriter(tmp_path, SEGMENT).state() == ("", 160, "0-1-70", "", 1)


@pytest.mark.parametrize("kind", ["source", "commit", "file"])
def test_a_frame_of_the_state_that_cannot_be_read_is_no_state(tmp_path: Path, writer: JournalWriter, kind: str) -> None:
    {
        "source": lambda: writer.source(160, "binlog.000001", "0-1-6", "server one"),
        "commit": lambda: writer.commit(160, 1, "0-1-7", 5),
        "file": lambda: writer.file(4, "binlog.000002"),
    }[kind]()
    at = rewritten(tmp_path, writer, lambda payload: bytes([payload[0] - 3]) + payload[1:])
    with pytest.raises(JournalError, match=f"frame at position {at} is malformed") as error:
        JournalWriter(tmp_path, SEGMENT)
    assert error.value.code == "journal_corrupt"


def test_a_reader_of_a_long_history_holds_no_descriptors(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    while len(writer.segments()) < 20:
        writer.rows(table, 1, 150, 1, 1, bytes(1000))
        writer.commit(160, 1)
    until = writer.flush()

    def descriptors() -> list[str]:
        links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sorted(link for link in links if link.startswith(str(tmp_path)))

    held = descriptors()
    reader = JournalReader(tmp_path)
    assert sum(1 for _ in reader.frames(writer.first(), until)) > 20
    assert descriptors() == held


def test_nothing_is_visible_before_its_commit(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    before = writer.committed()
    writer.rows(table, 1, 150, 1, 1, b"row")
    assert writer.committed() == before
    assert writer.in_transaction()
    writer.commit(160, 1)
    assert writer.committed() == writer.end() > before


def test_the_watermark_is_stored_where_asked(writer: JournalWriter) -> None:
    word = ctypes.c_uint64(0)
    writer.publish_to(ctypes.addressof(word))
    assert word.value == writer.committed() > 0
    transaction(writer, writer.define(packed()), 1)
    assert word.value == writer.committed() == writer.end()
    writer.publish_to(0)


def test_only_tables_that_this_writer_defined_are_taken(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    transaction(writer, table, 1)
    del writer
    again = JournalWriter(tmp_path, SEGMENT)
    calls: list[Callable[[], object]] = [
        lambda: again.rows(table, 1, 200, 1, 1, b"row"),
        lambda: again.resolve(table),
        lambda: again.forget(table),
    ]
    for call in calls:
        with pytest.raises(JournalError, match="no table is defined as 0") as caught:
            call()
        assert caught.value.code is ErrorCode.UNEXPECTED
    again.forget(again.define(packed()))
    for call in calls:
        with pytest.raises(JournalError, match="no table is defined as 0"):
            call()
    transaction(again, again.define(packed()), 2)
    assert [frame.sequence for frame in rows_of(tmp_path, again)] == [1, 3]


def test_held_transactions_are_published_together(writer: JournalWriter) -> None:
    table = writer.define(packed())
    before = writer.committed()
    writer.pause_publishing(True)
    transaction(writer, table, 1)
    transaction(writer, table, 2)
    assert writer.committed() == before
    writer.pause_publishing(False)
    assert writer.committed() == writer.end()


def test_rollback_leaves_no_trace(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    transaction(writer, table, 1)
    end = writer.end()
    for _ in range(3):  # the second and third over several segments
        for _ in range(200):
            writer.rows(table, 1, 1, 1, 1, b"lost" * 300)
        writer.rollback()
        assert writer.end() == end
    other = writer.define(packed("other"))
    transaction(writer, other, 2)
    assert [row.sequence for row in rows_of(tmp_path, writer)] == [1, 3]
    assert len(list(tmp_path.glob("*.seg"))) == 1
    assert JournalWriter(tmp_path, SEGMENT).state().sequence == 5


def test_segments_roll_over_and_each_stands_alone(tmp_path: Path, writer: JournalWriter) -> None:
    writer.source(4, "binlog.000001", "0-1-7", "server")
    tables = [writer.define(packed("a")), writer.define(packed("b"))]
    for number in range(1, 400):
        transaction(writer, tables[number % 2], number, 1000)
    found = content(tmp_path, writer)
    segments = writer.segments()
    assert len(segments) > 5
    assert [s.base for s in segments[1:]] == [s.end for s in segments[:-1]]
    for segment in segments:
        inside = [(at, frame) for at, frame in found if segment.base <= at < segment.end]
        assert isinstance(inside[0][1], frames.Source)
        named = {at for at, frame in inside if isinstance(frame, frames.Table)}
        assert {frame.table for _, frame in inside if isinstance(frame, frames.Rows)} == named
    sequences = [frame.sequence for _, frame in found if isinstance(frame, frames.Rows)]
    assert sequences == list(range(1, 799, 2))
    last = next(frame for at, frame in reversed(found) if isinstance(frame, frames.Source))
    assert (last.file, last.identity) == ("binlog.000001", "server")
    again = JournalWriter(tmp_path, SEGMENT)
    assert again.state() == writer.state()
    assert again.generation() == writer.generation() == JournalReader(tmp_path).generation()


def test_frames_larger_than_a_segment_get_their_own(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    transaction(writer, table, 1, 5 * SEGMENT)
    transaction(writer, table, 2)
    assert [len(row.body) for row in rows_of(tmp_path, writer)] == [5 * SEGMENT, 20]
    assert JournalWriter(tmp_path, SEGMENT).committed() == writer.committed()


def test_retention_deletes_whole_segments_only(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    for number in range(1, 300):
        transaction(writer, table, number, 1000)
    third = writer.segments()[2]
    writer.drop_before(third.base + 500)
    assert writer.first() == third.base == JournalReader(tmp_path).first()
    with pytest.raises(JournalError) as caught:
        JournalReader(tmp_path).frame(64)
    assert caught.value.code == StopCode.JOURNAL_LOST
    writer.drop_before(2**63)
    assert [s.base for s in writer.segments()] == [max(s.base for s in writer.segments())]
    assert JournalWriter(tmp_path, SEGMENT).state() == writer.state()


def test_places_in_the_binlog_are_found(tmp_path: Path, writer: JournalWriter) -> None:
    writer.source(4, "binlog.000009", "", "server")
    table = writer.define(packed())
    wanted = {}
    for file in ("binlog.000009", "binlog.000010"):
        for number in range(1, 150):
            transaction(writer, table, number, 1000)
            wanted[file, number] = writer.end()
        writer.file(4, "binlog.000010")
    reader = JournalReader(tmp_path)
    for (file, number), position in wanted.items():
        exact = reader.locate(file, number * 100 + 99, writer.committed())
        assert position <= exact <= (reader.frame(position)[0] if position < writer.committed() else position)
        assert exact == reader.locate(file, number * 100 + 120, writer.committed())
    writer.drop_before(writer.committed())
    with pytest.raises(JournalError, match="begins later"):
        reader.locate("binlog.000009", 500, writer.committed())


def test_pages_ahead_can_be_prepared_at_any_time(tmp_path: Path, writer: JournalWriter) -> None:
    writer.prepare(1 << 30)  # more than the segment has
    table = writer.define(packed())
    for number in range(1, 300):  # over several segments
        transaction(writer, table, number, 1000)
        writer.prepare(5000)
    assert len(rows_of(tmp_path, writer)) == 299


def test_provisional_definitions_wait_for_proof(tmp_path: Path, writer: JournalWriter) -> None:
    transaction(writer, writer.define(packed("other")), 1)
    before = writer.committed()
    table = writer.define(packed(proven=False), pending=True)
    for number in range(2, 200):  # over several segments
        transaction(writer, table, number, 1000)
    assert writer.committed() == before
    writer.resolve(table, packed("proven"))
    assert writer.committed() == writer.end()
    transaction(writer, table, 200, 1000)
    found = dict(content(tmp_path, writer))
    for frame in found.values():
        if isinstance(frame, frames.Rows) and frame.sequence > 2:
            named = found[frame.table]
            assert isinstance(named, frames.Table)
            if named.link:
                named = found[named.link]
                assert isinstance(named, frames.Table)
            assert (named.link, named.definition) == (0, packed("proven"))
    assert JournalWriter(tmp_path, SEGMENT).committed() == writer.committed()


def test_a_proof_within_a_transaction_holds_from_its_end(tmp_path: Path, writer: JournalWriter) -> None:
    before = writer.committed()
    table = writer.define(packed(proven=False), pending=True)
    transaction(writer, table, 1)
    writer.rows(table, 1, 1, 1, 1, b"row")
    writer.resolve(table)  # as it stands
    assert writer.committed() == before
    writer.commit(250, 1)
    assert writer.committed() == writer.end()
    assert [frame.link for _, frame in content(tmp_path, writer) if isinstance(frame, frames.Table)] == [0]


def test_a_full_disk_is_an_error_that_can_be_got_over(
    tmp_path: Path, writer: JournalWriter, limit_files: Callable[[int], None]
) -> None:
    table = writer.define(packed())
    number = 1
    limit_files(SEGMENT // 2)
    with pytest.raises(JournalError) as caught:  # noqa: PT012
        for number in range(1, 200):
            writer.rows(table, 1, 1, 1, 1, b"x" * 1000)
            writer.commit(number * 100, 1, f"0-1-{number}")
    assert caught.value.code == StopCode.DISK_FULL
    complete = writer.committed()
    for _ in range(3):
        with pytest.raises(JournalError):
            writer.rows(table, 1, 1, 1, 1, b"x" * 1000)
        with pytest.raises(JournalError):
            writer.rows(table, 1, 1, 1, 1, b"x" * SEGMENT)
    assert len(list(tmp_path.glob("*.seg*"))) == 1
    limit_files(resource.RLIM_INFINITY)
    before = len(rows_of(tmp_path, writer))
    writer.rows(table, 1, 1, 1, 1, b"x" * 1000)
    writer.commit(number * 100, 1, f"0-1-{number}")
    assert writer.committed() > complete
    assert len(rows_of(tmp_path, writer)) == before + 1
    assert JournalWriter(tmp_path, SEGMENT).state() == writer.state()


def test_checksums_are_those_of_zlib_and_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    chance = random.Random(1)
    for size in [*range(200), 255, 256, 257, 1000, 70000]:
        data = chance.randbytes(size + 7)[7:]
        assert crc32(data) == zlib.crc32(data)
        assert crc32(data[size // 3 :], crc32(data[: size // 3])) == zlib.crc32(data)
        assert crc32c(data[size // 2 :], crc32c(data[: size // 2])) == crc32c(data)


def test_a_flush_needs_no_descriptor_that_it_does_not_have(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    for number in range(1, 4):  # the last ones begin new segments, so that the folder has to be synced, too
        transaction(writer, table, number, SEGMENT // 2)
    assert len(writer.segments()) > 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert writer.flush() == writer.committed()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
