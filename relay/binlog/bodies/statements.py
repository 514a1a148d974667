"""Bodies of events with statements."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from relay._native import Cursor
from relay.binlog.bodies.packed import inflated
from relay.binlog.bodies.state import Reader, State, text_of, utf8
from relay.binlog.events import (
    AnnotateRowsEvent,
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    Event,
    EventType,
    ExecuteLoadQueryEvent,
    GtidExtra,
    Header,
    IntvarEvent,
    QueryCompressedEvent,
    QueryEvent,
    QueryStatus,
    RandEvent,
    RowsQueryEvent,
    UserVarEvent,
)
from relay.schema.queries import Session

_TOO_MANY_NAMES: Final = 254  # instead of the number of updated databases


def _zero_terminated(data: Cursor, count: int) -> str:
    """Return a name of `count` bytes, and the zero byte after it."""
    name = data.take(count)
    data.take(1)
    return utf8(name)


def _names(data: Cursor) -> tuple[str, ...]:
    count = data.integer(1)
    return () if count == _TOO_MANY_NAMES else tuple(utf8(data.terminated()) for _ in range(count))


def _pairs(data: Cursor) -> tuple[tuple[int, int], ...]:
    return tuple((data.integer(2), data.integer(2)) for _ in range(data.integer(1)))


def _flag(data: Cursor) -> bool:
    return data.integer(1) != 0


_VARIABLES: Final[dict[int, tuple[str, Callable[[Cursor], Any]]]] = {
    0: ("flags2", lambda data: data.integer(4)),
    1: ("sql_mode", lambda data: data.integer(8)),
    2: ("catalog", lambda data: _zero_terminated(data, data.integer(1))),
    3: ("auto_increment", lambda data: (data.integer(2), data.integer(2))),
    4: ("charset", lambda data: (data.integer(2), data.integer(2), data.integer(2))),
    5: ("time_zone", lambda data: utf8(data.short_text())),
    6: ("catalog", lambda data: utf8(data.short_text())),
    7: ("lc_time_names", lambda data: data.integer(2)),
    8: ("charset_database", lambda data: data.integer(2)),
    9: ("table_map_for_update", lambda data: data.integer(8)),
    10: ("master_data_written", lambda data: data.integer(4)),
    11: ("invoker", lambda data: (utf8(data.short_text()), utf8(data.short_text()))),
    12: ("updated_db_names", _names),
    13: ("microseconds", lambda data: data.integer(3)),
    16: ("explicit_defaults_for_timestamp", _flag),
    17: ("ddl_xid", lambda data: data.integer(8)),
    18: ("default_collation_for_utf8mb4", lambda data: data.integer(2)),
    19: ("sql_require_primary_key", _flag),
    20: ("default_table_encryption", _flag),
    21: ("enable_cascade_triggers", _flag),
    128: ("microseconds", lambda data: data.integer(3)),
    129: ("ddl_xid", lambda data: data.integer(8)),
    130: ("gtid_flags3", lambda data: data.integer(1)),
    131: ("character_set_collations", _pairs),
}
_GTID_FLAGS3: Final = 130
_SESSION: Final = struct.Struct("<IIBHH")  # thread, seconds, bytes of the database's name, error, bytes of variables
_LOAD_BYTES: Final = 13  # of EXECUTE_LOAD_QUERY: file id, start and end of the file's name, how it handles duplicates


@lru_cache(maxsize=256)
def query_status(variables: bytes) -> QueryStatus:
    """Parse status variables. Those of a session's statements are mostly alike."""
    data = Cursor(variables)
    found: dict[str, Any] = {}
    while data:
        code = data.integer(1)
        if code not in _VARIABLES:
            data.at -= 1
            found["unknown"] = data.rest()
            break
        name, read = _VARIABLES[code]
        found[name] = read(data)
        if code == _GTID_FLAGS3 and found[name] & (GtidExtra.COMMIT_ALTER | GtidExtra.ROLLBACK_ALTER):
            found["start_alter_seq_no"] = data.integer(8)
    return QueryStatus(**found)


class _Session(NamedTuple):
    """The fields before each statement."""

    thread_id: int
    seconds: int
    errornr: int
    database_bytes: int
    status_bytes: int


def _session(body: Cursor) -> _Session:
    thread_id, seconds, database_bytes, errornr, status_bytes = body.fields(_SESSION)
    return _Session(thread_id, seconds, errornr, database_bytes, status_bytes)


def _statement(
    session: _Session, body: Cursor, charset_of: Mapping[int, str], *, compressed: bool = False
) -> tuple[QueryStatus, str, str]:
    """Return the end of a body: the status variables, the default database and the statement."""
    status = query_status(body.take(session.status_bytes))
    database = _zero_terminated(body, session.database_bytes)
    data = inflated(body.rest()) if compressed else body.rest()
    return status, database, text_of(charset_of, status.charset[0] if status.charset else None, data)


def _query(kind: type[QueryEvent], compressed: bool, header: Header, body: Cursor, state: State) -> Event:
    session = _session(body)
    status, database, statement = _statement(session, body, state.charset_of, compressed=compressed)
    return kind(header, session.thread_id, session.seconds, database, session.errornr, status, statement)


def session_and_text(body: bytes, flags: int, charset_of: Mapping[int, str]) -> tuple[Session, str]:
    """Return the context and the statement from the body of a QUERY event with these flags."""
    cursor = Cursor(body)
    session = _session(cursor)
    status, database, text = _statement(session, cursor, charset_of)
    return Session(database, session.errornr, flags, status), text


def session_and_text_of_load(body: bytes, flags: int, charset_of: Mapping[int, str]) -> tuple[Session, str]:
    """Return the context and the statement from the body of an EXECUTE_LOAD_QUERY event with these flags."""
    cursor = Cursor(body)
    session = _session(cursor)
    cursor.take(_LOAD_BYTES)
    status, database, text = _statement(session, cursor, charset_of)
    return Session(database, session.errornr, flags, status), text


def _execute_load_query(header: Header, body: Cursor, state: State) -> Event:
    session = _session(body)
    file_id, start, end, duplicates = body.integer(4), body.integer(4), body.integer(4), body.integer(1)
    status, database, statement = _statement(session, body, state.charset_of)
    return ExecuteLoadQueryEvent(
        header, session.thread_id, session.seconds, database, session.errornr, status, statement,
        file_id, start, end, duplicates,
    )  # fmt: skip


def _begin_load_query(header: Header, body: Cursor, state: State) -> Event:
    return BeginLoadQueryEvent(header, body.integer(4), body.rest())


def _append_block(header: Header, body: Cursor, state: State) -> Event:
    return AppendBlockEvent(header, body.integer(4), body.rest())


def _delete_file(header: Header, body: Cursor, state: State) -> Event:
    return DeleteFileEvent(header, body.integer(4))


def _intvar(header: Header, body: Cursor, state: State) -> Event:
    return IntvarEvent(header, body.integer(1), body.integer(8))


def _rand(header: Header, body: Cursor, state: State) -> Event:
    return RandEvent(header, body.integer(8), body.integer(8))


def _uservar(header: Header, body: Cursor, state: State) -> Event:
    name, is_null = utf8(body.take(body.integer(4))), body.integer(1) != 0
    if is_null:
        return UserVarEvent(header, name, is_null, 0, 0, b"", 0)
    kind, collation, value = body.integer(1), body.integer(4), body.take(body.integer(4))
    return UserVarEvent(header, name, is_null, kind, collation, value, body.integer(1) if body else 0)


def _annotate_rows(header: Header, body: Cursor, state: State) -> Event:
    return AnnotateRowsEvent(header, utf8(body.rest()))


def _rows_query(header: Header, body: Cursor, state: State) -> Event:
    body.take(1)  # skip a length that is too short for most statements: the event's own length counts
    return RowsQueryEvent(header, utf8(body.rest()))


READERS: Final[dict[int, Reader]] = {
    EventType.QUERY: partial(_query, QueryEvent, False),
    EventType.INTVAR: _intvar,
    EventType.APPEND_BLOCK: _append_block,
    EventType.DELETE_FILE: _delete_file,
    EventType.RAND: _rand,
    EventType.USERVAR: _uservar,
    EventType.BEGIN_LOAD_QUERY: _begin_load_query,
    EventType.EXECUTE_LOAD_QUERY: _execute_load_query,
    EventType.ROWS_QUERY: _rows_query,
    EventType.ANNOTATE_ROWS: _annotate_rows,
    EventType.QUERY_COMPRESSED: partial(_query, QueryCompressedEvent, True),
}
