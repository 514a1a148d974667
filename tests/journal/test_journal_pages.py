"""Unreadable pages of the journal: a process that touches one dies by SIGBUS; afterwards it is a fatal error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay._native import SyncNote
from relay.client import RelayClient
from relay.errors import ExitCode, RelayError
from tests.faults.shim import Shim
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import until

MakeDb = Callable[[DatabaseServer], str]
SEGMENT = 64 << 10
DIED = "code=-7"


class Journaled:
    """A relay with rows in several segments of its journal, which wait for a client."""

    def __init__(self, server: DatabaseServer, db: str, relay: RelayProcess) -> None:
        self.server, self.db, self.relay = server, db, relay
        self.ids = set[int]()
        self.sent = 0
        server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000))")
        with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
            client.add_filter(db)
            # Twice: a start reads again what was not on disk yet when the last file of the journal was begun, and that
            # must not be the first one.
            for _ in range(2):
                self.insert(50)
                until(lambda: relay.stat()["clients"][0]["waiting"] == self.sent)
                until(lambda: relay.stat()["journal"]["flushed"] == relay.stat()["journal"]["committed"])

    def insert(self, rows: int) -> None:
        values = ", ".join(["(REPEAT('a', 2000))"] * 2)
        for _ in range(rows // 2):
            self.server.execute(f"INSERT INTO {self.db}.t (v) VALUES {values}")
        self.sent += rows

    def segments(self) -> list[Path]:
        return sorted((self.relay.conf.parent / "data" / "journal").glob("*.seg"))

    def fetch(self) -> None:
        """All that is served; what is not is an error of the client."""
        with RelayClient("127.0.0.1", self.relay.port, "client", SECRET, patience=0) as client:
            while rows := client.poll_many(max_rows=10, wait=0.1):
                self.ids.update(row.after["id"] for row in rows if row.after)

    def deaths(self) -> int:
        return self.relay.stderr.read_text().count(DIED)


def told(relay: RelayProcess, file: Path) -> None:
    """The stop is shown with the file, and with what to do."""
    stop = until(lambda: relay.stat()["stop"], 20, "no stop is shown")
    assert stop["code"] == "journal_corrupt" and file.name in stop["text"] and "relay repair" in stop["hint"], stop
    shown = run_relay("stat", "-c", relay.conf)
    assert "journal_corrupt" in shown.stdout and file.name in shown.stdout, shown.stdout
    assert file.name in relay.stderr.read_text()


def test_the_file_that_is_written_is_cut_off(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb1011)
    journaled = Journaled(mariadb1011, db, start_relay(mariadb1011, {"Relay.SegmentBytes": "64KiB"}))
    newest = journaled.segments()[-1]
    os.truncate(newest, 4096)
    journaled.insert(2)
    told(journaled.relay, newest)
    deaths = journaled.deaths()
    time.sleep(3)
    assert journaled.deaths() == deaths, "nobody is started to die again"


@pytest.mark.parametrize("seems_whole", [False, True], ids=["shorter", "unreadable"])
def test_a_file_that_rows_are_served_from_is_cut_off(
    mariadb1011: DatabaseServer,
    make_db: MakeDb,
    start_relay: Callable[..., RelayProcess],
    tmp_path: Path,
    seems_whole: bool,
) -> None:
    """It is seen that it is shorter, or not: then it is as a page that its disk does not give."""
    shim, db = Shim(tmp_path), make_db(mariadb1011)
    with shim.loaded():
        relay = start_relay(mariadb1011, {"Relay.SegmentBytes": "64KiB", "Relay.Workers": 1})
    journaled = Journaled(mariadb1011, db, relay)
    cut = journaled.segments()[1]
    content = cut.read_bytes()
    if seems_whole:
        shim.stretch(SEGMENT, cut)
    os.truncate(cut, 32 << 10)
    for _ in range(8):  # clients come again and again
        with suppress(RelayError, OSError):
            journaled.fetch()
        time.sleep(0.3)
    told(relay, cut)
    assert journaled.deaths() <= 2, "each process at most once"
    assert journaled.ids == set(range(1, max(journaled.ids) + 1)) and len(journaled.ids) > 10, "what stands before it"
    cut.write_bytes(content)
    shim.calm()
    done = run_relay("resume", "-c", relay.conf)
    assert done.returncode == ExitCode.OK, done.stderr

    def all_came() -> bool:
        journaled.fetch()
        return len(journaled.ids) == journaled.sent

    until(all_came, 20, "rows that never come")
    assert journaled.ids == set(range(1, journaled.sent + 1))


def test_a_page_that_cannot_be_read_when_a_flush_is_made_good(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Callable[..., RelayProcess], tmp_path: Path
) -> None:
    """The supervisor itself has it written anew, before anybody reads it."""
    shim, db = Shim(tmp_path), make_db(mariadb1011)
    relay = start_relay(mariadb1011, {"Relay.SegmentBytes": "64KiB"})
    newest = Journaled(mariadb1011, db, relay).segments()[-1]
    relay.kill()
    SyncNote(newest.with_name("sync")).begin()
    shim.stretch(SEGMENT, newest)
    os.truncate(newest, 48 << 10)
    with shim.loaded():
        relay.start()
    told(relay, newest)
