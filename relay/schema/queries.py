"""Statements of QUERY events, with the settings that their effect on definitions depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from relay.binlog.events import QueryStatus
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Statement, parse_statement
from relay.ddl.syntax import AlterTable, CreateLike, CreateSchema, CreateTable, RenameTable, TruncateTable

_THREAD_SPECIFIC: Final = 0x04
"""Flag of an event whose statement used a temporary table. It is meaningless for other statements than those below."""
_MAY_BE_TEMPORARY: Final = (AlterTable, RenameTable, TruncateTable)
_EXPLICIT_TIMESTAMPS: Final = 1 << 24  # in MariaDB's flags2
_EXPLICIT_TIMESTAMPS_SINCE: Final = 100_804  # MariaDB's first release that sets this flag


class Query(NamedTuple):
    """A parsed statement of the binlog; `schema` is its default schema.

    `failed` is the server's error number, 0 for none. `temporary`: it may be about a temporary table, which hides a
    table of the same name.
    """

    text: str
    schema: str
    dialect: Dialect
    statement: Statement
    failed: int = 0
    temporary: bool = False


class Session(NamedTuple):
    """The context of a statement in its event: default schema, error number, flags, status variables."""

    schema: str
    failed: int
    flags: int
    status: QueryStatus


def query(text: str, session: Session, server: str, charset_of: Mapping[int, str]) -> Query:
    """Parse a statement. `server` is the version of the server that wrote it.

    `charset_of` has the character sets by collation id.
    """
    dialect = dialect_of(session.status, server, charset_of)
    statement = parse_statement(text, session.schema, dialect)
    if session.status.ddl_xid is not None and not dialect.mariadb:
        statement = _executed(statement)
    temporary = bool(session.flags & _THREAD_SPECIFIC) and any(
        isinstance(change, _MAY_BE_TEMPORARY) for change in statement.changes
    )
    return Query(text, session.schema, dialect, statement, session.failed, temporary)


def _executed(statement: Statement) -> Statement:
    """Return the statement without IF NOT EXISTS.

    MySQL adds a transaction id only if the statement created what it names.
    """
    changes = (
        change._replace(if_not_exists=False) if isinstance(change, CreateTable | CreateLike | CreateSchema) else change
        for change in statement.changes
    )
    return statement._replace(changes=tuple(changes))


def dialect_of(status: QueryStatus, server: str, charset_of: Mapping[int, str]) -> Dialect:
    """Return the dialect of a statement with these status variables."""
    mariadb, version = version_of(server)
    explicit = status.explicit_defaults_for_timestamp
    if explicit is None and mariadb and status.flags2 is not None:
        explicit = bool(status.flags2 & _EXPLICIT_TIMESTAMPS) if version >= _EXPLICIT_TIMESTAMPS_SINCE else None
    charset = charset_of.get(status.charset[2], "") if status.charset else ""
    return Dialect(mariadb, version, status.sql_mode or 0, explicit, charset or None)
