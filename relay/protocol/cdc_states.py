"""The states of a CDC connection: the outcome of each message in each of them. docs/cdc.md shows the same tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from relay.protocol import cdc_messages as words


class State(StrEnum):
    """The state of a connection between two messages."""

    WAIT_AUTH = "WAIT_AUTH"
    UNREGISTERED = "UNREGISTERED"
    REGISTERED = "REGISTERED"
    STREAMING = "STREAMING"
    CLOSED = "CLOSED"


class Message(StrEnum):
    """The messages of a client."""

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
    """The outcome of a message; docs/cdc.md has the reply of each."""

    CHECK = "check"
    DENY = "deny"
    REGISTER = "register"
    REFUSE_UNREGISTERED = "refuse: not registered"
    FIND = "find"
    REFUSE_NOTHING = "refuse: no data"
    REFUSE_BLANKS = "refuse: no name"
    REFUSE_SECOND = "refuse: streaming"
    FIND_LAST = "find the last transaction"
    FIND_TRANSACTION = "find the transaction"
    REFUSE_UNKNOWN = "refuse: unknown"
    CLOSE = "close"


REPLIES: Final[Mapping[Outcome, bytes]] = MappingProxyType(
    {
        Outcome.DENY: words.AUTHENTICATION_FAILED,
        Outcome.REFUSE_UNREGISTERED: words.REGISTRATION_FAILED,
        Outcome.REFUSE_NOTHING: words.NO_DATA,
        Outcome.REFUSE_BLANKS: words.NO_NAME,
        Outcome.REFUSE_SECOND: words.STREAMING_ALREADY,
        Outcome.REFUSE_UNKNOWN: words.UNKNOWN_COMMAND,
    }
)
"""The replies of the outcomes that always have the same reply."""

CLOSING: Final = frozenset({Outcome.DENY, Outcome.REFUSE_UNREGISTERED})
"""Those of them after which the connection is closed."""


_REGISTERED: Final = {
    Message.REQUEST: Outcome.FIND,
    Message.REQUEST_NOTHING: Outcome.REFUSE_NOTHING,
    Message.REQUEST_BLANKS: Outcome.REFUSE_BLANKS,
    Message.LAST: Outcome.FIND_LAST,
    Message.TRANSACTION: Outcome.FIND_TRANSACTION,
    Message.CLOSE: Outcome.CLOSE,
    Message.CLOSE_LINE: Outcome.CLOSE,
}

TRANSITIONS: Final[Mapping[State, Mapping[Message, Outcome]]] = MappingProxyType(
    {
        State.WAIT_AUTH: dict.fromkeys(Message, Outcome.DENY) | {Message.CREDENTIALS: Outcome.CHECK},
        State.UNREGISTERED: dict.fromkeys(Message, Outcome.REFUSE_UNREGISTERED)
        | {Message.REGISTER: Outcome.REGISTER, Message.CLOSE: Outcome.CLOSE},
        State.REGISTERED: dict.fromkeys(Message, Outcome.REFUSE_UNKNOWN) | _REGISTERED,
        State.STREAMING: dict.fromkeys(Message, Outcome.REFUSE_UNKNOWN)
        | _REGISTERED
        | {Message.REQUEST: Outcome.REFUSE_SECOND},
    }
)
"""The outcome of a message in a state; in `State.CLOSED` no message is read."""
