"""The fatal errors for events that the relay cannot read: cause, and what a person can do."""

from __future__ import annotations

from typing import Final, NamedTuple

from relay._native import Attention
from relay.base.errors import RelayError, StopCode
from relay.base.event_names import EVENT_NAMES

INCIDENT: Final = 26
EXECUTE_LOAD_QUERY: Final = 18
PARTIAL_UPDATE_ROWS: Final = 39
LOAD_PIECES: Final = frozenset({9, 11, 17})
"""Events with the file of LOAD DATA. They change no rows: EXECUTE_LOAD_QUERY, which follows, does."""
SHOWN_BYTES: Final = 1024
"""The most bytes of the body of an "unknown" attention."""
_SKIPS: Final = "`OnUnknown = skip` in [Relay] skips and counts it"
_WHOLE: Final = "set binlog_row_image = FULL, or binlog_row_value_options = '', on the source; " + _SKIPS
_NEWER: Final = "a newer relay may support it; " + _SKIPS
_LOST: Final = "see the source's error log; then compare the data of clients with the source's tables; " + _SKIPS


class _Fatal(NamedTuple):
    """A fatal error: its code, cause and hint."""

    code: StopCode
    cause: str
    hint: str


_LOADED: Final = _Fatal(
    StopCode.STATEMENT_FORMAT,
    "the binlog has LOAD DATA as a statement and a file, not as rows",
    "set binlog_format = ROW on the source, for every session; " + _SKIPS,
)
_EARLY: Final = _Fatal(
    StopCode.UNKNOWN_EVENT,
    "it has a format from before MySQL 5.1.18 that the relay does not read",
    "let the source write its own binlog and start there; " + _SKIPS,
)
_IN_PIECES: Final = _Fatal(
    StopCode.UNKNOWN_EVENT,
    "it is a part of a rows event that MariaDB split; the relay does not join such parts",
    "raise binlog_row_event_fragment_threshold on the source above the size of its rows events; " + _SKIPS,
)
_EVENTS: Final[dict[int, _Fatal]] = {
    **dict.fromkeys((6, 8, 10, 12, EXECUTE_LOAD_QUERY), _LOADED),
    **dict.fromkeys((1, 7, 20, 21, 22), _EARLY),
    172: _IN_PIECES,
}


def fatal_error(attention: Attention) -> RelayError:
    """Return the fatal error for an "unknown" attention."""
    name = EVENT_NAMES.get(attention.type, f"event type {attention.type}")
    if attention.type == PARTIAL_UPDATE_ROWS:
        found = _Fatal(StopCode.PARTIAL_IMAGE, f"{name}: {attention.message}", _WHOLE)
    elif attention.message:  # the ingest has described a statement
        found = _Fatal(StopCode.UNKNOWN_EVENT, f"the relay cannot follow {attention.message}", _SKIPS)
    elif attention.type == INCIDENT:
        found = _incident(name, attention.body)
    elif attention.type in _EVENTS:
        code, cause, hint = _EVENTS[attention.type]
        found = _Fatal(code, f"{name}: {cause}", hint)
    else:
        found = _Fatal(StopCode.UNKNOWN_EVENT, f"{name} is unknown and could contain rows", _NEWER)
    position = f"{attention.file}:{attention.start}"
    return RelayError(found.code, "read the binlog", found.cause, position=position, hint=found.hint)


def _incident(name: str, body: bytes) -> _Fatal:
    """Describe an INCIDENT event.

    Its body is a number (u16; 1: lost events), the length of a text (u8), and the text.
    """
    text = body[3 : 3 + body[2]].decode("utf-8", "replace") if len(body) > 2 else ""
    cause = f"{name}: the source reports that its binlog lacks changes here" + (f": {text}" if text else "")
    return _Fatal(StopCode.UNKNOWN_EVENT, cause, _LOST)
