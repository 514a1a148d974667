"""Connections to the source with the account that reads tables: that for schema queries, by default [Server]'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pymysql.connections import Connection

from relay.base.errors import RelayError, StopCode
from relay.config.tree import Config
from relay.schema import source_tables
from relay.source.connect import Account, connect
from relay.source.facts import ServerFacts, query_facts
from relay.source.failures import SourceLost
from relay.source.login import idle


class Source(NamedTuple):
    """A server with two connections.

    `metadata` is a connection of `account`, which reads tables. `binlog` is a connection of the account that reads the
    binlog; if both accounts are the same, it is the same connection.
    """

    account: Account
    metadata: Connection[Any]
    server: ServerFacts
    binlog: Connection[Any]

    def close(self) -> None:
        """Close both connections."""
        self.metadata.close()
        if self.binlog is not self.metadata:
            self.binlog.close()


def accounts(config: Config, alive: Callable[[], None] = idle) -> list[Account]:
    """Return the account, once for each host that may be the source.

    `alive` is called while a command gets its password.
    """
    server, wanted = config.server, config.schema_account
    hosts = server.ip_addr if wanted.host in server.ip_addr else [wanted.host]
    port = server.port if wanted.host in server.ip_addr else wanted.port
    return [Account.at(config, host, port, wanted.login, wanted.password, alive) for host in hosts]


def open_source(config: Config, identity: str, alive: Callable[[], None]) -> Source:
    """Connect to the server with that identity: the one from which the lake is exported.

    Raises `RelayError` (wrong_source) if all hosts reply and none has the identity, `SourceLost` if one does not reply.
    """
    lost, others = None, []
    for account in accounts(config, alive):
        try:
            metadata = connect(account)
            server = query_facts(metadata)
        except SourceLost as error:
            lost = error
            continue
        if server.identity == identity:
            source_tables.prepare(metadata, server)
            return Source(account, metadata, server, _for_binlog(config, account, metadata, identity))
        metadata.close()
        others.append(f"{account.address} is {server.identity}")
    if lost is not None:
        raise lost
    raise RelayError(
        StopCode.WRONG_SOURCE,
        "snapshot",
        f"{'; '.join(others)}, but the lake is exported from {identity}",
        hint="use the server that the relay reads from: Host in [MySQL] or IPAddr in [Server] is another",
    )


def _for_binlog(config: Config, account: Account, metadata: Connection[Any], identity: str) -> Connection[Any]:
    server = config.server
    if account.login == server.login:
        return metadata
    lost: SourceLost | None = None
    for host in server.ip_addr:
        try:
            connection = connect(Account.at(config, host, alive=account.alive))
            if query_facts(connection).identity == identity:
                return connection
            connection.close()
        except SourceLost as error:
            lost = error
    metadata.close()
    raise lost or SourceLost(f"none of {', '.join(server.ip_addr)} is {identity}, which the lake is exported from")
