"""What counts as alive and what as ready."""

from __future__ import annotations

from relay.monitoring.health import not_alive, not_ready
from relay.runtime.process_status import Stop
from relay.runtime.watchdog import FREEZE, LAKE_FREEZE
from tests.support.sample_stat import document


def test_alive_is_every_process_that_beats_or_stopped_by_name() -> None:
    made = document()
    assert not_alive(made) == []
    broker, exporter = made.processes[1], made.processes[4]
    broker.state = "down"
    assert not_alive(made) == ["broker is down"]
    broker.state, broker.silent_seconds, exporter.silent_seconds = "running", FREEZE + 1, FREEZE + 1
    assert not_alive(made) == ["broker has been silent for 61 s"]
    exporter.silent_seconds = LAKE_FREEZE + 1
    assert len(not_alive(made)) == 2

    stop = Stop("binlog_purged", "gone", "begin anew")
    stopped = document(stop=stop)
    assert stopped.lake and stopped.log
    stopped.lake.export.stop = stopped.lake.snapshot.stop = stopped.log.status.stop = stop
    for process in stopped.processes:
        if process.name in ("reader", "state-writer", "exporter", "snapshotter", "logger"):
            process.state = "down"
    assert not_alive(stopped) == []


def test_ready_is_a_source_that_streams_and_everybody_who_serves() -> None:
    assert not_ready(document()) == []
    made = document(stop=Stop("binlog_purged", "the source has purged it", "begin anew"))
    made.source.state, made.processes[-1].state = "reconnecting", "starting"
    assert not_ready(made) == [
        "binlog_purged: the source has purged it",
        "the source is reconnecting",
        "server-0 is starting",
    ]
    assert not_ready(document(state="draining")) == ["the relay is draining"]
    export = document()
    export.processes[4].state = "down"
    assert not_ready(export) == [], "clients are served as before"
