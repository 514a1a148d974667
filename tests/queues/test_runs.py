"""Runs: frames of one table that come together are one range, and nothing else about their rows changes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from relay._native import Broker, ClientQueue, Server
from relay.protocol import classic
from tests.support.chance import seeds
from tests.support.many_poller import ManyPoller
from tests.support.queue_line import BLOCK, OPEN, Line, drained, emptied, new_arena


def server_of(line: Line) -> Server:
    return Server(line.arena, str(line.folder / "journal"))


def put(line: Line, table: int, kind: int, ids: range) -> None:
    """Write a transaction with an event of rows with these ids."""
    images = b"".join((b"\0" + id.to_bytes(4, "little")) * (1 + (kind == 2)) for id in ids)
    line.writer.rows(table, kind, 100, 1, len(ids), (b"\1\1\1" if kind == 2 else b"\1\1") + images)
    line.writer.commit(100, 1)


def test_events_of_one_row_that_come_together_are_one_range_a_block(line: Line) -> None:
    _, queue = line.client(1)
    line.write(1000, together=True)
    line.broker.step(1 << 30)
    ranges = queue.peek()[1]
    blocks = [run // BLOCK for run, _, _ in ranges]
    assert blocks == sorted(set(blocks))
    assert line.rows_of(ranges) == [(frame, 0) for frame, _ in line.rows_frames()]
    assert drained(line, queue) == 1000


def test_a_poll_gets_as_many_events_of_one_row_as_it_asks_for(line: Line) -> None:
    client = ManyPoller(line, server_of(line), 1)
    line.write(3000, together=True)
    line.broker.step(1 << 30)
    assert [len(client.poll_ids(1000)) for _ in range(4)] == [1000, 1000, 1000, 0]
    client.close()


def test_rows_behind_the_ring_come_to_it_as_runs(line: Line) -> None:
    slot, queue = line.client(1)
    line.write(60_000, together=True)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["lagging"]
    came, ranges = 0, 0
    while taken := queue.take(10_000)[1]:
        came += sum(rows for _, _, rows in taken)
        ranges += len(taken)
        queue.confirm(came)
        line.broker.step(1 << 30)
    assert came == 60_000
    assert came / ranges > 80


@dataclass
class Wants:
    """A client of a test, the ids that it must get, and those that it has."""

    client: ManyPoller
    orders: int  # kinds
    items: int
    due: list[int] = field(default_factory=list)
    came: list[int] = field(default_factory=list)


@pytest.mark.parametrize("seed", seeds(6))
def test_clients_get_their_rows_in_order_whatever_runs_they_are_in(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    line, number = Line(tmp_path), 0
    servers = [server_of(line), server_of(line)]
    clients = [
        Wants(ManyPoller(line, servers[place % 2], place + 1), *kinds)
        for place, kinds in enumerate(((7, 7), (7, 0), (1, 0), (5, 2)))
    ]

    def ask(slot: int, wants: Wants) -> None:
        tables = (("orders", wants.orders), ("items", wants.items))
        line.broker.set_filters(slot, [("shop", table, kinds, 0, 0, 1, OPEN) for table, kinds in tables if kinds])

    for slot, wants in enumerate(clients):
        ask(slot, wants)
    for _ in range(150):
        for _ in range(rng.choice((1, 5, 200, 400))):
            is_items, kind = rng.random() < 0.1, rng.choice((1, 1, 1, 1, 1, 2, 4))
            ids = range(number, number + rng.choice((1, 1, 1, 1, 2, 30)))
            put(line, line.other_table if is_items else line.table, kind, ids)
            number = ids.stop
            for wants in clients:
                if (wants.items if is_items else wants.orders) & kind:
                    wants.due += ids
        if rng.random() < 0.1:  # another broker after a kill
            line.broker = Broker(line.arena, line.folder / "journal", lambda offset, size: None)
            for slot, wants in enumerate(clients):
                ask(slot, wants)
        line.broker.step(1 << 30)
        for wants in rng.choices(clients, k=5):
            confirmed = wants.client.confirmed
            ids_came = wants.client.poll_ids(rng.choice((1, 7, 100, 1000)), rng.choice((0, 300, 5000)))
            if rng.random() < 0.2:  # the client did not work on them
                wants.client.confirmed = confirmed
            else:
                wants.came += ids_came
            assert wants.came == wants.due[: len(wants.came)]
    for wants in clients:
        while len(wants.came) < len(wants.due):
            came = wants.client.poll_ids(1000)
            assert came
            wants.came += came
            line.broker.step(1 << 30)
        assert wants.came == wants.due
        wants.client.close()


def test_deliveries_and_skips_are_told_by_the_frame_of_their_row(line: Line) -> None:
    server = server_of(line)
    clients = [ManyPoller(line, server, id) for id in (1, 2)]  # the second one's rows are copies of the first one's
    line.write(50, together=True)
    line.broker.step(1 << 30)
    frames = [frame for frame, _ in line.rows_frames()]
    for count in (10, 5):
        for client in clients:
            client.poll(count, 0, classic.Format.TEXT)
    for slot in range(2):
        assert [frame for _, frame, _, _ in line.arena.client_deliveries(slot)] == [frames[0], frames[10]]
    server.skip_row(1, 0, 10)  # in flight
    assert line.arena.client_stats(0)["last_drop"]["skipped"] == frames[10]
    clients[1].poll(0, 0, classic.Format.TEXT)  # confirms
    server.skip_row(2, 1, 15)  # waits
    assert line.arena.client_stats(1)["last_drop"]["skipped"] == frames[15]
    for client in clients:
        client.close()


def test_rows_before_damage_in_a_run_are_handed_out_and_those_behind_it_when_it_is_mended(line: Line) -> None:
    client = ManyPoller(line, server_of(line), 1)
    line.write(20, together=True)
    line.broker.step(1 << 30)
    with line.damaged(5):
        assert len(client.poll_ids(100)) == 5
        for _ in range(2):
            reply = client.poll(100, 0, classic.Format.MSGPACK)
            assert reply[0] == classic.Result.ERROR and b"damaged" in reply
    assert len(client.poll_ids(100)) == 15
    client.close()


@pytest.mark.parametrize("apart", [0, 300])  # with rows that each fill a slot, the others are behind the ring
def test_a_run_ends_before_a_damaged_frame(line: Line, apart: int) -> None:
    """Which the broker meets when it decides, or when it fills a ring again after a kill."""
    slot, queue = line.client(1)
    line.write(apart)
    line.write(100, together=True)
    if apart:
        line.broker.step(1 << 30)
        line.succeeded((slot, 0, 0))
    done = emptied(queue)
    with line.damaged(apart + 50):
        line.stops()
        done += sum(rows for _, _, rows in queue.take(1000)[1])
        assert done == apart + 50
    queue.confirm(done)
    line.broker.step(1 << 30)
    assert sum(rows for _, _, rows in queue.take(1000)[1]) == 50


def test_a_cold_start_goes_on_within_a_run(line: Line) -> None:
    _, queue = line.client(1)
    line.write(500, together=True)
    line.broker.step(1 << 30)
    frames = [(frame, 0) for frame, _ in line.rows_frames()]
    queue.take(130)
    queue.confirm(100)
    line.arena.flushed = line.writer.flush()
    found = line.broker.checkpoint()
    assert found
    position, [(_, packed)] = found
    line.arena = new_arena()
    line.arena.attach_writer(line.writer)
    line.broker = Broker(line.arena, line.folder / "journal", print)
    assert line.broker.flaw(packed, position) == ""
    slot = line.broker.add_client(1, "client 1", [("shop", "*", 7, 0, 0, 1, OPEN)], packed, position)
    line.broker.step(1 << 30)
    queue = ClientQueue(line.arena, slot)
    assert line.rows_of(queue.in_flight()[1]) == frames[100:130]
    queue.confirm(130)
    assert line.rows_of(queue.take(1000)[1]) == frames[130:]
