"""The last hour of the charts, with a controlled clock."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relay.monitoring.history import INTERVAL, SAMPLES, Recorder
from relay.monitoring.stat import CDC, Stat
from relay.runtime.process_status import CDCStatus
from tests.support.sample_stat import STREAM, client, document


class Clock:
    """Unix seconds, as the test wants them."""

    def __init__(self) -> None:
        self.now = 1.7e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    return Recorder(clock)


def sampled(recorder: Recorder, clock: Clock, *documents: Stat, seconds: float = INTERVAL) -> None:
    for made in documents:
        recorder.sample(made)
        clock.now += seconds


def with_rows(insert: int, **changes: Any) -> Stat:
    return document(rows={"insert": insert, "update": 0, "delete": 0}, **changes)


def test_counters_become_rates_and_levels_stay(recorder: Recorder, clock: Clock) -> None:
    one, two = client(), client()
    two.confirmed, two.waiting = one.confirmed + 50, 7
    sampled(recorder, clock, with_rows(100, clients=[one]), with_rows(600, clients=[two]))
    history = recorder.history()
    assert history.at == [1.7e9, 1.7e9 + INTERVAL]
    assert history.insert == [None, 100.0]
    assert history.update == [None, 0.0]
    assert history.confirmed == [None, 10.0]
    assert history.waiting == [20, 7]
    assert history.lag_bytes == [4096, 4096] and history.lag_seconds == [1.5, 1.5]
    assert history.cdc_rows == [None, 0.0] and history.cdc_lag_bytes == [50, 50]
    of_client = recorder.client(1)
    assert (of_client.at, of_client.waiting, of_client.confirmed) == (history.at, [20, 7], [None, 10.0])


def test_a_rate_is_over_the_time_that_has_passed(recorder: Recorder, clock: Clock) -> None:
    sampled(recorder, clock, with_rows(0), seconds=100)
    sampled(recorder, clock, with_rows(1000))
    assert recorder.history().insert == [None, 10.0]


def test_a_counter_that_began_anew_and_what_is_not_known_leave_a_gap(recorder: Recorder, clock: Clock) -> None:
    lost = document()
    lost.source.lag_seconds = lost.source.lag_bytes = None
    sampled(recorder, clock, with_rows(1000), with_rows(10), with_rows(20), lost)
    history = recorder.history()
    assert history.insert[:3] == [None, None, 2.0]
    assert history.lag_seconds == [1.5, 1.5, 1.5, None] and history.lag_bytes[3] is None


def test_the_cdc_port_is_told_of_with_all_its_processes_while_it_is_on(recorder: Recorder, clock: Clock) -> None:
    def sent(rows: int, *behind: int) -> CDC:
        streams = [msgspec.structs.replace(STREAM, lag_bytes=each) for each in behind]
        return CDC("::", 4001, [CDCStatus(rows=100), CDCStatus(rows=rows, streams=streams)])

    documents = [document(cdc=each) for each in (None, sent(0), sent(50, 70, 900), sent(10, 1), None)]
    sampled(recorder, clock, *documents)
    history = recorder.history()
    assert history.cdc_rows == [None, None, 10.0, None, None], "where a process began anew nothing is known"
    assert history.cdc_lag_bytes == [None, 0, 900, 1, None]


def test_an_hour_is_kept_oldest_first(recorder: Recorder, clock: Clock) -> None:
    sampled(recorder, clock, *(with_rows(10 * number) for number in range(SAMPLES + 10)))
    history = recorder.history()
    assert SAMPLES * INTERVAL == 3600
    assert history.at == [1.7e9 + INTERVAL * number for number in range(10, SAMPLES + 10)]
    assert history.insert == [None, *[10 / INTERVAL] * (SAMPLES - 1)]


def test_a_client_that_comes_and_goes_has_the_times_of_the_others(recorder: Recorder, clock: Clock) -> None:
    sampled(recorder, clock, document(client(1)), document(client(1), client(2)), document(client(2)))
    assert recorder.client(2).waiting == [None, 20, 20]
    assert recorder.client(1).waiting == [None, None, None], "it is forgotten"
    assert recorder.client(3).waiting == [None, None, None]
    assert len(recorder.client(3).at) == 3
    assert all(len(values) == 3 for values in msgspec.structs.astuple(recorder.history())[1:])


@pytest.mark.parametrize("idle", [0, 1, 5, SAMPLES - 1, SAMPLES, SAMPLES + 3])
def test_a_client_that_was_idle_at_first_has_all_its_samples(recorder: Recorder, clock: Clock, idle: int) -> None:
    before = 2
    sampled(recorder, clock, *[document(clients=[])] * before)
    sampled(recorder, clock, *[document(clients=[client()])] * (idle + 1))
    expected = ([None] * before + [20] * (idle + 1))[-SAMPLES:]
    assert recorder.client(1).waiting == expected
    busy = client()
    busy.waiting = 7
    sampled(recorder, clock, document(clients=[busy]), document(clients=[client()]))
    assert recorder.client(1).waiting == [*expected, 7, 20][-SAMPLES:]
