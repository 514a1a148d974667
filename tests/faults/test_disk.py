"""Disks, memory and clocks that fail under the relay."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalReader
from relay.client import RelayClient
from relay.errors import ExitCode, RelayError
from relay.journal.frames import Table, decode
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.faults.shim import Shim
from tests.faults.test_source_stops import resume
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
MakeDb = Callable[[DatabaseServer], str]
SMALL = {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": "1MiB", "Relay.JournalKeepAge": "0"}
DAY = 86400
SHARED_MEMORY = Path("/dev/shm/psm_")  # the blocks of relays; the files of tests may be in /dev/shm too


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    """Loaded into whatever `Shim.loaded` surrounds."""
    return Shim(tmp_path)


def data_dir(relay: RelayProcess) -> Path:
    return relay.conf.parent / "data"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
def test_a_disk_that_takes_nothing(
    server: DatabaseServer, db: str, start_relay: Start, shim: Shim, ordeal: Ordeal, error: int
) -> None:
    with shim.loaded():
        relay = start_relay(server, SMALL)
    name = "journal disk full, freed again" if error == errno.ENOSPC else "DataDir read-only, writable again"
    with ordeal(name, relay, server, db, Allows.NOTHING, pause=0.002) as trial:
        for _ in range(times(8)):
            with trial.fault():
                shim.refuse(error, data_dir(relay))
                stop = until(lambda: relay.stat()["stop"], 60, "it goes on writing")
                assert stop["code"] == "disk_full", stop
                shim.calm()
                resume(relay)
            trial.catch_up()


def test_slow_fsync(server: DatabaseServer, db: str, start_relay: Start, shim: Shim, ordeal: Ordeal) -> None:
    with shim.loaded():
        relay = start_relay(server, SMALL)
    with ordeal("fsync that takes 3 s", relay, server, db, Allows.NOTHING, pause=0.002) as trial:
        for _ in range(times(5)):
            with trial.fault():
                shim.slow_sync(3)
                time.sleep(5)
                shim.calm()
            trial.catch_up()
        assert relay.stat()["state"] == "running" and relay.stat()["stop"] is None


def test_the_clock_of_the_host_jumps(
    server: DatabaseServer, db: str, start_relay: Start, shim: Shim, ordeal: Ordeal
) -> None:
    with shim.loaded():
        relay = start_relay(server, SMALL)
    jumps = (DAY, -DAY, 3650 * DAY, -3650 * DAY, 3600, 0)
    with ordeal("clock of the host jumps", relay, server, db, Allows.NOTHING, pause=0.002) as trial:
        before = relay.pids()
        for number in range(times(24)):
            with trial.fault():
                shim.shift_clock(jumps[number % len(jumps)])
            time.sleep(1)
        trial.catch_up()
        assert relay.pids() == before, "no process took it for a silence"
        assert relay.stat()["stop"] is None


def test_a_damaged_frame_in_the_middle_is_repaired_from_the_source(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal
) -> None:
    relay = start_relay(server)
    dice = random.Random(11)
    with ordeal("damaged frame in the journal, repaired", relay, server, db, Allows.IN_FLIGHT, pause=0.005) as trial:
        for _ in range(times(10)):
            time.sleep(2)
            with trial.fault():
                relay.stop(30)
                folder = data_dir(relay) / "journal"
                journal = JournalReader(folder)
                frames = [
                    at
                    for at, payload in journal.frames(journal.first(), journal.flushed())
                    if at > 4096 and not isinstance(decode(payload), Table)  # a definition's place is left alone
                ]
                at = dice.choice(frames)
                path = folder / f"{journal.segment(at):020d}.seg"
                with path.open("r+b") as file:
                    file.seek(at - int(path.stem) + 4)
                    file.write(os.urandom(12))
                looked = run_relay("repair", "--look", "-c", relay.conf)
                assert looked.returncode == ExitCode.STOPPED
                assert f"{path.name}, offset {at - int(path.stem)}" in looked.stdout, looked.stdout
                mended = run_relay("repair", "-c", relay.conf)
                assert mended.returncode == 0, mended.stdout + mended.stderr
                relay.start()


@pytest.mark.parametrize("victim", ["server-0", "reader", "broker", "state-writer"])
def test_too_few_descriptors(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Start, ordeal: Ordeal, victim: str
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011, SMALL)
    name = f"no descriptors left in the {victim.partition('-')[0]}"
    with ordeal(name, relay, mariadb1011, db, Allows.IN_FLIGHT, pause=0.002) as trial:
        for _ in range(times(10)):
            process = psutil.Process(relay.pids()[victim])
            before = process.rlimit(psutil.RLIMIT_NOFILE)
            with trial.fault():
                process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds(), before[1]))
                strangers = [knock(relay) for _ in range(4)]
                time.sleep(1.5)
                if process.is_running():
                    process.rlimit(psutil.RLIMIT_NOFILE, before)
                for stranger in strangers:
                    stranger.close()
            trial.catch_up()
        assert relay.stat()["stop"] is None


def knock(relay: RelayProcess) -> RelayClient:
    """Somebody who connects and is perhaps not answered."""
    stranger = RelayClient("127.0.0.1", relay.port, "stranger", SECRET, patience=0, timeout=1)
    with suppress(RelayError, OSError):
        stranger.connect()
    return stranger


def test_shared_memory_full(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Start, shim: Shim, ordeal: Ordeal
) -> None:
    db = make_db(mariadb1011)
    with shim.loaded():
        relay = start_relay(mariadb1011)
        other = run_relay_full(relay, shim)
    assert other == ExitCode.ENVIRONMENT
    with ordeal("/dev/shm full", relay, mariadb1011, db, Allows.NOTHING, pause=0.002) as trial:
        for number in range(times(20)):
            with trial.fault():
                shim.refuse(errno.ENOSPC, SHARED_MEMORY)
                with (
                    closing(RelayClient("127.0.0.1", relay.port, f"greedy-{number}", SECRET, patience=0)) as greedy,
                    pytest.raises(RelayError, match="shared memory"),
                ):
                    greedy.add_filter(db, limit=1_000_000)
                shim.calm()
            time.sleep(0.2)


def run_relay_full(relay: RelayProcess, shim: Shim) -> int:
    """What another relay ends with that is started when /dev/shm is full."""
    shim.refuse(errno.ENOSPC, SHARED_MEMORY)
    other = data_dir(relay).with_name("other")
    ports = ("--set", "Server.ServerPort=0", "--set", "Server.HTTPPort=0")
    done = run_relay("start", "-c", relay.conf, "--set", f"Relay.DataDir={other}", *ports)
    shim.calm()
    assert "/dev/shm" in done.stderr, done.stderr
    return done.returncode


def test_stale_shared_memory_after_a_crash(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    relay = start_relay(server)
    stale = (as_it_is, gone, empty, garbage, of_nobody, note_gone)
    with ordeal("stale shared memory after a crash", relay, server, db, Allows.LAST_SECOND, pause=0.005) as trial:
        for number in range(times(18)):
            time.sleep(1.5)
            with trial.fault():
                relay.kill()
                note = data_dir(relay) / "arena"
                stale[number % len(stale)](note, Path("/dev/shm") / note.read_text().strip())
                relay.start()


def as_it_is(note: Path, block: Path) -> None:
    """Taken over."""


def gone(note: Path, block: Path) -> None:
    block.unlink()


def empty(note: Path, block: Path) -> None:
    os.truncate(block, 0)


def garbage(note: Path, block: Path) -> None:
    block.write_bytes(os.urandom(block.stat().st_size // 16))


def of_nobody(note: Path, block: Path) -> None:
    block.unlink()
    note.write_text("psm_of_nobody\n")


def note_gone(note: Path, block: Path) -> None:
    block.unlink()
    note.unlink()
