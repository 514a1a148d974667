"""The states of a CDC connection: what each message does in each of them. docs/cdc.md shows the same tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from relay.wire import cdcwords as words


class State(StrEnum):
    """Where a connection stands between two messages."""

    WAIT_AUTH = "WAIT_AUTH"
    UNREGISTERED = "UNREGISTERED"
    REGISTERED = "REGISTERED"
    STREAMING = "STREAMING"
    CLOSED = "CLOSED"


class Message(StrEnum):
    """What a client may say."""

    CREDENTIALS = "credentials"
    REGISTER = "`REGISTER UUID=ID, TYPE=JSON` or `AVRO`"
    REQUEST = "`REQUEST-DATA` with a name"
    REQUEST_NOTHING = "`REQUEST-DATA` and at most one byte"
    REQUEST_BLANKS = "`REQUEST-DATA` and blanks"
    LAST = "`QUERY-LAST-TRANSACTION`"
    TRANSACTION = "`QUERY-TRANSACTION GTID`"
    CLOSE = "`CLOSE` or its beginning, no line end"
    CLOSE_LINE = "`CLOSE` and a line end"
    OTHER = "anything else"


class Outcome(StrEnum):
    """What comes of a message; `DOCUMENTATION` has the words."""

    CHECK = "check"
    DENY = "deny"
    REGISTER = "register"
    REFUSE_STRANGER = "refuse: not registered"
    FIND = "find"
    REFUSE_NOTHING = "refuse: no data"
    REFUSE_BLANKS = "refuse: no name"
    REFUSE_SECOND = "refuse: streaming"
    TELL_LAST = "tell the last"
    TELL = "tell"
    REFUSE_UNKNOWN = "refuse: unknown"
    CLOSE = "close"


REPLIES: Final[Mapping[Outcome, bytes]] = MappingProxyType(
    {
        Outcome.DENY: words.AUTHENTICATION_FAILED,
        Outcome.REFUSE_STRANGER: words.REGISTRATION_FAILED,
        Outcome.REFUSE_NOTHING: words.NO_DATA,
        Outcome.REFUSE_BLANKS: words.NO_NAME,
        Outcome.REFUSE_SECOND: words.STREAMING_ALREADY,
        Outcome.REFUSE_UNKNOWN: words.UNKNOWN_COMMAND,
    }
)
"""What the outcomes answer that always answer the same."""

CLOSING: Final = frozenset({Outcome.DENY, Outcome.REFUSE_STRANGER})
"""Of these, those after which the connection is closed."""


def _shown(reply: bytes) -> str:
    return "`" + reply.decode().replace("\n", "\\n") + "`"


def _answer(outcome: Outcome) -> str:
    return _shown(REPLIES[outcome]) + (", and the connection is closed" if outcome in CLOSING else "")


DOCUMENTATION: Final[Mapping[Outcome, str]] = MappingProxyType(
    {outcome: _answer(outcome) for outcome in REPLIES}
    | {
        Outcome.CHECK: f"{_shown(words.OK)}, then UNREGISTERED; or as `{Outcome.DENY}`",
        Outcome.REGISTER: f"{_shown(words.OK)}, then REGISTERED",
        Outcome.FIND: f"the stream, then STREAMING; or {_shown(words.no_file('db.table.000001.avro'))}, and the stream"
        " as soon as there is such a table; or `ERR` and the reason",
        Outcome.TELL_LAST: f"such as {_shown(words.encode_transaction('0-3000-11', 2, 1462290084, ['db.table']))}",
        Outcome.TELL: f"the same; where it is not known {_shown(words.encode_transaction('0-3000-12', 0, 0, []))}",
        Outcome.CLOSE: "no answer, and the connection is closed",
    }
)

_REGISTERED: Final = {
    Message.REQUEST: Outcome.FIND,
    Message.REQUEST_NOTHING: Outcome.REFUSE_NOTHING,
    Message.REQUEST_BLANKS: Outcome.REFUSE_BLANKS,
    Message.LAST: Outcome.TELL_LAST,
    Message.TRANSACTION: Outcome.TELL,
    Message.CLOSE: Outcome.CLOSE,
    Message.CLOSE_LINE: Outcome.CLOSE,
}

TRANSITIONS: Final[Mapping[State, Mapping[Message, Outcome]]] = MappingProxyType(
    {
        State.WAIT_AUTH: dict.fromkeys(Message, Outcome.DENY) | {Message.CREDENTIALS: Outcome.CHECK},
        State.UNREGISTERED: dict.fromkeys(Message, Outcome.REFUSE_STRANGER)
        | {Message.REGISTER: Outcome.REGISTER, Message.CLOSE: Outcome.CLOSE},
        State.REGISTERED: dict.fromkeys(Message, Outcome.REFUSE_UNKNOWN) | _REGISTERED,
        State.STREAMING: dict.fromkeys(Message, Outcome.REFUSE_UNKNOWN)
        | _REGISTERED
        | {Message.REQUEST: Outcome.REFUSE_SECOND},
    }
)
"""What a message does in a state; in `State.CLOSED` nothing is heard."""


def table() -> str:
    """What a message does in a state, and what each of these answers, as two Markdown tables."""
    lines = ["| message | " + " | ".join(TRANSITIONS) + " |", "|---" * (len(TRANSITIONS) + 1) + "|"]
    for message in Message:
        cells = " | ".join(outcomes[message] for outcomes in TRANSITIONS.values())
        lines.append(f"| {message} | {cells} |")
    lines += ["", "| outcome | answer |", "|---|---|"]
    lines += [f"| {each} | {DOCUMENTATION[each]} |" for each in Outcome]
    return "\n".join(lines) + "\n"
