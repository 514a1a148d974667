"""A table map held against what the schema history says of its table, and the definition that both make together.

A table map that contradicts the history proves it wrong: something was changed that is not in the binlog. One that does
not contradict it proves nothing, since columns of one type can change places unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from relay.binlog.columntypes import NUMERIC, OLD_TEMPORAL, TEXTUAL, MapColumn, Type
from relay.binlog.tablemap import TableMap
from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import Bytes, DataType, Generated
from relay.journal.frames import Column as FrameColumn
from relay.journal.frames import Definition
from relay.schema.columntype import TEXTS, WITH_CHARSET, column_type, in_table_map
from relay.schema.table import Column, Table

_OLDER: Final = {
    Type.TIME2: Type.TIME, Type.DATETIME2: Type.DATETIME, Type.TIMESTAMP2: Type.TIMESTAMP, Type.DATE: Type.NEWDATE,
    Type.VARCHAR: Type.VAR_STRING,
}  # fmt: skip
"""Types of an older format, by those of the newer one."""
_UNSIGNED_SHOWN: Final = NUMERIC - {Type.YEAR}


def mismatch(table_map: TableMap, table: Table, charset_of: Mapping[int, str], dialect: Dialect) -> str:
    """Why the rows of the table map cannot be of this table; empty if they can."""
    seen, known = table_map.columns, table.columns
    if len(seen) != len(known):
        return f"it has {len(known)} columns, its rows {len(seen)}"
    for number, (one, other) in enumerate(zip(seen, known, strict=True), 1):
        if what := _differs(one, other, charset_of, dialect):
            return f"column {number}, {other.name} {column_type(other.type, dialect)}, is {what} in its rows"
    return ""


def _differs(seen: MapColumn, known: Column, charset_of: Mapping[int, str], dialect: Dialect) -> str:
    try:
        kind, meta = in_table_map(known.type, dialect)
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
    if seen.collation is not None and known.type.name in WITH_CHARSET and known.type.charset:
        charset = charset_of.get(seen.collation, "")
        if charset and _modern(charset) != known.type.charset:
            return f"in {charset}"
    return ""


def _modern(charset: str) -> str:
    return "utf8mb3" if charset == "utf8" else charset


def definition(table: Table, dialect: Dialect, table_map: TableMap | None = None) -> Definition:
    """The definition of rows of the table, its numbers still 0; as its table map has it, where there is one.

    Raises `NotUnderstood` for a type that has none.
    """
    seen = table_map.columns if table_map else (None,) * len(table.columns)
    columns = [_column(known, one, table, dialect) for known, one in zip(table.columns, seen, strict=True)]
    return Definition(table.schema, table.name, 0, 0, 0, True, columns)


def _column(known: Column, seen: MapColumn | None, table: Table, dialect: Dialect) -> FrameColumn:
    kind, meta = (seen.type, seen.meta) if seen else in_table_map(known.type, dialect)
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


def _labels(kind: DataType) -> tuple[str, list[str]]:
    """What a definition has for labels: their character set, and they themselves."""
    texts = [label for label in kind.labels if isinstance(label, str)]
    # MariaDB shows bytes that are no text as question marks.
    shown = kind.charset == "binary" and any("?" in label for label in texts)
    if len(texts) == len(kind.labels) and not shown:
        return "", texts
    encoded = (label.encode() if isinstance(label, str) else label.data for label in kind.labels)
    return "binary", [label.decode("latin-1") for label in encoded]


def told(described: Definition, dialect: Dialect) -> Table:
    """The table of a definition that an event told in full; what no event tells of it is not known."""
    columns = tuple(
        Column(
            column.name,
            _type(column),
            column.nullable,
            Generated.NO,
            "hash" if dialect.mariadb and column.name.startswith("DB_ROW_HASH_") else "",
        )
        for column in described.columns
    )
    key = frozenset(column.name for column in described.columns if column.primary)
    return Table(described.schema, described.table, columns, None, "", key)


def _type(column: FrameColumn) -> DataType:
    """The type that its text and its metadata spell out."""
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
