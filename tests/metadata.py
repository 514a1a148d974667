"""binlog_row_metadata of a server under test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from examples.dbserver import DatabaseServer


@contextmanager
def full_metadata_of(server: DatabaseServer) -> Iterator[None]:
    """FULL meanwhile: the names of columns need no proof, however soon an ALTER follows their rows."""
    [(before,)] = server.execute("SELECT @@GLOBAL.binlog_row_metadata")
    server.execute("SET GLOBAL binlog_row_metadata = FULL")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
