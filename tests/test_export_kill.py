"""An exporter that is killed, at any of its changes to the lake or at any time, loses nothing and repeats nothing."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relay.lake.exporter as engine
from examples.dbserver import DatabaseServer
from relay.lake.exporter import Exporter, Settings
from relay.lake.storage import open_storage
from tests.exported import Lake
from tests.lakekill import killed
from tests.metadata import full_metadata_of
from tests.readerproc import Reader
from tests.relayproc import RelayProcess
from tests.test_export import flushed

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
    exporter = Exporter(open_storage(str(lake)), folder, Settings([f"{db}.*"], 3600, roll_bytes))
    while not exporter.step().level:
        pass
    exporter.finish()


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


@pytest.fixture(params=["mysql97", "mariadb118"])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A server whose rows tell the names of their columns."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    with full_metadata_of(server):
        yield server


@pytest.mark.slow
def test_killed_at_random_times_under_load_every_change_is_in_the_lake_once(
    server: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(server)
    server.execute(f"CREATE TABLE {db}.a (id INT PRIMARY KEY AUTO_INCREMENT, v INT, s VARCHAR(200))")
    relay = start_relay(server, {"Lake.Path": "lake", "Lake.RollSeconds": "1s", "Lake.RollBytes": "1MiB",
                                 "Lake.Tables": f"{db}.*", "Lake.Snapshot": "manual"})  # fmt: skip
    ended = threading.Event()
    load = threading.Thread(target=_load, args=(server, db, ended))
    load.start()
    rng = random.Random(7)
    try:
        for number in range(KILLS):
            time.sleep(rng.uniform(0.05, 1.5))
            if number % 5 == 4:
                server.execute("FLUSH BINARY LOGS", f"ALTER TABLE {db}.a ADD COLUMN c{number} INT")
            if number % 8 == 7:
                relay.kill()
                relay.start()
            else:
                with suppress(ProcessLookupError, KeyError):
                    os.kill(relay.pids()["exporter"], signal.SIGKILL)
    finally:
        ended.set()
        load.join()
    lake = Lake(relay.conf.parent / "lake")
    [(count, total)] = server.execute(f"SELECT COUNT(*), SUM(v) FROM {db}.a")
    deadline = time.monotonic() + 60
    while (current := _current(lake, db)) != (count, total):
        assert time.monotonic() < deadline, f"{current}, the source has {(count, total)}"
        time.sleep(0.5)
    assert relay.stop() == 0
    assert set(lake.sequences().values()) == {1}
    lake.check()


def _load(server: DatabaseServer, db: str, ended: threading.Event) -> None:
    with server.connect(database=db, autocommit=False) as connection, connection.cursor() as cursor:
        for number in itertools.count():
            if ended.is_set():
                return
            for _ in range(1 + number % 20):
                cursor.execute("INSERT INTO a (v, s) VALUES (%s, REPEAT('x', 200))" + ", (1, 'y')" * 20, (number,))
            cursor.execute("UPDATE a SET v = v + 1 ORDER BY id DESC LIMIT 3")
            cursor.execute("DELETE FROM a ORDER BY id DESC LIMIT 1")
            connection.commit()


def _current(lake: Lake, db: str) -> tuple[int, int]:
    """Rows and their sum, as the changes so far make them."""
    values: dict[int, int] = {}
    for row in lake.rows(db, "a"):
        if row["_change_type"] in ("insert", "update_postimage"):
            values[row["id"]] = row["v"]
        elif row["_change_type"] == "delete":
            del values[row["id"]]
    return len(values), sum(values.values())
