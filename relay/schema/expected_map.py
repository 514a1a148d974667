"""The table map that the source will write before a table's rows, as far as its definition tells.

With it, the definition is ready before the first row. A table map that comes out otherwise is decided by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from relay.binlog.events.column_types import GEOMETRY_KINDS, NUMERIC, TEXTUAL, Type
from relay.binlog.events.table_maps import Field, TableMap
from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import Bytes, DataType, IndexKind, TableName
from relay.schema.columntype import table_map_type, with_known_charset
from relay.schema.matching import charset_of_text
from relay.schema.table import Table

_FLAGS: Final = 1  # a BIT column has its exact length; both servers always set it
_BINARY: Final = 63  # the collation of binary strings,
_NEWEST: Final = 255  # and the default of utf8mb4 on MySQL
_ONE_BYTE_BELOW: Final = 251  # of a length-encoded number
_UTF8: Final = frozenset({"utf8mb3", "utf8mb4", "binary"})
_WIDE: Final = frozenset({"ucs2", "utf16", "utf16le", "utf32"})  # ASCII has other bytes there
_SIZED_BY_TWO: Final = frozenset({Type.VARCHAR, Type.VARCHAR_COMPRESSED})
_SIZED_BY_ONE: Final = frozenset({
    Type.FLOAT, Type.DOUBLE, Type.BLOB, Type.BLOB_COMPRESSED, Type.JSON, Type.GEOMETRY, Type.VECTOR, Type.TIMESTAMP2,
    Type.DATETIME2, Type.TIME2,
})  # fmt: skip

_Pair: TypeAlias = tuple[DataType, int]
"""A column's type, and its number in table maps."""
_Metadata: TypeAlias = tuple[Field, bytes]
_CollationOf: TypeAlias = Callable[[str], int]
"""Returns the collation to expect for a character set."""


class Collations:
    """The collations in the table maps so far: the next table of a schema has probably the same.

    Definitions contain character sets only, as rows need no more.
    """

    def __init__(self, charset_of: Mapping[int, str]) -> None:
        self._charset_of = charset_of
        # By schema, "" for any, and by schema and character set.
        self._last: dict[str, int] = {}
        self._of: dict[tuple[str, str], int] = {}
        if charset_of.get(_NEWEST) == "utf8mb4":
            self._last[""] = self._of["", "utf8mb4"] = _NEWEST

    def learn(self, table_map: TableMap) -> None:
        """Take the collations of a table map's texts."""
        for column in table_map.columns:
            charset = charset_of_text(column, self._charset_of)
            if column.collation is not None and charset not in ("", "binary"):
                for schema in ("", table_map.schema):
                    self._last[schema] = self._of[schema, charset] = column.collation

    def charset(self, schema: str) -> str:
        """Return the character set to expect for a text in a schema, "" if there was none."""
        return self._charset_of.get(self._last.get(schema) or self._last.get("") or 0, "")

    def collation(self, schema: str, charset: str) -> int:
        """Return the collation to expect for a text of that character set in a schema.

        Raises `NotUnderstood` if no table map had one.
        """
        if charset in ("", "binary"):
            return _BINARY
        found = self._of.get((schema, charset)) or self._of.get(("", charset))
        if found is None:
            raise NotUnderstood(f"no table map had a collation of {charset}")
        return found


class Source(NamedTuple):
    """What a source writes into table maps: by its version, and whether with binlog_row_metadata = FULL."""

    dialect: Dialect
    full: bool

    @property
    def has_metadata(self) -> bool:
        """Whether table maps have optional metadata: on MariaDB with FULL; its MINIMAL is not expected."""
        return self.full or self.dialect.has_charsets_in_table_maps


def expected_map(name: TableName, table: Table, source: Source, collations: Collations) -> bytes | None:
    """Return the body of the table map from its flags on; None if the definition lacks a part.

    `name` is as the source stores it. A character set that the definition lacks is taken from `collations`, if table
    maps show character sets.
    """
    if any(column.nullable is None for column in table.columns):
        return None
    kinds = [column.type for column in table.columns]
    if source.has_metadata:
        kinds = [with_known_charset(kind, collations.charset(name.schema)) for kind in kinds]
    try:
        types = [table_map_type(kind, source.dialect) for kind in kinds]
        pairs = [(kind, number) for kind, (number, _) in zip(kinds, types, strict=True)]
        collation_of = partial(collations.collation, name.schema)
        fields = _minimal(pairs, collation_of, source.dialect) if source.has_metadata else []
        fields += _full(table, pairs, collation_of, source.dialect) if source.full else []
    except NotUnderstood:
        return None
    return b"".join((
        _FLAGS.to_bytes(2, "little"),
        *map(_name, name),
        _number(len(types)),
        bytes(Type.STRING if kind in (Type.ENUM, Type.SET) else kind for kind, _ in types),
        _text(b"".join(_size(kind, meta) for kind, meta in types)),
        _bits(bool(column.nullable) for column in table.columns),
        *(bytes([field]) + _text(value) for field, value in fields),
    ))  # fmt: skip


def _name(name: str) -> bytes:
    encoded = name.encode()
    return bytes([len(encoded)]) + encoded + b"\0"


def _text(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    """Return a length-encoded number below 2 ** 24."""
    if value < _ONE_BYTE_BELOW:
        return bytes([value])
    return b"\xfc" + value.to_bytes(2, "little") if value < 1 << 16 else b"\xfd" + value.to_bytes(3, "little")


def _size(kind: int, meta: int) -> bytes:
    """Return the metadata of a type; `meta` is normalised (relay.binlog.events.table_maps)."""
    match kind:
        case Type.STRING:
            return bytes([kind ^ (meta & 0x300) >> 4, meta & 0xFF])
        case Type.ENUM | Type.SET:
            return bytes([kind, meta])
        case Type.NEWDECIMAL:
            return meta.to_bytes(2, "big")
        case Type.BIT:
            return bytes([meta % 8, meta // 8])
        case _ if kind in _SIZED_BY_TWO:
            return meta.to_bytes(2, "little")
    return bytes([meta]) if kind in _SIZED_BY_ONE else b""


def _bits(flags: Iterable[bool], *, high_first: bool = False) -> bytes:
    """Return one bit for each flag, the lowest or the highest of a byte first."""
    bits = list(flags)
    octets = bytearray((len(bits) + 7) // 8)
    for i, flag in enumerate(bits):
        octets[i // 8] |= flag << (7 - i % 8 if high_first else i % 8)
    return bytes(octets)


def _minimal(pairs: Sequence[_Pair], collation_of: _CollationOf, dialect: Dialect) -> list[_Metadata]:
    """Return the metadata that MINIMAL and FULL have, in the servers' order."""
    fields = []
    with_collation = TEXTUAL | {Type.GEOMETRY if dialect.mariadb else Type.VECTOR}
    if numbers := [kind.unsigned or number == Type.YEAR for kind, number in pairs if number in NUMERIC]:
        fields.append((Field.SIGNEDNESS, _bits(numbers, high_first=True)))
    if collations := [collation_of(kind.charset) for kind, number in pairs if number in with_collation]:
        fields.append(_collations(collations, Field.DEFAULT_CHARSET, Field.COLUMN_CHARSET))
    if shapes := [_shape(kind) for kind, number in pairs if number == Type.GEOMETRY]:
        fields.append((Field.GEOMETRY_TYPE, bytes(shapes)))
    if dimensions := [kind.length or 0 for kind, number in pairs if number == Type.VECTOR]:
        fields.append((Field.DIMENSIONS, b"".join(map(_number, dimensions))))
    return fields


def _full(table: Table, pairs: Sequence[_Pair], collation_of: _CollationOf, dialect: Dialect) -> list[_Metadata]:
    """Return the metadata that only FULL has. Raises `NotUnderstood`."""
    fields = [(Field.COLUMN_NAME, b"".join(_text(column.name.encode()) for column in table.columns))]
    labelled = [kind for kind, number in pairs if number in (Type.ENUM, Type.SET)]
    if labelled:
        collations = [collation_of(kind.charset) for kind in labelled]
        fields.append(_collations(collations, Field.LABEL_DEFAULT_CHARSET, Field.LABEL_CHARSET))
    for field, name in ((Field.SET_LABELS, "set"), (Field.ENUM_LABELS, "enum")):
        if some := [kind for kind in labelled if kind.name == name]:
            fields.append((field, b"".join(map(_labels, some))))
    if table.key:
        fields.append(_primary_key(table))
    if not dialect.mariadb:
        visible = (not column.invisible for column in table.columns)
        fields.append((Field.VISIBILITY, _bits(visible, high_first=True)))
    return fields


def _shape(kind: DataType) -> int:
    """Return the number of a kind of geometry; MariaDB has another name for the last."""
    return GEOMETRY_KINDS.index("geomcollection" if kind.name == "geometrycollection" else kind.name)


def _labels(kind: DataType) -> bytes:
    return _number(len(kind.labels)) + b"".join(_text(_encoded(label, kind.charset)) for label in kind.labels)


def _encoded(label: str | Bytes, charset: str) -> bytes:
    """Return a label in its character set. Raises `NotUnderstood` unless ASCII or Unicode tells how."""
    if not isinstance(label, str):
        return label.data
    if charset in _UTF8 or (label.isascii() and charset not in _WIDE):
        return label.encode()
    raise NotUnderstood(f"a label in {charset}")


def _primary_key(table: Table) -> _Metadata:
    """Return the columns of the key in its order. Raises `NotUnderstood` if the definition does not tell that."""
    numbers = {column.name: number for number, column in enumerate(table.columns)}
    indexes = sorted(table.indexes or (), key=lambda index: index.kind is not IndexKind.PRIMARY)
    for index in indexes:
        if index.kind is not IndexKind.OTHER and table.key == {part.name for part in index.parts}:
            parts = [(numbers[part.name], part.length) for part in index.parts]
            if any(length for _, length in parts):
                return Field.PRIMARY_KEY_PREFIX, b"".join(_number(one) + _number(length) for one, length in parts)
            return Field.PRIMARY_KEY, b"".join(_number(one) for one, _ in parts)
    raise NotUnderstood("the order of the key is not known")


def _collations(collations: Sequence[int], default_field: Field, each_field: Field) -> _Metadata:
    """Return the field with one collation for each text: that of most and the exceptions, or each of them."""
    counts = Counter(sorted(collations))
    [(default, _)] = counts.most_common(1)
    others = [(index, collation) for index, collation in enumerate(collations) if collation != default]
    if len(others) * 2 < len(collations):
        return default_field, _number(default) + b"".join(_number(one) + _number(other) for one, other in others)
    return each_field, b"".join(map(_number, collations))
