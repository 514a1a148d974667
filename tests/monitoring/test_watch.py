"""The probes of the source: how far its binlog is ahead, when it purges, and what follows from that."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.ingest import position_report
from relay.monitoring import collector
from relay.monitoring.collector import Collector
from relay.monitoring.lag import lag_and_loss, unread_bytes
from relay.monitoring.source_probe import SourceProbe, bytes_between
from relay.monitoring.stat import Source
from relay.monitoring.stat_collect import collect
from relay.runtime.context import MonitorContext
from relay.runtime.process_status import StatusPages, Watch
from relay.source.connect import Account
from tests.support.reader_process import Reader
from tests.support.server_variables import global_variable
from tests.support.source_rows import binlog_end

pytestmark = pytest.mark.brands

NOW = 1_700_000_000.0
EXPIRIES = {
    "mysql97": ("binlog_expire_logs_seconds", "7200", 7200),
    "mariadb118": ("expire_logs_days", "0.5", 43200),
    "mariadb1011": ("expire_logs_days", "3", 259200),
}


@pytest.mark.parametrize(
    ("here", "end", "wanted"),
    [
        (("b.2", 4), ("b.2", 4), 0),
        (("b.2", 10), ("b.2", 25), 15),
        (("b.1", 90), ("b.2", 4), 14),
        (("b.1", 100), ("b.3", 7), 307),
        (("b.3", 5), ("b.2", 100), 0),
    ],
)
def test_bytes_between_two_places_are_those_of_all_files_from_one_to_the_other(
    here: tuple[str, int], end: tuple[str, int], wanted: int
) -> None:
    assert bytes_between({"b.1": 100, "b.2": 300, "b.3": 50}, here, end) == wanted


@pytest.mark.parametrize(
    ("watch", "place", "wanted"),
    [
        (Watch(at=NOW - 2, file="b.2", position=900, lag_bytes=300), ("b.2", 600), 300),
        (Watch(at=NOW - 2, file="b.2", position=900, lag_bytes=300), ("b.2", 700), 200),
        (Watch(at=NOW - 2, file="b.2", position=900, lag_bytes=300), ("b.2", 950), 0),
        (Watch(at=NOW - 2, file="b.2", position=900, lag_bytes=1500), ("b.1", 600), 1500),
        (Watch(at=NOW - 2, file="b.999999", position=900, lag_bytes=300), ("b.1000000", 4), 0),
        (Watch(at=NOW - 2, file="b.2", position=900), ("b.2", 600), None),
        (Watch(at=NOW - 99, file="b.2", position=900, lag_bytes=300), ("b.2", 600), None),
        (Watch(), ("b.2", 600), None),
    ],
)
def test_unread_is_what_was_there_at_the_last_watch_and_is_still_to_come(
    watch: Watch, place: tuple[str, int], wanted: int | None
) -> None:
    assert unread_bytes(watch, *place, NOW) == wanted


@pytest.mark.parametrize(
    ("lag_bytes", "expiry", "last_event", "silent", "wanted"),
    [
        (0, 3600, NOW - 900, 1.0, (0.0, 3600.0)),
        (1, 3600, NOW - 900, 1.0, (900.0, 2700.0)),
        (1, 600, NOW - 900, 1.0, (900.0, 0.0)),
        (1, 0, NOW - 900, 1.0, (900.0, None)),
        (1, 3600, NOW + 5, 1.0, (0.0, 3600.0)),  # its clock is ahead
        (1, 3600, 0.0, 0.0, (None, 3600.0)),
        (None, 3600, NOW - 900, 300.0, (None, 3300.0)),  # it does not answer
        (None, None, 0.0, 0.0, (None, None)),
    ],
)
def test_lag_and_time_to_data_loss_follow_from_what_the_source_said(
    lag_bytes: int | None,
    expiry: int | None,
    last_event: float,
    silent: float,
    wanted: tuple[float | None, float | None],
) -> None:
    assert lag_and_loss(lag_bytes, expiry, last_event, silent, NOW) == wanted


def at(server: DatabaseServer, host: str = "127.0.0.1", login: str = USER, password: str = PASSWORD) -> Account:
    return Account(host, server.port, login, password)


def test_the_lag_is_what_the_binlogs_have_beyond_a_place(server: DatabaseServer, db: str, young_binlog: None) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    here = binlog_end(server)
    probe = SourceProbe()
    # Not compared with the end as it is now: MariaDB writes a checkpoint some time after a rotation.
    before = time.time()
    level = probe.run(at(server), lambda: here)
    assert (level.file, level.position - here[1], level.trouble) == (here[0], level.lag_bytes, "")
    assert before <= level.at <= time.time()
    assert probe.run(at(server), lambda: (level.file, 1 << 40)).lag_bytes == 0
    server.execute(f"INSERT INTO {db}.t VALUES (1)")
    behind = probe.run(at(server), lambda: here)
    assert behind.lag_bytes == behind.position - here[1] > 100
    server.execute("FLUSH BINARY LOGS", f"INSERT INTO {db}.t VALUES (2)", "FLUSH BINARY LOGS")
    found = probe.run(at(server), lambda: here)
    sizes = [int(log[1]) for log in server.execute("SHOW BINARY LOGS")]
    assert len(sizes) == 3
    assert found.lag_bytes == sum(sizes[:2]) - here[1] + found.position
    assert found.file == binlog_end(server)[0] != here[0]
    found = probe.run(at(server), lambda: ("binlog.999999", 4))
    assert (found.lag_bytes, found.trouble) == (None, "the source has no binlog binlog.999999")
    found = probe.run(at(server), lambda: ("", 0))
    assert (found.lag_bytes, found.trouble) == (None, "nothing read from the source yet")
    probe.close()


def test_the_expiry_is_the_sources_own_as_it_is_now(server: DatabaseServer) -> None:
    name, value, seconds = EXPIRIES[server.name]
    probe = SourceProbe()
    end = binlog_end(server)
    probe.run(at(server), lambda: end)
    with global_variable(server, name, value):
        assert probe.run(at(server), lambda: end).expiry == seconds
        if server.kind.mysql:
            with global_variable(server, "binlog_expire_logs_auto_purge", "OFF"):
                assert probe.run(at(server), lambda: end).expiry == 0
        server.execute(f"SET GLOBAL {name} = 0")
        assert probe.run(at(server), lambda: end).expiry == 0
    probe.close()


def test_a_source_that_hangs_up_is_asked_again_by_another_connection(mariadb1011: DatabaseServer) -> None:
    server = mariadb1011
    probe = SourceProbe()
    end = binlog_end(server)
    assert probe.run(at(server), lambda: end).lag_bytes is not None
    mine = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'relay' AND COMMAND = 'Sleep'"
    for (connection,) in server.execute(mine):
        server.execute(f"KILL {connection}")
    found = probe.run(at(server), lambda: end)
    assert found.trouble == ""
    assert found.lag_bytes is not None
    probe.close()


def test_a_source_that_is_gone_or_denies_is_a_text_and_the_expiry_stays(mysql97: DatabaseServer) -> None:
    probe = SourceProbe()
    end = binlog_end(mysql97)
    expiry = probe.run(at(mysql97), lambda: end).expiry
    assert expiry
    gone = probe.run(at(mysql97, "127.0.0.2"), lambda: end)  # where nobody listens
    assert (gone.lag_bytes, gone.file, gone.expiry) == (None, "", expiry)
    assert gone.trouble.startswith("connect to 127.0.0.2:")
    assert probe.run(at(mysql97), lambda: end).trouble == ""
    mysql97.execute("CREATE USER watcher@'%' IDENTIFIED BY 'w'")
    try:
        denied = probe.run(at(mysql97, login="watcher", password="w"), lambda: end)
    finally:
        mysql97.execute("DROP USER watcher@'%'")
    assert "denied" in denied.trouble.lower()
    assert (denied.lag_bytes, denied.file) == (None, "")
    probe.close()


class Watched:
    """A real reader, and beside it what the monitor does to watch its source."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.status_pages = reader, StatusPages()
        context = reader.context
        common = (context.config, reader.arena, context.log)
        self.collector = Collector(MonitorContext("monitor", 0, *common, status_pages=self.status_pages))

    def source(self) -> Source:
        self.collector.step()
        context = self.reader.context
        return collect(context.config, self.reader.arena, context.data_dir, ["reader"], self.status_pages).source

    def until(self, condition: Callable[[Source], object]) -> Source:
        """The source's part of the stat document once it is so."""
        found: list[Source] = []

        def look() -> object:
            found.append(self.source())
            return condition(found[-1])

        self.reader.until(look)
        return found[-1]


def test_the_document_tells_lag_and_time_to_data_loss(
    server: DatabaseServer, db: str, make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(collector, "REPORT_SECONDS", 0.1)
    began = time.time()
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY)")
    watched = Watched(make_reader(server).streaming())
    server.execute(f"INSERT INTO {db}.t VALUES (1)", "FLUSH BINARY LOGS")
    # Where MariaDB's checkpoint has not come yet, that is waited for too.
    level = watched.until(
        lambda source: (source.watch.file, source.watch.position) == binlog_end(server) and source.lag_bytes == 0
    )
    assert (level.watch.file, level.watch.position) == (level.file, level.position), "the head of a binlog is no lag"
    assert (level.lag_seconds, level.loss_seconds) == (0, level.watch.expiry or None)
    watched.reader.arena.paused = True
    watched.until(lambda source: source.state == "paused")
    server.execute(f"INSERT INTO {db}.t VALUES (2)")
    behind = watched.until(
        lambda source: source.lag_bytes and source.lag_bytes == binlog_end(server)[1] - source.position
    )
    assert behind.lag_seconds is not None
    assert 0 < behind.lag_seconds < time.time() - began + 1  # the source gives whole seconds
    if level.watch.expiry:
        assert behind.loss_seconds is not None
        assert 0 < behind.loss_seconds < level.watch.expiry
    watched.reader.arena.paused = False
    assert watched.until(lambda source: source.lag_bytes == 0).lag_seconds == 0
    watched.collector.close()


def test_a_probe_counts_once_the_reader_has_reported_what_it_had_read(
    mysql97: DatabaseServer, make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(collector, "REPORT_SECONDS", 0.0)
    watched = Watched(make_reader(mysql97).streaming())
    ages: dict[float, float] = {}  # when a probe was first seen, by its time

    def look(source: Source) -> bool:
        if source.watch.at:
            ages.setdefault(source.watch.at, time.time() - source.watch.at)
        return len(ages) == 4

    watched.until(look)
    assert min(ages.values()) >= position_report.REPORT_SECONDS
    watched.collector.close()


def test_a_defect_in_the_thread_that_watches_ends_the_monitor(
    mariadb1011: DatabaseServer, make_reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceProbe, "run", lambda *_: 1 // 0)
    watched = Watched(make_reader(mariadb1011))
    with pytest.raises(ZeroDivisionError):
        watched.until(lambda source: source.state == "never")
    watched.collector.close()
