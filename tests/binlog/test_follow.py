"""`relay.binlog.changes` on real servers: rows from a kept position on, through restarts and lost connections."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import BinlogError, Change, Changes, changes
from relay.errors import ErrorCode, RelayError, StopCode
from tests.serving.test_async_client import cancelled_at
from tests.support import ROOT
from tests.support.server_variables import full_metadata_of, global_variable
from tests.support.waiting import patience, until

pytestmark = pytest.mark.usefixtures("full_metadata")

Follow = Callable[..., Changes]
ROWS = 12


@pytest.fixture
def follow(server: DatabaseServer, db: str, tmp_path: Path) -> Follow:
    """follow(...) is `changes` of the test's database, with a file for the position."""
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v VARCHAR(9))", f"CREATE TABLE {db}.other (id INT)")

    def make(**options: Any) -> Changes:
        given: dict[str, Any] = {"tables": f"{db}.t", "resume": tmp_path / "position"}
        given |= {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
        return changes(**(given | options))

    return make


@pytest.fixture
def insert(server: DatabaseServer, db: str) -> Callable[..., None]:
    """insert(1, 2, 3) is a transaction with these rows."""

    def execute(*ids: int) -> None:
        server.execute(f"INSERT INTO {db}.t VALUES {', '.join(f'({number}, NULL)' for number in ids)}")

    return execute


Insert = Callable[..., None]


def ids(rows: Iterator[Change]) -> list[int]:
    return [row.after["id"] for row in rows if row.after]


def sent_all(server: DatabaseServer) -> bool:
    dumps = server.execute("SELECT STATE FROM information_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'")
    return bool(dumps) and all("sent all" in state for (state,) in dumps)


def test_a_row_says_what_happened_where_and_when(
    server: DatabaseServer, db: str, follow: Follow, insert: Insert
) -> None:
    begin = int(datetime.now(UTC).timestamp())
    with follow() as rows:
        insert(1)
        first = next(rows)
        server.execute(f"UPDATE {db}.t SET v = 'x'", f"INSERT INTO {db}.other VALUES (9)", f"DELETE FROM {db}.t")
        second, third = islice(rows, 2)
    assert [(row.kind, row.schema, row.table, row.before, row.after) for row in (first, second, third)] == [
        ("insert", db, "t", None, {"id": 1, "v": None}),
        ("update", db, "t", {"id": 1, "v": None}, {"id": 1, "v": "x"}),
        ("delete", db, "t", {"id": 1, "v": "x"}, None),
    ]
    assert first.file == third.file
    assert first.position < second.position < third.position
    assert len({first.gtid, second.gtid, third.gtid}) == (3 if first.gtid else 1)
    assert begin - 1 <= first.time.timestamp() <= datetime.now(UTC).timestamp() + 1


def test_a_restart_continues_and_a_transaction_that_was_not_finished_comes_again(
    follow: Follow, insert: Insert
) -> None:
    with follow() as rows:
        insert(1)
        next(rows)
    insert(2, 3)
    insert(4)
    with follow() as rows:
        assert ids(islice(rows, 1)) == [2]  # its transaction has another row
    with follow() as rows:
        assert ids(islice(rows, 3)) == [2, 3, 4]
    insert(5)
    with suppress(ZeroDivisionError), follow() as rows:
        assert ids(islice(rows, 1)) == [5]
        raise ZeroDivisionError
    with follow() as rows:
        assert ids(islice(rows, 1)) == [5]


def test_nothing_is_lost_between_a_first_start_and_its_first_row(follow: Follow, insert: Insert) -> None:
    with follow():
        pass
    insert(1)
    with follow() as rows:
        assert ids(islice(rows, 1)) == [1]


def test_the_oldest_event_may_be_the_beginning(follow: Follow, insert: Insert) -> None:
    insert(1)
    insert(2)
    with follow(start="oldest", resume=None) as rows:
        assert ids(islice(rows, 2)) == [1, 2]


def test_the_position_is_on_disk_when_the_next_row_is_awaited(
    server: DatabaseServer, db: str, follow: Follow, insert: Insert, tmp_path: Path
) -> None:
    """A program is killed while it waits: only rows of the transaction that it worked on come again."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(f"""
        from relay.binlog import changes
        for row in changes(host="127.0.0.1", port={server.port}, user={USER!r}, password={PASSWORD!r},
                           tables="{db}.t", resume={str(tmp_path / "position")!r}):
            print(row.after["id"], flush=True)
        """)
    )

    def differs(before: bytes) -> bool:
        return (tmp_path / "position").read_bytes() != before

    seen: list[int] = []
    for number in range(3):
        program = subprocess.Popen(
            [sys.executable, script], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=-1, text=True
        )
        assert program.stdout is not None
        until((tmp_path / "position").exists, what="no position was saved")
        before = (tmp_path / "position").read_bytes()
        insert(2 * number, 2 * number + 1)
        seen += [int(program.stdout.readline()) for _ in range(2)]
        until(partial(differs, before), what="the position was not saved")
        program.send_signal(signal.SIGKILL)
        program.communicate()
    assert seen == list(range(6))


def test_the_position_is_saved_ten_times_a_second_while_more_events_wait(
    mysql97: DatabaseServer, make_db: Callable[..., str], tmp_path: Path
) -> None:
    """Also with TLS, where each read of the socket has the bytes of one transaction."""
    db, transactions = make_db(mysql97), 100
    mysql97.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")

    account: dict[str, Any] = {"host": "127.0.0.1", "port": mysql97.port, "user": USER, "password": PASSWORD}
    with full_metadata_of(mysql97), changes(f"{db}.t", tmp_path / "position", **account) as rows:
        for number in range(transactions):
            mysql97.execute(f"INSERT INTO {db}.t VALUES ({number})")
        until(partial(sent_all, mysql97), what="the source did not send the transactions")
        begin, saved = time.monotonic(), set()
        for number, row in enumerate(islice(rows, transactions)):
            assert row.after == {"id": number}
            saved.add((tmp_path / "position").stat().st_mtime_ns)
    assert len(saved) <= 2 + 10 * (time.monotonic() - begin), "the position was saved more often"


def test_the_position_is_on_disk_when_the_connection_is_lost(
    server: DatabaseServer, follow: Follow, insert: Insert, tmp_path: Path
) -> None:
    with follow(patience=0) as rows:
        before = (tmp_path / "position").read_bytes()
        insert(0)
        assert ids(islice(rows, 1)) == [0]
        until(partial(sent_all, server), what="the source did not send the transaction's end")
        dumps = "SELECT ID FROM information_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'"
        killed = set(server.execute(dumps))
        for (dump,) in killed:
            server.execute(f"KILL {dump}")
        until(lambda: not killed & set(server.execute(dumps)), what="the source did not end the connection")
        with pytest.raises(BinlogError):
            next(rows)
        assert (tmp_path / "position").read_bytes() != before


def test_a_lost_connection_is_made_again(server: DatabaseServer, follow: Follow, insert: Insert) -> None:
    with follow() as rows:
        insert(0)
        next(rows)
        for number in range(1, 4):
            for [process] in server.execute(
                "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
            ):
                with suppress(Exception):
                    server.execute(f"KILL {process}")
            insert(number)
            found = next(rows)
            while found.after == {"id": number - 1, "v": None}:  # the connection was lost before its transaction's end
                found = next(rows)
            assert found.after == {"id": number, "v": None}


def test_a_server_that_was_never_reached_is_an_error_at_once(follow: Follow) -> None:
    with pytest.raises(BinlogError) as caught:
        next(follow(port=1))
    assert caught.value.code == ErrorCode.SOURCE_UNREACHABLE


def test_patience_ends(server: DatabaseServer, follow: Follow, insert: Insert) -> None:
    with follow(patience=0.2) as rows:
        insert(0)
        next(rows)
        rows.close()
        rows._options["port"] = 1
        with pytest.raises(BinlogError) as caught:
            next(rows)
    assert caught.value.code == ErrorCode.SOURCE_UNREACHABLE


def test_a_server_without_names_of_columns_is_refused_with_the_remedy(server: DatabaseServer, follow: Follow) -> None:
    with global_variable(server, "binlog_row_metadata", "MINIMAL"), pytest.raises(RelayError) as caught:
        next(follow())
    assert caught.value.code == StopCode.SCHEMA_UNPROVEN
    assert "binlog_row_metadata = FULL" in caught.value.hint


def test_a_row_without_names_of_columns_is_an_error(
    server: DatabaseServer, db: str, follow: Follow, insert: Insert
) -> None:
    with follow(tables=f"{db}.*") as rows:
        insert(0)
        next(rows)
        with global_variable(server, "binlog_row_metadata", "MINIMAL"):
            server.execute(f"INSERT INTO {db}.other VALUES (1)")
        with pytest.raises(RelayError, match="has no names of columns"):
            next(rows)


def test_an_error_within_a_transaction_passes_over_no_row(server: DatabaseServer, db: str, follow: Follow) -> None:
    with follow(tables=f"{db}.*") as rows:
        with global_variable(server, "binlog_row_metadata", "MINIMAL"):
            server.execute(
                "BEGIN", f"INSERT INTO {db}.t VALUES (1, NULL)", f"INSERT INTO {db}.other VALUES (1)", "COMMIT"
            )
        server.execute(f"INSERT INTO {db}.other VALUES (2)")
        for _ in range(3):
            with pytest.raises(RelayError, match="has no names of columns"):
                next(rows)


def test_a_position_that_a_server_does_not_have_is_an_error(follow: Follow, insert: Insert, tmp_path: Path) -> None:
    """As after RESET MASTER, also if the file of the position exists."""
    with follow() as rows:
        insert(1)
        next(rows)
    position = json.loads((tmp_path / "position").read_text())
    gtid_set = re.sub(r"\d+(?=,|$)", "99999999", position["gtid_set"])  # of each server that it names
    (tmp_path / "position").write_text(json.dumps(position | {"gtid_set": gtid_set}))
    insert(2)
    with pytest.raises(BinlogError) as caught:
        next(follow())
    assert caught.value.code in (StopCode.GTID_GAP, StopCode.BINLOG_PURGED)


def test_a_position_of_another_server_is_refused_without_gtids(follow: Follow, tmp_path: Path) -> None:
    position = {"server": "mysql:another", "file": "binlog.000001", "offset": 4, "gtid_set": ""}
    (tmp_path / "position").write_text(json.dumps(position))
    with pytest.raises(RelayError) as caught:
        next(follow())
    assert caught.value.code == StopCode.WRONG_SOURCE


def test_a_position_of_another_server_continues_by_gtid(follow: Follow, insert: Insert, tmp_path: Path) -> None:
    with follow() as rows:
        insert(0)
        next(rows)
    position = json.loads((tmp_path / "position").read_text())
    assert position["gtid_set"]
    (tmp_path / "position").write_text(json.dumps(position | {"server": "another", "file": "x", "offset": 1 << 20}))
    insert(1)
    with follow() as rows:
        assert ids(islice(rows, 1))[-1:] in ([0], [1])


@pytest.mark.parametrize("content", [b"", b"{", b'{"server": 1}', b'{"server": "\xff"}'])
def test_a_damaged_position_is_an_error_with_the_file(content: bytes, follow: Follow, tmp_path: Path) -> None:
    (tmp_path / "position").write_bytes(content)
    with pytest.raises(RelayError, match="damaged") as caught:
        next(follow())
    assert caught.value.position == str(tmp_path / "position")


def test_wrong_arguments_are_errors(follow: Follow) -> None:
    with pytest.raises(RelayError, match=r"is not SCHEMA\.TABLE"):
        follow(tables="shop")
    with pytest.raises(RelayError, match="neither 'newest' nor 'oldest'"):
        follow(start="now")


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_async_iteration_that_is_cancelled_anywhere_loses_and_repeats_nothing(
    follow: Follow, insert: Insert, tmp_path: Path, late: bool
) -> None:
    async def take(rows: Changes, seen: list[int]) -> None:
        async for row in rows:
            seen += [row.after["id"]] if row.after else []
            if len(seen) % ROWS == 0:
                return

    async def main() -> None:
        step, more, first = 0, True, 0
        async with follow() as rows:
            while more:
                step += 1
                seen: list[int] = []
                for number in range(first, first + ROWS, 3):
                    insert(number, number + 1, number + 2)
                more = await cancelled_at(step, late, take(rows, seen))
                if len(seen) < ROWS:
                    await asyncio.wait_for(take(rows, seen), patience(60))
                assert seen == list(range(first, first + ROWS)), f"cancelled at step {step}"
                first += ROWS
        assert step > 5

    asyncio.run(main())


def test_async_iteration_lets_other_tasks_run(follow: Follow, insert: Insert) -> None:
    async def main() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with follow() as rows:
            for number in range(ROWS):
                insert(number)
            counter = asyncio.create_task(count())
            found = [await anext(rows) for _ in range(ROWS)]
            counter.cancel()
        assert [row.after for row in found] == [{"id": number, "v": None} for number in range(ROWS)]
        assert turns >= ROWS

    asyncio.run(main())
