"""A connection of the CDC protocol (docs/cdc.md), without I/O: bytes in, actions out.

The owner of the socket calls `Session.feed` with received bytes, `gap` when none have come for `patience` seconds, and
`eof` at the end. For credentials it calls `gap` when they are incomplete after `patience` seconds, even if bytes still
come. It performs the returned actions in order. It answers those that need an answer, at once or later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.protocol import cdc_messages as words
from relay.protocol.cdc_framing import Framer, Parsed
from relay.protocol.cdc_messages import Form, Gtid, Request
from relay.protocol.cdc_states import CLOSING, REPLIES, TRANSITIONS, Message, Outcome, State

COMMAND_GAP: Final = 0.06
"""The seconds of silence that end a command without a line end."""

LOGIN_PATIENCE: Final = 5.0
"""The seconds in which credentials must come.

Also the silence after which an incomplete REGISTER is an unknown command.
"""

MAX_PENDING: Final = 65536
"""The bytes that a client may send ahead while an answer to it is pending."""


class Send(NamedTuple):
    """Send these bytes in one write; while rows are streamed, behind a whole row or block."""

    data: bytes


class Check(NamedTuple):
    """Answer with `Session.checked` whether this is the SHA-1 of that user's password."""

    user: str
    digest: bytes


class Last(NamedTuple):
    """Answer with `Session.answered` which transaction is the last."""


class Transaction(NamedTuple):
    """Answer with `Session.answered` what is known of this transaction. `gtid` is None if `text` is no triplet."""

    text: str
    gtid: Gtid | None


class Close(NamedTuple):
    """Close the connection behind the sent bytes. `reset` sends a RST, which some clients need to notice the end."""

    reset: bool = False


Action = Send | Check | Request | Last | Transaction | Close
"""The actions of a session. A `Request` is answered with `Session.found`, `missing` or `refused`."""


class Session:
    """The state of one client's session.

    The client states `user`, `uuid` and `form`. After `Check`, `Request`, `Last` or `Transaction` no action follows
    before the answer. `wanted` is the request that has no stream yet. If its table is missing, the client waits: once
    the table exists, `found` begins the stream.
    """

    def __init__(self, command_gap: float = COMMAND_GAP) -> None:
        self.state = State.WAIT_AUTH
        self.user = ""
        self.uuid = ""
        self.form = Form.JSON
        self.wanted: Request | None = None
        self._command_gap = command_gap
        self._framer = Framer()
        self._pending: Action | None = None  # the action whose answer is pending
        self._ended = False  # the client sends nothing more

    @property
    def patience(self) -> float | None:
        """The seconds of silence after which to call `gap`; None if that would have no effect."""
        if self._pending is not None or self.state is State.CLOSED:
            return None
        if self.state is State.WAIT_AUTH or (self.state is State.UNREGISTERED and self._framer.may_register):
            return LOGIN_PATIENCE
        return self._command_gap if self._framer.begun else None

    def feed(self, data: bytes) -> list[Action]:
        """Process received bytes."""
        if self.state is State.CLOSED:
            return []
        self._framer.feed(data)
        if self._pending is not None and len(self._framer) > MAX_PENDING:
            return self._close(reset=True)
        return self._advance()

    def gap(self) -> list[Action]:
        """Process a silence of `patience` seconds."""
        return self._advance(ended=True)

    def eof(self) -> list[Action]:
        """Process the end of the client's data; the connection is closed behind the answer to its last message."""
        self._ended = True
        return self._advance()

    def checked(self, right: bool) -> list[Action]:
        """Process the answer to `Check`."""
        if not isinstance(self._pending, Check):
            return []
        self._pending = None
        if not right:
            return self._perform(Parsed(Message.OTHER))
        self.state = State.UNREGISTERED
        return [Send(words.OK), *self._advance()]

    def found(self) -> list[Action]:
        """Process the answer to `Request`, at once or later: the table exists. Its stream begins behind these actions.

        If the client is gone or has no request any more, no stream begins, and the state is not `STREAMING`.
        """
        if not self.wanted:
            return []
        self.state = State.STREAMING
        return self._settle()

    def missing(self) -> list[Action]:
        """Process the answer to `Request`: the table or version does not exist yet."""
        if not isinstance(self._pending, Request):
            return []
        reply = words.no_file(self._pending.file)
        self._pending = None
        return [Send(reply), *self._advance()]

    def refused(self, cause: str) -> list[Action]:
        """Process the answer to `Request`, at once or later: it is refused, with the cause."""
        return [Send(words.refusal(cause)), *self._settle()] if self.wanted else []

    def answered(self, reply: bytes) -> list[Action]:
        """Process the answer to `Last` and `Transaction`: the whole reply."""
        if not isinstance(self._pending, Last | Transaction):
            return []
        self._pending = None
        return [Send(reply), *self._advance()]

    def failed(self, cause: str) -> list[Action]:
        """End the session: the stream cannot continue."""
        if self.state is State.CLOSED:
            return []
        return [Send(words.fatal(cause)), *self._close(reset=True)]

    def _settle(self) -> list[Action]:
        """Clear the request."""
        self.wanted = None
        if isinstance(self._pending, Request):
            self._pending = None
        return self._advance()

    def _close(self, *, reset: bool = False) -> list[Action]:
        self.state = State.CLOSED
        self.wanted = None
        self._pending = None
        self._framer.clear()
        return [Close(reset)]

    def _advance(self, *, ended: bool = False) -> list[Action]:
        """Perform the complete messages; with `ended`, all of them are complete."""
        actions: list[Action] = []
        while self._pending is None and self.state is not State.CLOSED:
            parsed = self._next(ended or self._ended)
            if parsed:
                actions += self._perform(parsed)
            elif self._ended:
                actions += self._close()
            else:
                break
        return actions

    def _next(self, ended: bool) -> Parsed | None:
        if self.state is State.WAIT_AUTH:
            return self._framer.credentials(ended)
        if self.state is State.UNREGISTERED:
            return self._framer.registration() or self._framer.command(ended)
        return self._framer.command(ended)

    def _perform(self, parsed: Parsed) -> list[Action]:
        outcome = TRANSITIONS[self.state][parsed.message]
        match outcome:
            case Outcome.CHECK:
                assert parsed.credentials
                self.user = parsed.credentials.user
                return self._ask(Check(self.user, parsed.credentials.digest))
            case Outcome.REGISTER:
                assert parsed.registration
                self.uuid, self.form = parsed.registration
                self.state = State.REGISTERED
                return [Send(words.OK)]
            case Outcome.FIND:
                return self._find(parsed.arguments)
            case Outcome.FIND_LAST:
                return self._ask(Last())
            case Outcome.FIND_TRANSACTION:
                text = parsed.arguments.decode("utf-8", "replace")
                return self._ask(Transaction(text, words.parse_gtid(parsed.arguments)))
            case Outcome.CLOSE:
                return self._close()
        return [Send(REPLIES[outcome]), *(self._close() if outcome in CLOSING else ())]

    def _find(self, arguments: bytes) -> list[Action]:
        file, self.wanted = words.parse_request(arguments)
        return self._ask(self.wanted) if self.wanted else [Send(words.no_file(file))]

    def _ask(self, action: Action) -> list[Action]:
        self._pending = action
        return [action]
