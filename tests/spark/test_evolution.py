"""Tables whose columns changed: files of different versions read as one table, by Spark as the lake says it can."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from relay.lake.documents import Field, Table
from relay.lake.storage import open_storage
from relay.lake.types import arrow_type, evolve, widens
from relay.spark import changes, current, reading
from relay.spark.pointer import BucketFile
from relay.spark.reading import read_files
from relay.spark.schema import struct_type
from tests.lake.test_lake_types import OTHER
from tests.spark.lakes import MadeLake
from tests.support.lake_samples import ROWS, SAMPLES, padded, samples

TABLE = "shop.things"


@pytest.mark.parametrize("reader", ["vectorised", "by rows", "together with others"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_spark_reads_every_wider_type_and_filters_by_it(
    spark: SparkSession, tmp_path: Path, reader: str, dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(old, new) for old, new in itertools.permutations(SAMPLES, 2) if widens(old, new)]
    assert len(pairs) > 60
    stored = pa.table({f"c{number}": padded(old) for number, (old, _) in enumerate(pairs)})
    pq.write_table(stored, tmp_path / "old.parquet", compression="zstd", use_dictionary=dictionary)
    fields = [Field(f"c{number}", new, f"c{number}") for number, (_, new) in enumerate(pairs)]
    wanted = {field.name: stored[field.name].cast(arrow_type(field.type)).to_pylist() for field in fields}
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(reader == "vectorised").lower())
    if reader == "together with others":
        monkeypatch.setattr(reading, "MANY", 1)
    try:
        old = BucketFile(0, "old.parquet", stored.num_rows, (tmp_path / "old.parquet").stat().st_size)
        rows = read_files(spark, open_storage(str(tmp_path)), [old], fields)
        assert rows.schema == struct_type(fields)
        got = rows.toArrow()
        wrong = [
            f"{old} as {new}: {values}, not {wanted[name]}"
            for name, (old, new) in zip(wanted, pairs, strict=True)
            if (values := got[name].to_pylist()) != wanted[name]
        ]
        assert not wrong, "\n".join(wrong)
        first = rows
        for field, (_, new) in zip(fields, pairs, strict=True):
            if not new.startswith("array"):
                value = wanted[field.name][0]
                literal = f.lit(str(value) if new == "timestamp_ntz" else value).cast(new)
                first = first.where(first[field.name] == literal)
        assert first.count() == 1
        below = rows
        for field, (_, new) in zip(fields, pairs, strict=True):
            if new.startswith("decimal"):
                below = below.where(below[field.name] <= max(samples(new)))
        assert below.count() == min(len(samples(old)) for old, new in pairs if new.startswith("decimal"))
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def redefined(lake: MadeLake, types: Mapping[str, str]) -> int:
    """Give the table these columns, and `id` before them, as the export would; the generation that it is in then."""
    before = lake.versions.get(TABLE)
    fields = [Field(name, kind, name) for name, kind in {"id": "int", **types}.items()]
    version = evolve([before] if before else [], Table("shop", "things"), fields, ["id"])
    began = before is not None and version.generation > before.generation
    lake.define(TABLE, {"id": "int", **types}, key=["id"], new_generation=began)
    return version.generation


def by_id(rows: Any) -> list[dict[str, Any]]:
    """Rows in the order of their ids, without the lake's own columns."""
    listed = (row.asDict() for row in rows.orderBy("id").collect())
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in listed]


def alongside(spark: SparkSession, lake: MadeLake, pairs: Sequence[tuple[str, str]]) -> tuple[int, dict[str, Any]]:
    """Rows of samples of the old types, and after them one of the new ones: the generation, and `changes` by column."""
    names = [f"c{number}" for number in range(len(pairs))]
    redefined(lake, dict(zip(names, (old for old, _ in pairs), strict=True)))
    lake.mark(TABLE, "create")
    columns = [padded(old).to_pylist() for old, _ in pairs]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    lake.insert(TABLE, *({"id": number, **row} for number, row in enumerate(rows)))
    lake.commit()
    generation = redefined(lake, dict(zip(names, (new for _, new in pairs), strict=True)))
    lake.insert(TABLE, {"id": ROWS, **{name: samples(new)[0] for name, (_, new) in zip(names, pairs, strict=True)}})
    lake.commit()
    found = changes(spark, lake.url, TABLE).where("_change_type = 'insert'").orderBy("id").toArrow()
    assert found["id"].to_pylist() == list(range(ROWS + 1))
    return generation, {name: found[name].to_pylist() for name in found.column_names}


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_what_cannot_widen_is_one_table_of_two_generations(
    spark: SparkSession, lake: MadeLake, old: str, new: str
) -> None:
    generation, found = alongside(spark, lake, [(old, new)])
    assert generation == 2
    texts = found.get("c0__text", [None] * (ROWS + 1))
    assert found["c0"][-1] == samples(new)[0] and texts[-1] is None
    for before, value, text in zip(padded(old).to_pylist(), found["c0"], texts, strict=False):
        assert (value is None) == (before is None or text is not None), f"{before!r} became {value!r} and {text!r}"
        if value is not None and {type(before), type(value)} <= {int, float, Decimal}:
            assert float(value) == float(before)
        if isinstance(before, str) and value is None:
            assert text == before


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("int", "string", [5, -7], ["5", "-7"]), ("string", "int", ["5", "x"], [5, 0]),
        ("decimal(10,2)", "decimal(10,4)", [Decimal("1.25")] * 2, [Decimal("1.2500")] * 2),
    ],
)  # fmt: skip
def test_an_alter_that_rewrites_values_is_one_table_after_its_snapshot(
    spark: SparkSession, lake: MadeLake, old: str, new: str, before: list[Any], after: list[Any]
) -> None:
    redefined(lake, {"v": old})
    lake.mark(TABLE, "create")
    lake.insert(TABLE, *({"id": number, "v": value} for number, value in enumerate(before)))
    lake.commit()
    lake.mark(TABLE, "reset")
    lake.commit()
    assert redefined(lake, {"v": new}) == 2
    lake.snapshot(TABLE, *({"id": number, "v": value} for number, value in enumerate(after)))
    lake.commit()
    lake.commit()  # the export passes the end of the snapshot
    assert by_id(current(spark, lake.url, TABLE)) == [{"id": number, "v": value} for number, value in enumerate(after)]
    told = changes(spark, lake.url, TABLE)
    assert told.where("v IS NOT NULL OR v__text IS NOT NULL" if old == "string" else "v IS NOT NULL").count() == 4
