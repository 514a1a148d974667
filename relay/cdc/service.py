"""The CDC service of one process: who is connected, which tables they wait for, and whose turn it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from relay._native import CdcTransaction, JournalReader
from relay.board import CDC_BYTES, CDCStatus
from relay.cdc import users
from relay.cdc.catalogue import Catalogue, Step
from relay.cdc.connection import Connection
from relay.cdc.pace import Turns
from relay.cdc.store import Store
from relay.cdc.stream import NO_GTIDS, Stream, Style
from relay.config import Config
from relay.log import Log
from relay.serving import patterns
from relay.serving.brake import Brake
from relay.serving.refusals import Refusals
from relay.wire.cdc import Check, Last, Transaction
from relay.wire.cdcwords import Gtid, Request, encode_transaction

LOOK_SECONDS: Final = 0.005
"""Between looks at the journal while rows come and somebody is connected."""

QUIET_SECONDS: Final = 0.02
"""The same while none come: a wake-up costs thousands of idle streams' process as much as one's."""

IDLE_SECONDS: Final = 0.1
"""The same while nobody is."""

_SHOWN_BYTES: Final = CDC_BYTES - (1 << 16)
_STREAM_BYTES: Final = 400  # of a `CDCStream`, names apart
_CHARACTER_BYTES: Final = 4
_RECEIVED: Final = 4096  # bytes of a client that are looked at before others have their turn
_SLICE_SECONDS: Final = 0.005  # of turns, after which sockets are looked at
_QUIET_PARTS: Final = 50  # a pause is one part in so many of the time for which nothing has come

NOT_THERE: Final = CdcTransaction("", 0, 0, 0, [])
"""What is told of a transaction that is not known."""

Table = tuple[str, str]


class Members:
    """Connections by table; each is with one table at most."""

    def __init__(self) -> None:
        self._tables: dict[Connection, Table] = {}
        self._members: dict[Table, set[Connection]] = {}

    def of(self, table: Table) -> list[Connection]:
        """Those with this table, now."""
        return list(self._members.get(table, ()))

    def tables(self) -> list[Table]:
        """The tables that somebody is with, now."""
        return list(self._members)

    def put(self, connection: Connection, table: Table) -> None:
        """It is with this table from now on."""
        self.drop(connection)
        self._tables[connection] = table
        self._members.setdefault(table, set()).add(connection)

    def drop(self, connection: Connection) -> None:
        """It is with no table."""
        table = self._tables.pop(connection, None)
        if table is None:
            return
        self._members[table].discard(connection)
        if not self._members[table]:
            del self._members[table]


class Service:
    """What connections share. `committed` tells how far the journal may be read."""

    def __init__(self, config: Config, data_dir: Path, committed: Callable[[], int], log: Log) -> None:
        self.log = log
        self.connections: set[Connection] = set()
        self.turns = Turns()
        self.buffer = memoryview(bytearray(_RECEIVED))
        self.waiting = asyncio.Event()  # somebody does, for a turn
        self.sent_rows = self.sent_bytes = 0
        self._committed = committed
        self._streaming = Members()
        self._wanting = Members()
        self._asking: list[tuple[Connection, Callable[[], None]]] = []  # before all was known that is committed
        self.refusals = Refusals(log)
        self._brake = Brake(config.cdc.auth_attempts, self.refusals)
        self._refused = 0
        self._problem = ""
        self._journal = JournalReader(data_dir / "journal")
        self._store = Store(data_dir / "cdc.db", self._journal.generation())
        self._catalogue = Catalogue(self._journal, self._store, committed())
        self.level = False  # all that the journal had when the service began is known
        self._came = time.monotonic()  # when the journal last had something new
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Work with this configuration from now on."""
        cdc, relay = config.cdc, config.relay
        self.command_gap = cdc.command_gap / 1000
        self._brake.allowed = cdc.auth_attempts
        server = config.server
        self._users = users.Users(users.path_of(config), cdc.service_user, server.login, server.password)
        self._tables = patterns.compiled(cdc.tables)
        self._style = Style(cdc.values, cdc.codec, relay.time_zone == "UTC", relay.on_unproven == "positional")
        for table in self._wanting.tables():
            self._start_waiting(table)

    def close(self) -> None:
        """Keep what is known."""
        self.refusals.close()
        self._catalogue.keep()
        self._store.close()

    @property
    def position(self) -> int:
        """Of the journal, up to which streams may go."""
        return self._catalogue.position

    # -- what connections ask for --

    def admit(self, connection: Connection, asked: Check) -> None:
        """Let the user in, or refuse it, now or when it is its turn."""

        def check() -> bool | None:
            if connection not in self.connections:
                return None
            right = self._users.check(asked.user, asked.digest)
            problem = self._users.problem
            if problem and problem != self._problem:
                self.log("cdc_users_unreadable", error=problem)
            self._problem = problem
            if right:
                connection.perform(connection.session.checked(True))
            else:
                refuse()
            return right

        def refuse() -> None:
            if connection in self.connections:
                self._refused += 1
                self.refusals("auth_failed", client=asked.user, peer=connection.address)
                connection.perform(connection.session.checked(False))

        self._brake.attempt(connection.address, asked.user, time.monotonic(), check, refuse)

    def tick(self) -> None:
        """To be called about once a second."""
        self._brake.tick(time.monotonic())
        self.refusals.tick()

    def find(self, connection: Connection, request: Request) -> None:
        """Answer the request: by its stream, now or once there is such a table."""
        self._once_known(connection, lambda: self._find(connection, request))

    def _find(self, connection: Connection, request: Request) -> None:
        last = self._catalogue.last
        if self._allows(request) and not last.gtid and last.timestamp:
            connection.perform(connection.session.refused(NO_GTIDS))
        elif self._is_there(request):
            connection.start(request)
        else:
            self._wanting.put(connection, (request.schema, request.table))
            connection.perform(connection.session.missing())

    def stream(self, connection: Connection, request: Request) -> Stream:
        """The stream that was asked for, whose client is woken from now on when there are rows for it."""
        self._wanting.drop(connection)
        form = connection.session.form
        stream = Stream(self._journal, self._catalogue, request, form, self._style, self.log)
        self._streaming.put(connection, stream.table)
        return stream

    def tell(self, connection: Connection, asked: Last | Transaction) -> None:
        """Answer what is asked about a transaction."""
        self._once_known(connection, lambda: self._tell(connection, asked))

    def _tell(self, connection: Connection, asked: Last | Transaction) -> None:
        if isinstance(asked, Last):
            last = self._catalogue.last
            gtid = self._catalogue.triplet(last.gtid, last.server) or Gtid(0, 0, 0)
            connection.perform(connection.session.told(_encoded(str(gtid), last)))
        elif asked.gtid is None:
            connection.perform(connection.session.told(_encoded(asked.asked, NOT_THERE)))
        else:
            self._look(connection, asked, self._catalogue.find(asked.gtid))

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        self._streaming.drop(connection)
        self._wanting.drop(connection)

    # -- the loop --

    def step(self) -> float:
        """Look at the journal, and wake whom it concerns; in how many seconds to look again."""
        committed = self._committed()
        if committed <= self._catalogue.position:
            self._become_level()
            return self._pause()
        self._came = time.monotonic()
        found = self._catalogue.step(committed)
        if self._catalogue.position >= committed:
            self._become_level()
        self._wake(found)
        return 0.0

    def take_turns(self) -> None:
        """Give streams their turns for a short while."""
        self.turns.take(_SLICE_SECONDS)
        if not self.turns:
            self.waiting.clear()

    def status(self, status: CDCStatus) -> None:
        """Fill in what people may see."""
        status.position = self.position
        status.refused = self._refused
        status.rows, status.bytes = self.sent_rows, self.sent_bytes
        status.trouble = self._problem
        status.streams, room = [], _SHOWN_BYTES
        for connection in self.connections:
            shown = connection.shown()
            room -= _STREAM_BYTES + _CHARACTER_BYTES * len(shown.user + shown.uuid + shown.schema + shown.table)
            if room < 0:
                break
            status.streams.append(shown)
        status.left_out = len(self.connections) - len(status.streams)

    def release(self) -> None:
        """Let go of what retention has deleted."""
        self._journal.release_before(self._journal.first())

    # -- parts --

    def _pause(self) -> float:
        if not self.connections:
            return IDLE_SECONDS
        return min(max(LOOK_SECONDS, (time.monotonic() - self._came) / _QUIET_PARTS), QUIET_SECONDS)

    def _allows(self, request: Request) -> bool:
        return patterns.allow(self._tables, request.schema, request.table)

    def _is_there(self, request: Request) -> bool:
        """Whether it can be met; what is not allowed is not there."""
        if not self._allows(request):
            return False
        versions = self._catalogue.versions(request.schema, request.table)
        if request.version is None:
            return bool(versions)
        return any(version.number == request.version for version in versions)

    def _once_known(self, connection: Connection, answer: Callable[[], None]) -> None:
        """Answer from what is committed by now."""
        if self.level and self._committed() <= self._catalogue.position:
            self._answer(connection, answer)
        else:
            self._asking.append((connection, answer))

    def _become_level(self) -> None:
        self.level = True
        asking, self._asking = self._asking, []
        for connection, answer in asking:
            self._answer(connection, answer)

    def _answer(self, connection: Connection, answer: Callable[[], None]) -> None:
        """Have a client that is still there answered; one that cannot be is ended, and no other."""
        if connection not in self.connections:
            return
        try:
            answer()
        except Exception as error:
            connection.fail(error)

    def _wake(self, found: Step) -> None:
        for table in found.touched:
            for connection in self._streaming.of(table):
                connection.wake(found.before)
        for table in found.defined:
            self._start_waiting(table)

    def _start_waiting(self, table: Table) -> None:
        """Begin the streams of those who wait for it, if it is there."""
        for connection in self._wanting.of(table):
            wanted = connection.session.wanted
            if wanted and (wanted.schema, wanted.table) == table and self._is_there(wanted):
                connection.start(wanted)

    def _look(self, connection: Connection, asked: Transaction, steps: Iterator[CdcTransaction | None]) -> None:
        found = next(steps, NOT_THERE)
        if found is None:  # others have their turn, too
            again = partial(self._look, connection, asked, steps)
            asyncio.get_running_loop().call_soon(self._answer, connection, again)
            return
        connection.perform(connection.session.told(_encoded(asked.asked, found)))


def _encoded(gtid: str, found: CdcTransaction) -> bytes:
    tables = [f"{schema}.{table}" for schema, table in found.tables]
    return encode_transaction(gtid, found.images, found.timestamp, tables)
