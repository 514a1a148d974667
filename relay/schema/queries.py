"""Statements as QUERY events have them: what is needed to know what they do to definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from relay.binlog.events import QueryStatus
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Statement, read
from relay.ddl.syntax import AlterTable, CreateLike, CreateTable, RenameTable, TruncateTable

_THREAD_SPECIFIC: Final = 0x04
"""Flag of an event whose statement used a temporary table. On others than those below it says nothing."""
_MAY_BE_TEMPORARY: Final = (AlterTable, RenameTable, TruncateTable)
_EXPLICIT_TIMESTAMPS: Final = 1 << 24  # of MariaDB's flags2


class Query(NamedTuple):
    """A statement of the binlog, read.

    `failed` is the server's error number, 0 for none. `temporary`: it may be about a temporary table, which hides one
    of the same name.
    """

    text: str
    schema: str
    dialect: Dialect
    statement: Statement
    failed: int = 0
    temporary: bool = False


class Session(NamedTuple):
    """What stands around a statement in its event: the default schema, an error number, flags, status variables."""

    schema: str
    failed: int
    flags: int
    status: QueryStatus


def query(text: str, session: Session, server: str, charset_of: Mapping[int, str]) -> Query:
    """Read a statement; `server` is the version of the server that wrote it, `charset_of` gives character sets."""
    dialect = dialect_of(session.status, server, charset_of)
    statement = read(text, session.schema, dialect)
    if session.status.ddl_xid is not None and not dialect.mariadb:
        statement = _executed(statement)
    temporary = bool(session.flags & _THREAD_SPECIFIC) and any(
        isinstance(change, _MAY_BE_TEMPORARY) for change in statement.changes
    )
    return Query(text, session.schema, dialect, statement, session.failed, temporary)


def _executed(statement: Statement) -> Statement:
    """The statement without IF NOT EXISTS: MySQL notes a transaction beside it only if it made the table."""
    changes = (
        change._replace(if_not_exists=False) if isinstance(change, CreateTable | CreateLike) else change
        for change in statement.changes
    )
    return statement._replace(changes=tuple(changes))


def dialect_of(status: QueryStatus, server: str, charset_of: Mapping[int, str]) -> Dialect:
    """How a statement with these status variables is read."""
    mariadb, version = version_of(server)
    explicit = status.explicit_defaults_for_timestamp
    if explicit is None and mariadb and status.flags2 is not None:
        explicit = bool(status.flags2 & _EXPLICIT_TIMESTAMPS) if version >= _FLAGGED_SINCE else None
    charset = charset_of.get(status.charset[2], "") if status.charset else ""
    return Dialect(mariadb, version, status.sql_mode or 0, explicit, charset or None)


_FLAGGED_SINCE: Final = 100_804
"""MariaDB's first release that says so."""
