"""A damaged state.db: a start restores what was written, or stops with a fatal error."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.datadir import seals
from relay.datadir.state_db import opened
from relay.errors import RelayError, StopCode
from relay.ingest.agreement import Agreement
from relay.ingest.reader_state import ReaderState
from relay.queues.state import ClientState
from tests.support import FIXTURES
from tests.support.datadir_builder import copied, killed, made, restored
from tests.support.journal_builder import Made
from tests.support.relay_process import SECRET, UNHURRIED, RelayProcess, run_relay
from tests.support.waiting import patience, until

PAGE = 4096
FLIPS = pytest.mark.parametrize("flips", [300, pytest.param(4000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
NAMED = (StopCode.STATE_DAMAGED, StopCode.NEWER_FORMAT)
FIXTURES = FIXTURES / "release"
SCAN, LAG_ROWS, LO, CONFIRMED = 3, 8, 26, 32  # words of a packed checkpoint


class Kept(NamedTuple):
    """A DataDir, the journal in it, and what a start restores of it."""

    folder: Path
    journal: Made
    right: dict[str, Any]


def kept(folder: Path, journal: Made) -> Kept:
    with copied(folder, folder / "copy") as copy:
        return Kept(folder, journal, restored(copy, journal))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Of a relay that was stopped: all of it is in the one file."""
    folder = tmp_path_factory.mktemp("stopped")
    return kept(folder, made(folder))


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Of a relay that was killed: most of it is in the log that SQLite writes ahead."""
    home = tmp_path_factory.mktemp("killed")
    journal = killed(home, home / "left")
    return kept(home / "left", journal)


@pytest.fixture
def copy(stopped: Kept, tmp_path: Path) -> Iterator[Path]:
    with copied(stopped.folder, tmp_path / "copy") as folder:
        yield folder


def outcome(kept: Kept, change: Callable[[Path], object]) -> str:
    """What comes of a start on a copy that was changed: the stop's text, or "" if it restored the same."""
    with copied(kept.folder, kept.folder / "copy") as copy:
        change(copy)
        try:
            found = restored(copy, kept.journal)
        except RelayError as error:
            if error.code not in NAMED:
                raise
            return str(error)
    assert found == kept.right, "another state, and nobody was told"
    return ""


def patched(file: str, at: int, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / file).open("r+b") as open_file:
            open_file.seek(at)
            open_file.write(data)

    return change


def flipped(kept: Kept, file: str, flips: int) -> Iterator[str]:
    """Outcomes of one flipped bit each: in every part of the file, and in each byte of its head."""
    chance = random.Random(flips)
    whole = (kept.folder / file).read_bytes()
    step = max(1, len(whole) // flips)
    for at in sorted({*range(100), *range(chance.randrange(step), len(whole), step)}):
        yield outcome(kept, patched(file, at, bytes([whole[at] ^ 1 << chance.randrange(8)])))


@FLIPS
def test_no_flipped_bit_changes_what_is_restored_unnoticed(stopped: Kept, flips: int) -> None:
    told = Counter(bool(text) for text in flipped(stopped, "state.db", flips))
    assert told[True] > flips / 10, "the bits that were flipped are those that nobody reads"


@FLIPS
def test_no_flipped_bit_of_the_log_ahead_changes_what_is_restored_unnoticed(dead: Kept, flips: int) -> None:
    told = Counter(bool(text) for text in flipped(dead, "state.db-wal", flips))
    assert told[True] > flips / 2


def test_no_page_that_is_zeroed_or_another_one_is_taken(stopped: Kept) -> None:
    whole = (stopped.folder / "state.db").read_bytes()
    pages = range(0, len(whole), PAGE)
    assert all(outcome(stopped, patched("state.db", at, bytes(PAGE))) for at in pages)
    for at in pages:
        other = whole[(at + PAGE) % len(whole) :][:PAGE]
        assert outcome(stopped, patched("state.db", at, other)), f"page {at // PAGE + 1} is the one after it"


@pytest.mark.parametrize("part", range(16))
def test_no_part_of_a_file_is_taken_for_all_of_it(stopped: Kept, dead: Kept, part: int) -> None:
    def cut(file: str) -> Callable[[Path], None]:
        def change(folder: Path) -> None:
            data = (folder / file).read_bytes()
            (folder / file).write_bytes(data[: len(data) * part // 16])

        return change

    assert outcome(stopped, cut("state.db"))
    assert outcome(dead, cut("state.db-wal"))


@pytest.mark.parametrize("gone", ["state.db", "state.db-wal"])
def test_a_file_that_is_missing_is_told(dead: Kept, gone: str) -> None:
    assert "it is new, or an older copy" in outcome(dead, lambda folder: (folder / gone).unlink())


def test_what_is_free_in_the_file_stops_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    journal = made(folder, clients=8)
    state = ClientState(folder / "state.db")
    passing = [client for client in state.clients() if client.name.startswith("client ")]
    state.checkpoint(state.position(), [(client.id, bytes(20_000)) for client in passing])
    for client in passing:
        state.forget_client(client.id)
    state.checkpoint(state.position(), [])
    state.close()
    with closing(sqlite3.connect(folder / "state.db")) as database:
        [(free,)] = database.execute("PRAGMA freelist_count")
        [(pages,)] = database.execute("PRAGMA page_count")
    assert free > 20
    all_of_it = kept(folder, journal)
    told = [outcome(all_of_it, patched("state.db", page * PAGE + 3000, b"#")) for page in range(pages - 8, pages)]
    assert told == [""] * 8


def test_an_older_copy_is_not_taken_for_the_newest(stopped: Kept, copy: Path, tmp_path: Path) -> None:
    shutil.copyfile(copy / "state.db", tmp_path / "older")
    with closing(ClientState(copy / "state.db")) as state:
        state.add_client(state.last_id() + 1, "since then")
        state.checkpoint(state.position(), [])
    shutil.copyfile(tmp_path / "older", copy / "state.db")
    with pytest.raises(RelayError, match="it is new, or an older copy: it has") as lost:
        restored(copy, stopped.journal)
    assert lost.value.code is StopCode.STATE_DAMAGED and "--accept-gap" in lost.value.hint


def test_an_older_copy_that_is_accepted_is_told_and_taken_from_then_on(stopped: Kept, copy: Path) -> None:
    with closing(ClientState(copy / "state.db")) as state:
        state.add_client(state.last_id() + 1, "since then")
        state.checkpoint(state.position(), [])
    shutil.copyfile(stopped.folder / "state.db", copy / "state.db")
    said: list[str] = []

    def log(event: str, **fields: object) -> None:
        said.append(event)

    with pytest.raises(RelayError):
        Agreement(copy / "state.db", False, log).open_reader_state()
    Agreement(copy / "state.db", True, log).open_reader_state().close()
    assert said == ["state_lost"]
    assert restored(copy, stopped.journal) == stopped.right


def test_a_new_file_beside_a_journal_that_has_begun_is_told(tmp_path: Path) -> None:
    journal = Made(tmp_path / "journal")
    agreement = Agreement(tmp_path / "state.db", False, lambda event, **fields: None)
    for _ in range(2):  # a restart hides nothing
        with (
            closing(agreement.open_reader_state()) as reader_state,
            pytest.raises(RelayError, match="the journal is not") as lost,
        ):
            agreement.check_generation(reader_state, journal.writer, journal.folder)
        assert lost.value.code is StopCode.STATE_DAMAGED


def test_what_the_reader_wrote_is_flushed_and_marked_with_the_next_checkpoint(copy: Path, stopped: Kept) -> None:
    shutil.copyfile(copy / "state.db", copy / "older")
    with closing(ClientState(copy / "state.db")) as state, closing(ReaderState(copy / "state.db")) as reader_state:
        state.checkpoint(state.position(), [])
        reader_state.put("skipped", "binlog.000001:1000")
        state.checkpoint(state.position(), [])
    (copy / "older").rename(copy / "state.db")
    with pytest.raises(RelayError, match="older copy"):
        restored(copy, stopped.journal)


def rewritten(path: Path, *statements: str) -> None:
    """Change rows past their seals, as damage does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        for _, sql in triggers:
            database.execute(sql)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM filters WHERE id = 1", r"row 1 of table filters is missing"),
        (
            "UPDATE filters SET kinds = 3 WHERE client = 3",
            r"table filters is not what the relay wrote \(client 'oldest'\)",
        ),
        ("UPDATE clients SET checkpoint = x'00' WHERE id = 2", r"row 2 of table clients .* \(client 'waits'\)"),
        ("INSERT INTO clients VALUES (6, 'gone', 1.5, NULL)", r"row 6 of table clients .* \(client 'gone'\)"),
        ("UPDATE source SET value = '' WHERE key = 'skipped'", r"row 'skipped' of table source is not what"),
        ("UPDATE broker SET value = x'0000000000000001'", r"row '\w+' of table broker is not what"),
        ("UPDATE sqlite_sequence SET seq = 5", r"row 'clients' of table sqlite_sequence is not what"),
        ("DELETE FROM names", r"row 1 of table names is missing; row 2 .*; and \d+ more rows"),
        ("DROP INDEX filters_by_client", r"row 'filters_by_client' of table sqlite_master is missing"),
    ],
)
def test_a_row_that_is_lost_or_another_or_came_back_is_named(copy: Path, statement: str, told: str) -> None:
    rewritten(copy / "state.db", statement)
    with pytest.raises(RelayError, match=told) as stop:
        opened(copy / "state.db")
    assert stop.value.code is StopCode.STATE_DAMAGED
    assert stop.value.position == str(copy / "state.db")


@pytest.mark.parametrize(
    ("client", "word", "value", "told"),
    [
        ("some", SCAN, 1 << 40, "it is at journal position 1099511627776, and the journal ends at"),
        ("waits", LAG_ROWS, 1 << 40, "more rows precede the waiting ones than were queued"),
        ("some", CONFIRMED, 7, "9 rows are done, and 7 were confirmed or dropped"),
        ("some", LO, 8, "rows are done|in flight"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_told_with_its_client(
    stopped: Kept, copy: Path, client: str, word: int, value: int, told: str
) -> None:
    """Sealed as it is: what wrote it was wrong, or it is of another journal."""
    with closing(ClientState(copy / "state.db")) as state:
        [found] = [each for each in state.clients() if each.name == client]
        assert found.checkpoint is not None
        packed = bytearray(found.checkpoint)
        struct.pack_into("<Q", packed, word * 8, value)
        state.checkpoint(state.position(), [(found.id, bytes(packed))])
    with pytest.raises(RelayError, match=told) as stop:
        restored(copy, stopped.journal)
    assert stop.value.code is StopCode.STATE_DAMAGED
    assert f"client '{client}'" in str(stop.value)


def test_filters_that_find_other_rows_than_were_counted_are_told_with_their_client(stopped: Kept, copy: Path) -> None:
    with closing(ClientState(copy / "state.db")) as state:
        [client] = [each for each in state.clients() if each.name == "some"]
        state.replace_filters(client.id, [])
        state.checkpoint(state.position(), [])
    with pytest.raises(RelayError, match="fill the queue: client 'some': its filters are not those") as stop:
        restored(copy, stopped.journal)
    assert stop.value.code is StopCode.STATE_DAMAGED


@pytest.mark.parametrize("recorded", sorted(FIXTURES.glob("*.tar.xz")), ids=lambda path: path.name.partition(".")[0])
def test_a_file_of_the_release_before_is_sealed_as_it_is(tmp_path: Path, recorded: Path) -> None:
    with tarfile.open(recorded) as archive:
        archive.extractall(tmp_path, filter="data")
    path = tmp_path / "data" / "state.db"

    def rows() -> dict[str, list[Any]]:
        with closing(sqlite3.connect(path)) as database:
            tables = ("clients", "filters", "broker", "names", "schema_versions", "gaps", "source", "sqlite_sequence")
            return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in tables}

    before = rows()
    assert len(before["clients"]) >= 4
    opened(path).close()
    assert rows() == before
    with closing(opened(path)) as database:
        assert seals.flaws(database, "proofs") == []
        database.execute("UPDATE clients SET checkpoint = NULL")
    rewritten(path, "DELETE FROM clients WHERE id = 1")
    with pytest.raises(RelayError, match="row 1 of table clients is missing"):
        opened(path)


def test_a_file_is_not_sealed_anew_because_its_format_was_damaged(copy: Path) -> None:
    with closing(sqlite3.connect(copy / "state.db")) as database:
        database.execute("PRAGMA user_version = 0")
    with pytest.raises(RelayError, match="it declares format 0, but has content of format 2") as stop:
        opened(copy / "state.db")
    assert stop.value.code is StopCode.STATE_DAMAGED


def test_a_relay_stops_by_name_until_its_state_is_whole_again(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "shop", SECRET) as client:
        client.add_filter(db)
        mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)", f"INSERT INTO {db}.t VALUES (1), (2)")
        assert [row.after for row in client.poll_many(wait=patience(20))] == [{"id": 1}, {"id": 2}]
    assert relay.stop() == 0
    path = relay.conf.parent / "data" / "state.db"
    whole = path.read_bytes()
    rewritten(path, "UPDATE filters SET table_name = 'other'")
    relay.command = UNHURRIED
    for _ in range(2):  # a restart hides nothing
        relay.start()
        assert "state=stopped:state_damaged" in relay.ready
        assert relay.stat()["clients"] == []
        shown = run_relay("stat", "-c", relay.conf).stdout
        assert "state_damaged" in shown and "(client 'shop')" in shown and "restore all of DataDir" in shown
        assert "state_damaged" in relay.stderr.read_text()
        with pytest.raises(RelayError):
            RelayClient("127.0.0.1", relay.port, "shop", SECRET, patience=0).connect()
        assert relay.stop() == 0
    path.write_bytes(whole)
    relay.start()
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (3)")
    with RelayClient("127.0.0.1", relay.port, "shop", SECRET) as client:
        assert [row.after for row in client.poll_many(wait=patience(20))] == [{"id": 3}]


def test_a_state_that_is_gone_is_accepted_by_a_person_only(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "shop", SECRET) as client:
        client.add_filter(db)
    relay.stop()
    for file in (relay.conf.parent / "data").glob("state.db*"):
        file.unlink()
    relay.command = UNHURRIED
    relay.start()
    assert "state=stopped:state_damaged" in relay.ready
    assert "relay start --accept-gap" in relay.stat()["stop"]["hint"]
    relay.accept_gap()
    until(lambda: relay.stat()["state"] == "running")
    assert "state_lost" in relay.stderr.read_text()
    assert relay.stat()["clients"] == [] and relay.stat()["gaps"] == []
