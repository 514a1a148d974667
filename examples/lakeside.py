"""Compares a lake with its source, and waits until it has caught up."""

from __future__ import annotations

import time
from collections.abc import Iterable

from examples.dbserver import DatabaseServer
from relay.binlog.events.position import BinlogPosition
from relay.lake import paths
from relay.lake.documents import LakeState, Table
from relay.lake.log import LakeLog


def source_position(server: DatabaseServer) -> BinlogPosition:
    """The end of the server's binlog."""
    status = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    file, offset = server.execute(status)[0][:2]
    return BinlogPosition(file, int(offset))


def missing_rows(state: LakeState, server: DatabaseServer, tables: Iterable[Table]) -> str:
    """What the lake lacks of these tables at the source, as text; "" if it has all their rows."""
    source = source_position(server)
    if state.place is None:
        return "nothing was exported yet"
    exported = BinlogPosition(state.place.file, state.place.offset)
    if exported < source:
        return f"the export is at {exported.file}:{exported.position}, the source at {source.file}:{source.position}"
    known = {table: state.tables.get(paths.table_key(table)) for table in tables}
    unknown = [str(table) for table, found in known.items() if found is None or found.complete_from is None]
    return f"not all rows are known of {', '.join(unknown)}" if unknown else ""


def wait_caught_up(log: LakeLog, server: DatabaseServer, tables: Iterable[Table], timeout: float) -> LakeState:
    """Waits at most `timeout` seconds until the lake has all rows of the tables. The source must not change meanwhile.

    Raises TimeoutError, which says what the lake lacks.
    """
    wanted = list(tables)
    deadline = time.monotonic() + timeout
    while lacks := missing_rows(state := log.state(), server, wanted):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout:g} s {lacks}")
        time.sleep(0.1)
    return state
