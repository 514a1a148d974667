"""Admin commands: checks the permission, carries the command out, and logs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Final, TypeAlias, TypeVar

import msgspec

from relay.base.errors import RelayError
from relay.config.tree import Config
from relay.net.access import Access
from relay.net.login_throttle import LoginThrottle
from relay.net.rejections import RejectionLog
from relay.protocol import classic
from relay.protocol.classic import Command, MalformedPayload, Result
from relay.runtime import ipc, reload
from relay.runtime.context import ServerContext
from relay.runtime.ipc import Done, Reply
from relay.serving.broker_link import BrokerLink
from relay.serving.connection import Connection
from relay.serving.connections import Connections
from relay.serving.monitor_link import MonitorLink

_SUPERVISED: Final = {Command.DRAIN: "drain", Command.STOP: "stop", Command.PAUSE: "pause", Command.RESUME: "resume"}
_RELOAD_SECONDS: Final = reload.PATIENCE + 5.0
"""Time limit for the outcome of a reload; the supervisor waits for the processes meanwhile."""

_LOGGED_ARGUMENTS: Final = 200
"""Bytes of a command's arguments that are logged."""

T = TypeVar("T")
_Done: TypeAlias = Callable[[bytes, str], None]
"""Receives the reply to a command: a JSON object and "", or an error text."""

_EMPTY: Final = b"{}"


class _ClientPayload(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of commands that concern a client."""

    client: str
    position: str = ""


class _ListPayload(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of LIST_CLIENTS."""

    client: str = ""


class _TablePayload(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of EXPLAIN."""

    schema: str
    table: str


class _Refused(Exception):
    """A command cannot be carried out; the text is the reply."""


class Administration:
    """Carry out admin commands, or refuse them."""

    def __init__(
        self,
        context: ServerContext,
        broker: BrokerLink,
        monitor: MonitorLink,
        connections: Connections,
        access: Access,
        rejections: RejectionLog,
    ) -> None:
        self._context = context
        self._log = context.log
        self._broker = broker
        self._monitor = monitor
        self._connections = connections
        self._access = access
        self._rejections = rejections
        # A separate throttle: clients that guess do not delay administrators.
        self._throttle = LoginThrottle(context.config.server.auth_attempts, rejections)
        self._reload_numbers = count(1)
        self._reloads: dict[str, tuple[float, _Done]] = {}  # by request: when to give up, what to call

    def apply(self, config: Config) -> None:
        """Use the login throttle settings of this configuration."""
        self._throttle.allowed = config.server.auth_attempts

    def tick(self) -> None:
        """Check delayed commands that are due, and answer reloads that have ended."""
        self._throttle.tick(self._connections.now)
        if not self._reloads:
            return
        found = reload.outcomes(self._context.reloads)
        for request, (due, done) in list(self._reloads.items()):
            outcome = found.get(request)
            if outcome is not None:
                del self._reloads[request]
                refusal = f"{outcome.error} ({outcome.hint})" if outcome.error else ""
                done(msgspec.json.encode(outcome), refusal)
            elif self._connections.now >= due:
                del self._reloads[request]
                done(_EMPTY, "the supervisor does not say what came of it")

    def handle(self, connection: Connection, payload: bytes) -> None:
        """Answer the command in the connection's session, now or when it has been carried out."""
        command = Command(connection.session.command)
        if connection.local:  # file permissions have authorized it
            self._connections.identified(connection)
            self._carry_out(connection, command, payload)
            return
        low, high = connection.session.credentials

        def check() -> bool | None:
            if not self._connections.is_open(connection):
                return None
            if not self._access.is_admin(high << 32 | low):
                self._reject(connection, command, "wrong AdminSecret")
                return False
            self._connections.identified(connection)
            self._carry_out(connection, command, payload)
            return True

        def refuse() -> None:
            if self._connections.is_open(connection):
                self._reject(connection, command, "too many failed attempts from this address; try again")

        if not self._access.has_admin:
            self._reject(connection, command, "admin commands are switched off: AdminSecret is empty")
        elif not self._access.may_administrate(connection.address):
            self._reject(connection, command, "admin commands are not taken from this address (AdminFrom)")
        else:
            self._throttle.attempt(connection.address, "", self._connections.now, check, refuse)

    def _reject(self, connection: Connection, command: Command, text: str) -> None:
        self._rejections(
            "admin_refused", command=_name(command), peer=connection.address, reason=text, client=connection.name
        )
        self._connections.answer(connection, classic.encode_error(text))

    def _carry_out(self, connection: Connection, command: Command, payload: bytes) -> None:
        def done(document: bytes, error: str) -> None:
            self._audit(connection, command, payload, error)
            if self._connections.is_open(connection):
                reply = classic.encode_error(error) if error else classic.encode_reply(Result.OK, document)
                self._connections.answer(connection, reply)

        try:
            if command == Command.STAT:
                self._inquire(ipc.InquireStat(self._monitor.next_id()), done)
            elif command == Command.LIST_CLIENTS:
                which = _parse(payload, _ListPayload, command)
                self._inquire(ipc.InquireClients(self._monitor.next_id(), which.client), done)
            elif command == Command.SKIP_ROW:
                self._skip(_parse(payload, _ClientPayload, command).client, done)
            elif command == Command.EXPLAIN:
                table = _parse(payload, _TablePayload, command)
                self._inquire(ipc.InquireTable(self._monitor.next_id(), table.schema, table.table), done)
            elif command == Command.RELOAD:
                self._reload(done)
            elif command in _SUPERVISED:
                self._context.supervisor(_SUPERVISED[command])
                done(_EMPTY, "")
            else:
                self._ask_broker(_request(self._broker.next_id(), command, payload), done)
        except (MalformedPayload, _Refused, RelayError) as error:
            done(_EMPTY, str(error))
        except OSError as error:
            done(_EMPTY, f"the supervisor does not answer: {error.strerror}")

    def _audit(self, connection: Connection, command: Command, payload: bytes, error: str) -> None:
        """Log a command with its outcome. STAT is not logged: it changes nothing, and may come every second."""
        if command == Command.STAT:
            return
        arguments = payload[:_LOGGED_ARGUMENTS].decode("utf-8", "replace")
        peer, client, outcome = connection.address, connection.name, error or "done"
        self._log("admin", command=_name(command), peer=peer, arguments=arguments, client=client, outcome=outcome)

    def _skip(self, client: str, done: _Done) -> None:
        """Skip the client's next row. The broker gets the row's number, so a repeated request skips it only once."""
        arena = self._context.arena
        facts = next((each for each in map(arena.client_stats, arena.client_slots()) if each["name"] == client), None)
        if facts is None:
            raise _Refused(f"no client is called {client!r}")
        if facts["in_flight"] + facts["waiting"]:
            self._ask_broker(ipc.Skip(self._broker.next_id(), client, facts["next"]), done)
        else:
            done(msgspec.json.encode({"sequence": 0}), "")

    def _reload(self, done: _Done) -> None:
        request = f"{os.getpid()}-{next(self._reload_numbers)}"
        self._context.supervisor(f"reload {request}")
        self._reloads[request] = (self._connections.now + _RELOAD_SECONDS, done)

    def _inquire(self, inquiry: ipc.Inquiry, done: _Done) -> None:
        """Ask the monitor for the document of the reply."""
        self._monitor.ask(inquiry, self._connections.now, done)

    def _ask_broker(self, request: ipc.Request, done: _Done) -> None:
        def replied(reply: Reply) -> None:
            data = reply.data if isinstance(reply, Done) else None
            done(msgspec.json.encode(data or {}), reply.error)

        self._broker.ask(request, self._connections.now, replied)


def _request(number: int, command: Command, payload: bytes) -> ipc.Request:
    """Return the request to the broker for a command that concerns a client. Raises `MalformedPayload`."""
    wanted = _parse(payload, _ClientPayload, command)
    if command == Command.FLUSH_CLIENT:
        return ipc.Flush(number, wanted.client)
    if command == Command.FORGET_CLIENT:
        return ipc.Forget(number, wanted.client)
    if command == Command.KICK_CLIENT:
        return ipc.Disconnect(number, wanted.client)
    if not wanted.position:
        raise MalformedPayload(f'{command.name}: "position" is missing (newest, oldest, FILE:POS, a journal position)')
    return ipc.Seek(number, wanted.client, wanted.position)


def _parse(payload: bytes, type_: type[T], command: Command) -> T:
    try:
        return msgspec.json.decode(payload or b"{}", type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedPayload(f"{command.name}: {error}") from None


def _name(command: Command) -> str:
    return command.name.lower()
