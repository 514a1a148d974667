"""A connection of the CDC protocol (docs/cdc.md), without I/O: bytes in, actions out.

Whoever owns the socket calls `Session.feed` with what arrives, `gap` when nothing has for `patience` seconds (of
credentials: when they are not whole after that time, since somebody may send them for ever), and `eof` at the end;
performs the actions that come back, in order; and answers those that ask, at once or later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.wire import cdcwords as words
from relay.wire.cdcframing import Framer, Said
from relay.wire.cdcstates import CLOSING, REPLIES, TRANSITIONS, Message, Outcome, State
from relay.wire.cdcwords import Form, Gtid, Request

COMMAND_GAP: Final = 0.06
"""Seconds of silence that end a command without a line end."""

LOGIN_PATIENCE: Final = 5.0
"""Seconds in which credentials have to come; and of silence after which a REGISTER that is not whole is none."""

MAX_HELD: Final = 65536
"""Bytes that a client may send ahead while an answer to it is being looked for."""


class Send(NamedTuple):
    """Send these bytes in one write; while rows are streamed, behind a whole row or block."""

    data: bytes


class Check(NamedTuple):
    """Answer with `Session.checked`: is this the SHA-1 of that user's password?"""

    user: str
    digest: bytes


class Last(NamedTuple):
    """Answer with `Session.told`: which transaction is the last?"""


class Transaction(NamedTuple):
    """Answer with `Session.told`: what is known of this transaction? `gtid` is None where `asked` is no triplet."""

    asked: str
    gtid: Gtid | None


class Close(NamedTuple):
    """Close the connection behind what was sent; with `reset` by a RST, as some clients need it to see the end."""

    reset: bool = False


Action = Send | Check | Request | Last | Transaction | Close
"""What a session asks for. A `Request` is answered with `Session.found`, `missing` or `refused`."""


class Session:
    """What one client has said so far, and what is to come of it.

    `user`, `uuid` and `form` are what it said of itself. After `Check`, `Request`, `Last` or `Transaction` nothing more
    comes before the answer. `wanted` is the request whose table was missing, as long as the client waits for it: once
    it is there, `found` begins the stream.
    """

    def __init__(self, command_gap: float = COMMAND_GAP) -> None:
        self.state = State.WAIT_AUTH
        self.user = ""
        self.uuid = ""
        self.form = Form.JSON
        self.wanted: Request | None = None
        self._command_gap = command_gap
        self._framer = Framer()
        self._asked: Action | None = None  # its answer is waited for
        self._ended = False  # the client sends nothing more

    @property
    def patience(self) -> float | None:
        """Seconds without bytes after which to call `gap`; None if nothing would come of it."""
        if self._asked is not None or self.state is State.CLOSED:
            return None
        if self.state is State.WAIT_AUTH or (self.state is State.UNREGISTERED and self._framer.may_register):
            return LOGIN_PATIENCE
        return self._command_gap if self._framer.begun else None

    def feed(self, data: bytes) -> list[Action]:
        """Bytes have arrived."""
        if self.state is State.CLOSED:
            return []
        self._framer.feed(data)
        if self._asked is not None and len(self._framer) > MAX_HELD:
            return self._close(reset=True)
        return self._advance()

    def gap(self) -> list[Action]:
        """No bytes have arrived for `patience` seconds."""
        return self._advance(ended=True)

    def eof(self) -> list[Action]:
        """The client will send nothing more; it is closed behind the answer to what it said last."""
        self._ended = True
        return self._advance()

    def checked(self, right: bool) -> list[Action]:
        """Answer to `Check`."""
        if not isinstance(self._asked, Check):
            return []
        self._asked = None
        if not right:
            return self._perform(Said(Message.OTHER))
        self.state = State.UNREGISTERED
        return [Send(words.OK), *self._advance()]

    def found(self) -> list[Action]:
        """Answer to `Request`, also a late one: what is `wanted` is there, and its stream begins behind these actions.

        It does unless the client is gone or wants nothing any more; then the state is not `STREAMING`.
        """
        if not self.wanted:
            return []
        self.state = State.STREAMING
        return self._settle()

    def missing(self) -> list[Action]:
        """Answer to `Request`: there is no such table or version yet."""
        if not isinstance(self._asked, Request):
            return []
        reply = words.no_file(self._asked.file)
        self._asked = None
        return [Send(reply), *self._advance()]

    def refused(self, cause: str) -> list[Action]:
        """Answer to `Request`, also a late one: it cannot be met, and why."""
        return [Send(words.refusal(cause)), *self._settle()] if self.wanted else []

    def told(self, reply: bytes) -> list[Action]:
        """Answer to `Last` and `Transaction`: the whole reply."""
        if not isinstance(self._asked, Last | Transaction):
            return []
        self._asked = None
        return [Send(reply), *self._advance()]

    def failed(self, cause: str) -> list[Action]:
        """The stream cannot go on."""
        if self.state is State.CLOSED:
            return []
        return [Send(words.fatal(cause)), *self._close(reset=True)]

    def _settle(self) -> list[Action]:
        """Nothing is wanted any more."""
        self.wanted = None
        if isinstance(self._asked, Request):
            self._asked = None
        return self._advance()

    def _close(self, *, reset: bool = False) -> list[Action]:
        self.state = State.CLOSED
        self.wanted = None
        self._asked = None
        self._framer.clear()
        return [Close(reset)]

    def _advance(self, *, ended: bool = False) -> list[Action]:
        """Perform what has been said as far as it is whole; with `ended`, all of it is."""
        actions: list[Action] = []
        while self._asked is None and self.state is not State.CLOSED:
            said = self._next(ended or self._ended)
            if said:
                actions += self._perform(said)
            elif self._ended:
                actions += self._close()
            else:
                break
        return actions

    def _next(self, ended: bool) -> Said | None:
        if self.state is State.WAIT_AUTH:
            return self._framer.credentials(ended)
        if self.state is State.UNREGISTERED:
            return self._framer.registration() or self._framer.command(ended)
        return self._framer.command(ended)

    def _perform(self, said: Said) -> list[Action]:
        outcome = TRANSITIONS[self.state][said.message]
        match outcome:
            case Outcome.CHECK:
                assert said.credentials
                self.user = said.credentials.user
                return self._ask(Check(self.user, said.credentials.digest))
            case Outcome.REGISTER:
                assert said.registration
                self.uuid, self.form = said.registration
                self.state = State.REGISTERED
                return [Send(words.OK)]
            case Outcome.FIND:
                return self._find(said.arguments)
            case Outcome.TELL_LAST:
                return self._ask(Last())
            case Outcome.TELL:
                asked = said.arguments.decode("utf-8", "replace")
                return self._ask(Transaction(asked, words.parse_gtid(said.arguments)))
            case Outcome.CLOSE:
                return self._close()
        return [Send(REPLIES[outcome]), *(self._close() if outcome in CLOSING else ())]

    def _find(self, arguments: bytes) -> list[Action]:
        file, self.wanted = words.parse_request(arguments)
        return self._ask(self.wanted) if self.wanted else [Send(words.no_file(file))]

    def _ask(self, action: Action) -> list[Action]:
        self._asked = action
        return [action]
