"""Sets global variables of a server under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from examples.dbserver import DatabaseServer


@contextmanager
def global_variable(server: DatabaseServer, name: str, value: str) -> Iterator[None]:
    """Sets a variable to a value, written as in SQL, within the block."""
    [(before,)] = server.execute(f"SELECT @@GLOBAL.{name}")
    server.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = {repr(before) if isinstance(before, str) else before}")


def full_metadata_of(server: DatabaseServer) -> AbstractContextManager[None]:
    """Sets binlog_row_metadata to FULL within the block: column names then need no proof, however soon an ALTER follows
    their rows."""
    return global_variable(server, "binlog_row_metadata", "FULL")
