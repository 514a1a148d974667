"""Compare a table map with the table in the schema history, and build the definition from both.

A table map that contradicts the history proves it wrong: a change is missing from the binlog. A table map that does not
contradict it proves nothing, because columns of the same type may have changed places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from relay.binlog.events.column_types import NUMERIC, OLD_TEMPORAL, TEXTUAL, MapColumn, Type
from relay.binlog.events.table_maps import TableMap
from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import Bytes, DataType, Generated
from relay.journal.frames import Column as FrameColumn
from relay.journal.frames import Definition
from relay.schema.columntype import TEXTS, WITH_CHARSET, column_type, in_charset, lacks_charset, table_map_type
from relay.schema.table import Column, State, Table, Unknown

_OLDER: Final = {
    Type.TIME2: Type.TIME, Type.DATETIME2: Type.DATETIME, Type.TIMESTAMP2: Type.TIMESTAMP, Type.DATE: Type.NEWDATE,
    Type.VARCHAR: Type.VAR_STRING,
}  # fmt: skip
"""The older type in table maps, by the newer one."""
_UNSIGNED_SHOWN: Final = NUMERIC - {Type.YEAR}


def with_charsets(state: State, table_map: TableMap, charset_of: Mapping[int, str]) -> State:
    """Return the state with the table map's character sets where the statements do not tell them.

    It is `Unknown` if the table map does not tell them either.
    """
    if not isinstance(state, Table) or len(state.columns) != len(table_map.columns):
        return state
    pairs = list(zip(state.columns, table_map.columns, strict=True))
    for known, seen in pairs:
        if lacks_charset(known.type) and seen.type in TEXTUAL and not charset_of_text(seen, charset_of):
            return Unknown(f"the character set of its column {known.name} is not known")
    return msgspec.structs.replace(state, columns=tuple(_with_charset(*pair, charset_of) for pair in pairs))


def _with_charset(known: Column, seen: MapColumn, charset_of: Mapping[int, str]) -> Column:
    charset = charset_of_text(seen, charset_of)
    if not (charset and lacks_charset(known.type)):
        return known
    return msgspec.structs.replace(known, type=in_charset(known.type, charset))


def charset_of_text(seen: MapColumn, charset_of: Mapping[int, str]) -> str:
    """Return the character set of a column in a table map, empty if it is unknown."""
    found = "" if seen.collation is None else charset_of.get(seen.collation, "")
    return "utf8mb3" if found == "utf8" else found


def mismatch(table_map: TableMap, table: Table, charset_of: Mapping[int, str], dialect: Dialect) -> str:
    """Return the reason why the table map cannot be of this table; empty if it can."""
    seen, known = table_map.columns, table.columns
    if len(seen) != len(known):
        return f"it has {len(known)} columns, its rows {len(seen)}"
    for number, (one, other) in enumerate(zip(seen, known, strict=True), 1):
        if what := _differs(one, other, charset_of, dialect):
            return f"column {number}, {other.name} {column_type(other.type, dialect)}, is {what} in its rows"
    return ""


def _differs(seen: MapColumn, known: Column, charset_of: Mapping[int, str], dialect: Dialect) -> str:
    """Return what a column in a table map is instead of the known one; empty if it can be that."""
    try:
        kind, meta = table_map_type(known.type, dialect)
    except NotUnderstood as error:
        return str(error)
    if seen.type != kind and seen.type != _OLDER.get(Type(kind)):
        return f"of type {seen.type}"
    if seen.meta != meta and seen.type not in OLD_TEMPORAL:
        return f"of another size ({seen.meta}, not {meta})"
    if known.nullable is not None and seen.nullable != known.nullable:
        return "NULL" if seen.nullable else "NOT NULL"
    if seen.unsigned is not None and kind in _UNSIGNED_SHOWN and seen.unsigned != known.type.unsigned:
        return "unsigned" if seen.unsigned else "signed"
    if seen.name is not None and seen.name != known.name:
        return f"called {seen.name}"
    charset = charset_of_text(seen, charset_of)
    if charset and known.type.name in WITH_CHARSET and known.type.charset not in ("", charset):
        return f"in {charset}"
    return ""


def definition(table: Table, dialect: Dialect, table_map: TableMap | None = None) -> Definition:
    """Return the definition of the table's rows, with 0 for all ids and the version.

    Types, sizes and the table's name are the table map's, if there is one. Raises `NotUnderstood` for a type that has
    no definition.
    """
    seen = table_map.columns if table_map else (None,) * len(table.columns)
    columns = [_column(known, one, table, dialect) for known, one in zip(table.columns, seen, strict=True)]
    schema, name = (table_map.schema, table_map.table) if table_map else (table.schema, table.name)
    return Definition(schema, name, 0, 0, 0, True, columns)


def _column(known: Column, seen: MapColumn | None, table: Table, dialect: Dialect) -> FrameColumn:
    kind, meta = (seen.type, seen.meta) if seen else table_map_type(known.type, dialect)
    if kind in OLD_TEMPORAL:
        meta = known.type.length or 0
    charset, labels = _labels(known.type)
    return FrameColumn(
        name=known.name,
        name_id=0,
        type=kind,
        meta=meta,
        unsigned=known.type.unsigned,
        nullable=seen.nullable if seen else known.nullable is not False,
        primary=known.name in table.key,
        charset=(known.type.charset or "binary") if kind in TEXTUAL else charset,
        labels=labels,
        sql_type=column_type(known.type, dialect),
    )


def depends_on_charset(described: Definition, table_map: TableMap, dialect: Dialect) -> bool:
    """Whether values of the rows depend on a character set that the table map does not show."""
    if table_map.full:
        return False
    return any(
        (column.type in TEXTUAL and not dialect.has_charsets_in_table_maps)
        or any(not label.isascii() for label in column.labels)
        for column in described.columns
    )


def _labels(kind: DataType) -> tuple[str, list[str]]:
    """Return the labels for a definition, and their character set: binary if some are not text, else empty."""
    texts = [label for label in kind.labels if isinstance(label, str)]
    # MariaDB shows bytes that are not text as question marks.
    shown = kind.charset == "binary" and any("?" in label for label in texts)
    if len(texts) == len(kind.labels) and not shown:
        return "", texts
    encoded = (label.encode() if isinstance(label, str) else label.data for label in kind.labels)
    return "binary", [label.decode("latin-1") for label in encoded]


def table_of(described: Definition, dialect: Dialect) -> Table:
    """Return the table that a definition from a table map with full metadata describes.

    What no table map contains stays unknown.
    """
    columns = tuple(
        Column(
            column.name,
            _data_type(column),
            column.nullable,
            Generated.NO,
            "hash" if dialect.mariadb and column.name.startswith("DB_ROW_HASH_") else "",
        )
        for column in described.columns
    )
    key = frozenset(column.name for column in described.columns if column.primary)
    return Table(described.schema, described.table, columns, None, "", key)


def _data_type(column: FrameColumn) -> DataType:
    """Return the type that the column's text and metadata describe."""
    name, _, rest = column.sql_type.partition("(")
    name, *words = name.split() or [""]
    signs = f"{' '.join(words)} {rest.rpartition(')')[2]}"
    sizes = [int(size) for size in rest.rpartition(")")[0].split(",") if size.isdecimal()]
    if name in ("enum", "set"):
        sizes = []
    is_bytes = column.type in (Type.ENUM, Type.SET) and column.charset == "binary"
    charset = column.charset if name in TEXTS or name in ("char", "varchar") else ""
    return DataType(
        name,
        sizes[0] if sizes else None,
        sizes[1] if len(sizes) > 1 else None,
        tuple(Bytes(label.encode("latin-1")) if is_bytes else label for label in column.labels),
        column.unsigned,
        "zerofill" in signs,
        charset,
        "",
        "COMPRESSED" in column.sql_type,
    )
