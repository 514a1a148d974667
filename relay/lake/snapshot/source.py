"""The source, reached as the account that reads tables: the one for schema queries, which is [Server]'s by default."""

from __future__ import annotations

from typing import Any, NamedTuple

from pymysql.connections import Connection

from relay.binlog.connect import Account, connect
from relay.binlog.facts import ServerFacts, facts
from relay.binlog.failures import SourceLost
from relay.config import Config
from relay.errors import RelayError, StopCode
from relay.schema import look


class Source(NamedTuple):
    """A server; the account that reads tables, and its connection for questions about them; and one of the account
    that reads the binlog, for questions about that."""

    account: Account
    asking: Connection[Any]
    server: ServerFacts
    binlog: Connection[Any]

    def close(self) -> None:
        """Close both connections."""
        self.asking.close()
        if self.binlog is not self.asking:
            self.binlog.close()


def accounts(config: Config) -> list[Account]:
    """The account on each host that may be the source."""
    server, wanted = config.server, config.schema_account
    hosts = server.ip_addr if wanted.host in server.ip_addr else [wanted.host]
    port = server.port if wanted.host in server.ip_addr else wanted.port
    return [Account.at(config, host, port, wanted.login, wanted.password) for host in hosts]


def reach(config: Config, identity: str) -> Source:
    """The server with that identity, which the lake is exported from.

    Raises `RelayError` (wrong_source) if all hosts answer and none is that; `SourceLost` if one does not.
    """
    lost, others = None, []
    for account in accounts(config):
        try:
            asking = connect(account)
            server = facts(asking)
        except SourceLost as error:
            lost = error
            continue
        if server.identity == identity:
            look.prepare(asking, server)
            return Source(account, asking, server, _for_binlog(config, account, asking, identity))
        asking.close()
        others.append(f"{account.address} is {server.identity}")
    if lost is not None:
        raise lost
    raise RelayError(
        StopCode.WRONG_SOURCE,
        "snapshot",
        f"{'; '.join(others)}, the lake is exported from {identity}",
        hint="read from the server that the relay reads from: Host in [MySQL] or IPAddr in [Server] names another",
    )


def _for_binlog(config: Config, account: Account, asking: Connection[Any], identity: str) -> Connection[Any]:
    server = config.server
    if account.login == server.login:
        return asking
    lost: SourceLost | None = None
    for host in server.ip_addr:
        try:
            connection = connect(Account.at(config, host))
            if facts(connection).identity == identity:
                return connection
            connection.close()
        except SourceLost as error:
            lost = error
    asking.close()
    raise lost or SourceLost(f"none of {', '.join(server.ip_addr)} is {identity}, which the lake is exported from")
