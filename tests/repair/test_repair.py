"""`relay repair`: restores a damaged journal, byte for byte, from the source's binlog."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalReader
from relay.base.log import logger
from relay.client import RelayClient
from relay.errors import ExitCode, RelayError
from relay.repair import run
from relay.repair.run import Finding
from relay.schema.store import SCHEMA_FILE
from tests.journal.test_journal_pages import Journaled
from tests.support.purging import purge
from tests.support.reader_process import Reader
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import until
from tests.support.workload import Workload

MakeReader = Callable[..., Reader]
_PROVEN = 1 << 15  # bytes of the journal, within which every table has been met
_END = 14 << 12  # of a segment, the last pages


def work(server: DatabaseServer, db: str, steps: int, ddl: bool) -> int:
    """A mix of transactions; how many rows they changed."""
    load = Workload(server, db, ddl=ddl, seed=7)
    try:
        load.run(steps)
        return len(load.changes)
    finally:
        load.close()


def journaled(
    server: DatabaseServer, make_reader: MakeReader, db: str, steps: int = 150, *, ddl: bool = False
) -> Reader:
    """A reader that has journaled a mix of transactions, in several segments, and has ended."""
    reader = make_reader(server, {"Relay.SegmentBytes": "64KiB"}).streaming()
    rows = work(server, db, steps, ddl)
    reader.until(lambda: sum(reader.count(table) for table in ("alpha", "beta", "gamma")) >= rows)
    reader.signal(signal.SIGTERM)
    return reader


def repaired(reader: Reader, mend: bool = True) -> list[Finding]:
    return run.run(reader.context.config, mend, lambda _: None, lambda _: None, logger("repair"))


def frames(reader: Reader) -> list[tuple[int, bytes]]:
    """Position and payload of everything that is on disk."""
    journal = JournalReader(reader.journal_dir)
    return list(journal.frames(journal.first(), journal.flushed()))


def damage(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def spots(reader: Reader) -> list[tuple[Path, int, int]]:
    """File, offset and bytes of each frame that is on disk, but for those at the journal's beginning, where it stands
    where in the binlog that is, and definitions are being proven, and at the end of a segment, with its mark."""
    journal = JournalReader(reader.journal_dir)
    found = []
    for position, payload in journal.frames(journal.first(), journal.flushed()):
        base = journal.segment(position)
        if position >= _PROVEN and _PROVEN >> 1 < position - base < _END:
            found.append((reader.journal_dir / f"{base:020d}.seg", position - base, 8 + len(payload)))
    return found


def spoil(chance: random.Random, reader: Reader, kind: str) -> Path:
    """Damage a random place of the journal; its file."""
    path, offset, size = chance.choice(spots(reader))
    data = path.read_bytes()
    if kind == "bit":
        at = offset + chance.randrange(size)
        damage(path, at, bytes([data[at] ^ 1 << chance.randrange(8)]))
    elif kind == "header":
        damage(path, chance.randrange(24), os.urandom(16))
    else:
        at = offset & ~4095
        length = 4096 if kind == "page" else 20000
        length = min(length, len(data) - at)
        damage(path, at, bytes(length) if chance.random() < 0.5 else os.urandom(length))
    return path


@pytest.mark.parametrize("kind", ["bit", "header", "page"])
def test_what_was_damaged_anywhere_is_put_back_byte_for_byte(
    server: DatabaseServer, make_reader: MakeReader, db: str, kind: str
) -> None:
    reader = journaled(server, make_reader, db)
    before = frames(reader)
    assert repaired(reader) == []
    chance = random.Random(f"{server.kind} {kind}")
    for _ in range(8):
        path = spoil(chance, reader, kind)
        found = repaired(reader)
        assert found and not any(finding.failure for finding in found), "\n".join(map(str, found))
        assert path.name in str(found[0]) and "offset" in str(found[0]) and "repaired" in str(found[0])
        assert frames(reader) == before
        assert repaired(reader) == []


def test_where_the_source_does_not_tell_for_certain_what_stood_there_nothing_is_changed(
    mariadb1011: DatabaseServer, make_reader: MakeReader, make_db: Callable[[DatabaseServer], str]
) -> None:
    reader = journaled(mariadb1011, make_reader, make_db(mariadb1011), ddl=True)
    whole = frames(reader)
    files = {path: path.read_bytes() for path in reader.journal_dir.glob("*.seg")}
    chance = random.Random(5)
    for number in range(8):
        if number == 4:  # it is not needed
            (reader.journal_dir.parent / SCHEMA_FILE).unlink()
        path = spoil(chance, reader, "pages")
        spoiled = path.read_bytes()
        found = repaired(reader)
        assert found
        if all(finding.failure for finding in found):
            assert path.read_bytes() == spoiled
            assert "restore DataDir" in found[0].hint
        if any(finding.failure for finding in found):
            path.write_bytes(files[path])
        assert changes(frames(reader)) == changes(whole)


def changes(found: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """All but definitions and where rows look for theirs: one that was proven later may stand as proven at once."""
    return [(at, data[:8] + data[16:] if data[1] == 2 else data) for at, data in found if data[1] != 1]


@pytest.mark.parametrize("kind", ["mariadb1011"])
def test_what_the_source_has_purged_is_not_mended_and_the_reason_is_told(
    kind: str, own_server: Callable[..., DatabaseServer], make_reader: MakeReader, tmp_path: Path
) -> None:
    server = own_server(kind)
    server.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
    reader = journaled(server, make_reader, "shop")
    spoil(random.Random(1), reader, "bit")
    purge(server)
    [finding] = repaired(reader)
    assert finding.failure and finding.failure.code == "binlog_purged"


def spoil_rows(folder: Path) -> tuple[str, int]:
    """Damage the middle one of the frames of rows in the journal's first file; the file's name, and how many frames of
    rows stand before it."""
    journal = JournalReader(folder)
    end = min(journal.flushed(), 64 << 10)
    rows = [(at, len(payload)) for at, payload in journal.frames(0, end) if payload[1] == 2]
    at, size = rows[len(rows) // 2]
    path = folder / f"{0:020d}.seg"
    middle = at + 8 + size // 2  # of a value, in rows this long
    damage(path, middle, bytes([path.read_bytes()[middle] ^ 1]))
    return path.name, len(rows) // 2


@pytest.mark.parametrize("meets", ["broker", "server"])
def test_a_damaged_frame_is_a_named_stop_until_it_is_repaired_and_then_no_row_is_missing(
    server: DatabaseServer, db: str, start_relay: Callable[..., RelayProcess], meets: str
) -> None:
    """An orderly stop lets go of the queues, and the broker fills them anew from the journal; after a kill they are
    there as they were, and it is a server that reads the rows again."""
    relay = start_relay(server, {"Relay.SegmentBytes": "64KiB"})
    Journaled(server, db, relay)
    journal = relay.conf.parent / "data" / "journal"
    assert run_relay("repair", "-c", relay.conf).returncode == ExitCode.ALREADY_RUNNING
    if meets == "broker":
        relay.stop()
        assert "killed process=broker" not in relay.stderr.read_text(), "the stop was not an orderly one"
    else:
        relay.kill()
    name, before = spoil_rows(journal)
    relay.start()
    got = set[int]()

    def fetch(client: RelayClient) -> int:
        rows = client.poll_many(max_rows=10, wait=0.1)
        got.update(row.after["id"] for row in rows if row.after)
        return len(rows)

    with RelayClient("127.0.0.1", relay.port, "client", SECRET, patience=0) as client:
        if meets == "broker":
            stop = until(lambda: relay.stat()["stop"])
            until(lambda: not fetch(client))
        else:
            with pytest.raises(RelayError, match="damaged"):
                until(lambda: not fetch(client))
            stop = until(lambda: relay.stat()["stop"])
    assert got == set(range(1, 2 * before + 1)), "what stands before it, and no more"
    assert stop["code"] == "journal_corrupt" and name in stop["text"] and "relay repair" in stop["hint"]
    assert ("deciding_stopped" if meets == "broker" else "rows_unreadable") in relay.stderr.read_text()
    relay.stop()
    looked = run_relay("repair", "--look", "-c", relay.conf)
    assert looked.returncode == ExitCode.STOPPED and name in looked.stdout
    mended = run_relay("repair", "-c", relay.conf)
    assert mended.returncode == 0 and "repaired" in mended.stdout, mended.stderr
    assert "the journal is not damaged" in run_relay("repair", "-c", relay.conf).stdout
    relay.start()
    with RelayClient("127.0.0.1", relay.port, "client", SECRET, patience=10) as client:
        until(lambda: fetch(client) and len(got) == 100)
    assert got == set(range(1, 101)), "AUTO_INCREMENT counts them"
    assert relay.stat()["clients"][0]["dropped"] == dict.fromkeys(relay.stat()["clients"][0]["dropped"], 0)


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_the_newest_file_is_made_anew_where_queues_stand_in_it(
    server: DatabaseServer, db: str, start_relay: Callable[..., RelayProcess], kind: str
) -> None:
    relay = start_relay(server, {"Relay.SegmentBytes": "64KiB"})
    Journaled(server, db, relay)
    relay.stop()
    newest = max((relay.conf.parent / "data" / "journal").glob("*.seg"))
    if kind == "missing":
        newest.unlink()
    else:
        newest.write_bytes(b"")
    relay.start()
    stop = until(lambda: relay.stat()["stop"])
    assert stop["code"] == "journal_corrupt" and "missing or empty" in stop["text"] and "relay repair" in stop["hint"]
    relay.stop()
    looked = run_relay("repair", "--look", "-c", relay.conf)
    assert looked.returncode == ExitCode.STOPPED and f"{newest.name}: the newest file" in looked.stdout, looked.stdout
    mended = run_relay("repair", "-c", relay.conf)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "the journal is not damaged" in run_relay("repair", "-c", relay.conf).stdout
    relay.start()
    got: list[int] = []
    with RelayClient("127.0.0.1", relay.port, "client", SECRET, patience=10) as client:
        server.execute(f"INSERT INTO {db}.t (v) VALUES ('last')")

        def fetched() -> bool:
            got.extend(row.after["id"] for row in client.poll_many(max_rows=10, wait=1) if row.after)
            return len(got) >= 101

        until(fetched)
    assert got == list(range(1, 102)), "AUTO_INCREMENT counts them"
    assert relay.stat()["stop"] is None
