"""Documents of the monitor without a relay, made of its own structs, for tests of scale and names.

All figures follow from numbers of tables, clients and ticks, so that a test can compute what the screen must show. A
tick is a second: counters grow with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sin
from typing import Final

from relay.monitoring.deliveries import Delivery
from relay.monitoring.documents import (
    ClientDetail,
    ClientHistory,
    Follower,
    History,
    Minutes,
    TableColumn,
    TableDetail,
    TableSchema,
)
from relay.monitoring.schema_report import SchemaColumn, SchemaVersion, TableHistory
from relay.monitoring.stat import CDC, Client, Dropped, Filter, Gap, Journal, Lake, LineLog, Process, Source, Stat
from relay.runtime.process_status import (
    CDCStatus,
    CDCStream,
    Counts,
    ExportStatus,
    LogStatus,
    MergeStatus,
    OpenTableStatus,
    SnapshotStatus,
    Stop,
    TableUsage,
    Usage,
    Watch,
)

BEGAN: Final = 1_790_000_000.0
"""When the relay started, Unix seconds."""

SAMPLES: Final = 720
INTERVAL: Final = 5.0

_TYPES: Final = (
    ("id", "bigint(20) unsigned", 8, 0, True, False, True, "", ()),
    ("", "varchar(200)", 15, 800, False, True, False, "utf8mb4", ()),
    ("price", "decimal(12,2)", 246, 3074, False, False, False, "", ()),
    ("state", "enum('new','paid')", 247, 1, False, False, False, "utf8mb4", ("new", "paid")),
    ("changed", "datetime(6)", 18, 6, False, True, False, "", ()),
)  # name, SQL type, binlog type, meta, unsigned, nullable, primary, charset, labels


def numbered(word: str, count: int) -> list[str]:
    """`count` names: word_0000 and so on."""
    return [f"{word}_{number:04d}" for number in range(count)]


def in_schemas(count: int) -> list[tuple[str, str]]:
    """`count` tables in ten schemas."""
    return [(f"schema_{number % 10}", f"table_{number:04d}") for number in range(count)]


@dataclass
class Told:
    """What the documents tell of, at second `tick` of the relay's life."""

    tables: Sequence[tuple[str, str]]
    clients: Sequence[str]
    tick: int = 7200
    stop: Stop | None = None
    gaps: list[Gap] = field(default_factory=list)
    lake: Lake | None = None
    log: LineLog | None = None
    cdc_users: Sequence[str] = ()  # of connections to the CDC port, which is off without any
    change: Callable[[Stat], object] = lambda stat: None  # made to each stat document before it is shown
    column: str = "name"  # what the second column of each table is called

    @property
    def now(self) -> float:
        return BEGAN + self.tick

    def stat(self) -> Stat:
        """/api/stat."""
        rows = {"insert": 900 * self.tick, "update": 300 * self.tick, "delete": 40 * self.tick}
        read = sum(rows.values())
        journal = Journal(
            first=0,
            decided=96 * read,
            committed=96 * read,
            flushed=96 * read - 4096,
            bytes=1 << 30,
            sequence=read + 1,
            max_bytes=10 << 30,
        )
        names = ["reader", "broker", "monitor", "server-0", "server-1"]
        stat = Stat(
            version="1.2.3",
            protocol="00010100",
            at=self.now,
            state="stopped" if self.stop else "running",
            started=BEGAN,
            stop=self.stop,
            gaps=self.gaps,
            source=Source(
                host="db.example.org",
                port=3306,
                state="stopped" if self.stop else "streaming",
                file="binlog.000042",
                position=4711 + 96 * self.tick,
                gtid_set="0-1-4711",
                last_event=self.now - 0.4,
                silent_seconds=0.4,
                lag_seconds=0.4,
                lag_bytes=2048,
                loss_seconds=864_000.0,
                watch=Watch(self.now - 2, "binlog.000042", 6759 + 96 * self.tick, 2048, 864_000),
            ),
            journal=journal,
            rows=rows,
            traffic={"transactions": 31 * self.tick, "bytes": 130 * read, "skipped": 0},
            events={
                "WRITE_ROWS_EVENT": 90 * self.tick,
                "UPDATE_ROWS_EVENT": 30 * self.tick,
                "XID_EVENT": 31 * self.tick,
            },
            processes=[
                Process(name, 4000 + slot, "running", slot % 2, 0.01 * (slot + 1) * self.tick, (24 + slot) << 20, 0.3)
                for slot, name in enumerate(names)
            ],
            clients=[self.client_of(number) for number in range(len(self.clients))],
            usage=Usage(BEGAN, 96 * read, [self.usage_of(number) for number in range(len(self.tables))]),
            lake=self.lake,
            log=self.log,
            cdc=self.cdc() if self.cdc_users else None,
            addresses={"classic": "0.0.0.0:6001", "http": "http://0.0.0.0:6081/"},
        )
        self.change(stat)
        return stat

    def client_of(self, number: int) -> Client:
        """The client that stands at `number` among the names; its id is one more."""
        matched = (number + 1) * self.tick
        waiting, in_flight, cut = number % 7 * 100, number % 3, number % 5
        return Client(
            id=number + 1,
            name=self.clients[number],
            connected=number % 2 == 0,
            status=("connected", "polling", "connected", "away")[number % 4],
            address=f"192.0.2.{number % 250 + 1}:{40_000 + number}" if number % 2 == 0 else "",
            first_seen=BEGAN + number,
            last_seen=self.now - (3600 + 60 * number if number % 4 == 3 else 0.5),
            filters=(Filter(*self.tables[number % len(self.tables)], "IUD", 0, 0),),
            matched=matched,
            confirmed=matched - waiting - in_flight - cut,
            in_flight=in_flight,
            waiting=waiting,
            waiting_limited=0,
            served=matched - waiting - cut,
            max_waiting=waiting + 50,
            repeats=0,
            dropped=Dropped(limit_oldest=0, limit_newest=0, cut=cut, flush=0, undecodable=0, skipped=0),
            lagging=number % 7 == 6,
        )

    def cdc(self) -> CDC:
        """The CDC port: two processes, each with every other connection."""
        processes = [
            CDCStatus(
                state="serving", at=self.now, position=96 * 1240 * self.tick, refused=3, rows=500 * self.tick,
                bytes=60_000 * self.tick,
            )
            for _ in range(2)
        ]  # fmt: skip
        for number in range(len(self.cdc_users)):
            processes[number % 2].streams.append(self.stream_of(number))
        return CDC("0.0.0.0", 4001, processes)

    def stream_of(self, number: int) -> CDCStream:
        """The connection of the user at `number`: every tenth has not asked for a table yet."""
        asked = number % 10 != 9
        schema, table = self.tables[number % len(self.tables)] if asked else ("", "")
        return CDCStream(
            user=self.cdc_users[number],
            uuid=f"client-{number}",
            address=f"192.0.2.{number % 250 + 1}",
            port=50_000 + number,
            state="streaming" if asked else "registered",
            form="avro" if number % 4 == 3 else "json",
            schema=schema,
            table=table,
            version=number % 3 + 1 if asked else 0,
            gtid=f"0-3000-{number + self.tick}" if asked else "",
            position=9000 * self.tick - number if asked else 0,
            lag_bytes=number % 5 * 3000 if asked else 0,
            rows=(number + 1) * self.tick if asked else 0,
            bytes=(number + 1) * 120 * self.tick if asked else 3,
            since=BEGAN + number,
        )

    def usage_of(self, number: int) -> TableUsage:
        """What happened in the table that stands at `number`."""
        once = Counts(number + 1, number % 10, number % 4)

        def times(factor: int) -> Counts:
            return Counts(once.insert * factor, once.update * factor, once.delete * factor)

        return TableUsage(*self.tables[number], times(self.tick), times(1440), times(60), last=self.now - number % 60)

    def history(self) -> History:
        """/api/history: a full hour."""
        return History(
            interval=INTERVAL,
            at=self._times(),
            insert=self._drifting(900),
            update=self._drifting(300),
            delete=self._drifting(40),
            bytes=self._drifting(160_000),
            confirmed=self._drifting(1100),
            lag_seconds=self._drifting(0.4),
            lag_bytes=self._whole(2048),
            waiting=self._whole(1200),
            cdc_rows=self._drifting(1000) if self.cdc_users else [None] * SAMPLES,
            cdc_lag_bytes=self._whole(12_000) if self.cdc_users else [None] * SAMPLES,
        )

    def client(self, number: int) -> ClientDetail:
        """/api/client of the client at `number`."""
        kinds = ("insert", "update", "delete")
        schema, table = self.tables[number % len(self.tables)]
        return ClientDetail(
            client=self.client_of(number),
            deliveries=[
                Delivery(self.now - 0.84 * turn, schema, table, kinds[turn % 3], 10 + turn, 840.0 if turn < 9 else None)
                for turn in range(10)
            ],
            history=ClientHistory(
                interval=INTERVAL,
                at=self._times(),
                waiting=self._whole(100 * (number % 7 + 1)),
                confirmed=self._drifting(number + 1),
            ),
        )

    def schema(self) -> list[TableSchema]:
        """/api/schema."""
        return [self.definition_of(number) for number in range(len(self.tables))]

    def definition_of(self, number: int) -> TableSchema:
        """Columns of the table at `number`."""
        schema, table = self.tables[number]
        columns = [
            TableColumn(
                name or self.column, 100 + place, sql, code, meta, unsigned, nullable, primary, charset, list(labels)
            )
            for place, (name, sql, code, meta, unsigned, nullable, primary, charset, labels) in enumerate(_TYPES)
        ]
        return TableSchema(schema, table, 7, 1000 + number, 1, True, columns)

    def table_history(self, number: int) -> TableHistory:
        """/api/schema/history of the table at `number`."""
        schema, table = self.tables[number]
        columns = [SchemaColumn(name or self.column, sql, None, False, "", "", False) for name, sql, *_ in _TYPES]
        statement = f"ALTER TABLE {table} ADD {self.column} INT"
        versions = [
            SchemaVersion("table", "", "binlog.000003", 700, f"0-1-{number}", "statement", statement, True, columns),
            SchemaVersion("unknown", "rows contradict it", "binlog.000002", 500, "", "rows", "", True, []),
            SchemaVersion("table", "", "binlog.000001", 90, "", "source", "", False, columns[:-1]),
        ]
        return TableHistory(schema, table, "", versions)

    def table(self, number: int) -> TableDetail:
        """/api/table of the table at `number`."""
        minute = self.now // 60 * 60
        drawn = random.Random(number)
        asking = [client for client in range(len(self.clients)) if client % len(self.tables) == number]
        streams = [self.stream_of(user) for user in range(len(self.cdc_users))]
        return TableDetail(
            usage=self.usage_of(number),
            minutes=Minutes(
                at=[minute - 60 * (59 - turn) for turn in range(60)],
                insert=[drawn.randrange(1000) for _ in range(60)],
                update=[drawn.randrange(300) for _ in range(60)],
                delete=[drawn.randrange(40) for _ in range(60)],
            ),
            clients=[Follower(client + 1, self.clients[client], "IUD") for client in asking],
            streams=[stream for stream in streams if (stream.schema, stream.table) == self.tables[number]],
            definition=self.definition_of(number),
        )

    def _drifting(self, usual: float) -> list[float | None]:
        """An hour of samples that wander about a usual value; those that two moments share are the same."""
        last = int(self.now // INTERVAL)
        samples = range(last - SAMPLES + 1, last + 1)
        return [usual * (1 + 0.3 * sin(n / 90 + usual) + 0.2 * sin(n / 41 + usual) + 0.1 * sin(n / 5)) for n in samples]

    def _whole(self, usual: int) -> list[int | None]:
        return [None if value is None else int(value) for value in self._drifting(usual)]

    def _times(self) -> list[float]:
        last = self.now // INTERVAL * INTERVAL
        return [last - INTERVAL * (SAMPLES - 1 - turn) for turn in range(SAMPLES)]


def a_lake(stop: Stop | None = None) -> Lake:
    """An export that is under way, or stopped."""
    export = ExportStatus(
        state="stopped" if stop else "following", at=BEGAN, stop=stop, seq=4711, position=9000, file="binlog.000042",
        offset=815, rows=123_456, files=78,
    )  # fmt: skip
    snapshot = SnapshotStatus(state="reading", at=BEGAN, table="shop.orders", rows=1000, total=4000, left=3)
    merging = MergeStatus(
        state="following", at=BEGAN, left_out=2,
        tables=[
            OpenTableStatus("shop", "orders", 1_234_567, 12, 40 << 20, 4711, BEGAN, 0.8, BEGAN),
            OpenTableStatus("shop", "notes", 3, 1, 252, 4700),
        ],
    )  # fmt: skip
    return Lake("/var/lib/relay/lake", export, 1.5, 4096, snapshot, merging)


def a_log(stop: Stop | None = None) -> LineLog:
    """A log that is written, or stopped."""
    status = LogStatus(
        state="stopped" if stop else "following", at=BEGAN, stop=stop, position=9000, file="binlog.000042",
        offset=815, log_file="relaylogs-20260921.txt", lines=55_555, bytes=1 << 20,
    )  # fmt: skip
    return LineLog("/var/log/relay/", status, 2.5, 8192)
