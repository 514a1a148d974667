"""Binlogs with nearly every type of event, written by servers, and the servers' own lists of the events."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from examples.dbserver import DatabaseServer
from relay.binlog.decoder import Decoder
from relay.binlog.events import Event, RowsEvent, TransactionPayloadEvent

OPTIONS = ("--binlog-row-metadata=FULL", "--local-infile=ON")
_MAGIC = 4

_COMMON: tuple[str | bytes, ...] = (
    "CREATE DATABASE ev CHARACTER SET utf8mb4",
    "USE ev",
    "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, a VARCHAR(300), r DOUBLE)",
    "INSERT INTO t (a) VALUES ('x')",
    "UPDATE t SET a = 'y'",
    "DELETE FROM t",
    "CREATE TABLE kinds (p POINT NOT NULL, k VARCHAR(20) CHARACTER SET latin1, l TEXT, e ENUM('a','ä') CHARACTER SET"
    " latin1, s SET('c','d'), u BIGINT UNSIGNED, y YEAR, PRIMARY KEY (l(7), k))",
    "INSERT INTO kinds VALUES (POINT(1, 2), 'k', 'l', 'ä', 'c,d', 18446744073709551615, 2026)",
    "XA START 'g1','b1',7",
    "INSERT INTO t (a) VALUES ('xa')",
    "XA END 'g1','b1',7",
    "XA PREPARE 'g1','b1',7",
    "XA COMMIT 'g1','b1',7",
    "XA START 'g2'",
    "INSERT INTO t (a) VALUES ('xa')",
    "XA END 'g2'",
    "XA COMMIT 'g2' ONE PHASE",
    "CREATE DEFINER = CURRENT_USER VIEW v AS SELECT 1 AS one",
    "SET SESSION binlog_format = STATEMENT",
    "SET @v = 'text', @n = NULL, @i = -5, @d = 1.5, @f = 1.5e0, @u = 18446744073709551615",
    "INSERT INTO t (a) VALUES (CONCAT_WS(',', @v, @n, @i, @d, @f, @u))",
    "INSERT INTO t (a, r) VALUES (LAST_INSERT_ID(), RAND())",
    "SET time_zone = '+03:00', lc_time_names = 'de_DE'",
    "INSERT INTO t (a) VALUES (DATE_FORMAT(NOW(6), '%W'))",
    "SET NAMES latin1",
    b"INSERT INTO t (a) VALUES ('\xe9')",
    "SET NAMES utf8mb4",
    "SET auto_increment_increment = 5, auto_increment_offset = 2, foreign_key_checks = 0",
    "INSERT INTO t (a) VALUES ('z')",
    "SET auto_increment_increment = 1, auto_increment_offset = 1, foreign_key_checks = 1",
    "CREATE TEMPORARY TABLE tmp (a INT)",
    "DROP TEMPORARY TABLE tmp",
    "CREATE TABLE loaded (id INT PRIMARY KEY, a VARCHAR(200)) ENGINE = MyISAM",
    "LOAD DATA LOCAL INFILE '{big}' INTO TABLE loaded (id, a)",
    "CREATE TABLE failed (id INT PRIMARY KEY, a INT) ENGINE = MyISAM",
    "LOAD DATA LOCAL INFILE '{small}' INTO TABLE failed (id) SET a = (SELECT 1 UNION SELECT 2)",
    "SET SESSION binlog_format = ROW",
)
_MYSQL = (
    "CREATE TABLE parts (a INT PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 4",
    "INSERT INTO parts VALUES (3)",
    "UPDATE parts SET a = 6",
    "SET gtid_next = 'AUTOMATIC:blue'",
    "INSERT INTO t (a) VALUES ('tagged')",
    "SET gtid_next = AUTOMATIC",
    "SET binlog_rows_query_log_events = ON",
    "INSERT INTO t (a) VALUES ('é')",
    "SET binlog_rows_query_log_events = OFF",
    "SET binlog_transaction_compression = ON",
    "INSERT INTO t (a) VALUES (REPEAT('x', 300)), ('2')",
    "SET binlog_transaction_compression = OFF",
    "CREATE TABLE documents (id INT PRIMARY KEY, d JSON, v VECTOR(3), hidden INT INVISIBLE)",
    "INSERT INTO documents (id, d) VALUES (1, JSON_OBJECT('a', 1, 'b', REPEAT('x', 200)))",
    "SET binlog_row_value_options = PARTIAL_JSON",
    "UPDATE documents SET d = JSON_SET(d, '$.a', 2)",
    "SET binlog_row_value_options = ''",
    "SET sql_require_primary_key = ON",
    "CREATE TABLE keyed (a INT PRIMARY KEY)",
    "SET sql_require_primary_key = OFF",
)
_MARIADB = (
    "SET binlog_alter_two_phase = 1",
    "ALTER TABLE t ADD c INT",
    "SET binlog_alter_two_phase = 0",
    "SET GLOBAL log_bin_compress = ON",
    "INSERT INTO t (a) VALUES (REPEAT('x', 300))",
    "UPDATE t SET a = REPEAT('y', 300)",
    "DELETE FROM t",
    "CREATE TABLE compressed (a VARCHAR(999) COMMENT '" + "long, " * 60 + "')",
    "SET GLOBAL log_bin_compress = OFF",
    "SET gtid_domain_id = 5, skip_replication = 1",
    "INSERT INTO t (a) VALUES ('elsewhere')",
    "SET gtid_domain_id = 0, skip_replication = 0",
)
_LAST = (
    "CREATE TABLE big (id INT PRIMARY KEY, a LONGTEXT) ENGINE = MyISAM",
    "SET GLOBAL max_binlog_stmt_cache_size = 4096",
)
_TOO_BIG = "INSERT INTO ev.big VALUES (1, REPEAT('x', 100000))"


class Listed(NamedTuple):
    """A line of SHOW BINLOG EVENTS."""

    file: str
    position: int
    type: str
    server_id: int
    end: int
    info: str


@dataclass
class EventLog:
    """The binlog files of a stopped server, event by event, and what the server listed of them while it ran."""

    kind: str
    files: dict[str, list[bytes]] = field(default_factory=dict)
    listed: dict[str, list[Listed]] = field(default_factory=dict)

    def decoded(self) -> Iterator[tuple[str, Decoder, Event]]:
        """Each event with its file and decoder. The decoder can read the event's rows."""
        for name, raw in self.files.items():
            decoder = Decoder()
            for data in raw:
                yield name, decoder, decoder.decode(data)

    def all(self) -> list[Event]:
        """The events, including those within payloads."""
        found: list[Event] = []
        for _, _, event in self.decoded():
            found.append(event)
            if isinstance(event, TransactionPayloadEvent):
                found += event.events
        return found

    def stripped(self) -> Iterator[bytes]:
        """Each event without its checksum, except those that describe the file's format."""
        return (resized(data[:-4]) for raw in self.files.values() for data in raw[1:])


def resized(event: bytes) -> bytes:
    """Sets the length in the event to its actual length."""
    return event[:9] + len(event).to_bytes(4, "little") + event[13:]


def events_of_file(path: Path) -> list[bytes]:
    """The events of a binlog file."""
    data, at, found = path.read_bytes(), _MAGIC, []
    while at < len(data):
        end = at + int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at:end])
        at = end
    return found


@functools.cache
def recorded(kind: str) -> EventLog:
    """The log of a server of that kind, created once."""
    with tempfile.TemporaryDirectory(prefix="relay-events-") as folder, DatabaseServer(kind, options=OPTIONS) as server:
        return _write(server, Path(folder))


def _write(server: DatabaseServer, folder: Path) -> EventLog:
    """Makes the server write its events, and stops it. `folder` is for the files that it loads."""
    big, small = folder / "big", folder / "small"
    big.write_text("".join(f"{number}\t{'l' * 100}\n" for number in range(1000, 4000)))
    small.write_text("7\n")
    family = _MYSQL if server.kind.mysql else _MARIADB
    with closing(server.connect(local_infile=True)) as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in (*_COMMON, *family, *_LAST):
            text = statement if isinstance(statement, bytes) else statement.format(big=big, small=small).encode()
            _run(connection, text, fails=b"'%s'" % str(small).encode() in text)
    with closing(server.connect()) as connection:
        _run(connection, _TOO_BIG.encode(), fails=True)
    server.execute("FLUSH BINARY LOGS")
    log = EventLog(server.name)
    for name, *_ in server.execute("SHOW BINARY LOGS"):
        log.listed[name] = _listed(server, name)
    server.stop()
    for name in log.listed:
        log.files[name] = events_of_file(server.data / name)
    return log


def _listed(server: DatabaseServer, name: str) -> list[Listed]:
    """The list has statements in the character sets of their sessions: a line may not be UTF-8."""
    with closing(server.connect(use_unicode=False)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{name}'")
        lines: list[list[Any]] = [list(line) for line in cursor.fetchall()]
    texts = ([part.decode("utf-8", "replace") if isinstance(part, bytes) else part for part in line] for line in lines)
    return [Listed._make(line) for line in texts]


def _run(connection: pymysql.connections.Connection[Any], statement: bytes, fails: bool) -> None:
    try:
        connection.query(statement)
    except pymysql.MySQLError:
        if not fails:
            raise
    else:
        assert not fails, f"{statement!r} was to fail"


def rows_events(log: EventLog) -> Iterator[tuple[Decoder, RowsEvent]]:
    """The rows events of a log, including those within payloads."""
    for _, decoder, event in log.decoded():
        for found in event.events if isinstance(event, TransactionPayloadEvent) else (event,):
            if isinstance(found, RowsEvent):
                yield decoder, found
