"""Facts about a source: flavor, identity, settings of its binlog, and its binlog position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay._native import GtidSet
from relay.base.errors import RelayError, StopCode
from relay.source.connect import query
from relay.source.failures import SourceLost

_VARIABLES: Final = (
    "version", "server_id", "server_uuid", "gtid_domain_id", "binlog_row_metadata", "binlog_checksum", "gtid_mode",
    "binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge", "expire_logs_days", "basedir",
)  # fmt: skip
_EVENTS_AT_A_TIME: Final = 10_000
_HOUR: Final = 3600  # seconds
_DAY: Final = 24 * _HOUR
NEW_STATUS_SINCE: Final = (8, 2)  # MySQL: SHOW BINARY LOG STATUS; 8.4 has no SHOW MASTER STATUS


class ServerFacts(msgspec.Struct, frozen=True):
    """A source's identity and settings. Names are the server's; empty or 0 if it lacks the setting."""

    flavor: str  # "mysql" or "mariadb"
    version: str
    server_id: int
    server_uuid: str  # MySQL
    gtid_domain_id: int  # MariaDB
    names_columns: bool  # table maps have column names, unless a session overrides it
    checksum: str
    has_gtids: bool  # every transaction has a GTID, as always on MariaDB
    expiry: int | None  # the age in seconds at which the server purges binlogs; 0: never; None: not known

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
        """The identity of the server whose files binlog positions refer to.

        `mysql:<server_uuid>` or `mariadb:<server_id>:<gtid_domain_id>`.
        """
        if self.mariadb:
            return f"mariadb:{self.server_id}:{self.gtid_domain_id}"
        return f"mysql:{self.server_uuid or self.server_id}"


class BinlogStatus(msgspec.Struct, frozen=True):
    """A position in the binlog: a file, an offset in it, and the GTIDs before it ("" if there are none)."""

    file: str
    position: int
    gtid_set: str = ""


def expiry(variables: Mapping[str, str]) -> int:
    """Return the age in seconds at which a server with these global variables purges binlogs; 0: never."""
    if variables.get("binlog_expire_logs_auto_purge", "ON") in ("0", "OFF"):
        return 0
    days = float(variables.get("expire_logs_days") or 0)  # MariaDB before 10.6; fractions are allowed since
    return int(variables.get("binlog_expire_logs_seconds") or 0) or int(days * _DAY)


def is_rds(variables: Mapping[str, str]) -> bool:
    """Whether a server with these global variables is one of Amazon RDS, by its folder, such as `/rdsdbbin/mysql/`."""
    return "/rdsdbbin/" in variables.get("basedir", "")


def rds_retention(connection: Connection[Any]) -> int:
    """Return the hours for which Amazon RDS keeps binlogs, whatever their expiry; 0: not set.

    Raises `SourceLost` or `RelayError` (source_denied); also if the account may not read the service's table.
    """
    sql = "SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'"
    rows = query(connection, sql, "read binlog retention hours")
    return int(rows[0][0] or 0) if rows else 0


def _rds_expiry(connection: Connection[Any]) -> int | None:
    try:
        return rds_retention(connection) * _HOUR or None
    except RelayError:
        return None
    except SourceLost as lost:
        if lost.sent_by_server:  # such as a table that does not exist
            return None
        raise


def size_limit(variables: Mapping[str, str]) -> int:
    """Return the bytes of binlogs beyond which a server with these global variables purges the oldest; 0: no limit."""
    # MariaDB since 11.4, which accepts the other name too, and Percona Server.
    return int(variables.get("max_binlog_total_size") or variables.get("binlog_space_limit") or 0)


def query_facts(connection: Connection[Any]) -> ServerFacts:
    """Query all facts at once. Raises `SourceLost` or `RelayError` (source_denied)."""
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
        names_columns=values.get("binlog_row_metadata") == "FULL",
        checksum=values.get("binlog_checksum", "NONE"),
        has_gtids=mariadb or values.get("gtid_mode") == "ON",
        expiry=_rds_expiry(connection) if is_rds(values) else expiry(values),
    )


def binlog_end(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """Return the current end of the binlog.

    Raises `RelayError` (source_denied) if the source writes no binlog, or the account lacks the privilege.
    """
    status = binlog_position(connection, server)
    if not server.mariadb:
        return status
    return BinlogStatus(status.file, status.position, gtid_at(connection, server, status.file, status.position))


def binlog_position(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """Return the current end of the binlog as in `binlog_end`, without the GTIDs if they need another query."""
    new = not server.mariadb and server.release >= NEW_STATUS_SINCE
    rows = query(connection, f"SHOW {'BINARY LOG' if new else 'MASTER'} STATUS", "read the binlog's position")
    if not rows:
        cause, hint = "the source writes no binlog", "enable log_bin on the source and restart it"
        raise RelayError(StopCode.SOURCE_DENIED, "read the binlog's position", cause, hint=hint)
    gtid_set = "" if server.mariadb or len(rows[0]) < 5 else re.sub(r"\s", "", str(rows[0][4]))
    return BinlogStatus(str(rows[0][0]), int(rows[0][1]), gtid_set)


def executed_gtids(connection: Connection[Any], server: ServerFacts) -> str:
    """Return the GTIDs of all transactions in the binlog up to now, "" if there are none.

    Raises as `binlog_position`.
    """
    if not server.mariadb:
        return binlog_position(connection, server).gtid_set
    return str(query(connection, "SELECT @@GLOBAL.gtid_binlog_pos", "read the GTID position")[0][0] or "")


def binlog_start(connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """Return the oldest position that the source still has."""
    return _beginning(connection, server, str(query(connection, "SHOW BINARY LOGS", "list the binlog's files")[0][0]))


def binlog_after(connection: Connection[Any], server: ServerFacts, file: str) -> BinlogStatus:
    """Return the beginning of the binlog file after `file`; the end of the binlog if there is none.

    The oldest file, if the source no longer has `file`.
    """
    files = list(binlog_sizes(connection))
    later = files[files.index(file) + 1 :] if file in files else files
    if not later:
        return binlog_end(connection, server)
    return _beginning(connection, server, later[0])


def _beginning(connection: Connection[Any], server: ServerFacts, file: str) -> BinlogStatus:
    return BinlogStatus(file, 4, gtid_at(connection, server, file, 4))


def binlog_sizes(connection: Connection[Any]) -> dict[str, int]:
    """Return the size of each binlog file in bytes, in order. Raises as `binlog_position`."""
    rows = query(connection, "SHOW BINARY LOGS", "list the binlog's files")
    return {str(row[0]): int(row[1]) for row in rows}


def gtid_at(connection: Connection[Any], server: ServerFacts, file: str, position: int) -> str:
    """Return the GTIDs before a position, "" if the source has none or does not know them.

    MySQL reads the file up to the position.
    """
    if not server.has_gtids:
        return ""
    if server.mariadb:
        found = query(connection, f"SELECT BINLOG_GTID_POS({_quoted(file)}, {position})", "read the GTID position")
        return str(found[0][0] or "") if found else ""
    return str(_gtids_before(connection, file, position))


def _gtids_before(connection: Connection[Any], file: str, position: int) -> GtidSet:
    """MySQL: the set at the beginning of the file, and each GTID from there up to the position."""
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
    """Return the names of character sets by collation id."""
    # MariaDB has collations for several character sets since 10.10; a separate table has their full ids.
    for table in ("COLLATION_CHARACTER_SET_APPLICABILITY", "COLLATIONS"):
        where = f"TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = '{table}' AND COLUMN_NAME = 'ID'"
        counted = f"SELECT COUNT(*) FROM information_schema.COLUMNS WHERE {where}"
        if query(connection, counted, "list the character sets")[0][0]:
            sql = f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{table}"
            rows = query(connection, sql, "list the character sets")
            return {int(number): str(charset) for number, charset in rows if number is not None and charset is not None}
    return {}


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
