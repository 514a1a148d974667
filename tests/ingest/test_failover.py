"""Failover by GTID: the relay follows one server of a pair, and continues at the other when the first fails."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay._native import GtidSet, JournalWriter
from relay.errors import ExitCode
from relay.ingest import resume
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.journal.frames import Gap, Source
from relay.source import facts
from tests.support.reader_process import Reader
from tests.support.replicating_pair import HOSTS, executed
from tests.support.waiting import until

pytestmark = pytest.mark.brands


def numbers(running: Reader) -> list[int]:
    """The values of the one INT column of all tables, in the journal's order."""
    found = []
    for frame in running.frames():
        if isinstance(frame, frames.Rows):
            rows = frame.body[2:]
            found += [int.from_bytes(rows[at + 1 : at + 5], "little") for at in range(0, len(rows), 5)]
    return found


def test_the_other_server_goes_on_where_the_first_one_died(
    pair: tuple[DatabaseServer, DatabaseServer], make_reader: Callable[..., Reader]
) -> None:
    first, second = pair
    mysql = first.kind.mysql
    replica = "REPLICA" if mysql else "SLAVE"
    elsewhere = "SET gtid_next = 'AUTOMATIC:blue'" if mysql else "SET SESSION gtid_domain_id = 7"
    if mysql:
        first.execute("GRANT TRANSACTION_GTID_TAG ON *.* TO root@localhost")
    first.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    until(lambda: executed(first).issubset(executed(second)), 30, "the replica does not follow")
    # What only the second one has: in a domain of its own, lest its numbers be taken for the first one's.
    own = [] if mysql else ["SET SESSION gtid_domain_id = 9"]
    second.execute(*own, "CREATE TABLE d.errant (id INT PRIMARY KEY)", "INSERT INTO d.errant VALUES (1000), (1001)")

    running = make_reader(first, {"Server.IPAddr": ", ".join(HOSTS), "Source.Heartbeat": "1s"}).streaming()
    first.execute("INSERT INTO d.t VALUES (1)", elsewhere, "INSERT INTO d.t VALUES (2), (3)")
    running.until(lambda: numbers(running) == [1, 2, 3])
    until(lambda: executed(first).issubset(executed(second)), 30, "the replica does not follow")

    # It falls behind what the relay has, and the first one dies.
    second.execute(f"STOP {replica} SQL_THREAD")
    first.execute("INSERT INTO d.t VALUES (4)", elsewhere, "INSERT INTO d.t VALUES (5)")
    running.until(lambda: numbers(running) == [1, 2, 3, 4, 5])
    sent = executed(first)
    time.sleep(0.5)  # until it has received them
    first.kill()
    running.until(lambda: running.arena.source_state == "reconnecting")
    second.execute(*own, "INSERT INTO d.errant VALUES (1002)")
    time.sleep(1.5)
    assert numbers(running) == [1, 2, 3, 4, 5], "it did not wait for the transactions that the second one lacks"
    second.execute(f"START {replica} SQL_THREAD")
    until(lambda: sent.issubset(executed(second)), 30, "the replica does not catch up")

    second.execute(f"STOP {replica}", "INSERT INTO d.t VALUES (6)", elsewhere, "INSERT INTO d.t VALUES (7)")
    expected = [1, 2, 3, 4, 5, 1000, 1001, 1002, 6, 7]
    running.until(lambda: len(numbers(running)) >= len(expected), seconds=40)
    assert numbers(running) == expected
    assert len({frame.identity for frame in running.frames() if isinstance(frame, Source) and frame.identity}) == 2

    # A restart goes on there by place, and what is prepared by nobody is not asked for.
    running.signal(signal.SIGKILL)
    second.execute("INSERT INTO d.t VALUES (8)")
    again = make_reader(second, {"Server.IPAddr": HOSTS[1]})
    again.until(lambda: len(numbers(again)) > len(expected))
    assert numbers(again) == [*expected, 8]


def test_a_server_that_never_gets_what_was_sent_is_a_named_stop(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    monkeypatch.setattr(resume, "BEHIND_SECONDS", 0.2)
    with closing(server.connect()) as connection:
        about = facts.query_facts(connection)
        has = facts.binlog_end(connection, about).gtid_set
    ahead = GtidSet(has)
    lacks = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7" if server.kind.mysql else "99-1-7"
    ahead.add(lacks)
    journal = JournalWriter(tmp_path / "data" / "journal", 1 << 20)
    journal.source(4, "binlog.000001", str(ahead), f"{about.flavor}:elsewhere")
    with closing(ReaderState(tmp_path / "data" / "state.db")) as reader_state:
        reader_state.put("generation", str(journal.generation()))
    stopped = make_reader(server)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "gtid_gap"
    assert f"lacks transactions that {about.flavor}:elsewhere sent: {lacks} of" in stopped.stop("text")
    assert "--accept-gap" in stopped.stop("hint")
    # Accepted, it goes on after what both have: what this one wrote instead is not lost.
    server.execute(f"INSERT INTO {db}.t VALUES (8)")
    running = make_reader(server, accept_gap=True)
    running.until(lambda: numbers(running) == [8])
    (gap,) = [frame for frame in running.frames() if isinstance(frame, Gap)]
    assert lacks in gap.reason
