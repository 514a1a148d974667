"""Answer the requests that a native session does not: all but polls, and polls for columns without pyarrow loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay.base.errors import RelayError
from relay.config.tree import Config
from relay.net.access import Access
from relay.net.rejections import RejectionLog
from relay.protocol import classic
from relay.protocol.classic import MalformedPayload, Result, TableFilter
from relay.protocol.classic_states import NEEDS_TOKEN, Action, State, action
from relay.runtime import ipc
from relay.runtime.context import ServerContext
from relay.runtime.ipc import Done, Filters, Reply
from relay.serving import arrow
from relay.serving.admin import Administration
from relay.serving.broker_link import BrokerLink
from relay.serving.connection import Connection
from relay.serving.connections import Connections
from relay.serving.handover import Handover
from relay.serving.logins import Logins
from relay.serving.monitor_link import MonitorLink

_OK: Final = classic.encode_reply(Result.OK)
_PONG: Final = classic.encode_reply(Result.OK, b"PONG\0")
_DISCONNECTED: Final = classic.encode_reply(Result.DISCONNECTED)
_NOT_AUTHENTICATED: Final = classic.encode_error("not authenticated: send Auth first")
_WRONG_TOKEN: Final = classic.encode_error("wrong ClientID or ClientToken")
_NO_CLIENT: Final = classic.encode_error("clients log in at the classic port: this socket takes admin commands only")


class Handlers:
    """Answer pending requests, at once or when another process has replied."""

    def __init__(
        self,
        context: ServerContext,
        connections: Connections,
        handover: Handover,
        broker: BrokerLink,
        monitor: MonitorLink,
        access: Access,
        rejections: RejectionLog,
    ) -> None:
        self._log = rejections
        self._broker = broker
        self._connections = connections
        self._access = access
        self._logins = Logins(context.config, connections, handover, broker, access, rejections)
        self._administration = Administration(context, broker, monitor, connections, access, rejections)
        self._handlers: dict[Action, Callable[[Connection, bytes], None]] = {
            Action.PONG: lambda connection, _: connections.answer(connection, _PONG),
            Action.AUTHENTICATE: self._logins.authenticate,
            Action.ADD_FILTER: self._add_filter,
            Action.REMOVE_FILTER: self._remove_filter,
            Action.LIST_FILTERS: self._list_filters,
            Action.POLL_MANY: self._load_arrow,
            Action.ADMINISTRATE: self._administration.handle,
            Action.REFUSE_UNAUTHENTICATED: lambda connection, _: connections.answer(connection, _NOT_AUTHENTICATED),
            Action.REFUSE_UNKNOWN: self._refuse_unknown,
            Action.DISCONNECT: lambda connection, _: connections.refuse(connection, _DISCONNECTED),
        }

    def apply(self, config: Config) -> None:
        """Use the login throttle settings of this configuration."""
        self._logins.apply(config)
        self._administration.apply(config)

    def tick(self) -> None:
        """Do the periodic work of logins and admin commands. Call it about once a second."""
        self._logins.tick()
        self._administration.tick()

    def handle(self, connection: Connection) -> None:
        """Answer the request in the connection's session, now or when another process has replied."""
        session = connection.session
        command = session.command
        if connection.state is State.IDENTIFIED and command in NEEDS_TOKEN and not session.authorised:
            self._connections.answer(connection, _WRONG_TOKEN)
            return
        what = action(connection.state, command)
        if connection.local and what is Action.AUTHENTICATE:
            self._connections.answer(connection, _NO_CLIENT)
            return
        try:
            self._handlers[what](connection, session.payload)
        except MalformedPayload as error:
            self._connections.answer(connection, classic.encode_error(str(error)))

    def _refuse_unknown(self, connection: Connection, _: bytes) -> None:
        self._connections.answer(connection, classic.encode_error(f"unknown command {connection.session.command}"))

    def _add_filter(self, connection: Connection, payload: bytes) -> None:
        wanted = classic.parse_filter(payload)
        if not self._access.may_ask(connection.name, wanted.schema, wanted.table):
            self._log("filter_denied", client=connection.name, schema=wanted.schema, table=wanted.table)
            table = f"{wanted.schema}.{wanted.table}"
            text = f"client {connection.name} may not have rows of {table} (Tables in its section)"
            self._connections.answer(connection, classic.encode_error(text))
            return
        ids = self._broker.next_id(), connection.client_id
        request = ipc.AddFilter(*ids, wanted.schema, wanted.table, wanted.kinds, wanted.discard, wanted.limit)
        self._ask(connection, request, lambda _: _OK)

    def _remove_filter(self, connection: Connection, payload: bytes) -> None:
        name = classic.parse_filter_name(payload)
        request = ipc.RemoveFilter(self._broker.next_id(), connection.client_id, name.schema, name.table, name.kinds)

        def removed(reply: Reply) -> bytes:
            data = reply.data if isinstance(reply, Done) else None
            return classic.encode_reply(Result.OK, classic.encode_count(int((data or {}).get("removed", 0))))

        self._ask(connection, request, removed)

    def _list_filters(self, connection: Connection, _: bytes) -> None:
        def listed(reply: Reply) -> bytes:
            filters = reply.filters if isinstance(reply, Filters) else ()
            payload = classic.encode_filters(
                TableFilter(each.kinds, each.discard, each.limit, each.schema, each.table) for each in filters
            )
            return classic.encode_reply(Result.OK, payload)

        self._ask(connection, ipc.ListFilters(self._broker.next_id(), connection.client_id), listed)

    def _load_arrow(self, connection: Connection, _: bytes) -> None:
        """Import pyarrow for PollMany in format 2, and answer it. Until then the session holds such polls."""
        try:
            arrow.load()
        except RelayError as error:
            self._connections.answer(connection, classic.encode_error(str(error)))
            return
        self._connections.serve_columns(connection)

    def _ask(self, connection: Connection, request: ipc.Request, reply_for: Callable[[Reply], bytes]) -> None:
        """Send the request to the broker, and answer with `reply_for` of its reply, or with its error."""

        def replied(reply: Reply) -> None:
            if self._connections.is_open(connection):
                answer = classic.encode_error(reply.error) if reply.error else reply_for(reply)
                self._connections.answer(connection, answer)

        self._broker.ask(request, self._connections.now, replied)
