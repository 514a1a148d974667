"""`relay check`: what stands in the way of a first start, each finding with its remedy.

Looks at the configuration's surroundings (folder, space, ports), the account's grants and the source's settings, by
asking; the only thing it does to the source is to read the head of its oldest binlog.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pymysql.connections import Connection

from relay import admin
from relay.binlog import Flag, Replication, Stream, connect
from relay.binlog.errors import BinlogError
from relay.binlog.facts import NEW_STATUS_SINCE, expiry, size_limit
from relay.binlog.failures import SourceLost
from relay.cdc.users import path_of
from relay.config import EXPOSURE_HINT, Config
from relay.config_keys import is_url
from relay.errors import MEANINGS, ErrorCode, RelayError, StopCode, printable
from relay.lake.snapshot import grants, source

_DAY: Final = 86400
_CASCADES: Final = "('CASCADE', 'SET NULL', 'SET DEFAULT')"
_SHORTEST_EXPIRY: Final = _DAY


class Level(StrEnum):
    """How serious a finding is: only `fail` keeps the relay from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """`level  subject: text (remedy: ...)`, one line."""
        remedy = f" (remedy: {self.remedy})" if self.remedy else ""
        return printable(f"{self.level:<5} {self.subject}: {self.text}{remedy}")


def run(config: Config) -> Iterator[Finding]:
    """Look at everything, one finding after the other."""
    yield from _surroundings(config)
    if config.lake.path:
        yield _lake(config.lake.path)
    for host in config.server.ip_addr:
        yield from _source(config, host)
    if config.lake.path:
        yield _lake_grants(config)


def _ok(subject: str, text: str) -> Finding:
    return Finding(Level.OK, subject, text)


def _warn(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.WARN, subject, text, remedy)


def _fail(subject: str, text: str, remedy: str) -> Finding:
    return Finding(Level.FAIL, subject, text, remedy)


def _surroundings(config: Config) -> Iterator[Finding]:
    """The folder, its space, the ports."""
    folder = Path(config.relay.data_dir)
    existing = _existing(folder)
    yield _folder("DataDir", folder, "DataDir")
    yield from _open_to_others("DataDir mode", folder, stat.S_IXOTH)
    if config.cdc.enabled:
        yield from _open_to_others("CDC users", path_of(config), stat.S_IROTH)
    free = shutil.disk_usage(existing).free
    wanted = config.relay.journal_max_bytes
    if free < wanted:
        text = f"{gib(free)} free under {existing}, JournalMaxBytes is {gib(wanted)}"
        yield _warn("disk space", text, "make room, or lower JournalMaxBytes")
    else:
        yield _ok("disk space", f"{gib(free)} free for a journal of at most {gib(wanted)}")
    server = config.server
    if server.exposure:
        yield _warn("TLS for clients", server.exposure, EXPOSURE_HINT)
    pid = admin.running_pid(config)
    if pid is not None:
        yield _ok("ports", f"in use by the relay that runs as process {pid}")
        return
    for key, address, port in (
        ("ServerPort", server.bind_address, server.server_port),
        ("HTTPPort", server.http_address, server.http_port),
    ):
        yield _port(key, address, port)


def _open_to_others(subject: str, path: Path, right: int) -> Iterator[Finding]:
    """A warning, if every user of this machine has that right of the path."""
    try:
        mode = path.stat().st_mode
    except OSError:  # it is not there yet, or out of reach: what that means is another finding
        return
    if mode & right:
        yield _warn(subject, f"every user of this machine may read {path}", f"chmod o-rwx {path}")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _folder(subject: str, folder: Path, key: str) -> Finding:
    existing = _existing(folder)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return _ok(subject, f"{folder} is writable" if existing == folder else f"{folder} can be made")
    return _fail(subject, f"{existing} is not writable", f"chown it to user {os.geteuid()}, or set {key}")


def _lake(path: str) -> Finding:
    """Whether the export has what it needs, and where an earlier one ended; nothing is written."""
    try:
        import relay.lake.arrow  # noqa: F401  (names the extra where pyarrow is missing)
        from relay.lake.log import LakeLog
        from relay.lake.storage import open_storage

        place = LakeLog(open_storage(path)).state().place
    except RelayError as error:
        return _fail("lake", str(error), error.hint)
    if place is not None:
        return _ok("lake", f"{path} has all up to {place.file}:{place.offset}")
    return _ok("lake", f"{path} is empty") if is_url(path) else _folder("lake", Path(path), "Path in [Lake]")


def _port(key: str, address: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return _fail(key, f"{address}:{port}: {error.strerror}", f"free the port, or set another {key}")
    return _ok(key, f"{address}:{port} is free")


def _source(config: Config, host: str) -> Iterator[Finding]:
    """One host of the source."""
    account = _without_pins(connect.Account.at(config, host))
    try:
        with connect.connect(account) as connection:
            variables = _variables(connection)
            mariadb = "mariadb" in variables["version"].lower()
            product = "MariaDB" if mariadb else "MySQL"
            yield _ok(account.address, f"{product} {variables['version']}, {_tls(connection)}")
            if connection.by_cache:
                text = "the login needed what the source has cached; restarted, it would be refused the password"
                yield _warn(account.address, text, connection.remedy)
            yield from _settings(config, variables, mariadb)
            yield from _grants(config, connection, variables, mariadb)
            yield from _server_id(config, connection, variables)
            yield _foreign_keys(connection, variables)
            if variables["log_bin"] == "ON":
                yield from _left_out(connection, variables, mariadb)
                yield from _growth(config, connection)
    except (RelayError, SourceLost) as error:
        yield _refused(account, error)
    yield from _schema_account(config)


def _lake_grants(config: Config) -> Finding:
    """Whether rows from before the export can be fetched."""
    account = _without_pins(source.accounts(config)[0])
    subject = "grants for the lake"
    try:
        with connect.connect(account) as connection:
            lines = [str(grant) for (grant,) in connect.query(connection, "SHOW GRANTS", "look at grants")]
    except (RelayError, SourceLost) as error:
        return _fail(subject, str(error), "see the findings above")
    patterns = grants.wanted(config)
    if missing := grants.unreadable(lines, patterns):
        text = f"'{account.login}' lacks SELECT on {', '.join(missing)}: tables it cannot read are never complete there"
        return _warn(subject, text, f"GRANT SELECT ON {missing[0]} TO '{account.login}'@...")
    text = f"'{account.login}' may read {', '.join(patterns)}"
    if grants.unreadable(lines, patterns, "LOCK TABLES"):
        text += "; MySQL's tables without a primary key need LOCK TABLES too"
    return _ok(subject, text)


def _without_pins(account: connect.Account) -> connect.Account:
    """The account for a look: the first use is the relay's, which owns the file of pins."""
    return account if os.access(account.pins, os.W_OK) else msgspec.structs.replace(account, pins="")


def _refused(account: connect.Account, error: RelayError | SourceLost) -> Finding:
    if isinstance(error, SourceLost):
        return _fail(account.address, str(error), MEANINGS[ErrorCode.SOURCE_UNREACHABLE].hint)
    if error.code is not StopCode.SOURCE_DENIED or not isinstance(error, BinlogError):  # else the source said so
        return _fail(account.address, str(error), error.hint)
    # The names that both products, old and new, understand: the host it would connect from is not known here.
    user = f"'{account.login}'@'%'"
    remedy = f"CREATE USER {user} IDENTIFIED BY '...'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user};"
    return _fail(account.address, str(error), remedy)


def _schema_account(config: Config) -> Iterator[Finding]:
    """The account of [MySQL], where there is one."""
    server, given = config.server, config.schema_account
    if (given.login, given.password) == (server.login, server.password):
        return
    account = _without_pins(connect.Account.at(config, given.host, given.port, given.login, given.password))
    try:
        with connect.connect(account):
            yield _ok(account.address, f"{given.login} of [MySQL] can connect")
    except (RelayError, SourceLost) as error:
        text = f"{error}; the account of [Server] will ask for definitions instead"
        yield _warn(account.address, text, "leave Login in [MySQL] empty, or correct it")


def _settings(config: Config, variables: dict[str, str], mariadb: bool) -> Iterator[Finding]:
    """Global variables that the stream depends on."""
    persist = "and put it into the server's configuration file" if mariadb else "with SET PERSIST"

    def setting(name: str, good: str, level: Level, why: str) -> Finding:
        value = variables.get(name, "not there")
        if value.upper() == good:
            return _ok(name, value)
        return Finding(level, name, f"{value}; {why}", f"SET GLOBAL {name} = {good}, {persist}")

    if variables["log_bin"] == "ON":
        yield _ok("log_bin", "ON")
    else:
        yield _fail("log_bin", "OFF; there is no binlog to read", "start the server with --log-bin and a server_id")
    yield setting("binlog_format", "ROW", Level.FAIL, "changed rows are not in the binlog")
    partial = Level.FAIL if config.relay.on_partial_image == "stop" else Level.WARN
    yield setting("binlog_row_image", "FULL", partial, "rows lack columns")
    if "binlog_row_metadata" in variables:
        why = (
            "names come from the schema history, which statements in the binlog move on: it does not know of those that"
            " are not there (sessions with sql_log_bin = 0, binlog filters)"
        )
        yield setting("binlog_row_metadata", "FULL", Level.WARN, why)
    else:
        text = "not known to this version: names come from the schema history, as statements in the binlog move it on"
        yield _warn("binlog_row_metadata", text, "MariaDB 10.5 or MySQL 8.0 and later have it")
    yield setting("binlog_checksum", "CRC32", Level.WARN, "damage on the way is not noticed")
    if options := variables.get("binlog_row_value_options"):
        if variables["binlog_row_image"].upper() == "FULL":
            yield _ok("binlog_row_value_options", options)
        else:
            text = f"{options}; without the whole row, differences of JSON values cannot be applied"
            yield _fail("binlog_row_value_options", text, f"SET GLOBAL binlog_row_value_options = '', {persist}")
    yield _expiry(variables)
    if limit := size_limit(variables):
        text = (
            f"the source also purges its oldest binlogs beyond {limit} bytes; time to data loss does not tell of that"
        )
        remedy = "leave room for what is written while a relay is down (max_binlog_total_size, binlog_space_limit)"
        yield _warn("binlog size limit", text, remedy)
    yield _gtid(config, variables, mariadb)
    yield _time_zone(config, variables)


def _expiry(variables: dict[str, str]) -> Finding:
    seconds = expiry(variables)
    if seconds == 0:
        return _ok("binlog expiry", "never")
    text = f"after {seconds / 3600:g} h"
    if seconds < _SHORTEST_EXPIRY:
        remedy = "set binlog_expire_logs_seconds (expire_logs_days before MariaDB 10.6) to a day or more"
        return _warn("binlog expiry", f"{text}; a relay that is down for longer loses events", remedy)
    return _ok("binlog expiry", text)


def _gtid(config: Config, variables: dict[str, str], mariadb: bool) -> Finding:
    if mariadb:
        return _ok("gtid", f"domain {variables['gtid_domain_id']}, at {variables['gtid_binlog_pos'] or 'the start'}")
    mode = variables.get("gtid_mode", "OFF")
    if mode == "ON":
        return _ok("gtid_mode", "ON")
    remedy = "SET PERSIST gtid_mode = ON, step by step as the MySQL manual tells"
    if config.cdc.enabled:
        return _fail("gtid_mode", f"{mode}; the CDC port has no use for what has no GTID", remedy)
    if len(config.server.ip_addr) > 1:
        return _fail("gtid_mode", f"{mode}; hosts cannot stand in for each other", remedy)
    return _warn("gtid_mode", f"{mode}; positions are file and offset, which hold on this server only", remedy)


def _time_zone(config: Config, variables: dict[str, str]) -> Finding:
    offset = int(variables["offset"])
    zone = config.relay.time_zone
    clock = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    text = f"the server's is {clock}, TIMESTAMP values are given in {zone}"
    if zone == "UTC" and offset:
        return _warn("time zone", text, "set TimeZone in [Relay] if clients expect the server's own")
    return _ok("time zone", text)


def _grants(config: Config, connection: Connection[Any], variables: dict[str, str], mariadb: bool) -> Iterator[Finding]:
    """What the account may do, and the least it has to be granted."""
    user, _, host = variables["user"].rpartition("@")
    everywhere: set[str] = set()
    select = False
    for (grant,) in connect.query(connection, "SHOW GRANTS", "look at grants"):
        match = re.match(r"GRANT (.+?) ON (?:TABLE )?(\S+) TO ", grant)
        if not match:
            continue
        privileges = {privilege.strip().upper() for privilege in match[1].split(",")}
        select |= any(privilege.startswith(("SELECT", "ALL PRIVILEGES")) for privilege in privileges)
        if match[2] == "*.*":
            everywhere |= privileges
    monitor = "BINLOG MONITOR" if mariadb and _version(variables) >= (10, 5, 2) else "REPLICATION CLIENT"
    needed = {"REPLICATION SLAVE", monitor}
    missing = set() if "ALL PRIVILEGES" in everywhere else needed - everywhere
    account = f"'{user}'@'{host}'"
    minimal = f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO {account};"
    reading = f"GRANT SELECT ON *.* TO {account};"
    if missing:
        yield _fail("grants", f"{account} lacks {', '.join(sorted(missing))}", minimal)
    else:
        yield _ok("grants", f"{account} may read the binlog; the least is: {minimal}")
    if variables.get("binlog_row_metadata", "").upper() == "FULL":
        yield _ok("grants for schema", "not needed: names come with the rows")
    elif select:
        yield _ok("grants for schema", f"{account} may read definitions; the least is: {reading}")
    elif config.schema_account.login == config.server.login:
        text = f"{account} sees no definitions, and names do not come with the rows"
        yield _fail("grants for schema", text, f"{reading} or binlog_row_metadata = FULL")


def _left_out(connection: Connection[Any], variables: dict[str, str], mariadb: bool) -> Iterator[Finding]:
    """What the server keeps from its binlog: schemas, by its filters, and what a replica replicates."""
    new = not mariadb and _version(variables) >= NEW_STATUS_SINCE
    try:
        status = connect.query(connection, f"SHOW {'BINARY LOG' if new else 'MASTER'} STATUS", "look at binlog filters")
    except (RelayError, SourceLost) as error:
        yield _warn("binlog filters", f"they cannot be read: {error}", "see the findings above")
    else:
        only, never = (str(names or "") for names in status[0][2:4])
        if only or never:
            said = [f"{key} = {names}" for key, names in (("do_db", only), ("ignore_db", never)) if names]
            text = f"binlog_{', binlog_'.join(said)}; rows and statements that these leave out are not in the binlog"
            if variables.get("binlog_row_metadata", "").upper() != "FULL":
                text += (
                    ", and a statement in it goes by its default schema: names of columns cannot be known for certain"
                )
            yield _warn("binlog filters", text, "start the server without them, and set binlog_row_metadata = FULL")
        else:
            yield _ok("binlog filters", "none")
    name = "log_replica_updates" if "log_replica_updates" in variables else "log_slave_updates"
    if variables.get(name) == "OFF" and _replicates(connection, mariadb):
        yield _warn(name, "OFF; what this replica replicates is not in its binlog", f"start it with {name} = ON")


def _replicates(connection: Connection[Any], mariadb: bool) -> bool:
    """Whether the server is a replica, as far as the account may know."""
    statement = "SHOW ALL SLAVES STATUS" if mariadb else "SHOW REPLICA STATUS"
    try:
        return bool(connect.query(connection, statement, "look at replication"))
    except (RelayError, SourceLost):
        return False


def _foreign_keys(connection: Connection[Any], variables: dict[str, str]) -> Finding:
    """InnoDB changes rows by itself where a foreign key says so, and tells the binlog nothing of it."""
    found = connect.query(
        connection,
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
        f" WHERE DELETE_RULE IN {_CASCADES} OR UPDATE_RULE IN {_CASCADES} ORDER BY 1, 2, 3",
        "look at foreign keys",
    )
    if variables.get("innodb_native_foreign_keys", "ON") == "OFF":
        return _ok("foreign keys", "rows that they change are in the binlog")
    if not found:
        return _ok("foreign keys", "none changes rows")
    names = ", ".join(f"{schema}.{table} {name}" for schema, table, name in found[:3])
    text = f"{len(found)} with CASCADE or SET NULL ({names}{', ...' if len(found) > 3 else ''})"
    remedy = "let the application or a trigger change them, and the key RESTRICT; MySQL 9.6 and later do log them"
    return _warn("foreign keys", f"{text}; rows that these change are not in the binlog", remedy)


def _server_id(config: Config, connection: Connection[Any], variables: dict[str, str]) -> Iterator[Finding]:
    own = config.source.server_id
    if variables["server_id"] == "0":
        yield _fail("server_id", "0; the server serves no replica", "set server_id on the source")
        return
    if own == 0:
        yield _ok("server_id", f"{variables['server_id']}; ours is drawn at random and kept")
        return
    statement = "SHOW SLAVE HOSTS" if "mariadb" in variables["version"].lower() else "SHOW REPLICAS"
    try:
        replicas = connect.query(connection, statement, "look at replicas")
    except (RelayError, SourceLost) as error:
        yield _warn("server_id", f"ours is {own}; {error}", "make sure that no other replica has it")
        return
    taken = {variables["server_id"], *(str(replica[0]) for replica in replicas)}
    if str(own) in taken and admin.running_pid(config) is None:
        yield _fail("server_id", f"{own} is taken", "set another ServerId in [Source], or 0 for a random one")
    else:
        yield _ok("server_id", f"{variables['server_id']}; ours is {own}")


def _growth(config: Config, connection: Connection[Any]) -> Iterator[Finding]:
    """Bytes a day, from the size of the binlogs there are and the age of the oldest."""
    try:
        logs = connect.query(connection, "SHOW BINARY LOGS", "look at binlogs")
        total = sum(int(log[1]) for log in logs)
        born = _birth(connection, str(logs[0][0]))
    except (RelayError, SourceLost, OSError) as error:
        yield _fail("binlog", f"cannot be read: {error}", "see the findings above")
        return
    age = max(time.time() - born, 1.0)
    per_day = total / age * _DAY
    text = f"{len(logs)} binlogs, {gib(total)} in {age / 3600:.1f} h"
    if age < 3600:
        yield _ok("journal growth", f"{text}: too young to tell how much a day")
        return
    needed = max(config.relay.journal_keep_bytes, per_day * config.relay.journal_keep_age / _DAY)
    text += f": at most {gib(per_day)} a day, {gib(needed)} for the history that is kept"
    if needed > config.relay.journal_max_bytes:
        remedy = "raise JournalMaxBytes, lower JournalKeepAge, or leave tables out with ExcludeTables"
        yield _warn("journal growth", text, remedy)
    else:
        yield _ok("journal growth", text)


def _birth(connection: Connection[Any], name: str) -> int:
    """Unix time at which a binlog file was begun, from its first event. The connection is spent afterwards."""
    with Stream(connection, Replication(file_name=name, flags=Flag.NON_BLOCK)) as stream:
        for event in stream:  # the rotation that opens every stream has no time
            if event.header.timestamp:
                return event.header.timestamp
    raise SourceLost("the stream ended before its first event")


def _tls(connection: Connection[Any]) -> str:
    rows = connect.query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "look at TLS")
    return f"TLS with {rows[0][1]}" if rows and rows[0][1] else "no TLS"


def _variables(connection: Connection[Any]) -> dict[str, str]:
    """Global variables, with `user` and the server clock's `offset` from UTC in minutes beside them."""
    found = {
        str(name).lower(): str(value)
        for name, value in connect.query(connection, "SHOW GLOBAL VARIABLES", "look at settings")
    }
    sql = "SELECT CURRENT_USER(), TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())"
    ((user, offset),) = connect.query(connection, sql, "look at account and clock")
    return found | {"user": str(user), "offset": str(offset)}


def _version(variables: dict[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", variables["version"])[:3])


def gib(count: float) -> str:
    """A size in GiB, or in MiB below one."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
