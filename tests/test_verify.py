"""`relay verify`: what is the same is found the same, what is not is listed, and the witness' faults have names."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.dbserver import DatabaseServer
from tests.relayproc import RelayProcess, run_relay, write_conf
from tests.rowsource import binlog_end
from tests.value_cases import CASES


class Followed(NamedTuple):
    """A server with a relay beside it that has read everything so far, and the database that all tables are in."""

    server: DatabaseServer
    relay: RelayProcess
    db: str

    def verify(self, *arguments: str | Path, conf: Path | None = None, code: int = 0) -> dict[str, Any]:
        """The document of `relay verify --json`, which has to end with that exit code."""
        done = run_relay("verify", "-c", conf or self.relay.conf, "--json", *arguments)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr}"
        document: dict[str, Any] = json.loads(done.stdout)
        return document


def caught_up(server: DatabaseServer, relay: RelayProcess) -> None:
    """Wait until the relay has read what the server has written so far."""
    deadline = time.monotonic() + 30
    end = binlog_end(server)
    while (source := relay.stat()["source"])["file"] != end[0] or source["position"] < end[1]:
        assert time.monotonic() < deadline, f"the relay is at {source}, the source at {end}"
        time.sleep(0.05)


def fill(server: DatabaseServer, db: str, prefix: str) -> None:
    """All cases of values, several columns a table; those that the witness may fail at have events of their own."""
    cases = [case for case in CASES if server.name in case.on]
    alone = [case for case in cases if case.sql.startswith(("JSON", "VECTOR"))]
    others = [case for case in cases if case not in alone]
    groups = [others[at : at + 12] for at in range(0, len(others), 12)]
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        for number, group in enumerate([*groups, *([case] for case in alone)]):
            columns = ", ".join(f"v{n} {case.sql}" for n, case in enumerate(group))
            cursor.execute(f"CREATE TABLE {prefix}{number} (id INT PRIMARY KEY AUTO_INCREMENT, {columns}, w INT)")
            names = ", ".join(f"v{n}" for n in range(len(group)))
            rows = [
                f"({', '.join(row)}, -7)"
                for row in itertools.zip_longest(*(["NULL", *case.values] for case in group), fillvalue="NULL")
            ]
            for part in rows if group[0] in alone else [", ".join(rows)]:
                cursor.execute(f"INSERT INTO {prefix}{number} ({names}, w) VALUES {part}")
        cursor.execute(f"UPDATE {prefix}0 SET w = id")
        cursor.execute(f"DELETE FROM {prefix}1")


@pytest.fixture(scope="module")
def followed(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    db = f"verify_{secrets.token_hex(5)}"
    before = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.execute(f"CREATE DATABASE {db} CHARACTER SET utf8mb4")
    relay = RelayProcess(write_conf(tmp_path_factory.mktemp("verify"), server)).start()
    try:
        fill(server, db, "plain")
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
        fill(server, db, "full")
        caught_up(server, relay)
        yield Followed(server, relay, db)
    finally:
        relay.kill()
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}", f"DROP DATABASE {db}")


def test_every_value_is_the_same_or_a_known_fault_of_the_witness(followed: Followed) -> None:
    report = followed.verify()
    assert report["differences"] == 0 and report["ended_early"] == ""
    assert report["compared"] > 0.95 * report["rows"] > 300
    assert report["equal"] > 0.5 * report["compared"]
