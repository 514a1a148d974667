"""The CDC port: rows of one table over sockets, in both forms, compared with a program that only sends them."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from bench.run import Run
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from examples.dbserver import DatabaseServer
from tests.support.cdc_client import CdcClient
from tests.support.cdc_source import Service, relay_on

STREAMS = 100
CHUNK = 1 << 20
TAIL = 64  # the last bytes of a stream; they contain the last row's note
BAR = 1e6  # rows/s


def measure(run: Run) -> None:
    """Starts a relay on the server, and reads tables from it."""
    with relay_on(run.server, run.scratch, {"Relay.SegmentBytes": "256MiB"}) as running:
        for table, rows, streams in (
            ("cdc_one", run.rows(1_000_000), 1),
            ("cdc_many", run.rows(20_000), STREAMS),
        ):
            run.report.step(f"{rows} rows for {streams} streams")
            fill(run.server, table, rows)
            for form in ("JSON", "AVRO"):
                compare(run, running, f"bench.{table}", form, rows, streams)


def fill(server: DatabaseServer, table: str, rows: int) -> None:
    """Fills a table of narrow rows."""
    create(server, table, NARROW)
    insert(server, table, NARROW_VALUES, 1, rows)


def compare(run: Run, running: Service, table: str, form: str, rows: int, streams: int) -> None:
    """Rows per second of `streams` streams of a table, compared with the same bytes from a process that only sends."""
    receive(running, table, form, rows, 1)  # a first read loads the page cache and the mappings
    total = rows * streams
    rates: list[float] = []
    sending: list[float] = []
    cpu: list[float] = []
    for _ in range(run.rounds):
        before = running.relay.cpu_seconds()
        seconds, size = receive(running, table, form, rows, streams)
        cpu.append((running.relay.cpu_seconds() - before) / total * 1e6)
        rates.append(total / seconds)
        sending.append(total / send_only(size, streams))
    many = f"{streams} streams" if streams > 1 else "one stream"
    run.report.figure(f"{form}, {many}", rates, "rows/s", at_least=BAR)
    run.report.ratio(f"{form}, {many}: bytes", rates, sending, "rows/s", of="a program that only sends")
    run.report.figure(f"{form}, {many}: CPU a row, all processes of the relay", cpu, "us")


def receive(running: Service, table: str, form: str, rows: int, streams: int) -> tuple[float, int]:
    """The seconds in which `streams` clients receive all rows, and the bytes of one stream."""
    last = f"note {rows}".encode()
    clients = [CdcClient(running.port, b"\n", 60).login().register(form) for _ in range(streams)]
    begin = time.perf_counter()
    for client in clients:
        client.request(table)
    sizes = receive_until([client.socket for client in clients], lambda _, tail: last in tail)
    seconds = time.perf_counter() - begin
    for client in clients:
        client.abort()
    return seconds, sizes[0]


def send_only(size: int, streams: int) -> float:
    """The seconds that a process needs which only sends `size` bytes over each of `streams` sockets."""
    with socket.create_server(("127.0.0.1", 0), backlog=streams) as listening:
        connected = [socket.create_connection(listening.getsockname()) for _ in range(streams)]
        pairs = [(listening.accept()[0], each) for each in connected]
    pid = os.fork()
    if pid == 0:
        block = bytes(CHUNK)
        for left in range(size, 0, -CHUNK):
            for ours, _ in pairs:
                ours.sendall(block[:left])
        os._exit(0)
    begin = time.perf_counter()
    receive_until([theirs for _, theirs in pairs], lambda received, _: received >= size)
    seconds = time.perf_counter() - begin
    os.waitpid(pid, 0)
    for pair in pairs:
        for end in pair:
            end.close()
    return seconds


def receive_until(sockets: Sequence[socket.socket], done: Callable[[int, bytes], bool]) -> list[int]:
    """Receives from all sockets until `done`, given the number of bytes so far and the last bytes, says so for each."""
    buffer = memoryview(bytearray(CHUNK))
    sizes, tails = [0] * len(sockets), [b""] * len(sockets)
    with selectors.DefaultSelector() as selector:
        for place, each in enumerate(sockets):
            each.setblocking(False)
            selector.register(each, selectors.EVENT_READ, place)
        while selector.get_map():
            for key, _ in selector.select(60):
                place, count = key.data, sockets[key.data].recv_into(buffer)
                assert count, "a stream ended"
                sizes[place] += count
                tails[place] = (tails[place] + bytes(buffer[max(0, count - TAIL) : count]))[-TAIL:]
                if done(sizes[place], tails[place]):
                    selector.unregister(key.fileobj)
    return sizes
