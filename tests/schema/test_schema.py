"""Definitions come from the event, from the history, from the source, or are positional."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from relay.binlog.events.column_types import Type
from relay.ddl import Dialect
from relay.ddl.syntax import TableName
from relay.errors import RelayError, StopCode
from relay.ingest.definitions import Resolution, without_excluded
from relay.ingest.rules import Rules
from relay.journal.frames import Column, Definition
from relay.schema.table import ABSENT, State, Unknown
from tests.binlog.test_table_map import field, names, table_map
from tests.support.schema_world import CREATE, MARIADB, NOT_UNDERSTOOD, SAID, World, at, column_names, made, sql_types

USERS = TableName("shop", "users")
COLUMNS = [(Type.LONG, b""), (Type.VARCHAR, b"\x28\x00")]
PLAIN = table_map(COLUMNS, nullable=0b10)
FULL = table_map(COLUMNS, names("id", "name") + field(1, b"\x80") + field(2, b"\x2d"), nullable=0b10)
RENAMED = table_map(COLUMNS, names("id", "nom") + field(1, b"\x80") + field(2, b"\x2d"), nullable=0b10)


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds of their own."""
    with ExitStack() as stack:

        def make(rules: Rules | None = None, **more: bool) -> World:
            folder = tmp_path / secrets.token_hex(4)
            folder.mkdir()
            return stack.enter_context(closing(World(folder, rules, **more)))

        yield make


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture
def mariadb(make_world: Callable[..., World]) -> World:
    return make_world(mariadb=True)


# -- what the event tells


@pytest.mark.parametrize("said", [SAID, ABSENT])
def test_full_metadata_waits_for_no_answer(world: World, said: State) -> None:
    world.said = said
    for place in (at(100), at(200)):
        found = world.known(FULL, place)
        assert (column_names(found), found.proven) == (["id", "name"], True)
        assert world.asked == ["shop.users"], "once: an unsigned column may have ZEROFILL"


def test_full_metadata_that_leaves_nothing_unsaid_needs_no_question(world: World) -> None:
    body = table_map(COLUMNS, names("id", "name") + field(1, b"\0") + field(2, b"\x2d"))
    world.known(body, at(100))
    assert not world.asked


def test_geometry_of_mariadb_does_not_shift_the_character_sets(mariadb: World) -> None:
    columns = [(Type.GEOMETRY, b"\x04"), (Type.VARCHAR, b"\x28\x00"), (Type.BLOB, b"\x02")]
    body = table_map(columns, names("shape", "name", "note") + field(3, b"\x3f\x08\x2d"))
    assert [column.charset for column in mariadb.known(body, at(100)).columns] == ["", "latin1", "utf8mb4"]


DISPLAYED = table_map(
    [(Type.LONG, b""), (Type.FLOAT, b"\4"), (Type.DOUBLE, b"\x08")],
    names("n", "f", "d") + field(1, b"\x80"),
    nullable=0b111,
)
PRINTED = "n INT(5) UNSIGNED ZEROFILL, f FLOAT(7,4), d DOUBLE"


def test_how_numbers_are_printed_is_asked_for_and_proven(world: World) -> None:
    world.said = made(PRINTED)
    verdict = world.decide(DISPLAYED, at(100))
    assert sql_types(verdict.definition) == ["int unsigned", "float", "double"]
    [resolution] = world.definitions.resolve_proven(at(500))
    printed = ["int(5) unsigned zerofill", "float(7,4)", "double"]
    assert sql_types(resolution.definition) == printed
    again = world.restarted()
    assert sql_types(again.known(DISPLAYED, at(600))) == printed
    assert not again.asked


def test_how_numbers_are_printed_is_never_guessed(make_world: Callable[..., World]) -> None:
    world = make_world(Rules(exclude_columns=["shop.users.f"]))
    world.said = made(PRINTED)
    world.begin = at(200)
    assert world.decide(DISPLAYED, at(100)).keep == (True, False, True)
    world.said = made("d DOUBLE, f FLOAT(7,4), n INT(5) UNSIGNED ZEROFILL")  # the table is another one by now
    assert world.execute("ALTER TABLE users MODIFY n INT", at(300)) == [Resolution(7, None)]
    assert sql_types(world.known(DISPLAYED, at(400))) == ["int unsigned", "float", "double"]


def test_names_from_the_event_prove_rows_that_come_without(world: World) -> None:
    world.known(FULL, at(100))
    world.asked.clear()
    assert column_names(world.known(PLAIN, at(200))) == ["id", "name"]
    world.execute("ALTER TABLE users ADD x INT FIRST", at(300))
    longer = table_map([COLUMNS[0], *COLUMNS], nullable=0b101)
    assert column_names(world.known(longer, at(400))) == ["x", "id", "name"]
    assert not world.asked


def test_labels_that_are_bytes_stay_so_for_rows_that_come_without_them(world: World) -> None:
    columns = [(Type.STRING, b"\xf7\x01")]
    labels = field(6, b"\x02\x02\xff\xfe\x01a")
    told = world.known(table_map(columns, names("e") + labels + field(11, b"\x3f"), nullable=1), at(100)).columns
    [plain] = world.known(table_map(columns, nullable=1), at(200)).columns
    assert (plain.name, plain.charset, plain.labels) == ("e", "binary", ["\xff\xfe", "a"])
    assert [column.labels for column in told] == [plain.labels]


def test_names_in_the_event_are_held_against_what_was_proven(mariadb: World) -> None:
    """As after a statement that was kept out of the binlog, on MariaDB, where a BINARY has to be asked for."""
    columns = [(Type.STRING, b"\xfe\x10"), (Type.STRING, b"\xfe\x10")]
    mariadb.said = made("a UUID, b UUID", MARIADB)
    assert mariadb.decide(table_map(columns, names("a", "b") + field(2, b"\x3f"), nullable=3), at(100)).pending
    mariadb.definitions.resolve_proven(at(500))
    swapped = mariadb.decide(table_map(columns, names("b", "a") + field(2, b"\x3f"), nullable=3), at(600))
    assert column_names(swapped.definition) == ["b", "a"]


def test_binary_that_may_be_a_uuid_is_asked_for(world: World, mariadb: World) -> None:
    body = table_map([(Type.STRING, b"\xfe\x10")], names("u") + field(2, b"\x3f"), nullable=1)
    world.known(body, at(9))
    mariadb.said = made("u UUID", MARIADB)
    pending = mariadb.decide(body, at(10)).pending
    assert pending is not None
    assert sql_types(pending.definition) == ["uuid"]


def test_binary_that_may_have_been_a_uuid_is_unproven_but_has_its_name(mariadb: World) -> None:
    body = table_map([(Type.STRING, b"\xfe\x10")], names("u") + field(2, b"\x3f"), nullable=1)
    mariadb.said = made("u INT", MARIADB)
    early = mariadb.known(body, at(50))
    mariadb.said = made("u UUID", MARIADB)
    shown = mariadb.decide(body, at(100)).definition
    [resolution] = mariadb.execute("ALTER TABLE users ADD x INT", at(200))
    assert resolution.definition is None, "it stays as it is shown"
    for each in (early, shown):
        assert (column_names(each), sql_types(each), each and each.proven) == (["u"], ["binary(16)"], False)
    assert mariadb.logged.count("schema_unproven") == 2


def test_binary_is_binary_before_the_release_that_brought_types_like_it(mariadb: World) -> None:
    ipv4, ipv6 = (
        table_map([(Type.STRING, size)], names("b") + field(2, b"\x3f"), nullable=1)
        for size in (b"\xfe\4", b"\xfe\x10")
    )
    mariadb.dialect = Dialect(True, 100_919)
    assert mariadb.known(ipv4, at(100)).proven
    mariadb.dialect = Dialect(True, 100_431)
    assert mariadb.known(ipv6, at(200)).proven
    assert not mariadb.asked


# -- what statements tell


def test_a_row_right_after_its_statement_needs_no_question_and_no_wait(world: World) -> None:
    world.execute(CREATE, at(100))
    found = world.known(PLAIN, at(100))
    assert (column_names(found), found.proven) == (["id", "name"], True)
    world.execute("ALTER TABLE users RENAME COLUMN name TO nom", at(200))
    again = world.restarted()
    assert column_names(again.known(PLAIN, at(150))) == ["id", "name"]
    assert column_names(again.known(PLAIN, at(200))) == ["id", "nom"]
    assert not world.asked + again.asked


def test_a_character_set_comes_from_the_table_map_or_is_asked_for_at_once(world: World, mariadb: World) -> None:
    latin1 = table_map([(Type.LONG, b""), (Type.VARCHAR, b"\x0a\x00")], field(2, b"\x08"), nullable=0b10)
    for each in (world, mariadb):
        each.execute("CREATE TABLE users (id INT UNSIGNED PRIMARY KEY, name VARCHAR(10))", at(100))
    assert (world.asked, mariadb.asked) == ([], ["shop.users"])
    found = world.known(latin1, at(100))
    assert [(column.name, column.charset, column.sql_type) for column in found.columns] == [
        ("id", "", "int unsigned"), ("name", "latin1", "varchar(10)"),
    ]  # fmt: skip
    assert found.proven and world.asked == []
    for each in (world, mariadb):
        assert each.decide(PLAIN, at(150)).pending is not None, "the rows wait for the source's reply"
        assert "schema_contradicted" not in each.logged
        each.execute("ALTER TABLE users ADD INDEX (name)", at(200))
    assert column_names(world.known(latin1, at(250))) == ["id", "name"]


def test_a_statement_that_is_not_understood_has_the_source_asked_at_once(world: World) -> None:
    world.execute(CREATE, at(50))
    world.execute(NOT_UNDERSTOOD, at(100))
    assert world.asked == ["shop.users"]
    world.asked.clear()
    assert world.decide(PLAIN, at(200)).pending is not None
    [resolution] = world.definitions.resolve_proven(at(500))
    assert (column_names(resolution.definition), world.asked) == (["id", "name"], [])


def test_an_answer_ends_with_the_next_statement(world: World) -> None:
    world.execute(CREATE, at(50))
    for number, world.begin in enumerate((at(200), at(300)), 1):
        world.execute(NOT_UNDERSTOOD, world.begin)
        assert world.asked == ["shop.users"] * number
    world.execute("DROP TABLE users", at(350))
    world.decide(PLAIN, at(400))
    assert world.asked == ["shop.users"] * 3


def test_an_answer_that_does_not_fit_is_asked_for_again(world: World) -> None:
    world.execute(CREATE, at(50))
    world.said = made("id INT")
    world.execute(NOT_UNDERSTOOD, at(100))
    world.said = SAID
    assert world.decide(PLAIN, at(200)).pending is not None
    assert world.asked == ["shop.users"] * 2


def test_where_names_come_with_the_rows_nothing_is_asked_ahead(make_world: Callable[..., World]) -> None:
    world = make_world(names_expected=True)
    world.execute(CREATE, at(50))
    world.execute(NOT_UNDERSTOOD, at(100))
    assert not world.asked


# -- what the source says


def test_an_answer_is_proven_once_the_stream_has_passed_its_end(world: World) -> None:
    assert column_names(world.decide(PLAIN, at(100)).definition) == ["@1", "@2"]
    assert world.execute("ALTER TABLE other ADD x INT", at(300)) == [], "it is about another table"
    assert world.definitions.resolve_proven(at(499)) == []
    [resolution] = world.definitions.resolve_proven(at(500))
    assert resolution.handle == 7
    assert resolution.definition is not None and resolution.definition.proven
    number, name = resolution.definition.columns
    assert (number.name, number.unsigned, number.primary) == ("id", True, True)
    assert (name.name, name.charset) == ("name", "utf8mb4")
    assert not world.definitions.has_pending


def test_a_statement_in_between_means_that_nothing_is_proven(world: World) -> None:
    world.decide(PLAIN, at(100))
    assert world.execute("ALTER TABLE users ADD x INT", at(300)) == [Resolution(7, None)]
    assert world.definitions.resolve_proven(at(600)) == []
    assert world.logged == ["schema_unproven"]


def test_an_answer_says_nothing_of_rows_before_it(world: World) -> None:
    world.end = at(4, "binlog.000010")
    world.decide(PLAIN, at(100, "binlog.000009"))
    world.definitions.resolve_proven(world.end)
    assert isinstance(world.history.state(USERS, at(99, "binlog.000009")), Unknown)
    assert world.history.state(USERS, at(4, "binlog.000100")) == SAID


def test_what_is_proven_is_not_asked_again_until_a_statement(world: World) -> None:
    world.decide(PLAIN, at(100))
    world.definitions.resolve_proven(at(500))
    again = world.restarted()
    assert column_names(again.known(PLAIN, at(700))) == ["id", "name"]
    assert not again.asked
    again.execute("RENAME TABLE shop.users TO shop.old", at(900))
    again.begin = again.end = at(2000)
    assert again.decide(PLAIN, at(1000)).pending is not None
    assert again.asked == ["shop.users"]


@pytest.mark.parametrize(
    "said",
    [
        ABSENT, Unknown("not to be seen"), made("id INT"), made("name VARCHAR(10), id INT NOT NULL"),
        made("id BIGINT PRIMARY KEY, name VARCHAR(10)"), made("id INT PRIMARY KEY, name VARCHAR(11)"),
        made("id INT, name VARCHAR(10)"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_of_these_rows_is_refused(world: World, said: State) -> None:
    world.said = said
    assert not world.known(PLAIN, at(100)).proven
    assert world.logged == ["schema_unproven"]


def test_a_column_to_be_left_out_is_never_published_on_a_guess(make_world: Callable[..., World]) -> None:
    world = make_world(Rules(exclude_columns=["*.*.name"]))
    assert world.decide(PLAIN, at(100)).keep == (True, False)
    with pytest.raises(RelayError) as refused:
        world.execute("ALTER TABLE users ADD x INT", at(300))
    assert refused.value.code is StopCode.SCHEMA_UNPROVEN


OLD = table_map([(Type.TIME, b"")], nullable=1)
OLD_FULL = table_map([(Type.TIME, b"")], names("t"), nullable=1)


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
def test_the_fraction_of_an_old_time_is_asked_for_and_waits_for_its_proof(mariadb: World, body: bytes) -> None:
    mariadb.said = made("t TIME(3) /* mariadb-5.3 */", MARIADB)
    verdict = mariadb.decide(body, at(100))
    assert verdict.definition is not None and verdict.pending is not None
    assert verdict.definition.columns[0].meta == 3, "values can be stepped over"
    [resolution] = mariadb.definitions.resolve_proven(at(500))
    assert resolution.definition is not None
    [column] = resolution.definition.columns
    assert (column.meta, column.sql_type) == (3, "time(3)")
    again = mariadb.restarted()
    again.known(body, at(600))
    assert again.asked == []


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
@pytest.mark.parametrize("said", [ABSENT, made("t TIME, u TIME", MARIADB)])
def test_an_old_time_whose_fraction_nobody_knows_is_refused_by_name(
    make_world: Callable[..., World], body: bytes, said: State
) -> None:
    world = make_world(mariadb=True)
    world.said = said
    with pytest.raises(RelayError) as refused:
        world.decide(body, at(1))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "shop.users" in str(refused.value) and "binlog.000001:1" in str(refused.value)
    skipping = make_world(Rules(skip_unknown=True), mariadb=True)
    skipping.said = said
    assert skipping.decide(body, at(1)).definition is None
    assert skipping.logged[-1] == "table_skipped"


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
@pytest.mark.parametrize("digits", ["", "(3)"])
def test_an_old_time_is_never_read_on_a_guess(mariadb: World, body: bytes, digits: str) -> None:
    mariadb.said = made(f"t TIME{digits}", MARIADB)
    assert mariadb.decide(body, at(100)).pending is not None
    with pytest.raises(RelayError) as refused:
        mariadb.execute("ALTER TABLE users MODIFY t TIME(6)", at(300))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    with pytest.raises(RelayError):
        mariadb.definitions.abandon_pending()


def test_an_old_time_of_mysql_has_no_fraction(world: World) -> None:
    assert world.known(OLD_FULL, at(1)).columns[0].meta == 0
    assert world.asked == []


# -- what is left out, and numbers


def test_tables_and_columns_are_left_out_by_pattern(make_world: Callable[..., World]) -> None:
    assert make_world(Rules(tables=["other.*"])).decide(FULL, at(1)).definition is None
    assert make_world(Rules(exclude_tables=["*.user?"])).decide(FULL, at(1)).definition is None
    verdict = make_world(Rules(exclude_columns=["shop.*.na*"])).decide(FULL, at(1))
    assert verdict.keep == (True, False)
    assert verdict.definition is not None
    assert column_names(without_excluded(verdict.definition, verdict.keep)) == ["id"]


def test_a_key_that_a_part_of_is_left_out_is_none() -> None:
    parts = [Column(name, 1, 3, 0, False, False, name != "v", "", [], "") for name in "abv"]
    definition = Definition("shop", "users", 1, 1, 1, True, parts)
    assert [column.primary for column in without_excluded(definition, (True, False, True)).columns] == [False, False]
    assert [column.primary for column in without_excluded(definition, (True, True, False)).columns] == [True, True]


def test_a_column_that_cannot_be_read_stops_or_leaves_its_table_out(make_world: Callable[..., World]) -> None:
    body = table_map([(Type.LONG, b""), (Type.TYPED_ARRAY, b"")], names("id", "note"))
    with pytest.raises(RelayError) as refused:
        make_world().decide(body, at(100))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "@2 of shop.users" in str(refused.value)
    skipping = make_world(Rules(skip_unknown=True))
    assert skipping.decide(body, at(100)).definition is None
    assert skipping.logged == ["table_skipped"]


def test_versions_and_ids_stay_and_change_with_the_content(world: World) -> None:
    first, other = world.known(FULL, at(1)), world.known(RENAMED, at(2))
    assert world.restarted().known(FULL, at(3)) == first
    assert first.version != other.version
    assert (first.schema_id, first.table_id) == (other.schema_id, other.table_id)
    ids = {first.schema_id, first.table_id, *(c.name_id for c in first.columns), *(c.name_id for c in other.columns)}
    assert len(ids) == 5
    assert 0 not in ids
