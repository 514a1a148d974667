"""Check one host of the source: the login, its settings, grants, server id, and binlog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pymysql.connections import Connection

from relay.base.errors import RelayError, StopCode
from relay.base.log_events import EVENTS
from relay.commands.checks import binlog, grants, hosting, settings
from relay.commands.checks.finding import Finding, failed, ok, warning
from relay.commands.checks.hosting import Hosting
from relay.config.tree import Config
from relay.source import connect
from relay.source.errors import BinlogError
from relay.source.failures import SourceLost


def check(config: Config, host: str, running: int | None) -> Iterator[Finding]:
    """Check one host of the source. `running`: process id of a running relay."""
    account = grants.without_pins(connect.Account.at(config, host))
    try:
        with connect.connect(account) as connection:
            variables = settings.read(connection)
            hosted = hosting.detect(host, variables)
            mariadb = "mariadb" in variables["version"].lower()
            product = "MariaDB" if mariadb else "MySQL"
            yield ok(account.address, f"{product} {variables['version']}, {_tls(connection)}")
            if connection.by_cache:
                yield warning(account.address, EVENTS["source_unproven"].meaning, connection.remedy)
            yield from hosting.service(hosted, config, host, "" if connection.is_local else connection.remedy)
            yield from settings.check(config, variables, mariadb, hosted)
            yield from hosting.heartbeats(hosted, connection)
            yield hosting.expiry(hosted, connection, variables)
            yield from grants.replication(config, connection, variables, mariadb, hosted)
            yield from _server_id(config, connection, variables, running)
            yield binlog.foreign_keys(connection, variables)
            if variables["log_bin"] == "ON":
                yield from binlog.left_out(connection, variables, mariadb, hosted)
                yield from binlog.growth(config, connection)
    except (RelayError, SourceLost) as error:
        yield _not_connected(account, error, hosting.detect(host, {}))
    yield from _schema_account(config)


def _not_connected(account: connect.Account, error: RelayError | SourceLost, hosted: Hosting) -> Finding:
    if isinstance(error, SourceLost):
        let_in = f", and that {hosted.name} lets this machine in (security group, authorized networks, firewall rules)"
        return failed(account.address, str(error), error.hint + let_in if hosted.name else error.hint)
    login_rejected = error.code is StopCode.SOURCE_DENIED and isinstance(error, BinlogError)
    if not login_rejected:
        return failed(account.address, str(error), f"{error.hint} ({hosted.tls})" if hosted.tls else error.hint)
    # All versions of both products know these privileges. The host that the account connects from is unknown.
    user = f"'{account.login}'@'%'"
    remedy = f"CREATE USER {user} IDENTIFIED BY '...'; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user};"
    return failed(account.address, str(error), f"correct login and password, or {hosted.grant(remedy)}")


def _schema_account(config: Config) -> Iterator[Finding]:
    """Check the account of [MySQL], if there is one."""
    server, given = config.server, config.schema_account
    if (given.login, given.password) == (server.login, server.password):
        return
    account = grants.without_pins(connect.Account.at(config, given.host, given.port, given.login, given.password))
    try:
        with connect.connect(account):
            yield ok(account.address, f"{given.login} of [MySQL] can connect")
    except (RelayError, SourceLost) as error:
        text = f"{error}; the relay reads definitions with the account of [Server] instead"
        yield warning(account.address, text, "correct Login in [MySQL], or leave it empty")


def _server_id(
    config: Config, connection: Connection[Any], variables: dict[str, str], running: int | None
) -> Iterator[Finding]:
    own = config.source.server_id
    if variables["server_id"] == "0":
        yield failed("server_id", "0; the server accepts no replica", "set server_id on the source")
        return
    if own == 0:
        yield ok("server_id", f"{variables['server_id']}; the relay uses a random one and keeps it")
        return
    statement = "SHOW SLAVE HOSTS" if "mariadb" in variables["version"].lower() else "SHOW REPLICAS"
    try:
        replicas = connect.query(connection, statement, "list the replicas")
    except (RelayError, SourceLost) as error:
        yield warning("server_id", f"the relay uses {own}; {error}", "make sure that no other replica uses it")
        return
    taken = {variables["server_id"], *(str(replica[0]) for replica in replicas)}
    if str(own) in taken and running is None:
        yield failed("server_id", f"{own} is in use", "set another ServerId in [Source], or 0 for a random one")
    else:
        yield ok("server_id", f"{variables['server_id']}; the relay uses {own}")


def _tls(connection: Connection[Any]) -> str:
    rows = connect.query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "read the TLS status")
    return f"TLS with {rows[0][1]}" if rows and rows[0][1] else "no TLS"
