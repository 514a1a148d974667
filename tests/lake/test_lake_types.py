"""A table's columns in the lake's files, and how they change with the table."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from relay.binlog.events.column_types import Type
from relay.journal.frames import Column, Definition
from relay.lake.buffer import PendingCommit
from relay.lake.documents import Field, Table, TableState, TableVersion
from relay.lake.paths import table_key
from relay.lake.types import META_FIELDS, arrow_type, evolve, fields_of, file_schema, generation_schema, widens
from tests.support.lake_samples import SAMPLES, padded, samples

TABLE = Table("shop", "orders")


def column(name: str, kind: int = Type.LONG, meta: int = 0, **more: object) -> Column:
    """A column of a definition: an INT unless it is said."""
    told = {"unsigned": False, "nullable": True, "primary": False, "charset": "", "labels": [], "sql_type": "int"}
    return Column(name, 1, kind, meta, **{**told, **more})  # type: ignore[arg-type]


def defined(*columns: Column) -> Definition:
    """A definition of shop.orders."""
    return Definition("shop", "orders", 1, 1, 1, True, list(columns))


def made(types: dict[str, str], key: Sequence[str] = ()) -> list[Field]:
    """Fields of these names and types."""
    return [Field(name, kind, name, kind) for name, kind in types.items()]


def history(*tables: dict[str, str]) -> list[TableVersion]:
    """The versions of a table that had these columns one after the other."""
    versions: list[TableVersion] = []
    for types in tables:
        found = evolve(versions, TABLE, made(types), ["id"])
        if not versions or found is not versions[-1]:
            versions.append(found)
    return versions


def names_of(fields: Sequence[Field]) -> list[str]:
    return [field.name for field in fields]


def test_side_columns_stand_behind_all_others_in_the_order_of_theirs() -> None:
    fields, key = fields_of(
        defined(
            column("at", Type.DATETIME2, 6, sql_type="datetime(6)"),
            column("id", primary=True, nullable=False),
            column("word", Type.VARCHAR, 400, charset="utf8mb4", sql_type="varchar(100)"),
            column("place", Type.GEOMETRY, 4, sql_type="point"),
            column("bytes", Type.BLOB, 2, charset="binary", sql_type="blob"),
        )
    )
    assert [(field.name, field.type, field.side) for field in fields] == [
        ("at", "timestamp_ntz", ""), ("id", "int", ""), ("word", "string", ""), ("place", "binary", ""),
        ("bytes", "binary", ""), ("at__text", "string", "text"), ("word__raw", "binary", "raw"),
        ("place__srid", "int", "srid"),
    ]  # fmt: skip
    assert key == ["id"]
    assert [field.column for field in fields[-3:]] == ["at", "word", "place"]
    assert fields[0].source_type == "datetime(6)"


def test_what_is_not_proven_has_numbers_for_labels() -> None:
    labels = {"labels": [], "sql_type": "enum"}
    fields, _ = fields_of(defined(column("@1", Type.ENUM, 1, **labels), column("@2", Type.SET, 1, **labels)))
    assert [field.type for field in fields] == ["int", "decimal(20,0)"]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("_seq", "_seq_"), ("_SEQ", "_SEQ_"), ("_seq_", "_seq__"), ("cdc_date", "cdc_date_"), ("Cdc_Date", "Cdc_Date_"),
        ("day__text", "day__text_"), ("__raw", "__raw_"), ("x__SRID__", "x__SRID___"), ("a\nb__text", "a\nb__text_"),
        ("date", "date"), ("seq", "seq"), ("_sequence", "_sequence"), ("x_text", "x_text"), ("_", "_"),
    ],
)  # fmt: skip
def test_a_column_that_would_be_mistaken_for_the_lakes_gets_another_name(name: str, called: str) -> None:
    [field], key = fields_of(defined(column(name, primary=True)))
    assert (field.name, field.column, key) == (called, name, [called])


def test_no_two_columns_look_alike_to_spark() -> None:
    names = ["_seq", "_seq_", "_SEQ__", "k", "\u212a", "day", "day__text", "day__text_", *names_of(META_FIELDS)]
    fields, _ = fields_of(defined(*(column(name, Type.DATE if name == "day" else Type.LONG) for name in names)))
    told = [name.lower() for name in names_of([*fields, *META_FIELDS])]
    assert len(set(told)) == len(names) + 1 + len(META_FIELDS)
    assert [field.column for field in fields if not field.side] == names


def test_a_column_added_later_renames_no_other() -> None:
    before, _ = fields_of(defined(column("day__text")))
    after, _ = fields_of(defined(column("day__text"), column("day", Type.DATE), column("_seq")))
    assert after[0] == before[0]


WIDER = [
    ("tinyint", "smallint"), ("int", "bigint"), ("float", "double"), ("int", "double"), ("int", "decimal(12,2)"),
    ("bigint", "decimal(20,0)"), ("date", "timestamp_ntz"), ("timestamp", "timestamp_ntz"),
    ("decimal(12,2)", "decimal(14,2)"), ("decimal(10,2)", "decimal(12,4)"), ("string", "binary"),
]  # fmt: skip
OTHER = [
    ("int", "string"), ("string", "int"), ("bigint", "double"), ("int", "float"), ("int", "decimal(10,2)"),
    ("bigint", "decimal(19,0)"), ("decimal(10,2)", "decimal(12,1)"), ("decimal(10,2)", "decimal(11,4)"),
    ("decimal(10,2)", "double"), ("timestamp_ntz", "timestamp"), ("timestamp_ntz", "date"), ("double", "int"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("binary", "string"), ("boolean", "tinyint"), ("timestamp", "bigint"), ("decimal(12,4)", "decimal(10,2)"),
]  # fmt: skip
NARROWER = [("bigint", "int"), ("decimal(20,0)", "bigint"), ("decimal(14,2)", "decimal(12,2)")]


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_a_generation_goes_on_where_its_files_can_be_read_as_the_new_type(old: str, new: str) -> None:
    versions = history({"id": "int", "v": old}, {"id": "int", "v": new})
    assert [(version.generation, version.version) for version in versions] == [(1, 1), (1, 2)]
    assert [field.type for field in generation_schema(versions, ())] == ["int", new]


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_another_generation_begins_where_they_cannot(old: str, new: str) -> None:
    versions = history({"id": "int", "v": old}, {"id": "int", "v": new})
    assert [(version.generation, version.version) for version in versions] == [(1, 1), (2, 2)]
    assert [field.type for field in generation_schema(versions[1:], ())] == ["int", new]


@pytest.mark.parametrize(("old", "new"), NARROWER)
def test_a_narrowed_column_stays_as_wide_as_it_was(old: str, new: str) -> None:
    versions = history({"id": "int", "v": old}, {"id": "int", "v": new})
    assert [version.generation for version in versions] == [1, 1]
    assert [field.type for field in generation_schema(versions, ())] == ["int", old]


def test_a_new_type_has_to_fit_all_versions_of_the_generation() -> None:
    narrowed = history({"id": "int", "v": "bigint"}, {"id": "int", "v": "int"}, {"id": "int", "v": "double"})
    assert [version.generation for version in narrowed] == [1, 1, 2]
    returned = history({"id": "int", "v": "int"}, {"id": "int"}, {"id": "int", "v": "string"})
    assert [version.generation for version in returned] == [1, 1, 2]
    wider = history({"id": "int", "v": "int"}, {"id": "int"}, {"id": "int", "v": "bigint"})
    assert [version.generation for version in wider] == [1, 1, 1]
    after = history({"id": "string"}, {"id": "int"}, {"id": "bigint"})
    assert [version.generation for version in after] == [1, 2, 2]


def test_columns_that_are_gone_stand_behind_those_of_the_newest_version() -> None:
    versions = history({"id": "int", "a": "int", "b": "date"}, {"b": "date", "id": "int"}, {"c": "int", "id": "int"})
    assert names_of(generation_schema(versions, ())) == ["c", "id", "b", "a"]


def test_side_columns_are_read_where_they_have_values() -> None:
    day, other = (column(name, Type.DATE, sql_type="date") for name in ("day", "other"))
    versions: list[TableVersion] = []
    for definition in (defined(column("id"), day, other), defined(day, column("id"), column("more"))):
        versions.append(evolve(versions, TABLE, *fields_of(definition)))
    assert names_of(generation_schema(versions, ["other__text"])) == ["day", "id", "more", "other", "other__text"]
    assert names_of(generation_schema(versions, [])) == ["day", "id", "more", "other"]


def test_a_version_stays_while_nothing_changes() -> None:
    [first] = versions = history({"id": "int", "v": "int"})
    assert evolve(versions, TABLE, list(first.fields), ["id"]) is first


def test_a_changed_key_or_source_type_or_order_alone_makes_a_version() -> None:
    [first] = versions = history({"id": "int", "v": "string"})
    fields = first.fields
    retyped = [fields[0], Field("v", "string", "v", "varchar(9)")]
    for found in (
        evolve(versions, TABLE, fields, ["v"]), evolve(versions, TABLE, fields[::-1], ["id"]),
        evolve(versions, TABLE, retyped, ["id"]),
    ):  # fmt: skip
        assert (found.generation, found.version) == (1, 2)


def test_a_name_that_changes_its_case_only_is_the_name_it_was() -> None:
    versions = [evolve([], TABLE, *fields_of(defined(column("Day", Type.DATE, primary=True))))]
    second = evolve(versions, TABLE, *fields_of(defined(column("DAY", Type.DATE, primary=True))))
    assert (names_of(second.fields), second.key) == (["Day", "Day__text"], ["Day"])
    assert (second.generation, second.fields[0].column) == (1, "DAY")


def test_every_column_of_a_file_may_be_null_and_repeated_texts_are_dictionaries() -> None:
    enum = column("e", Type.ENUM, 1, labels=["a"], sql_type="enum('a')")
    version = evolve([], TABLE, *fields_of(defined(column("id"), enum)))
    schema = file_schema(version)
    assert schema.names == ["id", "e", *names_of(META_FIELDS)]
    assert all(field.nullable for field in schema)
    assert [field.name for field in schema if pa.types.is_dictionary(field.type)] == [
        "e",
        "_change_type",
        "_file",
        "_gtid",
    ]


@pytest.mark.parametrize("dictionary", [True, False])
def test_pyarrow_reads_every_wider_type(tmp_path: Path, dictionary: bool) -> None:
    pairs = [(old, new) for old, new in permutations(SAMPLES, 2) if widens(old, new)]
    stored = pa.table({f"c{number}": padded(old) for number, (old, _) in enumerate(pairs)})
    pq.write_table(stored, tmp_path / "old.parquet", use_dictionary=dictionary)
    schema = pa.schema([(f"c{number}", arrow_type(new)) for number, (_, new) in enumerate(pairs)])
    found = ds.dataset(tmp_path / "old.parquet", schema=schema).to_table()
    for name, (old, new) in zip(schema.names, pairs, strict=True):
        values = [value for value in found[name].to_pylist() if value is not None]
        assert len(values) == len(samples(old)), f"{old} as {new}"
        if {type(value) for value in (*values, *samples(old))} <= {int, float, Decimal}:
            assert values == samples(old), f"{old} as {new}"


def test_no_other_types_are_known() -> None:
    assert arrow_type("decimal(38,10)") == pa.decimal128(38, 10)
    for name in ("uint64", "decimal", "void"):
        with pytest.raises(ValueError, match="not a type of the lake"):
            arrow_type(name)


@pytest.mark.parametrize(
    ("told", "other", "same"),
    [
        ("int(11)", "int", True), ("bigint(20) unsigned", "bigint unsigned", True), ("year(4)", "year", True),
        ("geometrycollection", "geomcollection", True), ("vector(3)", "varbinary(12)", True),
        ("int", "int unsigned", False), ("int(5) unsigned zerofill", "int(5) unsigned", False),
        ("varchar(10)", "varchar(20)", False), ("decimal(10,2)", "decimal(12,2)", False), ("bit(1)", "bit(2)", False),
        ("vector(3)", "varbinary(16)", False), ("point", "geometry", False), ("datetime(3)", "datetime", False),
    ],
)  # fmt: skip
def test_other_words_for_one_type_make_no_version(told: str, other: str, same: bool) -> None:
    table = Table("shop", "t")
    versions = [evolve([], table, [Field("a", "int", "a", told)], [])]
    for before, now in ((versions, other), ([evolve([], table, [Field("a", "int", "a", other)], [])], told)):
        assert (evolve(before, table, [Field("a", "int", "a", now)], []) is before[0]) is same


def test_a_key_that_gets_a_side_column_has_the_tables_rows_read_anew() -> None:
    """As the first change does to a lake of a release that had none for the label ''."""
    labels = column("e", Type.ENUM, primary=True, nullable=False, charset="latin1", labels=["a", ""])
    definition = defined(labels, column("n"))
    fields, key = fields_of(definition)
    assert [(field.name, field.side) for field in fields] == [("e", ""), ("n", ""), ("e__text", "text")]
    old = TableVersion(TABLE, 1, 1, [field for field in fields if not field.side], key)
    gathering = PendingCommit({table_key(TABLE): TableState(TABLE, versions=[old], complete_from=3)})
    version = gathering.define(definition, 7, 0)
    assert (version.generation, version.version) == (1, 2)
    assert [(marker.kind, marker.seq) for marker in gathering.markers] == [("reset", 7)]
