"""Check what the source does not write to its binlog, and how fast the binlog grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from pymysql.connections import Connection

from relay.base.errors import RelayError
from relay.binlog import Flag, Replication, Stream
from relay.commands.checks import settings
from relay.commands.checks.finding import Finding, failed, gib, ok, warning
from relay.commands.checks.hosting import Hosting
from relay.config.tree import Config
from relay.source import connect
from relay.source.facts import NEW_STATUS_SINCE
from relay.source.failures import SourceLost

_DAY: Final = 86400
_CASCADES: Final = "('CASCADE', 'SET NULL', 'SET DEFAULT')"


def left_out(
    connection: Connection[Any], variables: dict[str, str], mariadb: bool, hosting: Hosting
) -> Iterator[Finding]:
    """Check what the binlog lacks: schemas that the server's filters exclude, and changes that it replicates."""
    new = not mariadb and settings.version(variables) >= NEW_STATUS_SINCE
    try:
        statement = f"SHOW {'BINARY LOG' if new else 'MASTER'} STATUS"
        status = connect.query(connection, statement, "read the binlog filters")
    except (RelayError, SourceLost) as error:
        yield warning("binlog filters", f"cannot read them: {error}", "see the findings above")
    else:
        only, never = (str(names or "") for names in status[0][2:4])
        if only or never:
            filters = [f"binlog_{key} = {names}" for key, names in (("do_db", only), ("ignore_db", never)) if names]
            text = f"{', '.join(filters)}; the binlog lacks the rows and statements that these exclude"
            if variables.get("binlog_row_metadata", "").upper() != "FULL":
                text += "; they exclude statements by the default schema, so the names of columns are not certain"
            remedy = f"{hosting.filters}, and set binlog_row_metadata = FULL"
            yield warning("binlog filters", text, remedy)
        else:
            yield ok("binlog filters", "none")
    name = "log_replica_updates" if "log_replica_updates" in variables else "log_slave_updates"
    if variables.get(name) == "OFF" and _replicates(connection, mariadb):
        text = "OFF; the binlog of this replica lacks the changes that it replicates"
        yield warning(name, text, hosting.start_with(name, "ON"))


def _replicates(connection: Connection[Any], mariadb: bool) -> bool:
    """Whether the server is a replica, as far as the account is allowed to see."""
    statement = "SHOW ALL SLAVES STATUS" if mariadb else "SHOW REPLICA STATUS"
    try:
        return bool(connect.query(connection, statement, "read the replication status"))
    except (RelayError, SourceLost):
        return False


def foreign_keys(connection: Connection[Any], variables: dict[str, str]) -> Finding:
    """Check for foreign keys because of which InnoDB changes rows itself: it does not write these to the binlog."""
    found = connect.query(
        connection,
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
        f" WHERE DELETE_RULE IN {_CASCADES} OR UPDATE_RULE IN {_CASCADES} ORDER BY 1, 2, 3",
        "read the foreign keys",
    )
    if variables.get("innodb_native_foreign_keys", "ON") == "OFF":
        return ok("foreign keys", "the binlog has the rows that they change")
    if not found:
        return ok("foreign keys", "none changes rows")
    names = ", ".join(f"{schema}.{table} {name}" for schema, table, name in found[:3])
    text = f"{len(found)} with CASCADE or SET NULL ({names}{', ...' if len(found) > 3 else ''})"
    remedy = (
        "make the keys RESTRICT, and let the application or a trigger change the rows; MySQL 9.6 and later log them"
    )
    return warning("foreign keys", f"{text}; the binlog lacks the rows that these change", remedy)


def growth(config: Config, connection: Connection[Any]) -> Iterator[Finding]:
    """Check the growth of the binlog per day, computed from the size of all binlogs and the age of the oldest."""
    try:
        logs = connect.query(connection, "SHOW BINARY LOGS", "list the binlogs")
        total = sum(int(log[1]) for log in logs)
        born = _birth(connection, str(logs[0][0]))
    except (RelayError, SourceLost, OSError) as error:
        yield failed("binlog", f"cannot read it: {error}", "see the findings above")
        return
    age = max(time.time() - born, 1.0)
    per_day = total / age * _DAY
    text = f"{len(logs)} binlogs, {gib(total)} in {age / 3600:.1f} h"
    if age < 3600:
        yield ok("journal growth", f"{text}: too young to estimate the growth per day")
        return
    needed = max(config.relay.journal_keep_bytes, per_day * config.relay.journal_keep_age / _DAY)
    text += f": at most {gib(per_day)} per day, {gib(needed)} for the kept history"
    if needed > config.relay.journal_max_bytes:
        remedy = "raise JournalMaxBytes, lower JournalKeepAge, or exclude tables with ExcludeTables"
        yield warning("journal growth", text, remedy)
    else:
        yield ok("journal growth", text)


def _birth(connection: Connection[Any], name: str) -> int:
    """Return the Unix time of the first event of a binlog file. The connection cannot be used afterwards."""
    with Stream(connection, Replication(file_name=name, flags=Flag.NON_BLOCK)) as stream:
        for event in stream:  # the ROTATE at the beginning of a stream has no time
            if event.header.timestamp:
                return event.header.timestamp
    raise SourceLost("the stream ended before its first event")
