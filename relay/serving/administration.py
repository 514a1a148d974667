"""The commands of administrators: who may give them, what is done, and the line in the log that each leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from relay import messages, reload
from relay.config import Config
from relay.context import ServerContext
from relay.deliveries import deliveries
from relay.errors import RelayError
from relay.explain import explain
from relay.messages import Done, Reply
from relay.serving.access import Access
from relay.serving.brake import Brake
from relay.serving.broker_link import BrokerLink
from relay.serving.desk import Desk
from relay.serving.peer import Peer
from relay.serving.refusals import Refusals
from relay.stat import Stat
from relay.wire import classic
from relay.wire.classic import Command, MalformedPayload, Result

_SUPERVISED: Final = {Command.DRAIN: "drain", Command.STOP: "stop", Command.PAUSE: "pause", Command.RESUME: "resume"}
_RELOAD_SECONDS: Final = reload.PATIENCE + 5.0
"""How long the outcome of a reload is waited for; the supervisor waits for the processes meanwhile."""

_LOGGED_ARGUMENTS: Final = 200
"""Bytes of a command's arguments that its line in the log shows."""

T = TypeVar("T")
_Done: TypeAlias = Callable[[dict[str, Any], str], None]
"""Takes a command's answer, or why there is none."""


class _OfClient(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of commands that concern a client."""

    client: str
    position: str = ""


class _Which(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of LIST_CLIENTS."""

    client: str = ""


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """Payload of EXPLAIN."""

    schema: str
    table: str


class _Refused(Exception):
    """A command cannot be carried out; the text goes to whoever gave it."""


class Administration:
    """Carries out admin commands, or refuses them."""

    def __init__(
        self, context: ServerContext, broker: BrokerLink, desk: Desk, access: Access, refusals: Refusals
    ) -> None:
        self._context = context
        self._log = context.log
        self._broker = broker
        self._desk = desk
        self._access = access
        self._refusals = refusals
        self._brake = Brake(context.config.server.auth_attempts, refusals)  # clients who guess hold up no administrator
        self._reload_numbers = count(1)
        self._reloads: dict[str, tuple[float, _Done]] = {}  # by request: when to give up, what to call

    def apply(self, config: Config) -> None:
        """Guessing is slowed down from now on as this configuration says."""
        self._brake.allowed = config.server.auth_attempts

    def tick(self) -> None:
        """Look at commands whose turn it is, and answer who waits for a reload, if it has come to its end."""
        self._brake.tick(self._desk.now)
        if not self._reloads:
            return
        found = reload.outcomes(self._context.reloads)
        for request, (due, done) in list(self._reloads.items()):
            outcome = found.get(request)
            if outcome is not None:
                del self._reloads[request]
                refusal = f"{outcome.error} ({outcome.hint})" if outcome.error else ""
                done(msgspec.to_builtins(outcome), refusal)
            elif self._desk.now >= due:
                del self._reloads[request]
                done({}, "the supervisor does not say what came of it")

    def handle(self, peer: Peer, payload: bytes) -> None:
        """Answer the command that the peer's session holds, now or when it has been carried out."""
        command = Command(peer.session.command)
        low, high = peer.session.credentials

        def check() -> bool | None:
            if not self._desk.is_open(peer):
                return None
            if not self._access.is_admin(high << 32 | low):
                self._turn_away(peer, command, "wrong AdminSecret")
                return False
            self._desk.proven(peer)
            self._carry_out(peer, command, payload)
            return True

        def refuse() -> None:
            if self._desk.is_open(peer):
                self._turn_away(peer, command, "too many failed attempts from this address; try again")

        if not self._access.has_admin:
            self._turn_away(peer, command, "admin commands are switched off: AdminSecret is empty")
        elif not self._access.may_administrate(peer.address):
            self._turn_away(peer, command, "admin commands are not taken from this address (AdminFrom)")
        else:
            self._brake.attempt(peer.address, "", self._desk.now, check, refuse)

    def _turn_away(self, peer: Peer, command: Command, text: str) -> None:
        self._refusals("admin_refused", command=_name(command), peer=peer.address, reason=text, client=peer.name)
        self._desk.answer(peer, classic.encode_error(text))

    def _carry_out(self, peer: Peer, command: Command, payload: bytes) -> None:
        def done(document: dict[str, Any], error: str) -> None:
            self._audit(peer, command, payload, error)
            if self._desk.is_open(peer):
                self._desk.answer(peer, classic.encode_error(error) if error else _json(document))

        try:
            if command == Command.STAT:
                done(self._context.stat(), "")
            elif command == Command.LIST_CLIENTS:
                done(self._clients(_parse(payload, _Which, command)), "")
            elif command == Command.SKIP_ROW:
                self._skip(_parse(payload, _OfClient, command).client, done)
            elif command == Command.EXPLAIN:
                done(self._explain(_parse(payload, _Table, command)), "")
            elif command == Command.RELOAD:
                self._reload(done)
            elif command in _SUPERVISED:
                self._context.supervisor(_SUPERVISED[command])
                done({}, "")
            else:
                self._ask_broker(_request(self._broker.next_id(), command, payload), done)
        except (MalformedPayload, _Refused, RelayError) as error:
            done({}, str(error))
        except OSError as error:
            done({}, f"the supervisor does not answer: {error.strerror}")

    def _audit(self, peer: Peer, command: Command, payload: bytes, error: str) -> None:
        """One line a command, with its outcome. Stat leaves none: it changes nothing, and is asked every second."""
        if command == Command.STAT:
            return
        arguments = payload[:_LOGGED_ARGUMENTS].decode("utf-8", "replace")
        outcome = error or "done"
        self._log(
            "admin", command=_name(command), peer=peer.address, arguments=arguments, client=peer.name, outcome=outcome
        )

    def _clients(self, which: _Which) -> dict[str, Any]:
        clients: Any = self._context.stat()["clients"]
        found = [client for client in clients if which.client in ("", client["name"])]
        if not which.client:
            return {"clients": found}
        if not found:
            raise _Refused(f"no client is called {which.client!r}")
        context = self._context
        last = deliveries(context.arena, context.journal_dir, found[0]["id"]) or []
        return {"clients": found, "deliveries": msgspec.to_builtins(last)}

    def _skip(self, client: str, done: _Done) -> None:
        """Leave out the row that the client is handed out next. The broker gets its number: asked twice is once."""
        arena = self._context.arena
        facts = next((each for each in map(arena.client_stats, arena.client_slots()) if each["name"] == client), None)
        if facts is None:
            raise _Refused(f"no client is called {client!r}")
        if facts["in_flight"] + facts["waiting"]:
            self._ask_broker(messages.Skip(self._broker.next_id(), client, facts["next"]), done)
        else:
            done({"sequence": 0}, "")

    def _explain(self, asked: _Table) -> dict[str, Any]:
        document = msgspec.convert(self._context.stat(), Stat)
        found: dict[str, Any] = msgspec.to_builtins(explain(self._context.config, document, asked.schema, asked.table))
        return found

    def _reload(self, done: _Done) -> None:
        request = f"{os.getpid()}-{next(self._reload_numbers)}"
        self._context.supervisor(f"reload {request}")
        self._reloads[request] = (self._desk.now + _RELOAD_SECONDS, done)

    def _ask_broker(self, request: messages.Request, done: _Done) -> None:
        def replied(reply: Reply) -> None:
            done((reply.data if isinstance(reply, Done) else None) or {}, reply.error)

        self._broker.ask(request, self._desk.now, replied)


def _request(number: int, command: Command, payload: bytes) -> messages.Request:
    """What the broker is asked for a command that concerns a client; raises `MalformedPayload`."""
    wanted = _parse(payload, _OfClient, command)
    if command == Command.FLUSH_CLIENT:
        return messages.Flush(number, wanted.client)
    if command == Command.FORGET_CLIENT:
        return messages.Forget(number, wanted.client)
    if command == Command.KICK_CLIENT:
        return messages.Disconnect(number, wanted.client)
    if not wanted.position:
        raise MalformedPayload(f'{command.name}: "position" is missing (newest, oldest, FILE:POS, a journal position)')
    return messages.Seek(number, wanted.client, wanted.position)


def _parse(payload: bytes, form: type[T], command: Command) -> T:
    try:
        return msgspec.json.decode(payload or b"{}", type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedPayload(f"{command.name}: {error}") from None


def _name(command: Command) -> str:
    return command.name.lower()


def _json(document: dict[str, Any]) -> bytes:
    return classic.encode_reply(Result.OK, msgspec.json.encode(document))
