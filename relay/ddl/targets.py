"""Read which tables a statement changes rows of: INSERT, REPLACE, UPDATE, DELETE and LOAD.

A name that is not resolved with certainty raises `NotUnderstood`. If a column has no table's name, every table of the
statement that it may belong to is a target.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.ddl.cursor import Cursor
from relay.ddl.dialect import Dialect
from relay.ddl.lexer import END, Kind
from relay.ddl.syntax import TableName


class Targets(NamedTuple):
    """The tables that a statement names as those to change.

    `call` is the first name that may be that of a stored function, or of a sequence, "" if there is none: these may
    change other tables. Only triggers may do so otherwise.
    """

    tables: frozenset[TableName]
    call: str = ""


class _Reference(NamedTuple):
    """A table in a list of tables: its alias in lower case, and its name, None for a query or a function."""

    alias: str
    table: TableName | None


_MODIFIERS: Final = ("low_priority", "delayed", "high_priority", "quick", "ignore")
_QUERY: Final = ("select", "with", "values", "table")
_JOIN: Final = ("natural", "inner", "cross", "left", "right", "full", "outer", "straight_join", "join")
_END: Final = ("set", "where", "order", "limit", "returning")
_NO_ALIAS: Final = frozenset({*_JOIN, *_END, "on", "using", "use", "force", "ignore", "partition", "for", "from"})
_NOT_STORED: Final = frozenset({
    # Words before parentheses that are no function.
    "all", "and", "any", "as", "between", "by", "case", "char", "decimal", "distinct", "div", "else", "except",
    "exists", "from", "having", "in", "index", "intersect", "interval", "is", "join", "key", "lines", "mod", "not",
    "on", "or", "over", "partition", "regexp", "rlike", "row", "rows", "select", "set", "some", "straight_join", "then",
    "union", "update", "using", "value", "values", "varchar", "when", "where", "with", "xor",
    # Functions of the server.
    "abs", "cast", "coalesce", "concat", "connection_id", "convert", "current_timestamp", "date_format",
    "from_unixtime", "greatest", "hex", "if", "ifnull", "json_array", "json_object", "last_insert_id", "least",
    "localtime", "localtimestamp", "lower", "md5", "now", "nullif", "rand", "replace", "round", "sysdate",
    "timestampdiff", "unhex", "unix_timestamp", "upper", "utc_timestamp", "uuid", "version",
})  # fmt: skip
"""What a server without a stored function of that name knows: any other name before parentheses may be one."""


def targets(cursor: Cursor, dialect: Dialect) -> Targets:
    """Return the targets of the statement that begins at the cursor. Raises `NotUnderstood`."""
    common: set[str] = set()
    call = _call(cursor)
    if cursor.take("with"):
        common = _common_tables(cursor)
    match cursor.take("insert", "replace", "load", "update", "delete"):
        case "insert" | "replace":
            found = frozenset({_inserted(cursor)})
            call = _call(cursor)  # behind the table, whose columns follow in parentheses
        case "load":
            while not cursor.phrase("into table"):
                cursor.skip()
            found = frozenset({cursor.table()})
            call = _call(cursor)
        case "update":
            found = _updated(cursor, common)
        case "delete":
            found = _deleted(cursor, common)
        case _:
            raise cursor.failure("INSERT, REPLACE, LOAD, UPDATE or DELETE expected")
    return Targets(found, call or ("a name in Oracle mode" if dialect.oracle else ""))


def _common_tables(cursor: Cursor) -> set[str]:
    """Take the tables of WITH; return their names, as spelled."""
    cursor.take("recursive")
    names = set()
    while True:
        names.add(cursor.name())
        if cursor.is_mark("("):
            cursor.parentheses()
        cursor.expect("as")
        cursor.parentheses()
        if not cursor.mark(","):
            return names


def _call(cursor: Cursor) -> str:
    """Return the first name in the rest that may be a stored function's or a sequence's, without taking it."""
    ahead = 0
    while (token := cursor.token(ahead)) is not END:
        is_call = token.kind in (Kind.WORD, Kind.NAME) and cursor.is_mark("(", ahead + 1)
        is_qualified = ahead > 0 and cursor.is_mark(".", ahead - 1)
        is_sequence = token.word in ("next", "previous") and cursor.peek(ahead + 1) == "value"
        if (is_call and (is_qualified or token.word not in _NOT_STORED)) or is_sequence:
            return token.text
        ahead += 1
    return ""


def _inserted(cursor: Cursor) -> TableName:
    while cursor.take(*_MODIFIERS):
        pass
    cursor.take("into")
    return cursor.table()


def _updated(cursor: Cursor, common: set[str]) -> frozenset[TableName]:
    while cursor.take(*_MODIFIERS):
        pass
    references = _references(cursor, common)
    cursor.expect("set")
    found: frozenset[TableName] = frozenset()
    while True:
        *owner, _ = _dotted(cursor)
        cursor.mark(":")
        if not cursor.mark("="):
            raise cursor.failure("= expected")
        found |= _resolved(cursor, owner, references)
        _skip_expression(cursor)
        if not cursor.mark(","):
            break
    cursor.mark(";")
    if not (cursor.done or cursor.peek() in _END):
        raise cursor.failure(f"{cursor.token().text!r} is not known here")
    return found


def _deleted(cursor: Cursor, common: set[str]) -> frozenset[TableName]:
    while cursor.take(*_MODIFIERS, "history"):
        pass
    first = bool(cursor.take("from"))
    names = [_dotted(cursor)]
    while cursor.mark(","):
        names.append(_dotted(cursor))
    if cursor.take("using" if first else "from"):
        references = _references(cursor, common)
        return frozenset().union(*(_resolved(cursor, name, references) for name in names))
    if not first or len(names) > 1 or len(names[0]) > 2:
        raise cursor.failure("FROM expected")
    *owner, table = names[0]
    return frozenset({TableName(owner[0] if owner else cursor.default_schema(), table)})


def _dotted(cursor: Cursor) -> list[str]:
    """Take names with dots between them, and `.*` if it follows."""
    names = [cursor.name()]
    while cursor.mark("."):
        if cursor.mark("*"):
            break
        names.append(cursor.name())
    return names


def _resolved(cursor: Cursor, name: list[str], references: list[_Reference]) -> frozenset[TableName]:
    """Return the tables that a name means: those with this alias, or with this schema and table; all for no name."""
    match [part.lower() for part in name]:
        case []:
            found = [each for each in references if each.table]
        case [alias]:
            found = [each for each in references if each.alias == alias]
        case [schema, table]:
            found = [each for each in references if each.table and _lowered(each.table) == (schema, table)]
        case _:
            found = []
    tables = frozenset(each.table for each in found if each.table)
    if not tables or any(each.table is None for each in found):
        raise cursor.failure(f"the table {'.'.join(name)} is not known")
    return tables


def _lowered(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


def _references(cursor: Cursor, common: set[str]) -> list[_Reference]:
    """Take tables with commas and joins between them."""
    found = _factor(cursor, common)
    while True:
        if cursor.take("on"):
            _skip_expression(cursor)
        elif cursor.peek() == "using" and cursor.is_mark("(", 1):
            cursor.take("using")
            cursor.parentheses()
        elif cursor.mark(",") or cursor.take(*_JOIN):
            while cursor.take(*_JOIN):
                pass
            found += _factor(cursor, common)
        else:
            return found


def _factor(cursor: Cursor, common: set[str]) -> list[_Reference]:
    """Take a table, a query or a function with its alias, or tables in parentheses."""
    cursor.take("lateral")
    if cursor.is_mark("("):
        inner = cursor.parentheses()
        ahead = 0
        while inner.is_mark("(", ahead):
            ahead += 1
        if inner.peek(ahead) not in _QUERY:
            found = _references(inner, common)
            inner.end()
            return found
        alias = _alias(cursor)
        if cursor.is_mark("("):
            cursor.parentheses()
        return [_Reference(alias.lower(), None)]
    if cursor.is_mark("(", 1):
        cursor.name()
        cursor.parentheses()
        return [_Reference(_alias(cursor).lower(), None)]
    is_common = cursor.token().text in common and not cursor.is_mark(".", 1)
    table = TableName("", cursor.name()) if is_common else cursor.table()
    if cursor.take("partition"):
        cursor.parentheses()
    alias = _alias(cursor) or table.table
    while cursor.peek() in ("use", "force", "ignore") and cursor.peek(1) in ("index", "key"):
        while not cursor.is_mark("("):
            cursor.skip()
        cursor.parentheses()
    return [_Reference(alias.lower(), None if is_common else table)]


def _alias(cursor: Cursor) -> str:
    """Take an alias, if one is next; "" if not."""
    if cursor.take("as") or (cursor.is_name() and cursor.peek() not in _NO_ALIAS):
        return cursor.name()
    return ""


def _skip_expression(cursor: Cursor) -> None:
    """Skip up to what may follow an expression in a list of tables or of assignments."""
    while not (cursor.done or cursor.is_mark(",") or cursor.is_mark(";")):
        if cursor.mark("."):  # the next word is a name
            cursor.skip()
        elif cursor.peek() in (*_JOIN, *_END, "on", "using") and not _is_function(cursor):
            return
        else:
            cursor.skip()


def _is_function(cursor: Cursor) -> bool:
    """Whether the function LEFT() or RIGHT() is next, and not a join."""
    return cursor.peek() in ("left", "right") and cursor.is_mark("(", 1)
