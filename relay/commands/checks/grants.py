"""Check what the relay's account on the source may do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from pymysql.connections import Connection

from relay.base.errors import RelayError
from relay.commands.checks import settings
from relay.commands.checks.finding import Finding, failed, ok, warning
from relay.commands.checks.hosting import Hosting
from relay.config.tree import Config
from relay.lake.snapshot import grants as lake
from relay.lake.snapshot import source
from relay.source import connect
from relay.source.failures import SourceLost


def replication(
    config: Config, connection: Connection[Any], variables: dict[str, str], mariadb: bool, hosting: Hosting
) -> Iterator[Finding]:
    """Check the grants for the binlog and the definitions of tables, and say which ones the account needs."""
    user, _, host = variables["user"].rpartition("@")
    everywhere: set[str] = set()
    select = False
    for (grant,) in connect.query(connection, "SHOW GRANTS", "read the grants"):
        match = re.match(r"GRANT (.+?) ON (?:TABLE )?(\S+) TO ", grant)
        if not match:
            continue
        privileges = {privilege.strip().upper() for privilege in match[1].split(",")}
        select |= any(privilege.startswith(("SELECT", "ALL PRIVILEGES")) for privilege in privileges)
        if match[2] == "*.*":
            everywhere |= privileges
    monitor = "BINLOG MONITOR" if mariadb and settings.version(variables) >= (10, 5, 2) else "REPLICATION CLIENT"
    needed = {"REPLICATION SLAVE", monitor}
    missing = set() if "ALL PRIVILEGES" in everywhere else needed - everywhere
    account = f"'{user}'@'{host}'"
    minimal = f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO {account};"
    reading = f"GRANT SELECT ON *.* TO {account};"
    if missing:
        yield failed("grants", f"{account} lacks {', '.join(sorted(missing))}", hosting.grant(minimal))
    else:
        yield ok("grants", f"{account} may read the binlog; the least it needs: {minimal}")
    if variables.get("binlog_row_metadata", "").upper() == "FULL":
        yield ok("grants for schema", "not needed: the binlog has the names of columns")
    elif select:
        yield ok("grants for schema", f"{account} may read table definitions; the least it needs: {reading}")
    elif config.schema_account.login == config.server.login:
        text = f"{account} cannot read table definitions, and the binlog lacks the names of columns"
        remedy = f"{hosting.grant(reading)}, or set binlog_row_metadata = FULL as above"
        yield failed("grants for schema", text, remedy)


def reading(config: Config) -> Finding:
    """Check the grants for the rows of snapshots of the lake."""
    account = without_pins(source.accounts(config)[0])
    subject = "grants for the lake"
    try:
        with connect.connect(account) as connection:
            lines = [str(grant) for (grant,) in connect.query(connection, "SHOW GRANTS", "read the grants")]
    except (RelayError, SourceLost) as error:
        return failed(subject, str(error), "see the findings above")
    patterns = lake.wanted(config)
    if missing := lake.unreadable(lines, patterns):
        text = f"'{account.login}' lacks SELECT on {', '.join(missing)}: the lake never gets all rows of these tables"
        return warning(subject, text, f"GRANT SELECT ON {missing[0]} TO '{account.login}'@...")
    text = f"'{account.login}' may read {', '.join(patterns)}"
    if lake.unreadable(lines, patterns, "LOCK TABLES"):
        text += "; MySQL tables without a primary key also need LOCK TABLES"
    return ok(subject, text)


def without_pins(account: connect.Account) -> connect.Account:
    """Return the account, without its file of pinned keys if this user cannot write it.

    The relay itself must pin keys.
    """
    return account if os.access(account.pins, os.W_OK) else msgspec.structs.replace(account, pins="")
