"""The documents of the monitor's HTTP interface besides /api/stat; docs/http.md describes them.

Times are Unix seconds of the relay's clock unless something else is said. A chart is a set of lists of equal length,
oldest value first; None stands where nothing is known.
"""

from __future__ import annotations

import msgspec

from relay.board import CDCStream, TableUsage
from relay.deliveries import Delivery
from relay.stat import Client


class History(msgspec.Struct):
    """/api/history: the last hour of the whole relay, a sample each `interval` seconds.

    Of an interval: `insert`, `update`, `delete` rows a second that were read, `bytes` a second from the source,
    `confirmed` rows a second by all clients. At its end: `lag_seconds` and `lag_bytes` behind the source, and rows
    `waiting` in all queues. Of the CDC port, if it is on: rows a second that were sent, and how far the slowest stream
    is behind.
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
    """The last hour of one client, at the same times as `History`: rows `waiting`, rows a second `confirmed`."""

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
    """A column as its table's newest definition in the journal has it.

    `type` is SQL text, `field_type` the binlog's number for it, `meta` its parameters (normalised, as ARCHITECTURE.md
    says), `uid` the id that PollV2 sends for its name.
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
    """A table that rows were read of. `version` is PollV2's InstanceID; not `proven`: names are positional."""

    schema: str
    table: str
    schema_uid: int
    table_uid: int
    version: int
    proven: bool
    columns: list[TableColumn]


class Follower(msgspec.Struct):
    """A client whose filters ask for a table; kinds is a subset of "IUD"."""

    id: int
    name: str
    kinds: str


class TableDetail(msgspec.Struct):
    """/api/table?schema=S&table=T: what happened in a table, by minutes of the last hour, and who asked for it.

    `clients` by their filters, `streams` at the CDC port; those furthest behind first.
    `definition` is None if the table's definition was not seen.
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
    """The body of every status from 400 on but those of /healthz and /readyz."""

    error: str
