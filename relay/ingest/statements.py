"""Look for statements in a part of the source's binlog."""

from __future__ import annotations

from collections.abc import Callable

from relay.base.errors import ErrorCode
from relay.binlog import BinlogError, Flag, Replication, Stream
from relay.binlog.events import QueryEvent
from relay.binlog.events.position import BinlogPosition
from relay.schema.stream_history import DEFINE_NOTHING
from relay.source.connect import Account, connect
from relay.source.failures import SourceLost
from relay.source.login import idle


def defined_between(
    account: Account, begin: BinlogPosition, end: BinlogPosition, alive: Callable[[], None] = idle
) -> str:
    """Return a statement between two positions that may define a table or a schema, "" if there is none.

    `alive` is called for each event. Raises `SourceLost`, `RelayError`.
    """
    if begin == end:
        return ""
    try:
        return _first_between(account, begin, end, alive)
    except BinlogError as error:
        if error.code is ErrorCode.SOURCE_UNREACHABLE:
            raise SourceLost(str(error)) from error
        raise


def _first_between(account: Account, begin: BinlogPosition, end: BinlogPosition, alive: Callable[[], None]) -> str:
    wanted = Replication(file_name=begin.file, start_position=begin.position, flags=Flag.NON_BLOCK)
    with connect(account) as connection, Stream(connection, wanted) as stream:
        for event in stream:
            alive()
            if isinstance(event, QueryEvent) and not event.statement.startswith(DEFINE_NOTHING):
                return event.statement
            if end <= BinlogPosition(wanted.file_name, wanted.position):
                break
    return ""
