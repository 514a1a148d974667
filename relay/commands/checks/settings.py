"""Check the global variables of the source that the relay depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pymysql.connections import Connection

from relay.commands.checks.finding import Finding, Level, failed, ok, warning
from relay.commands.checks.hosting import Hosting
from relay.config.tree import Config
from relay.source import connect
from relay.source.facts import size_limit


def check(config: Config, variables: dict[str, str], mariadb: bool, hosting: Hosting) -> Iterator[Finding]:
    """Check the global variables that the relay depends on."""

    def setting(name: str, good: str, level: Level, why: str) -> Finding:
        value = variables.get(name, "not set")
        if value.upper() == good:
            return ok(name, value)
        return Finding(level, name, f"{value}; {why}", hosting.set(name, good))

    if variables["log_bin"] == "ON":
        yield ok("log_bin", "ON")
    else:
        yield failed("log_bin", "OFF; the server writes no binlog", hosting.log_bin)
    yield setting("binlog_format", "ROW", Level.FAIL, "the binlog lacks changed rows")
    partial = Level.FAIL if config.relay.on_partial_image == "stop" else Level.WARN
    yield setting("binlog_row_image", "FULL", partial, "rows in the binlog lack columns")
    if "binlog_row_metadata" in variables:
        why = (
            "names of columns come from the schema history, which follows the statements in the binlog; it misses"
            " statements that are not logged (sessions with sql_log_bin = 0, binlog filters)"
        )
        yield setting("binlog_row_metadata", "FULL", Level.WARN, why)
    else:
        text = "this version lacks it: names come from the schema history, which follows the statements in the binlog"
        yield warning("binlog_row_metadata", text, "upgrade to MariaDB 10.5, MySQL 8.0, or later")
    yield setting("binlog_checksum", "CRC32", Level.WARN, "the relay cannot detect damaged events")
    if options := variables.get("binlog_row_value_options"):
        if variables["binlog_row_image"].upper() == "FULL":
            yield ok("binlog_row_value_options", options)
        else:
            text = f"{options}; the relay can apply partial JSON values to whole rows only"
            yield failed("binlog_row_value_options", text, hosting.set("binlog_row_value_options", "''"))
    if limit := size_limit(variables):
        text = f"the source also purges its oldest binlogs beyond {limit} bytes; time to data loss ignores this limit"
        remedy = "raise the limit above what a relay that is down misses (max_binlog_total_size, binlog_space_limit)"
        yield warning("binlog size limit", text, remedy)
    yield _gtid(config, variables, mariadb, hosting)
    yield _time_zone(config, variables)


def _gtid(config: Config, variables: dict[str, str], mariadb: bool, hosting: Hosting) -> Finding:
    if mariadb:
        return ok("gtid", f"domain {variables['gtid_domain_id']}, at {variables['gtid_binlog_pos'] or 'the start'}")
    mode = variables.get("gtid_mode", "OFF")
    if mode == "ON":
        return ok("gtid_mode", "ON")
    if config.cdc.enabled:
        return failed("gtid_mode", f"{mode}; the CDC port needs GTIDs", hosting.gtid)
    if len(config.server.ip_addr) > 1:
        return failed("gtid_mode", f"{mode}; failover between hosts needs GTIDs", hosting.gtid)
    return warning("gtid_mode", f"{mode}; positions are file and offset, valid on this server only", hosting.gtid)


def _time_zone(config: Config, variables: dict[str, str]) -> Finding:
    offset = int(variables["offset"])
    zone = config.relay.time_zone
    clock = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    text = f"the server uses {clock}, the relay sends TIMESTAMP values in {zone}"
    if zone == "UTC" and offset:
        return warning("time zone", text, "set TimeZone in [Relay] if clients expect the server's time zone")
    return ok("time zone", text)


def read(connection: Connection[Any]) -> dict[str, str]:
    """Global variables, plus `user` and `offset`: the minutes between the server's clock and UTC."""
    rows = connect.query(connection, "SHOW GLOBAL VARIABLES", "read the settings")
    found = {str(name).lower(): str(value) for name, value in rows}
    sql = "SELECT CURRENT_USER(), TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())"
    ((user, offset),) = connect.query(connection, sql, "read account and clock")
    return found | {"user": str(user), "offset": str(offset)}


def version(variables: dict[str, str]) -> tuple[int, ...]:
    """Return the first three numbers of the server's version."""
    return tuple(int(part) for part in re.findall(r"\d+", variables["version"])[:3])
