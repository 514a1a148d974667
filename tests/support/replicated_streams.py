"""Streams of real servers, read through `relay.binlog`, and a workload with every kind of transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.connections import Connection

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream
from relay.binlog.events import EventType
from relay.binlog.eventstream import EventStream
from relay.source import facts

# What a server sends or a file holds around transactions; it differs with the position where a stream begins.
AROUND = {
    EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.GTID_LIST,
    EventType.BINLOG_CHECKPOINT, EventType.HEARTBEAT, EventType.HEARTBEAT_V2, EventType.STOP,
}  # fmt: skip


def connect(server: DatabaseServer, **options: Any) -> Connection[Any]:
    """A connection as users of the API make it."""
    return pymysql.connect(host="127.0.0.1", port=server.port, user=USER, password=PASSWORD, **options)


def some_id() -> int:
    """The server_id of a replica that no other test has."""
    return secrets.randbelow(2**31) + 1000


def stream_id(stream: Stream) -> int:
    """The server's number of the connection."""
    connection: Any = stream._connection
    return int(connection.thread_id())


def here(server: DatabaseServer, flags: int = Flag.NON_BLOCK, server_id: int = 0) -> Replication:
    """A description of what the server writes from now on, including the GTID set."""
    with connect(server) as connection:
        end = facts.binlog_end(connection, facts.query_facts(connection))
    return Replication(end.file, end.position, server_id, flags, end.gtid_set)


@contextmanager
def opened(server: DatabaseServer, replication: Replication, **options: Any) -> Iterator[Stream]:
    """An open stream; its connection is closed with it."""
    with connect(server, **options) as connection, Stream(connection, replication) as stream:
        yield stream


def kind(packet: bytes) -> int:
    """Type of the event in a packet."""
    return packet[5]


def boundaries(packets: list[bytes]) -> list[int]:
    """How many packets there are before each GTID, and at the end: every transaction here has one."""
    marks = {EventType.GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}
    return [number for number, packet in enumerate(packets) if kind(packet) in marks] + [len(packets)]


def contents(stream: EventStream) -> list[bytes]:
    """The packets of the transactions that follow."""
    found = []
    while stream.fetch() == 0 and stream.replication.size:
        if kind(stream.replication.buffer) not in AROUND:
            found.append(stream.replication.buffer)
    return found


def work(server: DatabaseServer, db: str) -> None:
    """Runs transactions of every kind that the server has, over two files."""
    t, m = f"{db}.t", f"{db}.m"
    server.execute(f"CREATE TABLE {t} (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)")
    server.execute(f"CREATE TABLE {m} (id INT) ENGINE = MyISAM", f"INSERT INTO {m} VALUES (1), (2)")
    server.execute(
        "BEGIN", f"INSERT INTO {t} VALUES (1, 'a')", "SAVEPOINT s", f"INSERT INTO {t} VALUES (2, 'b')",
        "ROLLBACK TO s", f"INSERT INTO {t} VALUES (3, 'c')", "COMMIT",
    )  # fmt: skip
    server.execute("XA START 'x'", f"INSERT INTO {t} VALUES (4, 'd')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    server.execute(
        "XA START 'y'", f"INSERT INTO {t} VALUES (5, 'e')", "XA END 'y'", "XA PREPARE 'y'", "XA ROLLBACK 'y'"
    )
    server.execute(
        "XA START 'z'", f"INSERT INTO {t} VALUES (6, 'f')", "XA END 'z'", "XA COMMIT 'z' ONE PHASE",
        f"CREATE TABLE {db}.copy AS SELECT * FROM {t}",
    )  # fmt: skip
    server.execute(
        "SET SESSION binlog_format = STATEMENT", f"INSERT INTO {t} (v) VALUES (CONCAT('g', RAND()))",
        "SET @u = 'h'", f"UPDATE {t} SET v = @u WHERE id = 1",
    )  # fmt: skip
    long = "z" * 400
    if server.kind.mysql:
        server.execute(
            "SET SESSION binlog_transaction_compression = ON", f"INSERT INTO {t} (v) VALUES ('{long}'), ('{long}')",
            "SET SESSION binlog_transaction_compression = OFF", "SET SESSION binlog_rows_query_log_events = ON",
            "SET SESSION gtid_next = 'AUTOMATIC:tag'",
            f"INSERT INTO {t} (v) VALUES ('i')", f"UPDATE {t} SET v = 'j'",
        )  # fmt: skip
    else:
        server.execute("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
        server.execute(
            f"INSERT INTO {t} (v) VALUES ('{long}')", "XA START 'a long enough name'",
            f"INSERT INTO {t} (v) VALUES ('k')", "XA END 'a long enough name'", "XA PREPARE 'a long enough name'",
            "XA COMMIT 'a long enough name'", f"ALTER TABLE {t} COMMENT = '{long}'",
        )  # fmt: skip
        server.execute("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress_min_len = 256")
        server.execute("BEGIN", f"INSERT INTO {m} VALUES (3)", f"INSERT INTO {t} (v) VALUES ('k')", "ROLLBACK")
        server.execute("SET SESSION gtid_domain_id = 7", f"INSERT INTO {t} (v) VALUES ('l')", f"DELETE FROM {m}")
    server.execute("FLUSH BINARY LOGS", f"UPDATE {t} SET v = 'n' WHERE id < 4", f"DELETE FROM {t}", f"DROP TABLE {m}")
