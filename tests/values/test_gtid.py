"""GTID sets of MySQL and MariaDB: as text, in MySQL's binary form, and as sets; the same as on the servers."""

from __future__ import annotations

import copy
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.dbserver import DatabaseServer
from relay._native import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "ffffffff-71ca-11e1-9e33-c80aa9429562"
HIGHEST = 2**63 - 2
"""The highest number of a GTID of MySQL."""

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
        (f"{A} : 1 - 5 : 7,,", f"{A}:1-5:7"),
        (f"{A}:007-{HIGHEST}", f"{A}:7-{HIGHEST}"),
        ("0-1-5", "0-1-5"),
        ("2-1-7, 0-9-18446744073709551615", "0-9-18446744073709551615,2-1-7"),
    ],
)
def test_text_is_read_and_written_as_the_servers_do(text: str, canonical: str) -> None:
    assert str(GtidSet(text)) == canonical
    assert GtidSet(canonical) == GtidSet(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nonsense", "domain-server-number or uuid:number is expected at character 1, where it says 'nonsense'"),
        ("1-2", "a dash is expected at character 4, which is its end"),
        ("1-2-3-4", "a comma is expected at character 6, where it says '-4'"),
        ("0-1-0", "a number from 1 to 18446744073709551615 is expected at character 5"),
        ("-1-2-3", "at character 1,"),
        ("4294967296-1-1", "a number from 0 to 4294967295 is expected at character 1"),
        ("0-1-5,0-2-6", "a domain that was not there before is expected at character 7, where it says '0-2-6'"),
        (f"{A}:1,0-1-1", "another GTID of MySQL is expected at character 40"),
        (f"0-1-1,{A}:1", "another GTID of MariaDB is expected at character 7"),
        (A, "a colon is expected at character 37, which is its end"),
        (f"{A}:", "a number, or a tag of at most 32 letters is expected at character 38"),
        (f"{A}:0", f"a number from 1 to {HIGHEST} is expected at character 38, where it says '0'"),
        (f"{A}:5-4", f"a number from 5 to {HIGHEST} is expected at character 40"),
        (f"{A[:-1]}:1", "a hexadecimal digit of a server's uuid is expected at character 36, where it says ':1'"),
        (f"{A[:8]}{A[9:]}:1", "a hexadecimal digit of a server's uuid is expected at character 13"),
        (f"{A[:13]}{A[14:]}:1", "a dash of a server's uuid is expected at character 14"),
        (f"{A}:-1", "a number, or a tag of at most 32 letters is expected at character 38"),
        (f"{A}:1-", "a number is expected at character 40, which is its end"),
        (f"{A}:1:", "is expected at character 40, which is its end"),
        (f"{A}:{HIGHEST + 1}", f"a number from 1 to {HIGHEST} is expected at character 38"),
        (f"{A}:1-{2**64}", f"a number from 1 to {HIGHEST} is expected at character 40"),
        (f"{A}:{'x' * 33}:1", "a number, or a tag of at most 32 letters is expected at character 38"),
        (f"{A}:b-d:1", "a colon is expected at character 39, where it says '-d:1'"),
        (f"{A}:blue", "a colon is expected at character 42, which is its end"),
        (f"{A}:1 blue:2", "a comma is expected at character 40, where it says 'blue:2'"),
    ],
)
def test_what_is_no_set_is_refused_with_its_place(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refused:
        GtidSet(text)
    assert error in str(refused.value)


@pytest.mark.parametrize("text", ["", "0-1", f"{A}", f"{A}:1-2", f"{A}:blue", f"{A}:1,{A}:2", "0-1-1,1-1-1"])
def test_what_is_no_single_gtid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no GTID: .* is expected at character"):
        GtidSet().add(text)


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


def made_of(gtids: set[tuple[str, int]]) -> GtidSet:
    made = GtidSet()
    for source, number in gtids:
        made.add(f"{source}{number}")
    return made


@given(ids, ids)
def test_subsets_and_removal(some: list[tuple[str, int]], more: list[tuple[str, int]]) -> None:
    small, large = made_of(set(some)), made_of({*some, *more})
    assert small.issubset(large)
    assert large.issubset(small) == (set(more) <= set(some))
    for source, number in set(more) - set(some):
        large.remove(f"{source}{number}")
    assert large == small


@given(ids, ids)
def test_sets_are_united_subtracted_and_intersected_as_sets_are(
    some: list[tuple[str, int]], more: list[tuple[str, int]]
) -> None:
    a, b = set(some), set(more)
    left, right = made_of(a), made_of(b)
    assert left | right == made_of(a | b)
    assert left - right == made_of(a - b)
    assert left & right == made_of(a & b)
    assert (left, right) == (made_of(a), made_of(b)), "an operand was changed"
    assert len(left) == len(a)
    listed = list(left)
    assert sorted(listed) == sorted(f"{source}{number}" for source, number in a)
    assert [str(made_of({(gtid.rpartition(":")[0] + ":", int(gtid.rpartition(":")[2]))})) for gtid in listed] == listed


spans = st.lists(st.tuples(sources, st.integers(1, 40), st.integers(0, 9)), max_size=12)


@settings(max_examples=150, deadline=None)
@given(spans, spans)
def test_mysql_itself_finds_the_same(
    mysql97: DatabaseServer, some: list[tuple[str, int, int]], more: list[tuple[str, int, int]]
) -> None:
    a, b = (",".join(f"{source}{first}-{first + count}" for source, first, count in each) for each in (some, more))
    found = mysql97.execute(
        f"SELECT GTID_SUBTRACT('{a}', ''), GTID_SUBTRACT('{a}', '{b}'), GTID_SUBSET('{a}', '{b}'),"
        f" GTID_SUBTRACT('{a},{b}', ''), GTID_SUBTRACT('{a}', GTID_SUBTRACT('{a}', '{b}'))"
    )[0]
    left, right = GtidSet(a), GtidSet(b)
    ours = [str(left), str(left - right), int(left.issubset(right)), str(left | right), str(left & right)]
    assert ours == [each.replace("\n", "") if isinstance(each, str) else each for each in found]


def test_mysql_prints_what_it_executed_in_the_same_way(mysql97: DatabaseServer) -> None:
    mysql97.execute("GRANT TRANSACTION_GTID_TAG ON *.* TO root@localhost")
    chance = random.Random(1)
    uuids = [f"{chance.randrange(1 << 32):08x}-0000-4000-8000-00000000000{digit}" for digit in range(3)]
    gtids = {f"{chance.choice(uuids)}:{chance.choice(['', 'b:', 'a1:'])}{chance.randint(1, 30)}" for _ in range(60)}
    before = GtidSet(mysql97.execute("SELECT @@GLOBAL.gtid_executed")[0][0])
    mysql97.execute(*(part for gtid in gtids for part in (f"SET gtid_next = '{gtid}'", "BEGIN", "COMMIT")))
    text = mysql97.execute("SELECT @@GLOBAL.gtid_executed")[0][0]
    executed = GtidSet(text)
    assert str(executed) == text.replace("\n", "")
    assert gtids <= set(executed - before)
    assert all(gtid in executed for gtid in gtids)
    assert before.issubset(executed)
    assert not executed.issubset(before)


@pytest.mark.parametrize("kind", ["mariadb118", "mariadb1011"])
def test_mariadb_prints_its_domains_in_the_same_way(kind: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    domains = [7, 4294967295, 12, 1]
    server.execute(
        "CREATE DATABASE IF NOT EXISTS test",
        *(
            part
            for each in domains
            for part in (f"SET SESSION gtid_domain_id = {each}", "DROP TABLE IF EXISTS test.no")
        ),
    )
    text = server.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
    position = GtidSet(text)
    assert str(position) == text
    assert {int(gtid.partition("-")[0]) for gtid in position} >= set(domains)
    assert len(position) == text.count(",") + 1


def test_positions_of_mariadb_are_compared_domain_by_domain() -> None:
    left, right = GtidSet("0-1-5,1-1-7,3-1-9"), GtidSet("0-2-8,1-1-7,4-1-1")
    assert str(left | right) == "0-2-8,1-1-7,3-1-9,4-1-1"
    assert str(left - right) == "3-1-9"
    assert str(right - left) == "0-2-8,4-1-1"
    assert str(left & right) == "0-1-5,1-1-7"
    assert list(left) == ["0-1-5", "1-1-7", "3-1-9"]
    assert len(left) == 3


@pytest.mark.parametrize("text", ["", f"{A}:1-5:7:blue:1-2,{B}:1", "0-1-5,3-1-9"])
def test_a_set_can_be_copied(text: str) -> None:
    gtids = GtidSet(text)
    assert pickle.loads(pickle.dumps(gtids)) == copy.copy(gtids) == gtids
    other = copy.copy(gtids)
    other.add("9-9-9" if text.startswith("0") else f"{A}:99")
    assert other != gtids


def test_gtids_of_two_kinds_are_kept_apart() -> None:
    mysql, mariadb = GtidSet(f"{A}:1-5"), GtidSet("0-1-5")
    with pytest.raises(ValueError, match="mix GTIDs of MySQL and MariaDB"):
        mysql | mariadb
    with pytest.raises(ValueError, match="mix GTIDs of MySQL and MariaDB"):
        mariadb - mysql
    with pytest.raises(ValueError, match="mix GTIDs of MySQL and MariaDB"):
        mysql & mariadb
    with pytest.raises(ValueError, match="mix GTIDs of MySQL and MariaDB"):
        mysql.add("0-1-6")
    with pytest.raises(ValueError, match="cannot be removed"):
        mariadb.remove("0-1-5")
    with pytest.raises(ValueError, match="no packed form"):
        mariadb.encode()
    assert not mysql.issubset(mariadb)
    assert mysql | GtidSet() == mysql
    assert GtidSet() | mariadb == mariadb


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
