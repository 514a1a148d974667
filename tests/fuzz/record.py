"""Record the seeds of the ingest's fuzz target from real servers: python -m tests.fuzz.record

Run it again only when the target's table or the streams that are worth starting from change.
"""

from __future__ import annotations

from pathlib import Path

from examples.dbserver import KINDS, DatabaseServer
from tests.binlogs import place, record

SEEDS = Path(__file__).parent / "seeds" / "ingest"
MEND_CHECKSUMS = b"\x01"
OPTIONS = {True: ("--binlog-row-metadata=MINIMAL",), False: ("--log-bin-compress=1", "--log-bin-compress-min-len=10")}
WORK = {
    "rows": (
        "INSERT INTO t VALUES (1, 'one', 'x'), (2, NULL, NULL)",
        "UPDATE t SET b = 'two' WHERE a = 2",
        "DELETE FROM t WHERE a = 1",
        "ALTER TABLE t COMMENT = 'x'",
    ),
    "transactions": (
        "BEGIN",
        "INSERT INTO t VALUES (3, 'three', REPEAT('x', 100))",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (4, 'four', '')",
        "COMMIT",
        "XA START 'x'",
        "INSERT INTO t VALUES (5, 'five', '')",
        "XA END 'x'",
        "XA PREPARE 'x'",
        "XA COMMIT 'x'",
    ),
    "compressed": ("SET binlog_transaction_compression = ON", "INSERT INTO t VALUES (6, 'six', REPEAT('y', 200))"),
}


def main() -> None:
    """Write one file a server and kind of work."""
    SEEDS.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        with DatabaseServer(kind, options=OPTIONS[KINDS[kind].mysql]) as server:
            table = "CREATE TABLE test.t (a INT PRIMARY KEY, b VARCHAR(20) CHARACTER SET utf8mb4, c BLOB)"
            server.execute(table)
            for name, statements in WORK.items():
                if name == "compressed" and not server.kind.mysql:
                    statements = statements[1:]
                start = place(server)
                server.execute("USE test", *statements)
                (SEEDS / f"{kind}-{name}").write_bytes(MEND_CHECKSUMS + record(server, start))


if __name__ == "__main__":
    main()
