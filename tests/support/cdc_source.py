"""A relay with the CDC port on a source, for the tests of that port and for the benchmark."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.dbserver import DatabaseServer, free_port
from tests.support.cdc_client import USERS_LINE, CdcClient, Row, triplet_of
from tests.support.relay_process import RelayProcess, write_conf

KINDS = ("mysql97", "mariadb118")


@dataclass
class Service:
    """The source, the relay on it, and the port."""

    server: DatabaseServer
    relay: RelayProcess
    port: int

    @property
    def journal(self) -> Path:
        return self.relay.conf.parent / "data" / "journal"

    def database(self) -> str:
        """A new database, with nothing in its name that old clients take for an error."""
        name = f"t_{secrets.token_hex(5)}"
        self.server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return name

    def client(self, end: bytes = b"") -> CdcClient:
        """A connection that has sent nothing."""
        return CdcClient(self.port, end)

    def await_rows(self, table: str, count: int) -> list[Row]:
        """The first rows of a table, once the relay has that many."""
        with self.client() as client:
            return client.stream(table).begun().rows(count)

    def is_last(self, row: Row) -> bool:
        """Whether the row is of the source's last transaction."""
        if not self.server.kind.mysql:
            [[last]] = self.server.execute("SELECT @@GLOBAL.gtid_binlog_pos")
            return triplet_of(row) in last.split(",")
        made = "GTID_SUBSET(CONCAT(@@server_uuid, ':{}'), @@GLOBAL.gtid_executed)"
        numbers = row["sequence"], row["sequence"] + 1
        return self.server.execute("SELECT " + ", ".join(map(made.format, numbers))) == [(1, 0)]


@contextmanager
def relay_on(server: DatabaseServer, folder: Path, settings: Mapping[str, object] | None = None) -> Iterator[Service]:
    """A relay with one user on a running source; it ends with the block."""
    port = free_port()
    cdc: dict[str, object] = {
        "CDC.Enabled": "yes",
        "CDC.Port": port,
        "CDC.Address": "127.0.0.1",
        "CDC.AuthAttempts": 1000,
    }
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "cdcusers").write_text(USERS_LINE)
    relay = RelayProcess(write_conf(folder, server, {**cdc, **(settings or {})}))
    try:
        relay.start()
        yield Service(server, relay, port)
    finally:
        relay.end()
