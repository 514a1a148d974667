"""A logger that is killed before any of its changes to the folder or at any time loses no line and repeats none."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relay.linelog.linelog as engine
from examples.dbserver import DatabaseServer
from relay.linelog.linelog import LineLog, Settings
from tests.lake.test_export_kill import kill_under_load
from tests.support import forks
from tests.support.csv_lines import content, csv_lines
from tests.support.journal_builder import DELETE, INSERT, NOON, UPDATE, Made, body, row
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

_GAP = re.compile(rb'^..:..:..;;;G;reason|^{"time":"[^"]*","kind":"gap"', re.MULTILINE)
_CHANGES = ("write", "fsync", "ftruncate", "replace", "open")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Events on three days, a long transaction and a gap among them; each of them is read alone."""
    monkeypatch.setattr(engine, "READ_BYTES", 1)
    (tmp_path / "journal").mkdir()
    made = Made(tmp_path / "journal", 1 << 12)  # so that transactions go over segments
    for number in range(24):
        when = NOON + number // 8 * 86400
        made.place += 100
        images = [row(number * 10 + more, b"x" * 20) for more in range(3)]
        made.writer.rows(made.table, INSERT, made.place, when, 3, body(INSERT, 2, *images))
        if number % 3 == 1:
            made.rows(UPDATE, images[0], row(number * 10, b"new"))
            made.rows(DELETE, images[1])
        if number % 5 != 2:
            made.commit(when, f"0-1-{number + 1}")
        if number == 15:
            made.writer.gap(made.place, "binlog.000001", "nobody knows")
    made.commit()
    made.flush()
    return made.folder


def log(journal: Path, folder: Path, commit_always: bool) -> None:
    """All of it; with as many commits as can be, or as few, and as JSON then."""
    if commit_always:
        engine.COMMIT_SECONDS = 0  # type: ignore[misc]
    log = LineLog(journal, Settings(str(folder), ["*"], form="csv" if commit_always else "json", rotate_bytes=500))
    while not log.step().caught_up:
        pass
    log.finish()


def arm(at: int) -> None:
    """From now on this process lives until its `at`-th change to files, of which a write is half done then."""
    count = 0

    def armed(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def change(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            # Pages outlive a process, so a flush does nothing here but take its time.
            return None if name == "fsync" else real(*arguments, **options)

        return change

    for name in _CHANGES:
        setattr(os, name, armed(name))


def killed(at: int, work: Callable[[], None]) -> bool:
    """Run `work` in a fork that dies at its `at`-th change to files. False: it came to its end before."""
    return forks.killed(lambda: arm(at), work)


def files(folder: Path) -> dict[str, bytes]:
    """By name; but for the time of the line about the gap, which is that of its making."""
    return {path.name: _GAP.sub(b"gap", path.read_bytes()) for path in folder.glob("relaylogs-*")}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit_always", [True, False], ids=["many commits", "few commits"])
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 17])
def test_killed_at_any_of_its_changes_it_goes_on_as_if_it_had_lived(
    journal: Path, tmp_path: Path, commit_always: bool, step: int
) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    assert not killed(0, lambda: log(journal, folder, commit_always))
    expected = files(folder)
    assert len(expected) > 6 and content(folder).count(b"\n") == 24 * 3 + 8 * 2 + 1
    rng = random.Random(5)
    for at in itertools.count(1, step):
        shutil.rmtree(folder)
        folder.mkdir()
        if not killed(at, lambda: log(journal, folder, commit_always)):
            break
        killed(rng.randint(1, 20), lambda: log(journal, folder, commit_always))
        assert not killed(0, lambda: log(journal, folder, commit_always))
        assert files(folder) == expected, f"killed at change {at}"
    assert at > 80


def take_away(folder: Path) -> bool:
    """Whether there was a file with lines to take away."""
    found = [path for path in folder.glob("relaylogs-*") if path.stat().st_size]
    for path in found:
        path.rename(folder / "taken")
    return bool(found)


def go_on(journal: Path, folder: Path, taking: bool) -> None:
    """All of it; if `taking`, somebody takes the file away once there are lines in it."""
    log = LineLog(journal, Settings(str(folder), ["*"]))
    while not log.step().caught_up:
        taking = taking and not take_away(folder)


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it does not"])
def test_killed_after_its_file_was_taken_away_it_takes_no_new_one_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    monkeypatch.setattr(engine, "READ_BYTES", 1)
    monkeypatch.setattr(engine, "COMMIT_SECONDS", 0)
    (tmp_path / "journal").mkdir()
    made = Made(tmp_path / "journal")
    for number in range(5):
        made.inserted(number)
    made.flush()
    for at in itertools.count(1):
        folder = tmp_path / f"log{at}"
        folder.mkdir()
        if not running:
            before = LineLog(made.folder, Settings(str(folder), ["*"]))
            while before.step().lines < 2:
                pass
            before.finish()
            assert take_away(folder)
        dead = killed(at, lambda: go_on(made.folder, folder, running))  # noqa: B023
        assert not killed(0, lambda: go_on(made.folder, folder, False))  # noqa: B023
        taken = folder / "taken"
        lines = (taken.read_bytes() + b"\n" if taken.exists() else b"") + content(folder)
        assert {int(number) for number in re.findall(rb";I;id;(\d+);name;\"x\"\n", lines)} == set(range(5))
        if not dead:
            break
    assert at > 10


@pytest.mark.slow
@pytest.mark.usefixtures("full_metadata")
@pytest.mark.parametrize("server", ["mysql97", "mariadb118"], indirect=True)
def test_killed_at_random_times_under_load_every_line_is_there_once(
    server: DatabaseServer, db: str, start_relay: Callable[..., RelayProcess]
) -> None:
    server.execute(f"CREATE TABLE {db}.a (id INT PRIMARY KEY AUTO_INCREMENT, v INT, s VARCHAR(200))")
    relay = start_relay(server, {"Logger.Path": "log/", "Logger.Schema": db, "Logger.RotateBytes": "256KiB"})
    kill_under_load(relay, "logger", server, db, longest=1.0, pause=0.02)
    source = {row[0]: row[1] for row in server.execute(f"SELECT id, v FROM {db}.a")}
    log = relay.conf.parent / "log"
    until(
        lambda: _current(log) == source,
        60,
        lambda: f"{len(_current(log))} rows, the source has {len(source)}",
        pause=0.5,
    )
    assert relay.stop() == 0


def _current(folder: Path) -> dict[int, int]:
    """The table as the lines make it. A line that is not there, or there twice, does not fit those after it."""
    values: dict[int, int] = {}
    whole = content(folder)
    for line in csv_lines(whole[: whole.rfind(b"\n") + 1]):  # the last one may be under way
        kind, number = line[3].text, int(line[5].text)
        if kind == b"I":
            assert number not in values
            values[number] = int(line[7].text)
        elif kind == b"U":
            assert values[number] == int(line[8].text)
            values[number] = int(line[9].text)
        else:
            assert values.pop(number) == int(line[7].text)
    return values
