"""A source whose binlog was restarted: the reader notices at once and after any restart, without false alarms."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from examples.dbserver import DatabaseServer
from relay.errors import ExitCode
from relay.journal.frames import Gap
from tests.support.reader_process import Reader

pytestmark = pytest.mark.brands

Make = Callable[..., Reader]


@pytest.fixture(params=["mysql97", "mariadb118", "mariadb1011"])
def source(request: pytest.FixtureRequest, own_server: Callable[..., DatabaseServer]) -> DatabaseServer:
    """A server of this test's own, with a table."""
    server = own_server(str(request.param))
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
    return server


def insert(server: DatabaseServer, rows: int) -> None:
    """Each row is a transaction, and all are of one size."""
    server.execute("SELECT 1", *["INSERT INTO d.t (a) VALUES (1)"] * rows)


def reset(server: DatabaseServer) -> None:
    server.execute("RESET BINARY LOGS AND GTIDS" if server.kind.mysql else "RESET MASTER")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("first file", 0),
        ("third file", 1),
        ("first file", 100),
        pytest.param("third file", 0, marks=pytest.mark.slow),
        pytest.param("first file", 1, marks=pytest.mark.slow),
        pytest.param("third file", 100, marks=pytest.mark.slow),
    ],
)
def test_a_history_begun_anew_under_a_running_reader_is_a_named_stop(
    source: DatabaseServer, make_reader: Make, before: str, after: int
) -> None:
    reset(source)
    if before == "third file":
        source.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    running = make_reader(source).streaming()
    insert(source, 10)
    running.until(lambda: running.count() == 10)
    began = time.monotonic()
    reset(source)
    insert(source, after)
    assert running.wait(15) == ExitCode.STOPPED
    assert running.stop("code") == "binlog_reset", running.stop("text")
    print(f"stopped after {time.monotonic() - began:.1f} s: {running.stop('text')}")


@pytest.mark.parametrize("after", ["as long", "longer", "in the next file", "many files"])
def test_a_history_begun_anew_is_a_named_stop_after_a_restart_however_long_it_is(
    source: DatabaseServer, make_reader: Make, after: str
) -> None:
    reset(source)
    running = make_reader(source).streaming()
    insert(source, 10)
    running.until(lambda: running.count() == 10)
    time.sleep(1)  # a mark is kept once a receive has ended, which waits for half a second
    running.signal(signal.SIGKILL if after == "longer" else signal.SIGTERM)
    reset(source)
    insert(source, 10)
    rows = 10
    if after != "as long":
        insert(source, 30)
        rows += 30
    if after.endswith(("file", "files")):
        for _ in range(4 if after == "many files" else 1):
            source.execute("FLUSH BINARY LOGS")
            insert(source, 10)
            rows += 10
    stopped = make_reader(source)
    assert stopped.wait() == ExitCode.STOPPED
    assert stopped.stop("code") == "binlog_reset", stopped.stop("text")
    running = make_reader(source, accept_gap=True).streaming()
    running.until(lambda: running.count() == 10 + rows)
    assert sum(isinstance(frame, Gap) for frame in running.frames()) == 1


def test_restarts_rotations_and_purges_are_no_new_history(source: DatabaseServer, make_reader: Make) -> None:
    running = make_reader(source, {"Source.Heartbeat": "1s"}).streaming()
    rows = 0
    for change in ("restart", "crash", "rotation", "purge", "nothing"):
        insert(source, 5)
        rows += 5
        running.until(lambda: running.count() == rows)  # noqa: B023
        if change == "restart":
            source.restart()
        elif change == "crash":
            source.kill()
            source.start()
        elif change == "rotation":
            source.execute("FLUSH BINARY LOGS")
        elif change == "purge":
            source.execute("FLUSH BINARY LOGS")
            newest = source.execute("SHOW BINARY LOGS")[-1][0]
            source.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(3)  # quiet for long enough to be looked at, which is after two seconds
        insert(source, 5)
        rows += 5
        running.until(lambda: running.count() == rows, seconds=40)  # noqa: B023
        running.signal(signal.SIGTERM)
        running = make_reader(source, {"Source.Heartbeat": "1s"}).streaming()
    running.until(lambda: running.count() == rows)


@pytest.mark.parametrize("files", ["left behind", "renamed"])
def test_files_of_another_name_are_no_new_history(source: DatabaseServer, make_reader: Make, files: str) -> None:
    running = make_reader(source).streaming()
    insert(source, 5)
    running.until(lambda: running.count() == 5)
    running.signal(signal.SIGTERM)
    source.stop()
    if files == "renamed":
        index = (source.data / "binlog.index").read_text()
        (source.data / "other.index").write_text(index.replace("binlog", "other"))
        for file in source.data.glob("binlog.0*"):
            file.rename(file.with_name(file.name.replace("binlog", "other")))
    source.options += ("--log-bin=other",)
    source.start()
    insert(source, 5)
    stopped = make_reader(source)
    assert stopped.wait() == ExitCode.STOPPED
    # MariaDB has its GTIDs in the files that were left behind.
    lost = files == "left behind" and not source.kind.mysql
    assert stopped.stop("code") == ("gtid_gap" if lost else "binlog_purged"), stopped.stop("text")
