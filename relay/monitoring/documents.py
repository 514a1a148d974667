"""The documents of the monitor's HTTP interface other than /api/stat; docs/http.md describes them.

Times are Unix seconds of the relay's clock unless stated otherwise. A chart is a set of lists of equal length, oldest
value first; None means that the value is unknown.
"""

from __future__ import annotations

import msgspec

from relay.monitoring.deliveries import Delivery
from relay.monitoring.stat import Client
from relay.runtime.process_status import CDCStream, TableUsage


class History(msgspec.Struct):
    """/api/history: the last hour of the whole relay, one sample per `interval` seconds.

    Rates during an interval: rows read per second by kind (`insert`, `update`, `delete`), `bytes` read per second from
    the source, rows `confirmed` per second by all clients. Values at its end: `lag_seconds` and `lag_bytes` behind the
    source, and rows `waiting` in all queues. For the CDC port, if it is enabled: rows sent per second (`cdc_rows`), and
    how far the slowest stream is behind (`cdc_lag_bytes`).
    """

    interval: float
    at: list[float]
    insert: list[float | None]
    update: list[float | None]
    delete: list[float | None]
    bytes: list[float | None]
    confirmed: list[float | None]
    lag_seconds: list[float | None]
    lag_bytes: list[int | None]
    waiting: list[int | None]
    cdc_rows: list[float | None]
    cdc_lag_bytes: list[int | None]


class ClientHistory(msgspec.Struct):
    """The last hour of one client, at the same times as `History`: rows `waiting`, rows `confirmed` per second."""

    interval: float
    at: list[float]
    waiting: list[int | None]
    confirmed: list[float | None]


class ClientDetail(msgspec.Struct):
    """/api/client?id=N: a client, its last ten deliveries (newest first) and its last hour."""

    client: Client
    deliveries: list[Delivery]
    history: ClientHistory


class Minutes(msgspec.Struct):
    """Rows of a table in each minute; `at` is the minute's beginning on the source's clock."""

    at: list[float]
    insert: list[int]
    update: list[int]
    delete: list[int]


class TableColumn(msgspec.Struct):
    """A column, as the newest definition of its table in the journal has it.

    `type` is SQL text, `field_type` the binlog's number for it, `meta` its parameters (normalised, as
    docs/internals/journal.md says), `uid` the id that PollV2 sends for its name.
    """

    name: str
    uid: int
    type: str
    field_type: int
    meta: int
    unsigned: bool
    nullable: bool
    primary: bool
    charset: str
    labels: list[str]


class TableSchema(msgspec.Struct):
    """A table of which rows were read. `version` is PollV2's InstanceID. Without `proven`, names are positional."""

    schema: str
    table: str
    schema_uid: int
    table_uid: int
    version: int
    proven: bool
    columns: list[TableColumn]


class Follower(msgspec.Struct):
    """A client whose filters ask for a table. `kinds` is a subset of "IUD"."""

    id: int
    name: str
    kinds: str


class TableDetail(msgspec.Struct):
    """/api/table?schema=S&table=T: the rows of a table, by minutes of the last hour, and its consumers.

    `clients` have filters that match. `streams` of the CDC port are sorted by lag, the largest first. `definition` is
    None if the journal had no definition of the table.
    """

    usage: TableUsage
    minutes: Minutes
    clients: list[Follower]
    streams: list[CDCStream]
    definition: TableSchema | None


class Health(msgspec.Struct):
    """/healthz and /readyz: `ok`, or the reasons why not (status 503)."""

    ok: bool
    reasons: list[str]


class Failure(msgspec.Struct):
    """The body of all statuses from 400 on, except those of /healthz and /readyz."""

    error: str
