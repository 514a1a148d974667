"""Events that hide rows or stand for a loss: what each is, and what a person can do about it."""

from __future__ import annotations

from typing import Final, NamedTuple

from relay._native import EVENT_NAMES, Attention
from relay.errors import RelayError, StopCode

INCIDENT: Final = 26
PARTIAL_UPDATE_ROWS: Final = 39
_SKIPS: Final = "`OnUnknown = skip` in [Relay] goes on without it and counts it"
_WHOLE: Final = "set binlog_row_image = FULL, or binlog_row_value_options = '', on the source; " + _SKIPS
_NEWER: Final = "a newer relay may know it; " + _SKIPS
_LOST: Final = (
    "the source's error log tells why; compare what clients have with the source's tables afterwards; " + _SKIPS
)


class Refusal(NamedTuple):
    """A stop's code, its cause, and its hint."""

    code: StopCode
    cause: str
    hint: str


_LOADED: Final = Refusal(
    StopCode.STATEMENT_FORMAT,
    "LOAD DATA stands in the binlog as a statement and a file, not as rows",
    "set binlog_format = ROW on the source, for every session; " + _SKIPS,
)
_EARLY: Final = Refusal(
    StopCode.UNKNOWN_EVENT,
    "it was written before MySQL 5.1.18, in a format that is not read",
    "let the source write a binlog of its own and begin with that; " + _SKIPS,
)
_IN_PIECES: Final = Refusal(
    StopCode.UNKNOWN_EVENT,
    "it is a piece of a rows event that MariaDB split for its size, and pieces are not put together",
    "raise binlog_row_event_fragment_threshold on the source above the size of its rows events; " + _SKIPS,
)
_EVENTS: Final[dict[int, Refusal]] = {
    **dict.fromkeys((6, 8, 9, 10, 11, 12, 17, 18), _LOADED),
    **dict.fromkeys((1, 7, 20, 21, 22), _EARLY),
    172: _IN_PIECES,
}


def refusal(attention: Attention) -> RelayError:
    """The named stop for an "unknown" attention."""
    name = EVENT_NAMES.get(attention.type, f"event type {attention.type}")
    if attention.type == PARTIAL_UPDATE_ROWS:
        found = Refusal(StopCode.PARTIAL_IMAGE, f"{name}: {attention.message}", _WHOLE)
    elif attention.message:  # of a statement, which the ingest names itself
        found = Refusal(StopCode.UNKNOWN_EVENT, f"{attention.message} cannot be followed", _SKIPS)
    elif attention.type == INCIDENT:
        found = _incident(name, attention.body)
    elif attention.type in _EVENTS:
        code, cause, hint = _EVENTS[attention.type]
        found = Refusal(code, f"{name}: {cause}", hint)
    else:
        found = Refusal(StopCode.UNKNOWN_EVENT, f"{name} is not known here and could hide rows", _NEWER)
    place = f"{attention.file}:{attention.start}"
    return RelayError(found.code, "read the binlog", found.cause, position=place, hint=found.hint)


def _incident(name: str, body: bytes) -> Refusal:
    """A number (u16; 1: lost events), then the server's words behind their length (u8)."""
    words = body[3 : 3 + body[2]].decode("utf-8", "replace") if len(body) > 2 else ""
    cause = f"{name}: the source says that its binlog lacks changes here" + (f": {words}" if words else "")
    return Refusal(StopCode.UNKNOWN_EVENT, cause, _LOST)
