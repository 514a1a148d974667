"""Which row is handed out first, again, or no more: on one connection, on the next, after a crash, in both modes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from relay.protocol.classic import Command, Result
from tests.support.chance import seeds
from tests.support.classic_client import many, parse_many
from tests.support.server_processes import Serving
from tests.support.waiting import until


def queued(serving: Serving, name: str, count: int) -> None:
    """A client of that name gets rows 1 to count into its queue."""
    client = serving.client(name, f"{name}.t")
    serving.insert(*((number, "x") for number in range(1, count + 1)), schema=name, table="t")
    until(lambda: serving.stats(client)["waiting"] >= count)
    client.close()


def test_row_is_confirmed_by_the_next_poll_on_the_same_connection_only(serving: Serving) -> None:
    queued(serving, "confirm", 4)
    first = serving.client("confirm")
    assert first.ids(2) == [1, 2]
    second = serving.client("confirm")
    assert serving.stats(second)["confirmed"] == 1
    assert second.ids(1) == [2]
    assert serving.stats(second)["in_flight"] == 1
    assert second.ids(2) == [3, 4]
    assert second.ask(Command.POLL).result == Result.EMPTY
    stats = serving.stats(second)
    assert (stats["confirmed"], stats["in_flight"], stats["waiting"]) == (4, 0, 0)


def test_rows_in_flight_come_again_one_by_one_and_count_in_queue_size(serving: Serving) -> None:
    queued(serving, "again", 10)
    first = serving.client("again")
    assert [row[7]["id"] for row in first.poll_many(rows=6)] == [1, 2, 3, 4, 5, 6]
    second = serving.client("again")
    rows = [second.poll() for _ in range(10)]
    assert [(row["id"], row["queue_size"]) for row in rows] == [(n, 10 - n) for n in range(1, 11)]


def test_poll_many_confirms_by_sequence_on_any_connection(serving: Serving) -> None:
    queued(serving, "sequence", 10)
    first = serving.client("sequence")
    assert [row[0] for row in first.poll_many(rows=6)] == [1, 2, 3, 4, 5, 6]
    assert [row[0] for row in first.poll_many(rows=6)] == [1, 2, 3, 4, 5, 6]
    second = serving.client("sequence")
    rows = second.poll_many(rows=6, confirmed=4)
    assert [row[0] for row in rows] == [5, 6]
    assert [row[0] for row in second.poll_many(rows=6, confirmed=6)] == [7, 8, 9, 10]
    assert second.poll_many(wait=0, confirmed=10) == []
    assert serving.stats(second)["confirmed"] == 10


def test_confirming_what_was_never_handed_out_confirms_nothing(serving: Serving) -> None:
    queued(serving, "liar", 3)
    client = serving.client("liar")
    assert [row[0] for row in client.poll_many(rows=1, confirmed=2**64 - 1)] == [1]
    assert serving.stats(client)["confirmed"] == 0


def test_polls_of_all_versions_share_a_queue(serving: Serving) -> None:
    queued(serving, "mixed", 4)
    client = serving.client("mixed")
    assert client.poll()["id"] == 1
    assert client.ask(Command.POLL_V2).result == Result.OK
    assert [row[7]["id"] for row in client.poll_many(rows=1, confirmed=2)] == [3]
    assert client.poll()["id"] == 4


def test_limits_drop_and_count(serving: Serving) -> None:
    oldest = serving.client("oldest", "limits.t", limit=3, discard=1)
    newest = serving.client("newest", "limits.t", limit=3, discard=2)
    for number in range(1, 7):
        serving.insert((number, "x"), schema="limits", table="t")
    until(lambda: serving.stats(oldest)["matched"] >= 6)
    assert oldest.ids(3) == [4, 5, 6]
    assert newest.ids(3) == [1, 2, 3]
    assert [c.ask(Command.POLL).result for c in (oldest, newest)] == [Result.EMPTY] * 2
    for client, reason in ((oldest, "limit_oldest"), (newest, "limit_newest")):
        stats = serving.stats(client)
        assert (stats["matched"], stats["confirmed"], stats["dropped"][reason]) == (6, 3, 3)


@pytest.mark.parametrize("tables", ["t", "tu"])  # rows of one table share slots of the ring, those of two do not
def test_long_queue_is_delivered_whole_though_it_does_not_fit_its_ring(serving: Serving, tables: str) -> None:
    schema = f"long_{tables}"
    client = serving.client(schema, *(f"{schema}.{table}" for table in tables))
    for number in range(3000):
        serving.insert((number, "x"), schema=schema, table=tables[number % len(tables)])
    until(lambda: serving.stats(client)["matched"] >= 3000)  # from here on the queue only gets shorter
    assert serving.stats(client)["lagging"] or tables == "t"
    rows: list[int] = []
    sizes: list[int] = []
    while len(rows) < 3000:
        if len(rows) % 7:
            batch = client.poll_many(rows=50, confirmed=len(rows))
            rows += [row[7]["id"] for row in batch]
        else:
            row = client.poll()
            rows.append(row["id"])
            sizes.append(row["queue_size"])
    assert rows == list(range(3000))
    assert sizes == sorted(sizes, reverse=True)


def test_at_most_once_never_repeats(tmp_path: Path) -> None:
    with Serving(tmp_path, Relay__Delivery="at-most-once") as serving:
        queued(serving, "once", 6)
        first = serving.client("once")
        assert first.ids(2) == [1, 2]
        second = serving.client("once")
        assert second.ids(1) == [3]
        assert len(second.poll_many(rows=2)) == 2
        for name in ("server-0", "server-1"):
            serving.kill(name)
            serving.start(name)
        third = serving.client("once")
        assert third.ids(1) == [6]
        stats = serving.stats(third)
        assert (stats["confirmed"], stats["in_flight"]) == (6, 0)


def test_rows_whose_journal_was_cut_are_counted_and_passed_over(tmp_path: Path) -> None:
    with Serving(tmp_path, workers=1) as serving:
        client = serving.client("a", "shop.orders")
        filler = "w" * 60_000
        serving.insert((1, "x"))
        assert client.poll()["id"] == 1
        for number in range(2, 60):
            serving.insert((number, filler))
        position = serving.writer.committed()
        serving.insert((60, "y"))
        serving.cut(position)
        again = serving.client("a")
        rows = [again.poll()["id"]]
        while rows[-1] < 60:
            rows.append(again.poll()["id"])
        stats = serving.stats(again)
        dropped = stats["dropped"]["cut"]
        assert dropped > 0
        assert stats["confirmed"] + stats["in_flight"] + dropped == stats["matched"] == 60


@pytest.mark.parametrize("seed", seeds(3))
def test_killed_servers_lose_and_reorder_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Serving(tmp_path) as serving:
        names = ["a", "b", "c"]
        for name in names:
            serving.client(name, "shop.orders").close()
        written = 0
        seen: dict[str, list[int]] = {name: [] for name in names}
        done = dict.fromkeys(names, 0)
        for _ in range(12):
            for _ in range(rng.randint(1, 5)):
                count = rng.randint(1, 40)
                serving.insert(*((written + number, "x") for number in range(1, count + 1)))
                written += count
            clients = {name: serving.client(name) for name in names}
            for name in names:
                # What is waited for in vain, is interrupted by a kill or is not confirmed must do no harm.
                rows = parse_many(clients[name].ask(*many(rng.randint(1, 60), done[name], wait=0.2)).payload)
                seen[name] += [row[7]["id"] for row in rows]
                if rng.random() < 0.7 and rows:
                    done[name] = rows[-1][0]
            for name in ("server-0", "server-1"):
                if rng.random() < 0.6:
                    serving.kill(name)
                    serving.start(name)
        for name in names:
            client = serving.client(name)
            while done[name] < written:
                rows = client.poll_many(confirmed=done[name])
                seen[name] += [row[7]["id"] for row in rows]
                done[name] = rows[-1][0]
            client.poll_many(wait=0, confirmed=done[name])
            stats = serving.stats(client)
            assert (stats["matched"], stats["confirmed"]) == (written, written)
            first = list(dict.fromkeys(seen[name]))
            assert first == list(range(1, written + 1))
