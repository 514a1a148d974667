"""What a statement in the journal does to rows that the lake knows, without row events that would show it.

Read by its words, never executed. What is not surely harmless is a reset, after which a snapshot brings the rows anew:
one too many costs a snapshot, one too few leaves rows in the lake that are no longer in the source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from relay.binlog.statements import Kind, classify
from relay.binlog.tokens import Token, read_tokens
from relay.lake.clauses import altered, index_added, index_dropped
from relay.lake.documents import MarkerKind, Table, TableState
from relay.lake.types import folded
from relay.lake.words import NotUnderstood, Words

Effects = dict[Table, MarkerKind]
_Known = Mapping[Table, TableState]

_EXECUTABLE: Final = re.compile(r"/\*(M?)!(\d*)")
_EXECUTED_EVERYWHERE: Final = 50_699
"""The highest version that a comment may ask for and is executed by every server: MariaDB takes those from 50700 on for
MySQL's own."""
_STRAY: Final = frozenset("'\"`\\")
_EMPTY_AT_FIRST: Final = frozenset({
    "innodb", "myisam", "aria", "memory", "heap", "archive", "csv", "rocksdb", "tokudb", "ndb", "ndbcluster",
})  # fmt: skip


def effects(statement: str, schema: str, known: Mapping[str, TableState]) -> list[tuple[Table, MarkerKind]]:
    """The markers that a journaled statement sets, at most one a table; none if the rows known of it stay right.

    `schema` is the statement's default; bytes that are no UTF-8 are U+FFFD in both. `known` are the tables of the lake
    (`LakeState.tables`), which have to include the versions of all rows before the statement, exported or not.

    A name that the lake knows in another case only stands for that table on servers with lower_case_table_names, and
    for another on others: what is known then is reset.
    """
    tables = {state.table: state for state in known.values()}
    if classify(statement, schema).kind in (Kind.HARMLESS, Kind.TRANSACTION):
        return []
    found = _found(statement, schema, tables)
    alike: Effects = {}
    for table in found:
        if table not in tables:
            alike |= {other: "reset" for other in tables if other not in found and _folded(other) == _folded(table)}
    return list((found | alike).items())


def _found(statement: str, schema: str, known: _Known) -> Effects:
    readings = [list(read_tokens(statement))]
    if "\\" in statement:  # which quotes a backslash escapes depends on the session's sql_mode
        readings.append(list(read_tokens(statement, escapes=False)))
    results: list[Effects] = []
    for tokens in readings:
        if any(token.mark in _STRAY for token in tokens):
            continue  # no statement at all by these rules
        try:
            result = _read(statement, tokens, schema, known)
        except NotUnderstood:
            result = _whatever(statement, schema, known)
        if result not in results:
            results.append(result)
    return results[0] if len(results) == 1 else dict.fromkeys(known, "reset")


def _whatever(statement: str, schema: str, known: _Known) -> Effects:
    """A reset of all that a statement may concern."""
    told = classify(statement, schema)
    named = [Table(*names) for names in told.defines]
    return dict.fromkeys([*named, *(table for table in known if told.mentions(table.schema, table.table))], "reset")


def _read(statement: str, tokens: list[Token], schema: str, known: _Known) -> Effects:
    if any("\ufffd" in text for token in tokens for text in (schema, token.spelled, token.mark)):
        raise NotUnderstood  # names that are not in UTF-8
    words = Words(tokens)
    if words.phrase("set statement"):
        while not words.take("for"):
            words.skip()
    uncertain = next((found for found in _EXECUTABLE.finditer(statement) if not _executed_everywhere(found)), None)
    verb = words.take("create", "drop", "rename", "truncate", "alter")
    if uncertain and not (verb == "create" and _names_its_table(statement[: uncertain.start()])):
        raise NotUnderstood
    match verb:
        case "create":
            return _created(words, schema, known)
        case "drop":
            return _dropped(words, schema, known)
        case "rename":
            return _renamed(words, schema, known)
        case "truncate":
            words.take("table")
            return {words.table(schema): "truncate"}
        case "alter":
            return _altered(words, schema, known)
    raise NotUnderstood


def _executed_everywhere(comment: re.Match[str]) -> bool:
    return not comment[1] and int(comment[2] or 0) <= _EXECUTED_EVERYWHERE


def _names_its_table(start: str) -> bool:
    """Whether all that says which table is created stands in this part of the statement."""
    words = Words(read_tokens(start))
    words.take("create")
    words.phrase("or replace")
    if not words.take("table"):
        return False
    words.phrase("if not exists")
    words.table("default")
    return words.is_mark("(")


def _created(words: Words, schema: str, known: _Known) -> Effects:
    replaces = words.phrase("or replace")
    if words.take("database", "schema"):
        return {}
    unique = bool(words.take("unique"))
    words.take("fulltext", "spatial", "vector")
    if words.take("index"):
        words.phrase("if not exists")
        words.name()
        while not words.take("on"):
            words.skip()
        table = words.table(schema)
        return {} if index_added(known.get(table), unique=unique or replaces) else {table: "reset"}
    sequence = words.take("sequence", "table") == "sequence"
    conditional = words.phrase("if not exists")
    table = words.table(schema)
    if conditional:
        # One that the lake does not know may have rows.
        exists = table in known and known[table].last_marker != "drop"
        return {} if exists else {table: "create" if table in known and not sequence else "reset"}
    return {table: "reset" if sequence or not _is_empty(words) else "create"}


def _is_empty(words: Words) -> bool:
    """Whether a table with the options that follow begins without rows: those of some engines are elsewhere."""
    while not words.done:
        if words.take("engine", "type"):
            return words.value() in _EMPTY_AT_FIRST
        words.skip()
    return True


def _dropped(words: Words, schema: str, known: _Known) -> Effects:
    thing = words.take("table", "tables", "sequence", "index", "database", "schema")
    words.phrase("if exists")
    match thing:
        case "index":
            index = words.name()
            if not words.take("on"):
                raise NotUnderstood
            table = words.table(schema)
            return {} if index_dropped(index) else {table: "reset"}
        case "database" | "schema":
            name = words.name()
            alike = {table: table.schema == name for table in known if folded(table.schema) == folded(name)}
            return {table: "drop" if same else "reset" for table, same in alike.items()}
        case "table" | "tables" | "sequence":
            return dict.fromkeys(words.tables(schema), "drop")
    raise NotUnderstood


def _renamed(words: Words, schema: str, known: _Known) -> Effects:
    if not words.take("table", "tables"):
        raise NotUnderstood
    words.phrase("if exists")
    found: Effects = {}
    while True:
        old = words.table(schema)
        words.wait()
        if not words.take("to"):
            raise NotUnderstood
        new = words.table(schema)
        if found.pop(old, "drop") == "drop" or old in known:  # a name that was there before the statement
            found[old] = "drop"
        found[new] = "reset"
        if not words.mark(","):
            words.end()
            return found


def _altered(words: Words, schema: str, known: _Known) -> Effects:
    if words.take("database", "schema"):
        return {}
    words.take("online", "offline")
    ignore = words.take("ignore")
    if not words.take("table"):
        raise NotUnderstood
    words.phrase("if exists")
    table = words.table(schema)
    words.wait()
    found = altered(words, table, schema, known.get(table))
    return found or ({table: "reset"} if ignore else {})


def _folded(table: Table) -> tuple[str, str]:
    return folded(table.schema), folded(table.table)
