"""GTID sets of both families: as text, as MySQL packs them, and as sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay._native import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "ffffffff-71ca-11e1-9e33-c80aa9429562"

sources = st.sampled_from([f"{A}:", f"{B}:", f"{A}:blue:", f"{B}:red_1:"])
ids = st.lists(st.tuples(sources, st.integers(1, 60)), max_size=60)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (f"{A}:5", f"{A}:5"),
        (f"{A}:1-5:7", f"{A}:1-5:7"),
        (f" {A.upper()}:7:1-5 ,\n{B}:1", f"{A}:1-5:7,{B}:1"),
        (f"{A}:1-3:4-6:2", f"{A}:1-6"),
        (f"{A.replace('-', '')}:1", f"{A}:1"),
        (f"{A}:1-5:blue:1-2:9:red_1:4", f"{A}:1-5:blue:1-2:9:red_1:4"),
        (f"{A}:BLUE:3,{A}:1,{A}:blue:4", f"{A}:1:blue:3-4"),
        ("0-1-5", "0-1-5"),
        ("2-1-7, 0-9-18446744073709551615", "0-9-18446744073709551615,2-1-7"),
    ],
)
def test_text_is_read_and_written_as_the_servers_do(text: str, canonical: str) -> None:
    assert str(GtidSet(text)) == canonical
    assert GtidSet(canonical) == GtidSet(text)


@pytest.mark.parametrize(
    "text",
    [
        *("nonsense", "1-2", "1-2-3-4", "0-1-0", "-1-2-3", "4294967296-1-1", f"{A}:1,0-1-1", f"0-1-1,{A}:1"),
        *(f"{A}:0", f"{A}:5-4", f"{A[:-1]}:1", f"{A}:-1", f"{A}:1-", f"{A}:9223372036854775808"),
        *(f"{A}:{'x' * 33}:1", f"{A}:b-d:1"),
    ],
)
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        GtidSet(text)


@given(ids)
def test_a_set_holds_exactly_what_was_added(added: list[tuple[str, int]]) -> None:
    gtids = GtidSet()
    for source, number in added:
        gtids.add(f"{source}{number}")
    for source in (f"{A}:", f"{B}:", f"{A}:blue:", f"{B}:red_1:"):
        for number in range(1, 62):
            assert (f"{source}{number}" in gtids) == ((source, number) in added)
    assert GtidSet(str(gtids)) == gtids
    assert GtidSet.decode(gtids.encode()) == gtids
    assert bool(gtids) == bool(added)


@given(ids, ids)
def test_subsets_and_removal(some: list[tuple[str, int]], more: list[tuple[str, int]]) -> None:
    small, large = GtidSet(), GtidSet()
    for source, number in some:
        small.add(f"{source}{number}")
        large.add(f"{source}{number}")
    for source, number in more:
        large.add(f"{source}{number}")
    assert small.issubset(large)
    assert large.issubset(small) == (set(more) <= set(some))
    for source, number in set(more) - set(some):
        large.remove(f"{source}{number}")
    assert large == small


def test_mariadb_keeps_the_last_of_each_domain() -> None:
    gtids = GtidSet("0-1-5,3-1-9")
    gtids.add("0-2-6")
    assert str(gtids) == "0-2-6,3-1-9"
    assert gtids.mariadb
    assert "0-7-4" in gtids
    assert "0-7-7" not in gtids
    assert "1-1-1" not in gtids
    assert GtidSet("0-1-6").issubset(gtids)
    assert not GtidSet("1-1-1").issubset(gtids)
    assert GtidSet().issubset(gtids)


@given(st.binary(max_size=100))
def test_packed_sets_may_be_anything(data: bytes) -> None:
    try:
        found = GtidSet.decode(data)
    except ValueError:
        return
    assert GtidSet.decode(found.encode()) == found
