"""Who reads a binlog file how fast: a C program that only reads, mysql-replication, and ours."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from bench.shapes import Shape
from examples.dbserver import PASSWORD, USER, DatabaseServer

HERE = Path(__file__).parent
NATIVE = HERE.parent / "relay" / "native"
BUILT = HERE.parent / "build" / "bench"
SERVER_ID = 4_200_000_000


def build() -> None:
    """Compile the C and C++ programs of the benchmark."""
    BUILT.mkdir(parents=True, exist_ok=True)
    core = [str(path) for path in sorted(NATIVE.glob("*.cpp")) if path.name != "_native.cpp"]
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    for name in ("floor", "load"):
        command = ["cc", "-O2", *warnings, "-o", str(BUILT / name), str(HERE / f"{name}.c")]
        subprocess.run(command, check=True)
    decode = [str(HERE / "decode.cpp"), *core]
    subprocess.run(["c++", "-std=c++17", "-O3", "-I", str(NATIVE), "-o", str(BUILT / "decode"), *decode], check=True)


def dump_command(file: str) -> bytes:
    """COM_BINLOG_DUMP from the beginning of a file, non-blocking: it ends with an EOF packet."""
    payload = struct.pack("<BIHI", 0x12, 4, 1, SERVER_ID) + file.encode()
    return struct.pack("<I", len(payload)) + payload


def connect(server: DatabaseServer) -> Any:
    """A connection over TCP without TLS, ready for a dump command, its socket still PyMySQL's."""
    account = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
    connection = server.connect(unix_socket=None, ssl_disabled=True, **account)
    connection.cursor().execute("SET @master_binlog_checksum = @@global.binlog_checksum")
    connection.cursor().execute("SET @source_binlog_checksum = @@global.binlog_checksum")
    return connection


def floor(server: DatabaseServer, shape: Shape) -> float:
    """Seconds of the C program that only reads the socket."""
    connection = connect(server)
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


def library(server: DatabaseServer, shape: Shape) -> float:
    """Seconds of mysql-replication, with every row decoded."""
    settings = {"host": "127.0.0.1", "port": server.port, "user": USER, "passwd": PASSWORD}
    begin = time.perf_counter()
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=SERVER_ID,
        log_file=shape.file,
        log_pos=4,
        blocking=True,
        only_events=[WriteRowsEvent],
        only_schemas=["bench"],
    )
    rows = 0
    for event in stream:
        rows += len(event.rows)
        if rows == shape.rows:
            break
    seconds = time.perf_counter() - begin
    stream.close()
    return seconds
