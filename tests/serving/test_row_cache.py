"""Clients of one process that want the same rows: each gets what a client alone would get."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relay._native import Server
from relay.protocol import classic
from tests.support.many_poller import ManyPoller
from tests.support.queue_line import Line

ROWS_AT_A_TIME = (1, 7, 100)


@contextmanager
def three(line: Line) -> Iterator[tuple[ManyPoller, ManyPoller, ManyPoller]]:
    """Two clients of one server, the first with rows from before, and one that has a server for itself."""
    shared, alone = (Server(line.arena, str(line.folder / "journal")) for _ in range(2))
    first = ManyPoller(line, shared, 1)
    line.write(3)
    line.broker.step(1 << 30)
    clients = first, ManyPoller(line, shared, 2), ManyPoller(line, alone, 3)
    yield clients
    for client in clients:
        client.close()


def write(line: Line, rng: random.Random, events: int = 20) -> int:
    """Events of one row and of many, updates among them. Returns how many rows they have."""
    rows = 0
    for _ in range(events):
        if rng.random() < 0.2:
            line.update()
            rows += 1
        else:
            many = rng.choice((1, 3, 50))
            line.write(1, many, together=rng.random() < 0.9)
            rows += many
    line.broker.step(1 << 30)
    return rows


@pytest.mark.parametrize("format", [classic.Format.TEXT, classic.Format.MSGPACK, classic.Format.EXTENDED])
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_another_client_had_before_are_as_if_it_had_not(
    tmp_path: Path, format: classic.Format, seed: int
) -> None:
    rng = random.Random(seed)
    line = Line(tmp_path)
    with three(line) as (first, second, alone):
        total = write(line, rng)
        for _ in range(400):
            if rng.random() < 0.1:  # what the first client gets now has other queue sizes than it will have
                total += write(line, rng)
            if rng.random() < 0.9:
                first.poll(rng.choice(ROWS_AT_A_TIME), rng.choice((0, 200, 5000)), format)
            rows, most = rng.choice(ROWS_AT_A_TIME), rng.choice((0, 200, 5000))
            assert second.poll(rows, most, format) == alone.poll(rows, most, format)
        assert 0 < alone.confirmed <= total


def test_clients_with_different_formats_do_not_get_each_others(tmp_path: Path) -> None:
    line = Line(tmp_path)
    with three(line) as (first, second, alone):
        total = write(line, random.Random(1), 120)
        while alone.confirmed < total:
            first.poll(50, 0, classic.Format.MSGPACK)
            assert second.poll(50, 0, classic.Format.TEXT) == alone.poll(50, 0, classic.Format.TEXT)


def test_a_client_far_behind_gets_its_rows_although_they_are_kept_no_longer(tmp_path: Path) -> None:
    line = Line(tmp_path)
    with three(line) as (first, second, alone):
        total = 200_000  # more than are kept
        line.write(total // 1000, 1000)
        line.broker.step(1 << 30)
        second.poll(10, 0, classic.Format.TEXT)  # else the first one is a client without company
        alone.poll(10, 0, classic.Format.TEXT)
        while first.confirmed < total:
            first.poll(1000, 0, classic.Format.TEXT)
            assert second.poll(1, 0, classic.Format.TEXT) == alone.poll(1, 0, classic.Format.TEXT)
        while alone.confirmed < total:
            first.poll(1, 0, classic.Format.TEXT)
            assert second.poll(1000, 0, classic.Format.TEXT) == alone.poll(1000, 0, classic.Format.TEXT)
