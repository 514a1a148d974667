"""Answers to the requests that a native session does not answer itself: all but polls, and the first for columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from relay import messages
from relay.config import Config
from relay.context import ServerContext
from relay.errors import RelayError
from relay.messages import Done, Filters, Registered, Reply
from relay.serving import arrow
from relay.serving.access import Access
from relay.serving.administration import Administration
from relay.serving.brake import Brake
from relay.serving.broker_link import BrokerLink
from relay.serving.desk import Desk
from relay.serving.peer import Peer
from relay.serving.refusals import Refusals
from relay.wire import classic
from relay.wire.classic import Auth, FilterName, Identity, MalformedPayload, Result, TableFilter
from relay.wire.states import NEEDS_TOKEN, Action, State, action

_OK: Final = classic.encode_reply(Result.OK)
_PONG: Final = classic.encode_reply(Result.OK, b"PONG\0")
_DISCONNECTED: Final = classic.encode_reply(Result.DISCONNECTED)
_STRANGER: Final = classic.encode_error("not authenticated: send Auth first")
_WRONG_TOKEN: Final = classic.encode_error("wrong ClientID or ClientToken")


class Answers:
    """Decides what a held request is answered. What the broker has to do is answered when it has."""

    def __init__(
        self, context: ServerContext, broker: BrokerLink, desk: Desk, access: Access, refusals: Refusals
    ) -> None:
        self._log = refusals
        self._broker = broker
        self._desk = desk
        self._access = access
        self._brake = Brake(context.config.server.auth_attempts, refusals)
        self._administration = Administration(context, broker, desk, access, refusals)
        self._handlers: dict[Action, Callable[[Peer, bytes], None]] = {
            Action.PONG: lambda peer, _: desk.answer(peer, _PONG),
            Action.AUTHENTICATE: self._authenticate,
            Action.ADD_FILTER: self._add_filter,
            Action.REMOVE_FILTER: self._remove_filter,
            Action.LIST_FILTERS: self._list_filters,
            Action.POLL_MANY: self._load_arrow,
            Action.ADMINISTRATE: self._administration.handle,
            Action.REFUSE_STRANGER: lambda peer, _: desk.answer(peer, _STRANGER),
            Action.REFUSE_UNKNOWN: self._refuse_unknown,
            Action.DISCONNECT: lambda peer, _: desk.refuse(peer, _DISCONNECTED),
        }

    def apply(self, config: Config) -> None:
        """Guessing is slowed down from now on as this configuration says."""
        self._brake.allowed = config.server.auth_attempts
        self._administration.apply(config)

    def tick(self) -> None:
        """To be called about once a second."""
        self._brake.tick(self._desk.now)
        self._administration.tick()

    def handle(self, peer: Peer) -> None:
        """Answer the request that the peer's session holds, now or when the broker has replied."""
        session = peer.session
        command = session.command
        if peer.state is State.IDENTIFIED and command in NEEDS_TOKEN and not session.authorised:
            self._desk.answer(peer, _WRONG_TOKEN)
            return
        try:
            self._handlers[action(peer.state, command)](peer, session.payload)
        except MalformedPayload as error:
            self._desk.answer(peer, classic.encode_error(str(error)))

    def _refuse_unknown(self, peer: Peer, _: bytes) -> None:
        self._desk.answer(peer, classic.encode_error(f"unknown command {peer.session.command}"))

    def _authenticate(self, peer: Peer, payload: bytes) -> None:
        auth = classic.parse_auth(payload)

        def refuse() -> None:
            if self._desk.is_open(peer):
                self._refuse("auth_failed", peer, auth)

        self._brake.attempt(peer.address, auth.name, self._desk.now, lambda: self._check(peer, auth), refuse)

    def _check(self, peer: Peer, auth: Auth) -> bool | None:
        """Let the peer in, or refuse it; whether it may come in, None if it is gone."""
        if not self._desk.is_open(peer):
            return None
        right = self._access.may_log_in(auth.name, auth.key)
        misplaced = self._access.misplaced(auth.name, peer.address)
        if misplaced:  # the same answer: whoever guesses elsewhere is not told when it was right
            self._refuse("address_refused", peer, auth, rule=misplaced)
            return False
        if not right:
            self._refuse("auth_failed", peer, auth)
            return False

        def registered(reply: Reply) -> None:
            if not self._desk.is_open(peer):
                return
            if not isinstance(reply, Registered) or reply.error:
                self._desk.answer(peer, classic.encode_error(reply.error))
                return
            peer.name, peer.key = auth.name, auth.key
            self._desk.identified(peer, reply.client_id, reply.slot)

        self._broker.ask(messages.Register(self._broker.next_id(), auth.name), self._desk.now, registered)
        return True

    def _refuse(self, event: str, peer: Peer, auth: Auth, **fields: str) -> None:
        self._log(event, client=auth.name, peer=peer.address, **fields)
        payload = classic.encode_identity(Identity(auth.key, 0, 0))
        self._desk.answer(peer, classic.encode_reply(Result.ERROR, payload))

    def _add_filter(self, peer: Peer, payload: bytes) -> None:
        wanted = classic.parse_filter(payload)
        if not self._access.may_ask(peer.name, wanted.schema, wanted.table):
            self._log("filter_denied", client=peer.name, schema=wanted.schema, table=wanted.table)
            text = f"client {peer.name} may not have rows of {wanted.schema}.{wanted.table} (Tables in its section)"
            self._desk.answer(peer, classic.encode_error(text))
            return
        request = messages.AddFilter(
            self._broker.next_id(),
            peer.client_id,
            wanted.schema,
            wanted.table,
            wanted.kinds,
            wanted.discard,
            wanted.limit,
        )
        self._ask(peer, request, lambda _: _OK)

    def _remove_filter(self, peer: Peer, payload: bytes) -> None:
        name: FilterName = classic.parse_filter_name(payload)
        request = messages.RemoveFilter(self._broker.next_id(), peer.client_id, name.schema, name.table, name.kinds)

        def removed(reply: Reply) -> bytes:
            data = reply.data if isinstance(reply, Done) else None
            return classic.encode_reply(Result.OK, classic.encode_count(int((data or {}).get("removed", 0))))

        self._ask(peer, request, removed)

    def _list_filters(self, peer: Peer, _: bytes) -> None:
        def listed(reply: Reply) -> bytes:
            filters = reply.filters if isinstance(reply, Filters) else ()
            payload = classic.encode_filters(
                TableFilter(each.kinds, each.discard, each.limit, each.schema, each.table) for each in filters
            )
            return classic.encode_reply(Result.OK, payload)

        self._ask(peer, messages.ListFilters(self._broker.next_id(), peer.client_id), listed)

    def _load_arrow(self, peer: Peer, _: bytes) -> None:
        """Make ready for PollMany in format 2, the one kind of poll that is held, until then."""
        try:
            arrow.load()
        except RelayError as error:
            self._desk.answer(peer, classic.encode_error(str(error)))
            return
        self._desk.serve_columns(peer)

    def _ask(self, peer: Peer, request: messages.Request, reply_for: Callable[[Reply], bytes]) -> None:
        """Have the broker do it, and answer the peer with what `reply_for` makes of its reply, or with its error."""

        def replied(reply: Reply) -> None:
            if self._desk.is_open(peer):
                self._desk.answer(peer, classic.encode_error(reply.error) if reply.error else reply_for(reply))

        try:
            self._broker.ask(request, self._desk.now, replied)
        except RelayError as error:
            self._desk.answer(peer, classic.encode_error(str(error)))
