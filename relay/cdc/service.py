"""The CDC service of one process: its connections, the tables that they wait for, and their turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from relay._native import CdcTransaction, JournalReader
from relay.base.log import Log
from relay.cdc import users
from relay.cdc.connection import Connection
from relay.cdc.pace import Turns
from relay.cdc.store import Store
from relay.cdc.stream import NO_GTIDS, Stream, Style
from relay.cdc.versions import Step, Versions
from relay.config import patterns
from relay.config.tree import Config
from relay.config.values import Command
from relay.net.login_throttle import LoginThrottle
from relay.net.rejections import RejectionLog
from relay.protocol.cdc_messages import Gtid, Request, encode_transaction
from relay.protocol.cdc_session import Check, Last, Transaction
from relay.runtime.process_status import CDC_BYTES, CDCStatus

POLL_SECONDS: Final = 0.005
"""The time between polls of the journal while there are connections and new rows."""

QUIET_SECONDS: Final = 0.02
"""The same while there are no new rows: each wake-up costs CPU time, with one idle stream or with thousands."""

IDLE_SECONDS: Final = 0.1
"""The same while there are no connections."""

_SHOWN_BYTES: Final = CDC_BYTES - (1 << 16)
_STREAM_BYTES: Final = 400  # of a `CDCStream` without its names
_CHARACTER_BYTES: Final = 4
_RECEIVED: Final = 4096  # bytes read from a client before other connections get their turn
_SLICE_SECONDS: Final = 0.005  # of turns between polls of the sockets
_QUIET_PARTS: Final = 50  # a pause is one part in so many of the time since the last rows

UNKNOWN_TRANSACTION: Final = CdcTransaction("", 0, 0, 0, [])
"""The answer about an unknown transaction."""

Table = tuple[str, str]


class ConnectionsByTable:
    """Connections by table; each connection has at most one table."""

    def __init__(self) -> None:
        self._tables: dict[Connection, Table] = {}
        self._members: dict[Table, set[Connection]] = {}

    def of(self, table: Table) -> list[Connection]:
        """Return the connections of this table."""
        return list(self._members.get(table, ()))

    def tables(self) -> list[Table]:
        """Return the tables that have connections."""
        return list(self._members)

    def put(self, connection: Connection, table: Table) -> None:
        """Assign a connection to a table."""
        self.drop(connection)
        self._tables[connection] = table
        self._members.setdefault(table, set()).add(connection)

    def drop(self, connection: Connection) -> None:
        """Remove a connection from its table."""
        table = self._tables.pop(connection, None)
        if table is None:
            return
        self._members[table].discard(connection)
        if not self._members[table]:
            del self._members[table]


class Service:
    """The state that connections share. `committed` returns the position up to which the journal may be read."""

    def __init__(self, config: Config, data_dir: Path, committed: Callable[[], int], log: Log) -> None:
        self.log = log
        self.connections: set[Connection] = set()
        self.turns = Turns()
        self.buffer = memoryview(bytearray(_RECEIVED))  # all connections receive into it; TLS does so in parts
        self.waiting = asyncio.Event()  # set while a connection is queued for a turn
        self.sent_rows = self.sent_bytes = 0
        self._committed = committed
        self._streaming = ConnectionsByTable()
        self._waiting_for_table = ConnectionsByTable()
        # Answers that wait until everything committed is known.
        self._delayed: list[tuple[Connection, Callable[[], None]]] = []
        self.rejections = RejectionLog(log)
        self._throttle = LoginThrottle(config.cdc.auth_attempts, self.rejections)
        self._rejected_logins = 0
        self._problem = ""
        self._journal = JournalReader(data_dir / "journal")
        self._store = Store(data_dir / "cdc.db", self._journal.generation())
        self._versions = Versions(self._journal, self._store, committed())
        self.caught_up = False  # everything that the journal had at the start is known
        self._last_data = time.monotonic()  # when the journal last had new data
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Use this configuration from now on."""
        cdc, relay = config.cdc, config.relay
        self.command_gap = cdc.command_gap / 1000
        self._throttle.allowed = cdc.auth_attempts
        server = config.server
        password = "" if isinstance(server.password, Command) else server.password  # nobody can log in with a token
        self._users = users.Users(users.path_of(config), cdc.service_user, server.login, password)
        self._tables = patterns.compile_all(cdc.tables)
        self._style = Style(cdc.values, cdc.codec, relay.time_zone == "UTC", relay.on_unproven == "positional")
        for table in self._waiting_for_table.tables():
            self._start_waiting(table)

    def close(self) -> None:
        """Save the state and close."""
        self.rejections.close()
        self._versions.keep()
        self._store.close()

    @property
    def position(self) -> int:
        """The position of the journal up to which streams may read."""
        return self._versions.position

    # -- called by connections --

    def admit(self, connection: Connection, login: Check) -> None:
        """Admit or reject the user, now or when the login throttle allows it."""

        def check() -> bool | None:
            if connection not in self.connections:
                return None
            right = self._users.check(login.user, login.digest)
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
                self._rejected_logins += 1
                self.rejections("auth_failed", client=login.user, peer=connection.address)
                connection.perform(connection.session.checked(False))

        self._throttle.attempt(connection.address, login.user, time.monotonic(), check, refuse)

    def tick(self) -> None:
        """Do periodic work. Must be called about once a second."""
        self._throttle.tick(time.monotonic())
        self.rejections.tick()

    def find(self, connection: Connection, request: Request) -> None:
        """Answer the request with its stream, now or once the table exists."""
        self._when_known(connection, lambda: self._find(connection, request))

    def _find(self, connection: Connection, request: Request) -> None:
        last = self._versions.last
        if self._allows(request) and not last.gtid and last.timestamp:
            connection.perform(connection.session.refused(NO_GTIDS))
        elif self._exists(request):
            connection.start(request)
        else:
            self._waiting_for_table.put(connection, (request.schema, request.table))
            connection.perform(connection.session.missing())

    def stream(self, connection: Connection, request: Request) -> Stream:
        """Create the requested stream; from now on its connection is woken when there are rows for it."""
        self._waiting_for_table.drop(connection)
        form = connection.session.form
        stream = Stream(self._journal, self._versions, request, form, self._style, self.log)
        self._streaming.put(connection, stream.table)
        return stream

    def find_transaction(self, connection: Connection, question: Last | Transaction) -> None:
        """Answer QUERY-LAST-TRANSACTION or QUERY-TRANSACTION."""
        self._when_known(connection, lambda: self._find_transaction(connection, question))

    def _find_transaction(self, connection: Connection, question: Last | Transaction) -> None:
        if isinstance(question, Last):
            last = self._versions.last
            gtid = self._versions.triplet(last.gtid, last.server) or Gtid(0, 0, 0)
            connection.perform(connection.session.answered(_encoded(str(gtid), last)))
        elif question.gtid is None:
            connection.perform(connection.session.answered(_encoded(question.text, UNKNOWN_TRANSACTION)))
        else:
            self._search_on(connection, question, self._versions.find(question.gtid))

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        self._streaming.drop(connection)
        self._waiting_for_table.drop(connection)

    # -- called by the event loop's tasks --

    def step(self) -> float:
        """Read the journal, and wake the streams that have new rows. Returns the seconds until the next call."""
        committed = self._committed()
        if committed <= self._versions.position:
            self._mark_caught_up()
            return self._pause()
        self._last_data = time.monotonic()
        found = self._versions.step(committed)
        if self._versions.position >= committed:
            self._mark_caught_up()
        self._wake(found)
        return 0.0

    def take_turns(self) -> None:
        """Give streams their turns for a short while."""
        self.turns.take(_SLICE_SECONDS)
        if not self.turns:
            self.waiting.clear()

    def status(self, status: CDCStatus) -> None:
        """Fill in the process status."""
        status.position = self.position
        status.refused = self._rejected_logins
        status.rows, status.bytes = self.sent_rows, self.sent_bytes
        status.trouble = self._problem
        status.streams, room = [], _SHOWN_BYTES
        for connection in self.connections:
            entry = connection.status()
            room -= _STREAM_BYTES + _CHARACTER_BYTES * len(entry.user + entry.uuid + entry.schema + entry.table)
            if room < 0:
                break
            status.streams.append(entry)
        status.left_out = len(self.connections) - len(status.streams)

    def release(self) -> None:
        """Release the segments that retention has deleted."""
        self._journal.release_before(self._journal.first())

    # -- internal --

    def _pause(self) -> float:
        if not self.connections:
            return IDLE_SECONDS
        return min(max(POLL_SECONDS, (time.monotonic() - self._last_data) / _QUIET_PARTS), QUIET_SECONDS)

    def _allows(self, request: Request) -> bool:
        return patterns.any_matches(self._tables, request.schema, request.table)

    def _exists(self, request: Request) -> bool:
        """Whether the request can be fulfilled. A table that is not allowed does not exist for the client."""
        if not self._allows(request):
            return False
        versions = self._versions.versions(request.schema, request.table)
        if request.version is None:
            return bool(versions)
        return any(version.number == request.version for version in versions)

    def _when_known(self, connection: Connection, answer: Callable[[], None]) -> None:
        """Answer once everything committed by now is known."""
        if self.caught_up and self._committed() <= self._versions.position:
            self._answer(connection, answer)
        else:
            self._delayed.append((connection, answer))

    def _mark_caught_up(self) -> None:
        self.caught_up = True
        delayed, self._delayed = self._delayed, []
        for connection, answer in delayed:
            self._answer(connection, answer)

    def _answer(self, connection: Connection, answer: Callable[[], None]) -> None:
        """Answer a connection that still exists. If that fails, only this connection ends."""
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
        """Start the streams of connections that wait for this table, if it exists."""
        for connection in self._waiting_for_table.of(table):
            wanted = connection.session.wanted
            if wanted and (wanted.schema, wanted.table) == table and self._exists(wanted):
                connection.start(wanted)

    def _search_on(self, connection: Connection, question: Transaction, steps: Iterator[CdcTransaction | None]) -> None:
        found = next(steps, UNKNOWN_TRANSACTION)
        if found is None:  # let other connections have their turn
            again = partial(self._search_on, connection, question, steps)
            asyncio.get_running_loop().call_soon(self._answer, connection, again)
            return
        connection.perform(connection.session.answered(_encoded(question.text, found)))


def _encoded(gtid: str, found: CdcTransaction) -> bytes:
    tables = [f"{schema}.{table}" for schema, table in found.tables]
    return encode_transaction(gtid, found.images, found.timestamp, tables)
