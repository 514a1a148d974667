"""The snapshot as a process of the relay, as a command, and what `relay check` says of its rights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.errors import ExitCode
from relay.lake import paths
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.snapshot.grants import unreadable
from relay.lake.storage import open_storage
from tests.support import waiting
from tests.support.lake_state import current
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.server_variables import full_metadata_of

Start = Callable[..., RelayProcess]
MakeDb = Callable[[DatabaseServer], str]
until = partial(waiting.until, seconds=40)


def of_lake(db: str, **more: object) -> dict[str, object]:
    """Settings of a relay with a lake beside its configuration."""
    return {"Source.Tables": f"{db}.*", "Lake.Path": "lake", "Lake.RollSeconds": "1s", **more}


def complete(relay: RelayProcess, db: str, *tables: str) -> bool:
    state = LakeLog(open_storage(str(relay.conf.parent / "lake"))).state()
    known = [state.tables.get(paths.table_key(Table(db, table))) for table in tables]
    return all(one is not None and one.complete_from is not None for one in known)


def rows(relay: RelayProcess, db: str, table: str) -> int:
    return current(str(relay.conf.parent / "lake"), Table(db, table))[1].total()


@contextmanager
def account(server: DatabaseServer, *grants: str) -> Iterator[dict[str, Any]]:
    """An account for schema queries with these grants, as settings."""
    server.execute("CREATE USER narrow@'%' IDENTIFIED BY 'pw'", *(f"GRANT {grant} TO narrow@'%'" for grant in grants))
    try:
        yield {"MySQL.Login": "narrow", "MySQL.Password": "pw"}
    finally:
        server.execute("DROP USER narrow@'%'")


def test_a_relay_fetches_what_it_may_and_the_rest_when_it_may(
    mysql97: DatabaseServer, make_db: MakeDb, start_relay: Start
) -> None:
    db = make_db(mysql97)
    mysql97.execute(
        f"USE {db}",
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO a VALUES (1), (2), (3)",
        "INSERT INTO b VALUES (1, 1), (2, 2)",
    )
    with full_metadata_of(mysql97), account(mysql97, f"SELECT ON {db}.a") as login:
        relay = start_relay(mysql97, of_lake(db, **login))
        mysql97.execute(f"UPDATE {db}.b SET v = 7 WHERE id = 2")
        until(lambda: complete(relay, db, "a"))
        until(lambda: f"table={db}.b" in relay.stderr.read_text())
        assert f"GRANT SELECT ON `{db}`.`b`" in relay.stderr.read_text()
        checked = run_relay("check", "-c", relay.conf).stdout
        assert f"'narrow' lacks SELECT on {db}.*" in checked
        mysql97.execute(f"GRANT SELECT ON {db}.* TO narrow@'%'")
        until(lambda: complete(relay, db, "b"))
        assert (rows(relay, db, "a"), rows(relay, db, "b")) == (3, 2)
        until(lambda: relay.stat()["lake"]["snapshot"]["state"] == "idle")
        assert f"'narrow' may read {db}.*" in run_relay("check", "-c", relay.conf).stdout


def test_the_command_fetches_and_says_what_it_did(
    mariadb118: DatabaseServer, make_db: MakeDb, start_relay: Start
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(
        f"USE {db}",
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE n (v INT)",
        "INSERT INTO a VALUES (1), (2), (3)",
        "INSERT INTO n VALUES (1), (1)",
    )
    relay = start_relay(mariadb118, of_lake(db, **{"Lake.Snapshot": "manual"}))
    until(lambda: LakeLog(open_storage(str(relay.conf.parent / "lake"))).state().place is not None)
    until(lambda: "nothing was exported" not in run_relay("snapshot", "-c", relay.conf, "--table", f"{db}.a").stderr)
    assert complete(relay, db, "a") and not complete(relay, db, "n")
    done = run_relay("snapshot", "-c", relay.conf)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert re.fullmatch(r"fetched 2 rows of 1 tables in \S+ s, \S+ rows/s\n", done.stdout)
    assert relay.stat()["lake"]["snapshot"]["state"] == "manual"
    assert (rows(relay, db, "a"), rows(relay, db, "n")) == (3, 2)


@pytest.mark.slow
def test_the_command_says_what_is_missing_when_nothing_is_exported_any_more(
    mariadb118: DatabaseServer, make_db: MakeDb, start_relay: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(f"USE {db}", "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    relay = start_relay(mariadb118, of_lake(db, **{"Lake.Snapshot": "manual"}))
    lake = LakeLog(open_storage(str(relay.conf.parent / "lake")))
    until(lambda: (place := lake.state().place) and place.identity)
    relay.stop()
    mariadb118.execute(f"INSERT INTO {db}.a VALUES (2)")
    done = run_relay("snapshot", "-c", relay.conf)
    assert done.returncode == ExitCode.OK
    assert f"1 tables ({db}.a) are complete when the export has reached their snapshots" in done.stdout
    relay.start()
    until(lambda: complete(relay, db, "a"))
    assert rows(relay, db, "a") == 2


@pytest.mark.parametrize(
    ("granted", "pattern", "left"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `x`@`%`"], "*.*", []),
        (["GRANT SELECT, INSERT ON *.* TO `x`@`%`"], "shop.*", []),
        (["GRANT INSERT ON *.* TO `x`@`%`"], "shop.*", ["shop.*"]),
        (["GRANT SELECT ON `shop`.* TO `x`@`%`"], "shop.orders", []),
        (["GRANT SELECT ON `shop`.* TO `x`@`%`"], "*.*", ["*.*"]),
        (["GRANT SELECT ON `sh%`.* TO `x`@`%`"], "shop.*", []),
        ([r"GRANT SELECT ON `sh\_p`.* TO `x`@`%`"], "shop.*", ["shop.*"]),
        (["GRANT SELECT ON `shop`.`orders` TO `x`@`%`"], "shop.*", ["shop.*"]),
        (["GRANT SELECT ON `shop`.`orders` TO `x`@`%`"], "shop.orders", []),
        (["GRANT SELECT (id) ON `shop`.`orders` TO `x`@`%`"], "shop.orders", ["shop.orders"]),
    ],
)
def test_tables_that_an_account_may_not_read_are_told_by_its_grants(
    granted: Sequence[str], pattern: str, left: Sequence[str]
) -> None:
    assert unreadable(granted, [pattern]) == left
