"""The durable state of clients, and how filters change without changing the rule for earlier rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.queues.state import OPEN_END, ClientState, Filter, pruned, with_filter, without_filter

ORDERS = Filter("shop", "orders", 7, 0, 0, since=100)


def test_a_filter_asked_for_again_ends_the_old_one_where_the_new_begins() -> None:
    new = Filter("shop", "orders", 7, 1, 50, since=300)
    assert with_filter([ORDERS], new) == [Filter("shop", "orders", 7, 0, 0, since=100, until=300), new]


def test_a_filter_of_other_kinds_is_another_filter() -> None:
    inserts = Filter("shop", "orders", 1, 0, 0, since=300)
    assert with_filter([ORDERS], inserts) == [ORDERS, inserts]


def test_a_filter_replaced_before_any_row_leaves_nothing_behind() -> None:
    new = Filter("shop", "orders", 7, 2, 9, since=100)
    assert with_filter([ORDERS], new) == [new]


def test_a_removed_filter_holds_for_rows_before_until_they_are_decided() -> None:
    filters = without_filter([ORDERS], ORDERS.key, 300)
    assert filters == [Filter("shop", "orders", 7, 0, 0, since=100, until=300)]
    assert pruned(filters, 299) == filters
    assert pruned(filters, 300) == []


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert without_filter([ORDERS], ("shop", "other", 7), 300) == [ORDERS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_clients_filters_and_checkpoints_survive(path: Path) -> None:
    state = ClientState(path)
    filters = [ORDERS, Filter("*", "*", 1, 2, 7, since=2**63 + 5, until=2**64 - 2)]
    state.add_client(1, "a")
    state.add_client(2, "b\N{SNOWMAN}")
    state.replace_filters(2, filters)
    state.checkpoint(2**64 - 3, [(1, b"one"), (2, b"two")])
    state.set_generation(2**64 - 1)
    state.close()
    again = ClientState(path)
    assert (again.generation(), again.position()) == (2**64 - 1, 2**64 - 3)
    assert [(c.id, c.name, c.checkpoint) for c in again.clients()] == [
        (1, "a", b"one"),
        (2, "b\N{SNOWMAN}", b"two"),
    ]
    assert again.clients()[1].filters == filters
    assert [f.until for f in again.clients()[1].in_force()] == [OPEN_END]
    again.close()


def test_an_id_is_never_given_to_another_name(path: Path) -> None:
    state = ClientState(path)
    assert state.last_id() == 0
    state.add_client(1, "kept")
    state.add_client(2, "gone")
    state.replace_filters(2, [ORDERS])
    state.forget_client(2)
    assert state.last_id() == 2
    state.close()
    again = ClientState(path)
    assert again.last_id() == 2
    assert [(c.id, c.name, c.filters) for c in again.clients()] == [(1, "kept", [])]
    again.close()


def test_changes_that_come_again_in_their_order_change_nothing(path: Path) -> None:
    state = ClientState(path)
    for _ in range(2):
        state.add_client(1, "kept")
        state.add_client(2, "gone")
        state.replace_filters(1, [ORDERS])
        state.replace_filters(2, [ORDERS])
        state.replace_filters(1, [])
        state.forget_client(2)
        state.add_client(7, "gone")
        state.checkpoint(9, [(1, b"one"), (2, b"two")])
        assert state.last_id() == 7
        assert [(c.id, c.name, c.filters, c.checkpoint) for c in state.clients()] == [
            (1, "kept", [], b"one"),
            (7, "gone", [], None),
        ]
    state.close()
    ClientState(path).close()  # which checks the seals


def test_a_checkpoint_flushes_names_and_filters_too_and_nothing_is_flushed_for_nothing(tmp_path: Path) -> None:
    state = ClientState(tmp_path / "state.db")
    said: list[str] = []
    state._db.set_trace_callback(said.append)
    state.add_client(1, "a")
    state.checkpoint(0, [])
    state.replace_filters(1, [ORDERS])
    state.checkpoint(0, [])
    state.checkpoint(0, [])
    state.forget_client(1)
    state.checkpoint(0, [(1, b"gone")])
    state.checkpoint(7, [])
    state.checkpoint(7, [])
    modes = [line.rpartition("=")[2] for line in said if line.startswith("PRAGMA synchronous")]
    assert modes == ["FULL", "NORMAL"] * 4
    for full, normal in zip(range(0, 8, 2), range(1, 8, 2), strict=True):
        places = [number for number, line in enumerate(said) if line.startswith("PRAGMA synchronous")]
        assert any(line.startswith("INSERT OR REPLACE") for line in said[places[full] : places[normal]])
