"""`relay.binlog.BinlogFile`: files of real servers read as streams; errors for damaged, cut and encrypted files."""

from __future__ import annotations

import random
import shutil
import struct
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import (
    BinlogError,
    BinlogFile,
    DescriptionError,
    Flag,
    GtidSet,
    Misuse,
    MisuseError,
    Replication,
    events,
)
from relay.binlog.events import EventType
from relay.errors import ErrorCode, StopCode
from tests.support import FIXTURES
from tests.support.replicated_streams import AROUND, boundaries, contents, here, kind, opened, work
from tests.support.waiting import until

pytestmark = pytest.mark.brands


def folder_of(server: DatabaseServer) -> Path:
    """Where the server has its binlog files."""
    return Path(server.execute("SELECT @@log_bin_basename")[0][0]).parent


@pytest.fixture
def archive(server: DatabaseServer, db: str, tmp_path: Path) -> Path:
    """A file that the server closed, with work in it."""
    server.execute("FLUSH BINARY LOGS")
    name = here(server).file_name
    work(server, db)
    return Path(shutil.copy(folder_of(server) / name, tmp_path / name))


def test_a_file_holds_what_the_server_sends(server: DatabaseServer, archive: Path) -> None:
    wanted = Replication(archive.name, flags=Flag.NON_BLOCK | (0 if server.kind.mysql else Flag.SEND_ANNOTATE_ROWS))
    with opened(server, wanted) as stream:
        sent = []
        while stream.fetch() == 0 and wanted.size and wanted.file_name == archive.name:
            sent.append(wanted.buffer)
        sent = [packet for packet in sent if kind(packet) != EventType.ROTATE]
    with BinlogFile(archive) as log:
        read = []
        while log.fetch() == 0 and log.replication.size:
            read.append(log.replication.buffer)
    assert read[1:-1] == sent[1:]  # between FORMAT_DESCRIPTION, which has a flag more or less, and ROTATE
    assert [kind(read[0]), kind(read[-1])] == [EventType.FORMAT_DESCRIPTION, EventType.ROTATE]
    assert (log.replication.position, log.incomplete) == (archive.stat().st_size, 0)


def test_a_file_knows_the_next_one(server: DatabaseServer, archive: Path) -> None:
    with BinlogFile(archive) as log:
        found = list(log)
    assert log.next_file == here(server).file_name
    assert isinstance(found[-1], events.RotateEvent)
    with BinlogFile(folder_of(server) / log.next_file) as log:  # which is being written
        assert [type(event) for event in log][:1] == [events.FormatDescriptionEvent]
        assert (log.next_file, log.incomplete) == ("", 0)
    assert GtidSet(log.replication.gtid_set) == GtidSet(here(server).gtid_set)


def test_reading_goes_on_anywhere_without_loss_and_repeats_no_whole_transaction(archive: Path) -> None:
    places = []
    with BinlogFile(archive) as log:
        everything: list[bytes] = []
        while log.fetch() == 0 and log.replication.size:
            if kind(log.replication.buffer) not in AROUND:
                everything.append(log.replication.buffer)
            places.append((len(everything), msgspec.structs.replace(log.replication, buffer=b"")))
    ends = boundaries(everything)
    for seen, place in places:
        wanted = msgspec.structs.replace(place)
        with BinlogFile(archive, wanted) as log:
            found = contents(log)
        assert found == everything[max(end for end in ends if end <= seen) :], place
        assert wanted.gtid_set == log.replication.gtid_set


def test_a_file_that_grows_goes_on_giving(server: DatabaseServer, db: str) -> None:
    start = here(server)
    server.execute(f"CREATE TABLE {db}.t (id INT)")
    with BinlogFile(folder_of(server) / start.file_name, start) as log:
        assert events.QueryEvent in [type(event) for event in log]
        assert log.replication.size == 0
        server.execute(f"INSERT INTO {db}.t VALUES (1)")
        assert events.XidEvent in [type(event) for event in log]


def test_a_last_event_that_is_not_whole_is_the_end_and_said_so(archive: Path) -> None:
    whole = archive.read_bytes()
    with BinlogFile(archive) as log:
        places = [4] + [log.replication.position for _ in log]
    for begin, end in pairwise(places[1:7]):
        for cut in {begin + 1, begin + 18, begin + 19, end - 1}:
            archive.write_bytes(whole[:cut])
            with BinlogFile(archive) as log:
                assert len(list(log)) == places.index(begin)
                assert (log.replication.position, log.incomplete, log.next_file) == (begin, cut - begin, "")
                archive.write_bytes(whole[:end])
                assert log.fetch() == 0
                assert (log.replication.position, log.incomplete) == (end, 0)


def test_damage_is_named_with_file_and_position(archive: Path) -> None:
    whole = archive.read_bytes()
    with BinlogFile(archive) as log:
        places = [4] + [log.replication.position for _ in log]
    begin = places[5]
    for at, code in ((begin + 20, StopCode.CHECKSUM_MISMATCH), (begin + 10, StopCode.UNKNOWN_EVENT)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        archive.write_bytes(damaged)
        with BinlogFile(archive) as log, pytest.raises(BinlogError) as found:
            contents(log)
        assert (found.value.code, found.value.position) == (code, f"{archive}:{begin}")
        assert found.value.hint
    archive.write_bytes(whole[:begin] + bytes(100))
    with BinlogFile(archive) as log, pytest.raises(BinlogError, match=f"{begin}: .* 0 bytes"):
        contents(log)


def test_positions_beyond_4_gib(mysql97: DatabaseServer, tmp_path: Path) -> None:
    written = (folder_of(mysql97) / here(mysql97).file_name).read_bytes()
    begin = 4 + int.from_bytes(written[13:17], "little")
    path, far = tmp_path / "binlog.000001", (1 << 32) + 1000
    with path.open("wb") as file:  # a hole between its first event and these
        file.write(written[:begin])
        file.seek(far)
        for end in (far + 31, far + 62):
            event = struct.pack("<IBIIIHQ", 0, EventType.XID, 1, 31, end & 0xFFFFFFFF, 0, 7)
            file.write(event + zlib.crc32(event).to_bytes(4, "little"))
    with BinlogFile(path, Replication(start_position=far)) as log:
        assert [type(event) for event in log] == [events.FormatDescriptionEvent, events.XidEvent, events.XidEvent]
        assert (log.replication.start_position, log.replication.position) == (far + 62, far + 62)


def test_what_cannot_be_decoded_is_named_with_file_and_position(mysql97: DatabaseServer, tmp_path: Path) -> None:
    written = (folder_of(mysql97) / here(mysql97).file_name).read_bytes()
    begin = 4 + int.from_bytes(written[13:17], "little")
    path = tmp_path / "binlog.000001"
    event = struct.pack("<IBIIIH", 0, EventType.TABLE_MAP, 1, 25, begin + 25, 0) + b"\1\2"
    path.write_bytes(written[:begin] + event + zlib.crc32(event).to_bytes(4, "little"))
    with BinlogFile(path) as log, pytest.raises(BinlogError, match="malformed") as damaged:
        list(log)
    assert damaged.value.position == f"{path}:{begin}"
    with BinlogFile(path) as log:  # as bytes it may be had
        assert [kind(packet) for packet in contents(log)] == [EventType.TABLE_MAP]


def test_damage_of_any_kind_is_an_error_with_a_name(archive: Path) -> None:
    whole, chance = archive.read_bytes(), random.Random(5)
    with BinlogFile(archive) as log:
        places = [4] + [log.replication.position for _ in log]
    outcomes = set()
    for _ in range(120):
        damaged = bytearray(whole)
        for begin, end in chance.sample(list(pairwise(places)), 2):
            for at in (begin + 4, *(chance.randrange(begin + 19, end) for _ in range(2)))[chance.randrange(2) :]:
                damaged[at] = chance.choice((0, 255, chance.randrange(256), damaged[at] ^ (1 << chance.randrange(8))))
            damaged[end - 4 : end] = zlib.crc32(damaged[begin : end - 4]).to_bytes(4, "little")
        archive.write_bytes(damaged)
        try:
            with BinlogFile(archive) as log:
                for event in log:
                    if isinstance(event, events.RowsEvent):
                        log.rows(event)
            outcomes.add("read")
        except BinlogError as error:
            outcomes.add(str(error.code) if str(archive) in error.position else f"{error} without its place")
    assert not [outcome for outcome in outcomes if " " in outcome]
    assert {"read", "unknown_event"} <= outcomes


def test_a_position_inside_of_an_event_is_refused(archive: Path) -> None:
    with BinlogFile(archive) as log:
        places = [log.replication.position for _ in log]
    wanted = Replication(start_position=places[4] + 3, flags=Flag.NON_BLOCK)
    with BinlogFile(archive, wanted) as log, pytest.raises(BinlogError, match=f"{archive.name}:{places[4] + 3}"):
        contents(log)
    with pytest.raises(BinlogError, match="the file ends at"):
        BinlogFile(archive, Replication(start_position=2**33)).open()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a binlog"),
        (b"\xfeb", "not a binlog"),
        (b"hello world", "not a binlog"),
        (b"\xfdbin\1" + bytes(500), "MySQL"),
    ],
)
def test_what_is_no_binlog_that_can_be_read_is_refused_when_opened(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(BinlogError, match=words) as refused:
        BinlogFile(path).open()
    assert refused.value.position == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match="none") as missing:
        BinlogFile(tmp_path / "none").open()
    assert missing.value.code is ErrorCode.ENVIRONMENT
    with pytest.raises(BinlogError, match="directory"):
        BinlogFile(tmp_path).open()


def test_fields_are_checked(tmp_path: Path) -> None:
    for wanted in (Replication(start_position=3), Replication(flags=Flag.GTID), Replication(start_position="4")):  # type: ignore[arg-type]
        with pytest.raises(DescriptionError):
            BinlogFile(tmp_path / "x", wanted).open()


def test_order_of_open_fetch_and_close(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(b"\xfebin")
    log = BinlogFile(path)
    for call, misuse in (
        (log.fetch, Misuse.NOT_OPEN),
        (log.close, Misuse.NOT_OPEN),
        (log.open, None),
        (log.open, Misuse.ALREADY_OPEN),
        (log.fetch, None),
        (log.close, None),
        (log.close, Misuse.CLOSED),
        (log.fetch, Misuse.CLOSED),
        (log.open, Misuse.CLOSED),
    ):
        if misuse is None:
            assert not call()
            continue
        with pytest.raises(MisuseError) as wrong:
            call()
        assert wrong.value.misuse is misuse


def test_a_file_that_mariadb_encrypted_is_refused_by_name() -> None:
    with pytest.raises(BinlogError, match="MariaDB encrypted it") as refused:
        BinlogFile(FIXTURES / "mariadb118-encrypted.binlog").open()
    assert "relay tail --from" in refused.value.hint


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("mysql56-*.binlog")), ids=lambda path: str(path.stem))
def test_files_of_mysql_5_6_are_read_to_their_end(path: Path) -> None:
    with BinlogFile(path) as log:
        found = [(event, log.rows(event) if isinstance(event, events.RowsEvent) else []) for event in log]
    assert log.replication.position == log.replication.start_position == path.stat().st_size
    assert sum(len(rows) for _, rows in found) > 3
    assert {event.header.checksum is None for event, _ in found[1:]} == {"none" in path.stem}


@pytest.mark.slow
@pytest.mark.parametrize("kind_", ["mysql97", "mariadb118", "mariadb1011"])
def test_relay_logs_can_be_read(
    request: pytest.FixtureRequest, own_server: Callable[..., DatabaseServer], make_db: Callable[..., str], kind_: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind_)
    db, start = make_db(server), here(server)
    replica = own_server(kind_, "--server-id=4711", "--relay-log=relays")
    place = f"'{start.file_name}'", start.start_position
    if server.kind.mysql:
        options = "SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='{}', SOURCE_PASSWORD='{}', SOURCE_SSL=1"
        into = "CHANGE REPLICATION SOURCE TO " + options + ", SOURCE_LOG_FILE={}, SOURCE_LOG_POS={}"
        begin = "START REPLICA IO_THREAD"
    else:
        options = "MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='{}', MASTER_PASSWORD='{}', MASTER_SSL=0"
        into = "CHANGE MASTER TO " + options + ", MASTER_LOG_FILE={}, MASTER_LOG_POS={}"
        begin = "START SLAVE IO_THREAD"
    replica.execute(into.format(server.port, USER, PASSWORD, *place), begin)
    work(server, db)
    with opened(server, msgspec.structs.replace(start)) as stream:
        sent = [what for event in stream if (what := executed(event))]

    def found() -> list[str]:
        whole: list[str] = []
        for path in sorted(folder_of(replica).glob("relays.0*")):
            with BinlogFile(path) as log:
                whole += [what for event in log if (what := executed(event))]
        return whole

    until(lambda: found() == sent, 30, lambda: (found(), sent))


def executed(event: events.Event) -> str:
    """What a replica would execute. MariaDB's inflates statements before it writes them to its relay log."""
    if isinstance(event, events.QueryEvent):
        return event.statement
    return type(event).__name__ if isinstance(event, events.RowsEvent) else ""
