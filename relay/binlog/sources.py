"""The hosts that a source is reached at: a connection for the stream, and one for schema queries."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from relay.binlog.connect import Account, connect
from relay.binlog.facts import ServerFacts, facts
from relay.binlog.failures import SourceLost
from relay.binlog.login import SourceConnection
from relay.config import Config
from relay.ddl.syntax import TableName
from relay.errors import RelayError
from relay.log import Log
from relay.schema import look
from relay.schema.facts import Answer


class Sources:
    """Connects to one host after the other, and stays with the one that answers."""

    def __init__(self, config: Config, log: Log) -> None:
        self._config = config
        self._log = log
        self._current = 0
        self._server: ServerFacts | None = None
        self._asking: Connection[Any] | None = None
        self._binlog: Connection[Any] | None = None

    @property
    def host(self) -> str:
        """The host connected to last."""
        return self._config.server.ip_addr[self._current]

    @property
    def account(self) -> Account:
        """The account on that host."""
        return Account.at(self._config, self.host)

    def connect(self) -> tuple[SourceConnection, ServerFacts]:
        """A connection for a stream. Raises `SourceLost`, and the next attempt is at the next host; `RelayError`."""
        self.close()
        try:
            connection = connect(self.account)
            self._server = facts(connection)
        except SourceLost:
            self._current = (self._current + 1) % len(self._config.server.ip_addr)
            raise
        return connection, self._server

    def ask(self, table: TableName) -> Answer:
        """How a table stands on the host that is connected. Raises `SourceLost`, `RelayError`."""
        if self._asking is not None:
            try:
                return self._ask(table)
            except SourceLost:  # the source hangs up on idle connections
                self.close()
        return self._ask(table)

    def _ask(self, table: TableName) -> Answer:
        connection, binlog = self.asking()
        return look.ask(connection, self._connected, [table], binlog)[0]

    def asking(self) -> tuple[Connection[Any], Connection[Any]]:
        """The connections for questions about tables, and about the binlog, which the account for the first may not
        ask. They are made if there are none. Raises `SourceLost`, `RelayError`."""
        if self._asking is None or self._binlog is None:
            self.close()
            self._binlog = connect(self.account)
            self._asking = self._connect_asking(self._connected) or self._binlog
            look.prepare(self._asking, self._connected)
        return self._asking, self._binlog

    @property
    def _connected(self) -> ServerFacts:
        assert self._server is not None
        return self._server

    def close(self) -> None:
        """Close the connections for schema queries; the next question makes others."""
        for connection in (self._asking, self._binlog):
            if connection is not None and connection.open:
                connection.close()
        self._asking = self._binlog = None

    def _connect_asking(self, server: ServerFacts) -> Connection[Any] | None:
        """With the account of [MySQL], to the server that the stream comes from: positions are its own. None where that
        is the stream's account, or does not serve: then the stream's has to do."""
        wanted = self._config.schema_account
        elsewhere = wanted.host not in self._config.server.ip_addr
        host, port = (wanted.host, wanted.port) if elsewhere else (self.host, self._config.server.port)
        account = Account.at(self._config, host, port, wanted.login, wanted.password)
        if account == self.account:
            return None
        try:
            connection = connect(account)
            found = facts(connection).identity
        except (RelayError, SourceLost) as error:
            self._log("schema_account_unusable", account=f"{account.login} at {account.address}", cause=error)
            return None
        if found == server.identity:
            return connection
        connection.close()
        cause = f"it is {found}, the stream comes from {server.identity}"
        self._log("schema_account_unusable", account=f"{account.login} at {account.address}", cause=cause)
        return None
