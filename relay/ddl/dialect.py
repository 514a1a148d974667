"""The dialect of a statement: the server that wrote it, and the settings of its session."""

from __future__ import annotations

import re
from enum import IntFlag
from typing import Final

import msgspec


class SqlMode(IntFlag):
    """The bits of sql_mode that change the meaning of a definition. MySQL and MariaDB use the same numbers."""

    REAL_AS_FLOAT = 1 << 0
    ANSI_QUOTES = 1 << 2
    ORACLE = 1 << 9
    MAXDB = 1 << 12
    NO_BACKSLASH_ESCAPES = 1 << 20
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22


_NO_CACHED_CHARSETS_SINCE: Final = 80_000
"""MySQL's first release that reads the character set of a schema from its dictionary."""
_CHARSETS_IN_TABLE_MAPS_SINCE: Final = 80_001
_NUMBER: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class Dialect(msgspec.Struct, frozen=True, array_like=True):
    """How to read a statement.

    `version` is the server's, as in versioned comments: 90704 for MySQL 9.7.4, 110806 for MariaDB 11.8.6.
    `explicit_timestamps` is explicit_defaults_for_timestamp, `server_charset` the character set of a schema without
    one; both are None if the binlog does not contain them.
    """

    mariadb: bool
    version: int
    sql_mode: int = int(SqlMode.STRICT_TRANS_TABLES)
    explicit_timestamps: bool | None = None
    server_charset: str | None = None

    def has(self, mode: SqlMode) -> bool:
        """Whether the session's sql_mode has the bit."""
        return bool(self.sql_mode & mode)

    @property
    def oracle(self) -> bool:
        """Whether MariaDB parsed the statement in Oracle mode."""
        return self.mariadb and self.has(SqlMode.ORACLE)

    @property
    def strict(self) -> bool:
        """Whether a type that is too long is an error, instead of a longer type."""
        return self.has(SqlMode.STRICT_TRANS_TABLES | SqlMode.STRICT_ALL_TABLES)

    @property
    def caches_charsets(self) -> bool:
        """Whether a session uses the character set that the schema had when the session selected it."""
        return self.mariadb or self.version < _NO_CACHED_CHARSETS_SINCE

    @property
    def has_charsets_in_table_maps(self) -> bool:
        """Whether table maps have the character sets of texts whatever binlog_row_metadata is."""
        return not self.mariadb and self.version >= _CHARSETS_IN_TABLE_MAPS_SINCE


def packed(dialect: Dialect) -> bytes:
    """Pack the dialect for the journal, where it is stored beside its statement."""
    return msgspec.msgpack.encode(dialect)


def unpacked(data: bytes) -> Dialect | None:
    """Unpack the dialect of `packed`; None for a journal from before the schema history."""
    return msgspec.msgpack.decode(data, type=Dialect) if data else None


def version_of(server: str) -> tuple[bool, int]:
    """Whether a server is MariaDB, and its version for `Dialect`, from its version string.

    The version is 0 if the string has no number.
    """
    mariadb = "mariadb" in server.lower()
    found = _NUMBER.search(server.removeprefix("5.5.5-") if mariadb else server)
    if found is None:
        return mariadb, 0
    major, minor, patch = map(int, found.groups())
    return mariadb, major * 10_000 + minor * 100 + patch
