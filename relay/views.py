"""The documents that are made for one client or one table when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from relay import schemareport
from relay.config import Config
from relay.deliveries import Delivery
from relay.explain import explain
from relay.history import Recorder
from relay.httpapi import ClientDetail, Follower, History, Minutes, TableColumn, TableDetail, TableSchema
from relay.journal.frames import Definition
from relay.schemareport import TableHistory
from relay.stat import Stat
from relay.usage import Usage


class Views:
    """Puts together what several parts of the monitor know.

    `config` gives the configuration in force, `deliveries` a client's last ten by its id.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        recorder: Recorder,
        usage: Usage,
        deliveries: Callable[[int], list[Delivery]],
    ) -> None:
        self._config = config
        self._recorder = recorder
        self._usage = usage
        self._deliveries = deliveries

    def history(self) -> History:
        """/api/history."""
        return self._recorder.history()

    def client(self, document: Stat, client_id: int) -> ClientDetail | None:
        """/api/client; None if there is no such client."""
        for client in document.clients:
            if client.id == client_id:
                return ClientDetail(client, self._deliveries(client_id), self._recorder.client(client_id))
        return None

    def schema(self) -> list[TableSchema]:
        """/api/schema: every table that rows were read of, by name."""
        found = [_table_schema(definition) for definition in self._usage.definitions()]
        return sorted(found, key=lambda table: (table.schema, table.table))

    def table_history(self, schema: str, table: str) -> TableHistory | None:
        """/api/schema/history; None if the schema history has no such table."""
        return schemareport.history(Path(self._config().relay.data_dir), schema, table)

    def table(self, document: Stat, schema: str, table: str) -> TableDetail | None:
        """/api/table; None if no row of such a table was read."""
        usage = next((known for known in self._usage.tables() if (known.schema, known.table) == (schema, table)), None)
        if usage is None:
            return None
        definition = self._usage.definition(schema, table)
        verdicts = explain(self._config(), document, schema, table).clients
        processes = document.cdc.processes if document.cdc else []
        streams = [stream for process in processes for stream in process.streams]
        return TableDetail(
            usage=usage,
            minutes=self._minutes(schema, table),
            clients=[Follower(verdict.id, verdict.name, verdict.kinds) for verdict in verdicts if verdict.kinds],
            streams=sorted(
                (stream for stream in streams if (stream.schema, stream.table) == (schema, table)),
                key=lambda stream: -stream.lag_bytes,
            ),
            definition=_table_schema(definition) if definition else None,
        )

    def _minutes(self, schema: str, table: str) -> Minutes:
        rows = self._usage.minutes(schema, table)
        first = self._usage.minute - len(rows) + 1
        return Minutes(
            at=[60.0 * minute for minute in range(first, first + len(rows))],
            insert=[counts.insert for counts in rows],
            update=[counts.update for counts in rows],
            delete=[counts.delete for counts in rows],
        )


def _table_schema(definition: Definition) -> TableSchema:
    return TableSchema(
        schema=definition.schema,
        table=definition.table,
        schema_uid=definition.schema_id,
        table_uid=definition.table_id,
        version=definition.version,
        proven=definition.proven,
        columns=[
            TableColumn(
                name=column.name,
                uid=column.name_id,
                type=column.sql_type,
                field_type=column.type,
                meta=column.meta,
                unsigned=column.unsigned,
                nullable=column.nullable,
                primary=column.primary,
                charset=column.charset,
                labels=column.labels,
            )
            for column in definition.columns
        ],
    )
