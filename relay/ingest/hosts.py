"""Connect to the hosts of a source, for the stream and for schema queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from pymysql.connections import Connection
from pymysql.constants import ER

from relay.base.errors import ErrorCode, RelayError
from relay.base.log import Log
from relay.config.tree import Config
from relay.config.values import Command
from relay.ddl.syntax import TableName
from relay.schema import source_tables
from relay.schema.facts import Reply
from relay.source.connect import Account, connect
from relay.source.errors import BinlogError
from relay.source.facts import ServerFacts, query_facts
from relay.source.failures import SourceLost
from relay.source.login import SourceConnection, idle

TOKEN_SECONDS: Final = 60.0
"""The longest time for which a source may reject what a PasswordCommand prints: it may change at this moment."""


class Sources:
    """Connect to one host after the other until one replies, and stay with it.

    `alive` is called while a command gets the password, and may raise.
    """

    def __init__(self, config: Config, log: Log, alive: Callable[[], None] = idle) -> None:
        self._config = config
        self._log = log
        self._alive = alive
        self._rejected_since: float | None = None
        self._current = 0
        self._server: ServerFacts | None = None
        self._schema_connection: Connection[Any] | None = None
        self._binlog: Connection[Any] | None = None

    @property
    def host(self) -> str:
        """The current host."""
        return self._config.server.ip_addr[self._current]

    @property
    def account(self) -> Account:
        """The account on that host."""
        return Account.at(self._config, self.host, alive=self._alive)

    def connect(self) -> tuple[SourceConnection, ServerFacts]:
        """Connect for a stream. Raises `SourceLost` and `RelayError`.

        After `SourceLost`, the next attempt is at the next host.
        """
        self.close()
        try:
            connection = connect(self.account)
            self._server = query_facts(connection)
        except SourceLost as lost:
            if lost.code is ErrorCode.SOURCE_UNREACHABLE:  # else nothing is known of this host
                self._current = (self._current + 1) % len(self._config.server.ip_addr)
            raise
        self._rejected_since = None
        return connection, self._server

    def may_accept_later(self, error: RelayError) -> bool:
        """Whether the source rejects what a PasswordCommand printed, and has not done so for long."""
        rejected = isinstance(error, BinlogError) and error.errno == ER.ACCESS_DENIED_ERROR
        if not rejected or not isinstance(self._config.server.password, Command):
            return False
        now = time.monotonic()
        self._rejected_since = self._rejected_since or now
        return now - self._rejected_since < TOKEN_SECONDS

    def query_table(self, table: TableName) -> Reply:
        """Query the connected host about the current state of a table. Raises `SourceLost`, `RelayError`."""
        if self._schema_connection is not None:
            try:
                return self._query_table(table)
            except SourceLost:  # the source closes idle connections
                self.close()
        return self._query_table(table)

    def _query_table(self, table: TableName) -> Reply:
        connection, binlog = self.schema_connections()
        return source_tables.query_tables(connection, self._connected, [table], binlog)[0]

    def schema_connections(self) -> tuple[Connection[Any], Connection[Any]]:
        """Return the connections for queries about tables and for queries about the binlog; connect if necessary.

        They may be different, because the account for tables may lack the privilege for the binlog. Raises
        `SourceLost`, `RelayError`.
        """
        if self._schema_connection is None or self._binlog is None:
            self.close()
            self._binlog = connect(self.account)
            self._schema_connection = self._connect_schema_account(self._connected) or self._binlog
            source_tables.prepare(self._schema_connection, self._connected)
        return self._schema_connection, self._binlog

    @property
    def _connected(self) -> ServerFacts:
        assert self._server is not None
        return self._server

    def close(self) -> None:
        """Close the connections for schema queries; the next query opens new ones."""
        for connection in (self._schema_connection, self._binlog):
            if connection is not None and connection.open:
                connection.close()
        self._schema_connection = self._binlog = None

    def _connect_schema_account(self, server: ServerFacts) -> Connection[Any] | None:
        """Connect with the account of [MySQL]. It must be the server of the stream: binlog positions are its own.

        None if that is the stream's account, or if it cannot be used; then the stream's account is used.
        """
        wanted = self._config.schema_account
        elsewhere = wanted.host not in self._config.server.ip_addr
        host, port = (wanted.host, wanted.port) if elsewhere else (self.host, self._config.server.port)
        account = Account.at(self._config, host, port, wanted.login, wanted.password, self._alive)
        if account == self.account:
            return None
        cause: object
        try:
            connection = connect(account)
            found = query_facts(connection).identity
            if found == server.identity:
                return connection
            connection.close()
            cause = f"it is {found}, but the stream comes from {server.identity}"
        except (RelayError, SourceLost) as error:
            cause = error
        self._log("schema_account_unusable", account=f"{account.login} at {account.address}", cause=cause)
        return None
