"""Files of DataDir in the format of a newer release: rejected by name, and not touched."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer, free_port
from relay._native import JournalReader, JournalWriter, crc32c
from relay.cdc.store import Store
from relay.errors import RelayError, StopCode
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.monitoring.usage import Usage
from relay.monitoring.usage_store import UsageStore
from relay.queues.state import ClientState
from tests.support.relay_process import UNHURRIED, RelayProcess, run_relay
from tests.support.waiting import until

Start = Callable[..., RelayProcess]
STORES: dict[str, Callable[[Path], Any]] = {
    "Catalog": ReaderState,
    "ClientState": ClientState,
    "UsageStore": UsageStore,
    "Store": lambda path: Store(path, 7),
}

KNOWN = {"Catalog": 2, "ClientState": 2}


def renumber(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        [[known]] = connection.execute("PRAGMA user_version")
        connection.execute(f"PRAGMA user_version = {known + 1}")


def renumber_segment(segment: Path, number: int = 4, *, checksum: bool = True) -> None:
    data = bytearray(segment.read_bytes())
    struct.pack_into("<I", data, 4, number)
    if checksum:
        struct.pack_into("<I", data, 40, crc32c(bytes(data[:40])))
    segment.write_bytes(data)


@pytest.mark.parametrize("name", STORES)
def test_a_state_file_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "some.db"
    STORES[name](path).close()
    STORES[name](path).close()  # of its own format
    renumber(path)
    before = path.read_bytes()
    known = KNOWN.get(name, 1)
    told = rf"some\.db: it is of format {known + 1}, this release knows up to {known}"
    with pytest.raises(RelayError, match=told) as refused:
        STORES[name](path)
    assert refused.value.code is StopCode.NEWER_FORMAT
    files = {file.name for file in tmp_path.iterdir()}
    assert path.read_bytes() == before and files == {"some.db", "some.db-sync"}  # the note of its syncs says nothing


@pytest.mark.parametrize("name", sorted(STORES.keys() - KNOWN))  # test_state_damage.py has state.db
def test_a_state_file_of_before_formats_had_numbers_is_given_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "some.db"
    STORES[name](path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")
    STORES[name](path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(1,)]


@pytest.mark.parametrize("open_it", [JournalReader, lambda folder: JournalWriter(folder, 1 << 16)])
def test_a_journal_of_a_newer_format_is_refused_and_left_alone(
    tmp_path: Path, open_it: Callable[[Path], object]
) -> None:
    JournalWriter(tmp_path, 1 << 16)
    [segment] = tmp_path.glob("*.seg")
    renumber_segment(segment)
    before = segment.read_bytes()
    with pytest.raises(RelayError, match="seg: it is of format 4, this release knows up to 3") as refused:
        open_it(tmp_path).frame(64)  # type: ignore[attr-defined]
    assert refused.value.code is StopCode.NEWER_FORMAT
    assert segment.read_bytes() == before


@pytest.mark.parametrize("number", [1, 2])
def test_a_journal_of_a_format_before_goes_on_in_a_segment_of_this_one(tmp_path: Path, number: int) -> None:
    writer = JournalWriter(tmp_path, 1 << 16)
    writer.source(4, "binlog.000001", "", "server one")
    writer.commit(160, 1, "0-1-7", 5)
    until = writer.flush()
    [segment] = tmp_path.glob("*.seg")
    renumber_segment(segment, number)
    for _ in range(2):  # it is begun once
        writer = JournalWriter(tmp_path, 1 << 16)
        numbers = [struct.unpack("<I", path.read_bytes()[4:8]) for path in sorted(tmp_path.glob("*.seg"))]
        assert numbers == [(number,), (3,)]
        assert writer.state() == ("binlog.000001", 160, "0-1-7", "server one", 1)
    writer.commit(170, 2, "0-1-8", 5)
    found = [frames.decode(payload) for _, payload in JournalReader(tmp_path).frames(until, writer.flush())]
    assert [frame for frame in found if isinstance(frame, frames.Commit)] == [frames.Commit(170, 2, 1, "0-1-8", 5)]


def test_a_damaged_number_of_a_format_is_damage(tmp_path: Path) -> None:
    JournalWriter(tmp_path, 1 << 16)
    [segment] = tmp_path.glob("*.seg")
    renumber_segment(segment, checksum=False)
    with pytest.raises(RelayError, match="damaged") as refused:
        JournalWriter(tmp_path, 1 << 16)
    assert refused.value.code is StopCode.JOURNAL_CORRUPT


def test_table_usage_of_a_newer_format_is_told(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "journal", 1 << 16)
    UsageStore(tmp_path / "usage.db").close()
    renumber(tmp_path / "usage.db")
    usage = Usage(tmp_path / "usage.db", tmp_path / "journal")
    assert usage.advance(1.0, writer.flush())
    assert "usage.db: it is of format 2" in usage.trouble


@pytest.mark.parametrize("file", ["state.db", "journal", "cdc.db"])
def test_a_relay_on_files_of_a_newer_release_stops_by_name(
    mariadb1011: DatabaseServer, start_relay: Start, tmp_path: Path, file: str
) -> None:
    relay = start_relay(mariadb1011, {"CDC.Enabled": "yes", "CDC.Port": free_port(), "CDC.Address": "127.0.0.1"})
    data = relay.conf.parent / "data"
    until((data / "cdc.db").exists)
    relay.stop()
    if file == "journal":
        renumber_segment(next((data / "journal").glob("*.seg")))
    else:
        renumber(data / file)
    relay.command = UNHURRIED  # nobody waits for a source that will not be asked
    relay.start()

    def stopped() -> Any:
        stat = relay.stat()
        return stat["cdc"]["processes"][0]["stop"] if file == "cdc.db" else stat["stop"]

    stop = until(stopped)
    assert stop["code"] == "newer_format"
    assert re.search(r"it is of format \d, this release knows up to \d", stop["text"])
    assert "run that release" in stop["hint"]
    assert "newer_format" in run_relay("stat", "-c", relay.conf).stdout
