"""Definitions are told by the event, or proven from information_schema, or positional; and kept across restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import schema
from relay.binlog.catalog import VERSIONS_KEPT, Catalog
from relay.binlog.place import Place
from relay.binlog.columntypes import MapColumn, Type
from relay.binlog.connect import Account, connect
from relay.binlog.definitions import Definitions, kept
from relay.binlog.facts import facts
from relay.binlog.rules import Rules
from relay.binlog.schema import Answer, SchemaColumn
from relay.binlog.statements import classify
from relay.binlog.tablemap import TableMap, parse
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column, Definition
from tests.test_tablemap import CHARSETS, field, names, table_map

COLUMNS = [(Type.LONG, b""), (Type.VARCHAR, b"\x28\x00")]
PLAIN = table_map(COLUMNS)
FULL = table_map(COLUMNS, names("id", "name") + field(1, b"\x80") + field(2, b"\x2d"))
SAID = (
    SchemaColumn("id", "int", "int unsigned", "", False, True),
    SchemaColumn("name", "varchar", "varchar(10)", "utf8mb4", True, False),
)


def at(position: int, file: str = "binlog.000001") -> Place:
    return Place(file, position)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(tmp_path / "state.db")
    yield opened
    opened.close()


class World:
    """Definitions, what they ask, and what they log."""

    def __init__(
        self,
        catalog: Catalog,
        rules: Rules | None = None,
        *,
        hidden_types: bool = False,
        names_expected: bool = False,
    ) -> None:
        self.columns: tuple[SchemaColumn, ...] = SAID
        self.end = at(500)
        self.asked: list[str] = []
        self.logged: list[str] = []
        self.definitions = Definitions(
            catalog,
            rules or Rules(),
            CHARSETS,
            self._ask,
            self._log,
            hidden_types=hidden_types,
            names_expected=names_expected,
        )

    def _ask(self, owner: str, table: str) -> Answer:
        self.asked.append(f"{owner}.{table}")
        return Answer(self.columns, self.end)

    def _log(self, event: str, **fields: object) -> None:
        self.logged.append(event)


def column_names(definition: Definition | None) -> list[str]:
    assert definition is not None
    return [column.name for column in definition.columns]


@pytest.mark.parametrize("columns", [SAID, ()])
def test_full_metadata_waits_for_no_answer(catalog: Catalog, columns: tuple[SchemaColumn, ...]) -> None:
    world = World(catalog)
    world.columns = columns
    for place in (at(100), at(200)):
        verdict = world.definitions.decide(FULL, place)
        assert column_names(verdict.definition) == ["id", "name"]
        assert verdict.definition is not None
        assert verdict.definition.proven
        assert verdict.question is None
        assert world.asked == ["shop.users"]  # once: an unsigned column may have ZEROFILL


def test_geometry_of_mariadb_does_not_shift_the_character_sets(catalog: Catalog) -> None:
    columns = [(Type.GEOMETRY, b"\x04"), (Type.VARCHAR, b"\x28\x00"), (Type.BLOB, b"\x02")]
    body = table_map(columns, names("shape", "name", "note") + field(3, b"\x3f\x08\x2d"))
    verdict = World(catalog, hidden_types=True).definitions.decide(body, at(100))
    assert verdict.definition is not None
    assert [column.charset for column in verdict.definition.columns] == ["", "latin1", "utf8mb4"]


def test_full_metadata_that_leaves_nothing_unsaid_needs_no_question(catalog: Catalog) -> None:
    world = World(catalog)
    body = table_map(COLUMNS, names("id", "name") + field(1, b"\0") + field(2, b"\x2d"))
    assert world.definitions.decide(body, at(100)).question is None
    assert not world.asked


DISPLAYED = table_map(
    [(Type.LONG, b""), (Type.FLOAT, b"\4"), (Type.DOUBLE, b"\x08")], names("n", "f", "d") + field(1, b"\x80")
)
PRINTED = (
    SchemaColumn("n", "int", "int(5) unsigned zerofill", "", True, False),
    SchemaColumn("f", "float", "float(7,4)", "", True, True),
    SchemaColumn("d", "double", "double", "", True, False),
)


def test_how_numbers_are_printed_is_asked_for_and_proven(catalog: Catalog) -> None:
    world = World(catalog)
    world.columns = PRINTED
    verdict = world.definitions.decide(DISPLAYED, at(100))
    assert verdict.definition is not None and verdict.question is not None
    plain = ["int unsigned", "float", "double"]
    assert [column.sql_type for column in verdict.definition.columns] == plain
    world.definitions.wait(7, verdict.question)
    [resolution] = world.definitions.passed(at(500))
    assert resolution.definition is not None
    printed = ["int(5) unsigned zerofill", "float(7,4)", "double"]
    assert [column.sql_type for column in resolution.definition.columns] == printed
    assert not any(column.primary for column in resolution.definition.columns), "the event tells more than the answer"
    again = World(catalog).definitions.decide(DISPLAYED, at(600))
    assert again.question is None and again.definition is not None
    assert [column.sql_type for column in again.definition.columns] == printed


def test_how_numbers_are_printed_is_never_guessed(catalog: Catalog) -> None:
    world = World(catalog, Rules(exclude_columns=["shop.users.f"]))
    world.columns = PRINTED
    question = world.definitions.decide(DISPLAYED, at(100)).question
    assert question is not None and question.keep == (True, False, True)
    world.definitions.wait(7, question)
    assert world.definitions.statement(classify("ALTER TABLE users MODIFY n INT", "shop"), at(300)) == [(7, None)]
    world.columns = PRINTED[::-1]  # the table is another one by now
    verdict = world.definitions.decide(DISPLAYED, at(400))
    assert verdict.question is None and verdict.definition is not None
    assert [column.sql_type for column in verdict.definition.columns] == ["int unsigned", "float", "double"]


def test_an_answer_is_proven_once_the_stream_has_passed_its_end(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(PLAIN, at(100))
    assert column_names(verdict.definition) == ["@1", "@2"]
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    assert world.definitions.passed(at(499)) == []
    (resolution,) = world.definitions.passed(at(500))
    assert resolution.handle == 7
    assert resolution.definition is not None
    assert resolution.definition.proven
    assert column_names(resolution.definition) == ["id", "name"]
    assert resolution.definition.columns[0].unsigned
    assert resolution.definition.columns[1].charset == "utf8mb4"
    assert not world.definitions.waiting


def test_a_statement_in_between_means_that_nothing_is_proven(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(PLAIN, at(100))
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    (resolution,) = world.definitions.statement(classify("ALTER TABLE users ADD x INT", "shop"), at(300))
    assert resolution == (7, None)
    assert world.definitions.passed(at(600)) == []
    assert world.logged == ["schema_unproven"]


def test_a_statement_about_another_table_is_none_of_its_business(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(PLAIN, at(100))
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    assert world.definitions.statement(classify("ALTER TABLE other ADD x INT", "shop"), at(300)) == []
    assert len(world.definitions.passed(at(600))) == 1


def test_what_is_proven_is_not_asked_again_until_a_statement(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(PLAIN, at(100))
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    world.definitions.passed(at(500))
    again = World(catalog)  # after a restart
    assert column_names(again.definitions.decide(PLAIN, at(700)).definition) == ["id", "name"]
    assert not again.asked
    again.definitions.statement(classify("RENAME TABLE shop.users TO shop.old", ""), at(900))
    again.end = at(2000)
    assert again.definitions.decide(PLAIN, at(1000)).question is not None
    assert again.asked == ["shop.users"]
    # The same events once more, as after a crash: each place has its own definition.
    assert column_names(World(catalog).definitions.decide(PLAIN, at(700)).definition) == ["id", "name"]


def test_a_table_is_asked_for_when_it_is_defined_and_proven_by_its_first_row(catalog: Catalog) -> None:
    world = World(catalog)
    created = classify("CREATE TABLE users (id INT UNSIGNED, name VARCHAR(10))", "shop")
    world.definitions.statement(created, at(100))
    world.end = at(150)
    world.definitions.foresee(created, at(100))
    assert world.asked == ["shop.users"]
    world.definitions.decide(PLAIN, at(50))  # of the table of that name that was there before
    assert world.asked == ["shop.users"] * 2
    world.asked.clear()
    verdict = world.definitions.decide(PLAIN, at(200))
    assert not world.asked
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    (resolution,) = world.definitions.passed(at(250))  # where the next statement begins
    assert column_names(resolution.definition) == ["id", "name"]


def test_what_was_foreseen_ends_with_the_next_statement(catalog: Catalog) -> None:
    world = World(catalog)
    world.definitions.foresee(classify("CREATE TABLE users (id INT UNSIGNED, name VARCHAR(10))", "shop"), at(200))
    renamed = classify("ALTER TABLE users RENAME COLUMN id TO number", "shop")
    world.definitions.statement(renamed, at(300))
    world.definitions.foresee(renamed, at(300))
    world.definitions.foresee(classify("DROP TABLE users", "shop"), at(350))
    world.definitions.decide(PLAIN, at(400))
    assert world.asked == ["shop.users"] * 3


def test_what_was_foreseen_and_does_not_fit_is_asked_for_again(catalog: Catalog) -> None:
    world = World(catalog)
    world.columns = SAID[:1]
    world.definitions.foresee(classify("CREATE TABLE shop.users (id INT)", ""), at(100))
    world.columns = SAID
    assert world.definitions.decide(PLAIN, at(200)).question is not None
    assert world.asked == ["shop.users"] * 2


def test_where_names_come_with_the_rows_nothing_is_foreseen(catalog: Catalog) -> None:
    world = World(catalog, names_expected=True)
    world.definitions.foresee(classify("CREATE TABLE users (id INT)", "shop"), at(100))
    assert not world.asked


def test_a_proof_says_nothing_of_rows_before_it(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(PLAIN, at(100, "binlog.000009"))
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    world.definitions.passed(at(4, "binlog.000010"))
    assert catalog.definition_at("shop", "users", at(99, "binlog.000009")) is None
    assert catalog.definition_at("shop", "users", at(4, "binlog.000100")) is not None


@pytest.mark.parametrize(
    "columns",
    [(), SAID[:1], (SAID[1], SAID[0]), (msgspec.structs.replace(SAID[0], data_type="bigint"), SAID[1])],
)
def test_an_answer_that_is_not_of_these_rows_is_refused(catalog: Catalog, columns: tuple[SchemaColumn, ...]) -> None:
    world = World(catalog)
    world.columns = columns
    verdict = world.definitions.decide(PLAIN, at(100))
    assert verdict.question is None
    assert verdict.definition is not None
    assert not verdict.definition.proven
    assert world.logged == ["schema_unproven"]


def test_tables_and_columns_are_left_out_by_pattern(catalog: Catalog) -> None:
    assert World(catalog, Rules(tables=["other.*"])).definitions.decide(FULL, at(1)).definition is None
    assert World(catalog, Rules(exclude_tables=["*.user?"])).definitions.decide(FULL, at(1)).definition is None
    verdict = World(catalog, Rules(exclude_columns=["shop.*.na*"])).definitions.decide(FULL, at(1))
    assert verdict.keep == (True, False)
    assert verdict.definition is not None
    assert column_names(kept(verdict.definition, verdict.keep)) == ["id"]


def test_a_key_that_a_part_of_is_left_out_is_none() -> None:
    parts = [Column(name, 1, 3, 0, False, False, name != "v", "", [], "") for name in "abv"]
    definition = Definition("shop", "users", 1, 1, 1, True, parts)
    assert [column.primary for column in kept(definition, (True, False, True)).columns] == [False, False]
    assert [column.primary for column in kept(definition, (True, True, False)).columns] == [True, True]


def test_a_column_to_be_left_out_is_never_published_on_a_guess(catalog: Catalog) -> None:
    world = World(catalog, Rules(exclude_columns=["*.*.name"]))
    verdict = world.definitions.decide(PLAIN, at(100))
    assert verdict.keep == (True, False)
    assert verdict.question is not None
    world.definitions.wait(7, verdict.question)
    with pytest.raises(RelayError) as refused:
        world.definitions.statement(classify("ALTER TABLE users ADD x INT", "shop"), at(300))
    assert refused.value.code is StopCode.SCHEMA_UNPROVEN


def test_a_column_that_cannot_be_read_stops_or_leaves_its_table_out(catalog: Catalog) -> None:
    body = table_map([(Type.LONG, b""), (Type.TYPED_ARRAY, b"")], names("id", "note"))
    with pytest.raises(RelayError) as refused:
        World(catalog).definitions.decide(body, at(100))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "@2 of shop.users" in str(refused.value)
    skipping = World(catalog, Rules(skip_unknown=True))
    assert skipping.definitions.decide(body, at(100)).definition is None
    assert skipping.logged == ["table_skipped"]


def test_binary_that_may_be_a_uuid_is_asked_for(catalog: Catalog) -> None:
    body = table_map([(Type.STRING, b"\xfe\x10")], names("u") + field(2, b"\x3f"))
    assert World(catalog).definitions.decide(body, at(9)).question is None
    world = World(catalog, hidden_types=True)
    world.columns = (SchemaColumn("u", "uuid", "uuid", "", True, False),)
    question = world.definitions.decide(body, at(1)).question
    assert question is not None
    assert question.definition.columns[0].sql_type == "uuid"


OLD = table_map([(Type.TIME, b"")])
OLD_FULL = table_map([(Type.TIME, b"")], names("t"))


def old_time(column_type: str) -> tuple[SchemaColumn, ...]:
    return (SchemaColumn("t", "time", column_type, "", True, False),)


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
def test_the_fraction_of_an_old_time_is_asked_for_and_waits_for_its_proof(catalog: Catalog, body: bytes) -> None:
    world = World(catalog, hidden_types=True)
    world.columns = old_time("time(3) /* mariadb-5.3 */")
    verdict = world.definitions.decide(body, at(100))
    assert verdict.definition is not None and verdict.question is not None
    assert verdict.definition.columns[0].meta == 3
    world.definitions.wait(7, verdict.question)
    [resolution] = world.definitions.passed(at(500))
    assert resolution.definition is not None
    assert (resolution.definition.columns[0].meta, resolution.definition.columns[0].sql_type) == (3, "time(3)")
    again = World(catalog, hidden_types=True)
    assert again.definitions.decide(body, at(600)).question is None
    assert again.asked == []


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
@pytest.mark.parametrize("columns", [(), old_time("time(3)"), old_time("time /* mariadb-5.3 */") * 2])
def test_an_old_time_whose_fraction_nobody_knows_is_refused_by_name(
    catalog: Catalog, body: bytes, columns: tuple[SchemaColumn, ...]
) -> None:
    world = World(catalog, hidden_types=True)
    world.columns = columns
    with pytest.raises(RelayError) as refused:
        world.definitions.decide(body, at(1))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    assert "shop.users" in str(refused.value) and "binlog.000001:1" in str(refused.value)
    skipping = World(catalog, Rules(skip_unknown=True), hidden_types=True)
    skipping.columns = columns
    assert skipping.definitions.decide(body, at(1)).definition is None
    assert skipping.logged == ["table_skipped"]


@pytest.mark.parametrize("body", [OLD, OLD_FULL])
@pytest.mark.parametrize("digits", ["", "(3)"])
def test_an_old_time_is_never_read_on_a_guess(catalog: Catalog, body: bytes, digits: str) -> None:
    world = World(catalog, hidden_types=True)
    world.columns = old_time(f"time{digits} /* mariadb-5.3 */")
    question = world.definitions.decide(body, at(100)).question
    assert question is not None
    world.definitions.wait(7, question)
    with pytest.raises(RelayError) as refused:
        world.definitions.statement(classify("ALTER TABLE users MODIFY t TIME(6)", "shop"), at(300))
    assert refused.value.code is StopCode.UNSUPPORTED_COLUMN
    with pytest.raises(RelayError):
        world.definitions.abandon()


def test_an_old_time_of_mysql_has_no_fraction(catalog: Catalog) -> None:
    world = World(catalog)
    verdict = world.definitions.decide(OLD_FULL, at(1))
    assert (verdict.question, world.asked) == (None, [])
    assert verdict.definition is not None and verdict.definition.columns[0].meta == 0


def test_versions_and_ids_stay_and_change_with_the_content(catalog: Catalog, tmp_path: Path) -> None:
    first = World(catalog).definitions.decide(FULL, at(1)).definition
    other = (
        World(catalog).definitions.decide(table_map(COLUMNS, names("id", "nom") + field(2, b"\x2d")), at(2)).definition
    )
    reopened = Catalog(tmp_path / "state.db")
    again = World(reopened).definitions.decide(FULL, at(3)).definition
    reopened.close()
    assert first is not None
    assert other is not None
    assert again == first
    assert first.version != other.version
    assert (first.schema_id, first.table_id) == (other.schema_id, other.table_id)
    ids = {first.schema_id, first.table_id, *(c.name_id for c in first.columns), *(c.name_id for c in other.columns)}
    assert len(ids) == 5
    assert 0 not in ids


def test_what_is_known_of_a_table_has_a_version_and_a_place(catalog: Catalog, tmp_path: Path) -> None:
    world = World(catalog)
    world.definitions.decide(FULL, at(100))
    world.definitions.decide(FULL, at(200))
    world.definitions.statement(classify("ALTER TABLE users CHANGE name nom VARCHAR(10)", "shop"), at(300))
    renamed = world.definitions.decide(table_map(COLUMNS, names("id", "nom") + field(2, b"\x2d")), at(400)).definition
    world.definitions.decide(FULL, at(50))  # read again, as after a restart
    reopened = Catalog(tmp_path / "state.db")
    history = reopened.history("shop", "users")
    assert [(column_names(known.definition)[1], known.since, known.until) for known in history] == [
        ("name", at(50), at(100)), ("name", at(100), at(300)), ("nom", at(400), None),
    ]  # fmt: skip
    assert history[0].definition.version == history[1].definition.version != history[2].definition.version
    assert history[2].definition == renamed
    for place, name in ((99, "name"), (299, "name"), (400, "nom"), (9000, "nom")):
        assert column_names(reopened.definition_at("shop", "users", at(place)))[1] == name
    for place in (49, 300, 399):
        assert reopened.definition_at("shop", "users", at(place)) is None
    assert reopened.history("shop", "other") == []
    reopened.close()


def test_names_from_the_event_prove_rows_that_come_without(catalog: Catalog) -> None:
    world = World(catalog)
    world.definitions.decide(FULL, at(100))
    world.asked.clear()
    assert column_names(world.definitions.decide(PLAIN, at(200)).definition) == ["id", "name"]
    assert not world.asked
    world.definitions.statement(classify("ALTER TABLE users MODIFY id INT AFTER name", "shop"), at(300))
    assert column_names(world.definitions.decide(PLAIN, at(400)).definition) == ["@1", "@2"]


def test_names_in_the_event_are_held_against_what_was_proven(catalog: Catalog) -> None:
    """As after a statement that was kept out of the binlog, on MariaDB, where a BINARY has to be asked for."""
    columns = [(Type.STRING, b"\xfe\x10"), (Type.STRING, b"\xfe\x10")]
    world = World(catalog, hidden_types=True)
    world.columns = tuple(SchemaColumn(name, "uuid", "uuid", "", True, False) for name in ("a", "b"))
    question = world.definitions.decide(table_map(columns, names("a", "b") + field(2, b"\x3f")), at(100)).question
    assert question is not None
    world.definitions.wait(7, question)
    world.definitions.passed(at(500))
    swapped = world.definitions.decide(table_map(columns, names("b", "a") + field(2, b"\x3f")), at(600))
    assert column_names(swapped.definition) == ["b", "a"]


def test_only_so_many_versions_of_a_table_are_kept(catalog: Catalog) -> None:
    definition = World(catalog).definitions.decide(FULL, at(1)).definition
    assert definition is not None
    for place in range(2, VERSIONS_KEPT + 12):
        version = msgspec.structs.replace(definition, columns=definition.columns[: 1 + place % 2])
        catalog.prove(version, at(place))
    assert len(catalog.history("shop", "users")) == VERSIONS_KEPT
    assert catalog.definition_at("shop", "users", at(5)) is None
    assert catalog.definition_at("shop", "users", at(VERSIONS_KEPT)) is not None


def test_facts_of_the_source_are_kept(catalog: Catalog) -> None:
    assert catalog.get("server_id") == ""
    catalog.put("server_id", "77")
    assert catalog.get("server_id") == "77"


@pytest.mark.parametrize(
    ("column_type", "expected"),
    [
        ("enum('a','it''s','c,d')", ["a", "it's", "c,d"]), ("set('é')", ["é"]), (r"enum('a\\b','x\ny')", ["a\\b",
        "x\ny"]),
        ("enum('')", [""]), ("enum('(',')')", ["(", ")"]),
    ],
)  # fmt: skip
def test_labels_are_read_as_the_server_writes_them(column_type: str, expected: list[str]) -> None:
    assert schema.labels(column_type) == expected


@pytest.fixture
def asking(server: DatabaseServer) -> Iterator[Callable[[str, str], Answer]]:
    connection = connect(Account("127.0.0.1", server.port, USER, PASSWORD))
    about = facts(connection)
    yield lambda owner, table: schema.ask(connection, about, owner, table)
    connection.close()


def map_of(*columns: tuple[int, dict[str, Any]]) -> TableMap:
    return TableMap(1, "d", "t", tuple(MapColumn(kind, 0, True, **more) for kind, more in columns))


def test_a_servers_answer_becomes_a_definition(
    server: DatabaseServer, db: str, asking: Callable[[str, str], Answer]
) -> None:
    server.execute(
        f"CREATE TABLE {db}.t (id BIGINT UNSIGNED PRIMARY KEY,"
        " e ENUM('a','it''s','x\\\\y','é','b\\nc') CHARACTER SET latin1,"
        " n VARCHAR(5) CHARACTER SET latin1, t TEXT CHARACTER SET utf8mb4, b BLOB, d DECIMAL(7,3) NOT NULL, j JSON)"
    )
    answer = asking(db, "t")
    kinds = [Type.LONGLONG, Type.ENUM, Type.VARCHAR, Type.BLOB, Type.BLOB, Type.NEWDECIMAL]
    json = Type.JSON if server.name == "mysql97" else Type.BLOB
    found = schema.matched(map_of(*((kind, {}) for kind in (*kinds, json))), answer)
    assert not isinstance(found, str), found
    assert [c.name for c in found.columns] == ["id", "e", "n", "t", "b", "d", "j"]
    assert found.columns[0].unsigned
    assert found.columns[0].primary
    assert found.columns[1].labels == ["a", "it's", "x\\y", "é", "b\nc"]
    assert [c.charset for c in found.columns][:6] == ["", "", "latin1", "utf8mb4", "binary", ""]
    assert answer.until.file.startswith("binlog.")


def test_a_versioned_table_has_two_columns_that_are_not_listed(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(
        f"CREATE TABLE {db}.t (id INT) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {db}.k (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        f"CREATE TABLE {db}.u (id INT)",
    )
    rows = map_of((Type.LONG, {}), (Type.TIMESTAMP2, {}), (Type.TIMESTAMP2, {}))
    with connect(Account("127.0.0.1", mariadb118.port, USER, PASSWORD)) as connection:
        about = facts(connection)
        found = schema.matched(rows, schema.ask(connection, about, db, "t"))
        keyed = schema.matched(rows, schema.ask(connection, about, db, "k"))
        other = schema.matched(rows, schema.ask(connection, about, db, "u"))
    assert isinstance(found, Definition) and isinstance(keyed, Definition)
    assert [column.name for column in found.columns] == ["id", "row_start", "row_end"]
    assert not any(column.primary for column in found.columns)
    assert [column.name for column in keyed.columns if column.primary] == ["id", "row_end"], "as FULL metadata has it"
    assert isinstance(other, str)


def test_a_table_that_is_not_there_has_no_columns(db: str, asking: Callable[[str, str], Answer]) -> None:
    assert asking(db, "nothing").columns == ()
    assert asking(db, "it's").columns == ()


def test_the_test_has_its_table_maps_right() -> None:
    assert parse(FULL).full
    assert not parse(PLAIN).full
