"""Readers of a binlog file compared: a C program that only reads, mysql-replication, and the relay's."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from bench.shapes import Shape
from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay._native import Ingest, JournalWriter
from relay.binlog.events.compression import zstd_parts
from relay.ddl.syntax import TableName
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.journal.maintenance import PREPARED_BYTES
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store
from relay.source import facts
from relay.source.connect import take_socket

HERE = Path(__file__).parent
NATIVE = HERE.parent / "native"
BUILT = HERE.parent / "build" / "bench"
SHARED = ["-shared", "-fPIC", "-ldl"]  # of a library for LD_PRELOAD
SERVER_ID = 4_200_000_000
CHUNK = 1 << 20  # as in relay/reader.py


def build() -> None:
    """Compiles the benchmark's C and C++ programs that are older than their sources."""
    BUILT.mkdir(parents=True, exist_ok=True)
    for name, options in (("floor", []), ("load", []), ("delay", []), ("peer", ["-lz"]), ("slow_sync", SHARED)):
        source = HERE / f"{name}.c"
        command = ["cc", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", str(source), *options]
        _make(name, command, [source, *HERE.glob("*.h")])
    core = sorted(path for path in NATIVE.glob("*/*.cpp") if path.parent.name != "python")
    sources = [str(HERE / "decode.cpp"), *map(str, core)]
    command = ["c++", "-std=c++17", "-O3", "-I", str(NATIVE), *sources, "-lz"]
    _make("decode", command, [HERE / "decode.cpp", *core, *NATIVE.glob("*/*.hpp")])


def _make(name: str, command: list[str], sources: Iterable[Path]) -> None:
    made = BUILT / name
    if not made.exists() or made.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        subprocess.run([*command, "-o", str(made)], check=True)


def dump_command(file: str, *, follow: bool = False) -> bytes:
    """COM_BINLOG_DUMP from the beginning of a file: it ends with an EOF packet, or follows new events."""
    payload = struct.pack("<BIHI", 0x12, 4, 0 if follow else 1, SERVER_ID) + file.encode()
    return struct.pack("<I", len(payload)) + payload


def connect(server: DatabaseServer) -> Any:
    """A connection over TCP without TLS, ready for a dump command; PyMySQL owns its socket."""
    account = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
    connection = server.connect(unix_socket=None, ssl_disabled=True, **account)
    connection.cursor().execute("SET @master_binlog_checksum = @@global.binlog_checksum")
    connection.cursor().execute("SET @source_binlog_checksum = @@global.binlog_checksum")
    return connection


def floor(shape: Shape) -> float:
    """Seconds of the C program that only reads the socket."""
    connection = connect(shape.server)
    fd = connection._sock.fileno()
    done = subprocess.run(
        [BUILT / "floor", str(fd)],
        input=dump_command(shape.file),
        stdout=subprocess.PIPE,
        pass_fds=[fd],
        check=True,
    )
    connection.close()
    return int(done.stdout.split()[1]) / 1e9


def library_stream(shape: Shape) -> BinLogStreamReader:
    """mysql-replication at the beginning of a shape's binlog, for rows only."""
    return BinLogStreamReader(
        # Without TLS, like all readers here.
        connection_settings={
            "host": "127.0.0.1",
            "port": shape.server.port,
            "user": USER,
            "passwd": PASSWORD,
            "ssl_disabled": True,
        },
        server_id=SERVER_ID,
        log_file=shape.file,
        log_pos=4,
        blocking=True,
        only_events=[WriteRowsEvent],
        only_schemas=["bench"],
    )


def library(shape: Shape, rows: int) -> float:
    """Seconds of mysql-replication for `rows` rows of a shape, every one decoded."""
    begin = time.perf_counter()
    stream = library_stream(shape)
    done = 0
    for event in stream:
        done += len(event.rows)
        if done >= rows:
            break
    seconds = time.perf_counter() - begin
    stream.close()
    return seconds * rows / done


def payloads(shape: Shape, journal: Path, committed: int) -> float:
    """Seconds in which all rows of a journal become reply payloads, as in a server process."""
    arguments = [str(BUILT / "decode"), str(journal), str(committed)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=True)
    rows, _, nanoseconds = map(int, done.stdout.split())
    assert rows == shape.rows, f"{shape.name}: {rows} of {shape.rows} rows came out of the journal"
    return nanoseconds / 1e9


def ingest(shape: Shape, folder: Path) -> tuple[JournalWriter, float]:
    """The journal of a shape's binlog in an empty folder, and the seconds from the socket to it."""
    connection = connect(shape.server)
    source = facts.query_facts(connection)
    with closing(ReaderState(folder / "state.db")) as reader_state, closing(Store(folder / SCHEMA_FILE)) as store:
        writer = JournalWriter(folder, 256 << 20)
        writer.source(4, shape.file, "", source.identity)
        ingest = Ingest(writer, folder, zstd_parts)
        charset_of, history = facts.collations(connection), History(store, lambda *_: None)
        definitions = Definitions(
            reader_state, history, Rules(), charset_of, _unasked, _silent,
            assumptions=Assumptions(reader_state, writer, folder, _silent), incomplete_types=False,
        )  # fmt: skip
        answers = IngestHandler(
            ingest, writer, definitions, store, charset_of, Policy(False, False), StatementCounts(_silent), _silent
        )
        ingest.start(shape.file, 4)
        writer.prepare(PREPARED_BYTES)  # as the reader's maintenance thread does all the time
        with closing(take_socket(connection)) as taken:
            taken.settimeout(60)
            begin = time.perf_counter()
            taken.sendall(dump_command(shape.file))
            attention = None
            while attention is None or attention.asks != "end":
                ingest.received(taken.recv_into(ingest.buffer(CHUNK)))
                while (attention := ingest.step()) is not None and attention.asks != "end":
                    answers.handle(attention)
            return writer, time.perf_counter() - begin


def _unasked(table: TableName) -> None:
    """No query: table maps say everything except ZEROFILL and the like, which no table here has."""


def _silent(event: str, **fields: object) -> None:
    """A log that writes nothing."""
