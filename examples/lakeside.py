"""How far a lake is behind its source, and waiting until it is not."""

from __future__ import annotations

import time
from collections.abc import Iterable

from examples.dbserver import DatabaseServer
from relay.binlog.place import Place
from relay.lake import paths
from relay.lake.documents import LakeState, Table
from relay.lake.log import LakeLog


def source_place(server: DatabaseServer) -> Place:
    """Where the server's binlog ends."""
    status = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    file, offset = server.execute(status)[0][:2]
    return Place(file, int(offset))


def behind(state: LakeState, server: DatabaseServer, tables: Iterable[Table]) -> str:
    """What a lake lacks of those tables as they are at the source; nothing, if it knows every row of them."""
    source = source_place(server)
    if state.place is None:
        return "nothing was exported yet"
    exported = Place(state.place.file, state.place.offset)
    if exported < source:
        return f"the export is at {exported.file}:{exported.position}, the source at {source.file}:{source.position}"
    known = {table: state.tables.get(paths.table_key(table)) for table in tables}
    unknown = [str(table) for table, it in known.items() if it is None or it.complete_from is None]
    return f"not all rows are known of {', '.join(unknown)}" if unknown else ""


def wait_level(log: LakeLog, server: DatabaseServer, tables: Iterable[Table], timeout: float) -> LakeState:
    """Wait until the lake has all rows of the tables, `timeout` seconds at most; the source must stand still.

    Raises TimeoutError that says what the lake lacks.
    """
    wanted = list(tables)
    deadline = time.monotonic() + timeout
    while lacks := behind(state := log.state(), server, wanted):
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout:g} s {lacks}")
        time.sleep(0.1)
    return state
