"""What a source says of itself: flavor, identity, settings of its binlog, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay._native import GtidSet
from relay.binlog.connect import query
from relay.errors import RelayError, StopCode

_VARIABLES: Final = (
    "version", "server_id", "server_uuid", "gtid_domain_id", "log_bin", "binlog_format", "binlog_row_image",
    "binlog_row_metadata", "binlog_checksum", "gtid_mode", "gtid_purged", "time_zone",
    "system_time_zone",
    "binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge", "expire_logs_days", "binlog_row_value_options",
)  # fmt: skip
_EVENTS_AT_A_TIME: Final = 10_000
_DAY: Final = 86400  # seconds
NEW_STATUS_SINCE: Final = (8, 2)  # MySQL: SHOW BINARY LOG STATUS; SHOW MASTER STATUS is gone in 8.4


class ServerFacts(msgspec.Struct, frozen=True):
    """A source's identity and settings. Names are the server's; empty or 0 where it has no such thing."""

    flavor: str  # "mysql" or "mariadb"
    version: str
    server_id: int
    server_uuid: str  # MySQL
    gtid_domain_id: int  # MariaDB
    log_bin: bool
    binlog_format: str
    row_image: str
    row_metadata: str
    checksum: str
    gtid_mode: str  # MySQL: ON, OFF ...; MariaDB always writes them: ON
    variables: dict[str, str]

    @property
    def mariadb(self) -> bool:
        """Whether this is MariaDB."""
        return self.flavor == "mariadb"

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers: (9, 7, 4)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def identity(self) -> str:
        """What a file position belongs to: `mysql:<server_uuid>` or `mariadb:<server_id>:<gtid_domain_id>`."""
        if self.mariadb:
            return f"mariadb:{self.server_id}:{self.gtid_domain_id}"
        return f"mysql:{self.server_uuid or self.server_id}"

    @property
    def names_columns(self) -> bool:
        """Whether table maps carry the names of columns, unless a session has it otherwise."""
        return self.row_metadata == "FULL"

    @property
    def has_gtids(self) -> bool:
        """Whether every transaction carries a GTID."""
        return self.gtid_mode == "ON"

    @property
    def expiry(self) -> int:
        """The age in seconds at which it purges binlogs; 0: never."""
        return expiry(self.variables)


class BinlogStatus(msgspec.Struct, frozen=True):
    """An end of the binlog: a file, a position in it, and the GTIDs before it ("" where there are none)."""

    file: str
    position: int
    gtid_set: str = ""


def expiry(variables: Mapping[str, str]) -> int:
    """The age in seconds at which a server with these global variables purges binlogs; 0: never."""
    if variables.get("binlog_expire_logs_auto_purge", "ON") in ("0", "OFF"):
        return 0
    days = float(variables.get("expire_logs_days") or 0)  # MariaDB before 10.6; it takes fractions since
    return int(variables.get("binlog_expire_logs_seconds") or 0) or int(days * _DAY)


def size_limit(variables: Mapping[str, str]) -> int:
    """The bytes of binlogs beyond which a server with these global variables purges the oldest; 0: no limit."""
    # MariaDB since 11.4, which takes the other name too, and Percona Server.
    return int(variables.get("max_binlog_total_size") or variables.get("binlog_space_limit") or 0)


def facts(connection: Connection[Any]) -> ServerFacts:
    """Ask for everything in one query. Raises `SourceLost` or `RelayError` (source_denied)."""
    names = ",".join(f"'{name}'" for name in _VARIABLES)
    rows = query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", "read the source's settings")
    values = {str(name).lower(): str(value) for name, value in rows}
    mariadb = "mariadb" in values["version"].lower()
    return ServerFacts(
        flavor="mariadb" if mariadb else "mysql",
        version=values["version"],
        server_id=int(values.get("server_id", "0")),
        server_uuid=values.get("server_uuid", ""),
        gtid_domain_id=int(values.get("gtid_domain_id", "0")),
        log_bin=values.get("log_bin", "OFF") in ("ON", "1"),
        binlog_format=values.get("binlog_format", ""),
        row_image=values.get("binlog_row_image", "FULL"),
        row_metadata=values.get("binlog_row_metadata", ""),
        checksum=values.get("binlog_checksum", "NONE"),
        gtid_mode="ON" if mariadb else values.get("gtid_mode", "OFF"),
        variables=values,
    )


def binlog_end(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """Where the binlog ends now. Raises `RelayError` (source_denied) without log_bin or the right to ask."""
    status = binlog_position(connection, server)
    if not server.mariadb:
        return status
    return BinlogStatus(status.file, status.position, gtid_at(connection, server, status.file, status.position))


def binlog_position(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """As `binlog_end`, without the GTIDs where they take another question."""
    new = not server.mariadb and server.release >= NEW_STATUS_SINCE
    rows = query(connection, f"SHOW {'BINARY LOG' if new else 'MASTER'} STATUS", "read the binlog's position")
    if not rows:
        raise RelayError(
            StopCode.SOURCE_DENIED,
            "read the binlog's position",
            "the source writes no binlog",
            hint="switch log_bin on at the source and start it again",
        )
    gtid_set = "" if server.mariadb or len(rows[0]) < 5 else re.sub(r"\s", "", str(rows[0][4]))
    return BinlogStatus(str(rows[0][0]), int(rows[0][1]), gtid_set)


def executed(connection: Connection[Any], server: ServerFacts) -> str:
    """The GTIDs of all transactions in the binlog up to now, "" if there are none. Raises as `binlog_position`."""
    if not server.mariadb:
        return binlog_position(connection, server).gtid_set
    return str(query(connection, "SELECT @@GLOBAL.gtid_binlog_pos", "read the GTID position")[0][0] or "")


def binlog_start(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """The oldest position that the source still has."""
    file = str(query(connection, "SHOW BINARY LOGS", "list the binlog's files")[0][0])
    return BinlogStatus(file, 4, gtid_at(connection, server, file, 4))


def binlog_after(connection: Connection[Any], server: ServerFacts, file: str) -> BinlogStatus:
    """Where the next file of the binlog begins; where the binlog ends, if it has no file behind that one.

    The oldest file, if it does not have that one any more.
    """
    files = list(binlog_sizes(connection))
    later = files[files.index(file) + 1 :] if file in files else files
    if not later:
        return binlog_end(connection, server)
    return BinlogStatus(later[0], 4, gtid_at(connection, server, later[0], 4))


def binlog_sizes(connection: Connection[Any]) -> dict[str, int]:
    """Bytes of each file of the binlog, in their order. Raises as `binlog_position`."""
    rows = query(connection, "SHOW BINARY LOGS", "list the binlog's files")
    return {str(row[0]): int(row[1]) for row in rows}


def gtid_at(connection: Connection[Any], server: ServerFacts, file: str, position: int) -> str:
    """The GTIDs before a position, "" if the source has none or cannot say. Reads the file up to there on MySQL."""
    if not server.has_gtids:
        return ""
    if server.mariadb:
        found = query(connection, f"SELECT BINLOG_GTID_POS({_quoted(file)}, {position})", "read the GTID position")
        return str(found[0][0] or "") if found else ""
    return str(_gtids_before(connection, file, position))


def _gtids_before(connection: Connection[Any], file: str, position: int) -> GtidSet:
    """MySQL: the set at the file's start, and each one after it up to the position."""
    found = GtidSet()
    at = 4
    while at < max(position, 5):
        sql = f"SHOW BINLOG EVENTS IN {_quoted(file)} FROM {at} LIMIT {_EVENTS_AT_A_TIME if position > 4 else 4}"
        rows = query(connection, sql, "read the GTIDs before a position")
        for _, start, kind, _, end, info in rows:
            if kind == "Previous_gtids":
                found = GtidSet(re.sub(r"\s", "", str(info)))
            elif int(start) >= position:
                return found
            elif str(kind).startswith("Gtid"):
                found.add(str(info).split("'")[1])
            at = int(end)
        if not rows:
            break
    return found


def collations(connection: Connection[Any]) -> dict[int, str]:
    """Character set names by collation id."""
    # MariaDB 10.10+ has collations of several character sets; their full ids stand in a table of their own.
    for table, columns in (
        ("COLLATION_CHARACTER_SET_APPLICABILITY", "ID, CHARACTER_SET_NAME"),
        ("COLLATIONS", "ID, CHARACTER_SET_NAME"),
    ):
        present = query(
            connection,
            "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
            f" AND TABLE_NAME = '{table}' AND COLUMN_NAME = 'ID'",
            "list the character sets",
        )
        if present[0][0]:
            rows = query(connection, f"SELECT {columns} FROM information_schema.{table}", "list the character sets")
            return {int(number): str(charset) for number, charset in rows if number is not None and charset is not None}
    return {}


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
