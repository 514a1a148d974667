"""A TCP proxy in front of a database server that breaks connections on command.

    with FaultProxy(server.port) as proxy:      # the relay connects to proxy.port
        proxy.cut()                             # every link ends, by a reset or an orderly close
        proxy.half_open()                       # current links get no more bytes and no error
        with proxy.standstill(): ...            # nothing passes, also on new links, until the end
        with proxy.slow(20_000): ...            # bytes per second to the relay, all links together
        proxy.reset_at(4711)                    # after that many more bytes to the relay
        proxy.reset_in("event")                 # after half of a row event
        proxy.reset_in("transaction")           # after a row event, before its transaction ends
        proxy.target = host, port               # the target of new links; port 0: none

`reset_in` reads the server's packets, so it needs links without TLS.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from tests.support.waiting import patience

CHUNK: Final = 1 << 16
TICK: Final = 0.05  # seconds between two looks at a link that is slowed down
_DUMPS: Final = frozenset({0x12, 0x1E})  # COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID
_ROW_EVENTS: Final = frozenset({*range(23, 26), *range(30, 33), 39, 40, *range(166, 172)})
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing throws away what is queued and tells the peer so

CutPoint: TypeAlias = Literal["event", "transaction"]


@dataclass
class _Packets:
    """Where packets begin in what one side sends: the head of the current one, and how much of it is still to come."""

    head: bytearray = field(default_factory=bytearray)
    left: int = 0
    size: int = 0

    def walk(self, data: memoryview) -> Iterator[tuple[int, bool]]:
        """Of each piece of a packet in `data`: where the piece ends, and whether the packet does.

        By then `head` is the packet's first ten bytes: length (3), number (1), and, of an event, OK (1), time (4),
        type (1).
        """
        at = 0
        while at < len(data):
            if not self.left:
                if len(self.head) >= 4:
                    self.head.clear()
                taken = data[at : at + 4 - len(self.head)]
                self.head += taken
                at += len(taken)
                if len(self.head) < 4:
                    return
                self.left = self.size = int.from_bytes(self.head[:3], "little")
                continue
            piece = data[at : at + self.left]
            self.head += piece[: 10 - len(self.head)]
            at += len(piece)
            self.left -= len(piece)
            yield at, not self.left


@dataclass(eq=False)
class _Way:
    """One direction of a link."""

    source: socket.socket
    sink: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    ended: bool = False  # the source says that it is done
    packets: _Packets = field(default_factory=_Packets)


@dataclass(eq=False)
class _Link:
    """A client's connection and the one to the server that belongs to it."""

    up: _Way
    down: _Way
    dumps: bool = False
    dead: bool = False  # half-open

    @property
    def sockets(self) -> tuple[socket.socket, socket.socket]:
        return self.up.source, self.down.source


class FaultProxy:
    """Listens on a port of `host`, a free one if it is 0, and passes all on to the same address's port `to`."""

    def __init__(self, to: int, host: str = "127.0.0.1", port: int = 0) -> None:
        self.target = host, to
        self._listener = socket.create_server((host, port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.RLock()
        self._links: set[_Link] = set()
        self._still = False
        self._rate = 0
        self._allowance = 0.0
        self._bytes_left: int | None = None
        self._place: CutPoint | None = None
        self._sprung = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="fault proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        self._thread.join()
        self.cut()
        self._listener.close()

    def cut(self, *, reset: bool = True) -> int:
        """End every link, with a reset or with an orderly end of the stream; how many they were."""
        with self._lock:
            links = list(self._links)
            for link in links:
                self._drop(link, reset=reset)
        return len(links)

    def half_open(self) -> int:
        """Forget the links of now without telling either side; how many they were. New ones work."""
        with self._lock:
            living = [link for link in self._links if not link.dead]
            for link in living:
                link.dead = True
        return len(living)

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Nothing passes, nobody is told; new links are taken, and stand still too."""
        self._still = True
        try:
            yield
        finally:
            self._still = False

    @contextmanager
    def slow(self, rate: int) -> Iterator[None]:
        """So many bytes a second pass towards the relay, all links together."""
        self._rate = rate
        try:
            yield
        finally:
            self._rate = 0

    def reset_at(self, count: int) -> None:
        """Reset the link that carries the `count`-th byte (from 1) towards the relay from now on, with that byte."""
        self._arm(count, None)

    def reset_in(self, place: CutPoint) -> None:
        """Reset the next dump in the middle of a row event, or of a transaction: behind a whole row event of it."""
        self._arm(None, place)

    def wait_sprung(self, seconds: float = 30) -> None:
        """Until what `reset_at` or `reset_in` asked for has happened."""
        assert self._sprung.wait(seconds), "nothing came that could be reset"

    def _arm(self, count: int | None, place: CutPoint | None) -> None:
        with self._lock:
            self._bytes_left, self._place = count, place
            self._sprung.clear()

    # The thread

    def _run(self) -> None:
        last = time.monotonic()
        while not self._ending:
            now = time.monotonic()
            self._allowance = min(self._allowance + (now - last) * self._rate, max(self._rate * TICK * 2, 1))
            last = now
            with selectors.PollSelector() as selector:
                selector.register(self._listener, selectors.EVENT_READ, self._accept)
                with self._lock:
                    self._await(selector)
                for key, events in selector.select(TICK):
                    with self._lock:
                        key.data(events)

    def _await(self, selector: selectors.BaseSelector) -> None:
        """Register what each living link waits for."""
        for link in self._links:
            if link.dead or self._still:
                continue
            wanted: dict[socket.socket, int] = {}
            for way in (link.up, link.down):
                if not way.ended and len(way.buffer) < CHUNK:
                    wanted[way.source] = wanted.get(way.source, 0) | selectors.EVENT_READ
                if way.buffer and not (way is link.down and self._rate and self._allowance < 1):
                    wanted[way.sink] = wanted.get(way.sink, 0) | selectors.EVENT_WRITE
            for end, events in wanted.items():
                selector.register(end, events, self._serving(link, end))

    def _serving(self, link: _Link, end: socket.socket) -> Callable[[int], None]:
        def serve(events: int) -> None:
            for way in (link.up, link.down):
                if events & selectors.EVENT_READ and way.source is end and link in self._links:
                    self._receive(link, way)
                if events & selectors.EVENT_WRITE and way.sink is end and link in self._links:
                    self._send(link, way)

        return serve

    def _accept(self, _: int) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self.target, timeout=patience(5))
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()
            return
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.add(_Link(_Way(client, server), _Way(server, client)))

    def _receive(self, link: _Link, way: _Way) -> None:
        try:
            data = way.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._drop(link, reset=True)
            return
        way.ended = not data
        way.buffer += data
        if way.ended and not way.buffer:
            self._drop(link, reset=False)

    def _send(self, link: _Link, way: _Way) -> None:
        most = len(way.buffer)
        if way is link.down and self._rate:
            most = min(most, int(self._allowance))
        try:
            passing, springs = self._check(link, way, most)
            sent = way.sink.send(memoryview(way.buffer)[:passing]) if passing else 0
        except BlockingIOError:
            return
        except OSError:
            self._drop(link, reset=True)
            return
        if springs and sent == passing:
            self._spring(link)
            return
        self._passed(link, way, sent)
        if way.ended and not way.buffer:
            self._drop(link, reset=False)

    def _check(self, link: _Link, way: _Way, most: int) -> tuple[int, bool]:
        """How much of the buffer may pass, and whether the link is reset behind that."""
        if way is link.up:
            return most, False
        if self._bytes_left is not None and self._bytes_left <= most:
            return self._bytes_left, True
        if self._place is None or not link.dumps:
            return most, False
        ahead = _Packets(bytearray(way.packets.head), way.packets.left, way.packets.size)
        begun = 0
        for end, whole in ahead.walk(memoryview(way.buffer)[:most]):
            if len(ahead.head) == 10 and ahead.head[9] in _ROW_EVENTS and ahead.head[4] == 0:
                if self._place == "transaction" and whole:
                    return end, True
                half = end - (ahead.size - ahead.left) + ahead.size // 2
                if self._place == "event" and begun <= half <= end:
                    return half, True
            begun = end
        return most, False

    def _passed(self, link: _Link, way: _Way, count: int) -> None:
        """Account for what passed: allowance, bytes to the reset, and the commands of the client."""
        for _ in way.packets.walk(memoryview(way.buffer)[:count]):
            head = way.packets.head
            if way is link.up and len(head) >= 5 and head[3] == 0 and head[4] in _DUMPS:
                link.dumps = True
        del way.buffer[:count]
        if way is link.down:
            self._allowance -= count if self._rate else 0
            if self._bytes_left is not None:
                self._bytes_left -= count

    def _spring(self, link: _Link) -> None:
        self._bytes_left = self._place = None
        self._drop(link, reset=True)
        self._sprung.set()

    def _drop(self, link: _Link, *, reset: bool) -> None:
        if link not in self._links:
            return
        self._links.remove(link)
        for end in link.sockets:
            if reset:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()
