"""Every part that has a case for each column type has one for all that a table map may hold.

CONTRIBUTING.md, "Add a column type", begins here.
"""

from __future__ import annotations

import re

import msgspec
import pytest

from relay._native import cdc_fields
from relay.binlog.events import table_maps
from relay.binlog.events.column_types import MapColumn, Type, sql_type
from relay.journal.frames import Column, Definition
from tests.support import ROOT

READABLE = sorted(Type(kind) for kind in table_maps.READABLE)
META = {
    Type.NEWDECIMAL: 10 << 8 | 2, Type.VARCHAR: 40, Type.VAR_STRING: 40, Type.STRING: 40, Type.VARCHAR_COMPRESSED: 41,
    Type.TIMESTAMP2: 3, Type.DATETIME2: 3, Type.TIME2: 3, Type.FLOAT: 4, Type.DOUBLE: 8, Type.GEOMETRY: 4,
    Type.VECTOR: 4, Type.JSON: 4,
}  # fmt: skip
"""`meta` by type, where it is not 1."""
BLOBS = {Type.TINY_BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB, Type.BLOB, Type.BLOB_COMPRESSED}


def core_numbers() -> dict[str, int]:
    """The members of `ColumnType`, by their names in lower case."""
    source = (ROOT / "native/values/definition.hpp").read_text()
    members = re.search(r"enum ColumnType : uint8_t \{(.*?)\};", source, re.DOTALL)
    assert members
    return {name.lower(): int(number) for name, number in re.findall(r"k(\w+) = (\d+)", members[1])}


def test_the_core_and_python_have_the_same_numbers() -> None:
    known = {kind.name.replace("_", "").lower(): int(kind) for kind in Type}
    core = core_numbers()
    assert core.items() <= known.items()
    assert {int(kind) for kind in READABLE} <= set(core.values())


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.name)
def test_the_core_knows_how_long_a_value_is(kind: Type) -> None:
    column = Column("v", 1, kind, META.get(kind, 1), False, True, False, "", [], "")
    definition = Definition("shop", "orders", 1, 1, 1, True, [column])
    assert [field.name for field in cdc_fields(msgspec.msgpack.encode(definition))] == ["v"]


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.name)
def test_a_type_has_its_own_name_in_sql(kind: Type) -> None:
    name = sql_type(MapColumn(kind, META.get(kind, 1), True), "binary", [])
    assert ("blob" in name) == (kind in BLOBS)
