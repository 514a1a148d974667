"""Clauses of ALTER TABLE: which of them surely leave all values that a table has as they are."""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.binlog.tokens import read_tokens
from relay.lake.documents import Field, MarkerKind, Table, TableState
from relay.lake.types import folded
from relay.lake.words import NotUnderstood, Words

_MOVING: Final = frozenset({"add", "analyze", "check", "coalesce", "optimize", "rebuild", "reorganize"})
"""What may be done to partitions and loses no row."""
_ENGINES: Final = frozenset({"innodb", "myisam", "aria", "rocksdb"})
"""Engines that keep what they are given."""
_OPTIONS: Final = (
    "algorithm", "auto_increment", "autoextend_size", "avg_row_length", "charset", "checksum", "collate", "comment",
    "compression", "delay_key_write", "encrypted", "encryption", "encryption_key_id", "engine_attribute",
    "key_block_size", "lock", "max_rows", "min_rows", "pack_keys", "page_checksum", "page_compressed",
    "page_compression_level", "row_format", "secondary_engine_attribute", "stats_auto_recalc", "stats_persistent",
    "stats_sample_pages", "transactional",
)  # fmt: skip
_FLAGS: Final = (
    "ascii", "binary", "byte", "compressed", "first", "invisible", "precision", "signed", "unicode", "varying",
    "visible",
)  # fmt: skip
_VALUED: Final = (
    "after", "charset", "collate", "column_format", "comment", "engine_attribute", "ref_system_id",
    "secondary_engine_attribute", "srid", "storage",
)  # fmt: skip
_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_ALIASES: Final = {"integer": "int", "dec": "decimal", "numeric": "decimal", "fixed": "decimal"}


def index_added(state: TableState | None, *, unique: bool) -> bool:
    """Whether an index leaves the key as it is: a unique one may become what counts as the key of a table without."""
    return not unique or bool(state and state.versions and state.version.key)


def index_dropped(name: str) -> bool:
    """Whether the end of an index leaves the primary key."""
    return folded(name) != "primary"


def altered(words: Words, table: Table, schema: str, state: TableState | None) -> dict[Table, MarkerKind]:
    """The markers that the clauses of ALTER TABLE set; none if all values stay. Raises `NotUnderstood`."""
    if words.peek(1) == "partition" or (words.peek() == "convert" and words.peek(1) == "table"):
        return _partitioned(words, table, schema)
    if words.done:
        return {}
    keeps, renamed = True, None
    for clause in words.clauses():
        if clause.peek() == "rename" and clause.peek(1) not in ("column", "index", "key"):
            renamed = _new_name(clause, schema)
            continue
        try:
            keeps = _keeps(clause, state) and keeps
        except NotUnderstood:
            if clause.has("rename"):
                raise
            keeps = False
    if renamed is not None and renamed != table:
        return {table: "drop", renamed: "reset"}
    return {} if keeps else {table: "reset"}


def _partitioned(words: Words, table: Table, schema: str) -> dict[Table, MarkerKind]:
    verb = words.peek()
    if verb in _MOVING:
        return {}
    found: dict[Table, MarkerKind] = {table: "reset"}
    if verb == "convert" and words.phrase("convert table"):
        found[words.table(schema)] = "drop"
    elif verb in ("convert", "exchange"):
        while not words.take("table"):
            words.skip()
        found[words.table(schema)] = "reset"
    return found


def _new_name(clause: Words, schema: str) -> Table:
    clause.take("rename")
    clause.take("to", "as")
    clause.mark("=")
    table = clause.table(schema)
    clause.end()
    return table


def _keeps(clause: Words, state: TableState | None) -> bool:
    """Whether one clause leaves values, names and key as they are. Raises `NotUnderstood`."""
    match clause.take("add", "drop", "modify", "change", "alter", "rename"):
        case "add":
            return _addition(clause, state)
        case "drop":
            return _removal(clause, state)
        case "modify":
            clause.take("column")
            clause.phrase("if exists")
            return _stays(clause, clause.name(), state)
        case "change":
            clause.take("column")
            clause.phrase("if exists")
            old, new = clause.name(), clause.name()
            return old == new and _stays(clause, new, state)
        case "alter":  # defaults, visibility, enforcement
            return True
        case "rename":
            return bool(clause.take("index", "key"))
    return _option(clause)


def _option(clause: Words) -> bool:
    """Whether options of the table are such as move its rows at most. Raises `NotUnderstood`."""
    if clause.done:
        raise NotUnderstood
    while not clause.done:
        clause.take("default")
        if clause.take("engine"):
            if clause.value() not in _ENGINES:
                return False
        elif clause.take(*_OPTIONS) or clause.phrase("character set"):
            clause.value()
        elif clause.phrase("order by") or clause.phrase("partition by"):
            clause.rest()
        elif not (
            clause.take("force", "nowait")
            or clause.phrase("enable keys")
            or clause.phrase("disable keys")
            or clause.phrase("remove partitioning")
            or clause.phrase("with validation")
            or clause.phrase("without validation")
        ):
            clause.end()
    return True


def _addition(clause: Words, state: TableState | None) -> bool:
    if clause.take("index", "key", "fulltext", "spatial") or (
        clause.peek() == "vector" and clause.peek(1) in ("index", "key")
    ):
        return True
    if clause.take("constraint"):
        clause.phrase("if not exists")
        if clause.peek() not in ("primary", "unique", "foreign", "check"):
            clause.name()
    if clause.take("primary"):
        return False
    if clause.take("unique"):
        return index_added(state, unique=True)
    if clause.take("foreign", "check"):
        return True
    clause.take("column")
    if clause.peek() in ("period", "system", "partition"):
        return False
    clause.phrase("if not exists")
    if clause.is_mark("("):
        inner = clause.parentheses()
        clause.end()
        return all(_addition(each, state) for each in inner.clauses())
    return _null_at_first(clause, state)


def _null_at_first(clause: Words, state: TableState | None) -> bool:
    """Whether a new column is NULL in all rows, in the lake too: there older values of one of its name come back."""
    name = folded(clause.name())
    versions = state.versions if state else []
    if any(folded(field.column) == name for version in versions for field in version.fields):
        return False
    kind = _type(clause)
    attributes = _attributes(clause)
    if kind.name == "timestamp" and not attributes.null:  # NOT NULL without explicit_defaults_for_timestamp
        return False
    return kind.name != "serial" and not attributes.not_null and not attributes.default


def _removal(clause: Words, state: TableState | None) -> bool:
    if clause.phrase("foreign key") or clause.take("check"):
        return True
    if clause.take("index", "key", "constraint"):
        clause.phrase("if exists")
        return index_dropped(clause.name())
    if clause.take("primary") or clause.peek() in ("period", "system"):
        return False
    clause.take("column")
    clause.phrase("if exists")
    name = folded(clause.name())
    clause.take("restrict", "cascade")
    clause.end()
    version = state.version if state and state.versions else None
    return version is not None and all(folded(column) != name for column in _key_columns(version.fields, version.key))


def _key_columns(fields: list[Field], key: list[str]) -> list[str]:
    return [field.column for field in fields if field.name in key]


class _Type(NamedTuple):
    name: str
    sizes: list[int]


class _Attributes(NamedTuple):
    """What follows a column's type."""

    null: bool = False
    not_null: bool = False
    default: bool = False  # other than NULL
    unsigned: bool = False
    zerofill: bool = False


def _type(words: Words) -> _Type:
    name = words.name().lower()
    if not words.is_mark("("):
        return _Type(_ALIASES.get(name, name), [])
    try:
        return _Type(_ALIASES.get(name, name), [int(each.value()) for each in words.parentheses().clauses()])
    except (NotUnderstood, ValueError):  # labels
        return _Type(name, [])


def _attributes(words: Words) -> _Attributes:
    """Take what follows a column's type, to the end. Raises `NotUnderstood` for what may fill rows or make a key."""
    found = _Attributes()
    while not words.done:
        if words.phrase("not null"):
            found = found._replace(not_null=True)
        elif words.take("null"):
            found = found._replace(null=True)
        elif words.take("unsigned"):
            found = found._replace(unsigned=True)
        elif words.take("zerofill"):
            found = found._replace(zerofill=True)
        elif words.phrase("default null"):
            pass
        elif words.take("default"):
            found = found._replace(default=True)
            if words.is_mark("("):
                words.skip()
            else:
                words.mark("-")
                words.value()
        elif words.take(*_VALUED) or words.phrase("character set"):
            words.value()
        elif not words.take(*_FLAGS):
            words.end()
    return found


def _stays(clause: Words, name: str, state: TableState | None) -> bool:
    """Whether every value of a column that is defined anew fits into its new type as it is.

    Only told where the lake has all of the table: else a snapshot may have read values of another definition.
    """
    if state is None or state.complete_from is None or state.reset > state.complete_from or not state.versions:
        return False
    version = state.version
    field = next((each for each in version.fields if folded(each.column) == folded(name) and not each.side), None)
    if field is None:
        return False
    old = Words(read_tokens(field.source_type))
    kinds = _type(old), _type(clause)
    before, after = _attributes(old), _attributes(clause)
    if after.not_null and field.name not in version.key:
        return False
    if (before.unsigned, False, False) != (after.unsigned, before.zerofill, after.zerofill):
        return False
    return _contains(*kinds)


def _contains(old: _Type, new: _Type) -> bool:
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) <= _INTEGERS.index(new.name)
    if old.name != new.name:
        return False
    match old.name, old.sizes, new.sizes:
        case "varbinary", [before], [after]:
            return after >= before
        case "decimal", [precision, scale], [digits, fraction]:
            return fraction >= scale and digits - fraction >= precision - scale
    return False
