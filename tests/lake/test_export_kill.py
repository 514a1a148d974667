"""An exporter that is killed at any of its changes to the lake or at any time loses nothing and repeats nothing."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relay.lake.exporter as engine
from examples.dbserver import DatabaseServer
from relay.lake.exporter import Exporter, Settings
from relay.lake.storage import open_storage
from tests.lake.test_export import flushed
from tests.support import exported_lake
from tests.support.exported_lake import Lake
from tests.support.lake_kill import killed
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess
from tests.support.server_variables import full_metadata_of
from tests.support.waiting import until

KILLS = int(os.environ.get("RELAY_KILLS", "25"))


@pytest.fixture
def journal(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], make_reader: Callable[..., Reader]
) -> tuple[Path, str]:
    """A journal with transactions over several tables, a long one, and statements between them; and the schema."""
    db = make_db(mariadb1011)
    reader = make_reader(mariadb1011).streaming()
    with full_metadata_of(mariadb1011):
        mariadb1011.execute(
            f"USE {db}",
            "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20))",
            "CREATE TABLE b (id INT)",
            "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
            "BEGIN",
            "INSERT INTO b VALUES (1)",
            "UPDATE a SET v = 'new' WHERE id = 1",
            "INSERT INTO b VALUES (2)",
            "COMMIT",
            "ALTER TABLE a ADD COLUMN w INT NOT NULL DEFAULT 7",
            "INSERT INTO a VALUES (3, 'three', 3)",
            "TRUNCATE TABLE b",
            "DELETE FROM a WHERE id = 2",
        )
    flushed(reader, mariadb1011)
    reader.signal(signal.SIGTERM)
    return reader.journal_dir, db


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few rows are read alone, so that long transactions go into several files."""
    monkeypatch.setattr(engine, "READ_BYTES", 1)


def export(journal: tuple[Path, str], lake: Path, roll_bytes: int = 1) -> None:
    """All of it, in as many commits and files as can be."""
    folder, db = journal
    exported_lake.export(Exporter(open_storage(str(lake)), folder, Settings([f"{db}.*"], 3600, roll_bytes)))


def rows(lake: Path, db: str) -> list[dict[str, Any]]:
    return [row for table in "ab" for row in Lake(lake).rows(db, table)]


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 17])
def test_killed_before_any_of_its_changes_to_the_lake_it_goes_on_as_if_it_had_lived(
    journal: tuple[Path, str], small_steps: None, tmp_path: Path, step: int
) -> None:
    wanted = tmp_path / "whole"
    export(journal, wanted)
    expected = rows(wanted, journal[1])
    assert len(expected) == 10 and Lake(wanted).commits() > 4
    rng = random.Random(4)
    for at in itertools.count(1, step):
        lake = tmp_path / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        if not killed(lake, at, lambda: export(journal, tmp_path / "lake")):
            break
        before = rows(lake, journal[1]) if lake.exists() else []
        assert before == [row for row in expected if row in before], "what is there is whole and right"
        killed(lake, rng.randint(1, 20), lambda: export(journal, tmp_path / "lake", 1 << 20))
        export(journal, lake, 1 << 20)
        assert rows(lake, journal[1]) == expected
        assert set(Lake(lake).sequences().values()) == {1}
        Lake(lake).check()
    assert at > 60


@pytest.mark.slow
@pytest.mark.usefixtures("full_metadata")
@pytest.mark.parametrize("server", ["mysql97", "mariadb118"], indirect=True)
def test_killed_at_random_times_under_load_every_change_is_in_the_lake_once(
    server: DatabaseServer, db: str, start_relay: Callable[..., RelayProcess]
) -> None:
    server.execute(f"CREATE TABLE {db}.a (id INT PRIMARY KEY AUTO_INCREMENT, v INT, s VARCHAR(200))")
    relay = start_relay(server, {"Lake.Path": "lake", "Lake.RollSeconds": "1s", "Lake.RollBytes": "1MiB",
                                 "Lake.Tables": f"{db}.*", "Lake.Snapshot": "manual"})  # fmt: skip

    def alter(number: int) -> None:
        if number % 5 == 4:
            server.execute("FLUSH BINARY LOGS", f"ALTER TABLE {db}.a ADD COLUMN c{number} INT")

    kill_under_load(relay, "exporter", server, db, longest=1.5, before=alter)
    lake = Lake(relay.conf.parent / "lake")
    [source] = server.execute(f"SELECT COUNT(*), SUM(v) FROM {db}.a")
    until(lambda: _current(lake, db) == source, 60, lambda: f"{_current(lake, db)}, the source has {source}", pause=0.5)
    assert relay.stop() == 0
    assert set(lake.sequences().values()) == {1}
    lake.check()


def kill_under_load(
    relay: RelayProcess,
    process: str,
    server: DatabaseServer,
    db: str,
    longest: float,
    pause: float = 0,
    before: Callable[[int], object] = lambda number: None,
) -> None:
    """Kills a process of the relay, or all of it, KILLS times while rows of table `a` come, change and go.

    `longest` is the most time between two kills, in seconds; `before` is called with the number of each.
    """
    ended = threading.Event()
    load = threading.Thread(target=_endless_rows, args=(server, db, ended, pause))
    load.start()
    rng = random.Random(7)
    try:
        for number in range(KILLS):
            time.sleep(rng.uniform(0.05, longest))
            before(number)
            if number % 8 == 7:
                relay.kill()
                relay.start()
            else:
                with suppress(ProcessLookupError, KeyError):
                    os.kill(relay.pids()[process], signal.SIGKILL)
    finally:
        ended.set()
        load.join()


def _endless_rows(server: DatabaseServer, db: str, ended: threading.Event, pause: float) -> None:
    """Rows come, change and go until it ends, with a pause after each transaction."""
    with server.connect(database=db, autocommit=False) as connection, connection.cursor() as cursor:
        for number in itertools.count():
            if ended.is_set():
                return
            for _ in range(1 + number % 20):
                cursor.execute("INSERT INTO a (v, s) VALUES (%s, REPEAT('x', 200))" + ", (1, 'y')" * 20, (number,))
            cursor.execute("UPDATE a SET v = v + 1 ORDER BY id DESC LIMIT 3")
            cursor.execute("DELETE FROM a ORDER BY id DESC LIMIT 1")
            connection.commit()
            time.sleep(pause)


def _current(lake: Lake, db: str) -> tuple[int, int]:
    """Rows and their sum, as the changes so far make them."""
    values: dict[int, int] = {}
    for row in lake.rows(db, "a"):
        if row["_change_type"] in ("insert", "update_postimage"):
            values[row["id"]] = row["v"]
        elif row["_change_type"] == "delete":
            del values[row["id"]]
    return len(values), sum(values.values())
