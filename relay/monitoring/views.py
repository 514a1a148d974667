"""The documents about one client or one table, built on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from relay.config.tree import Config
from relay.journal.frames import Definition
from relay.monitoring.deliveries import Delivery
from relay.monitoring.documents import ClientDetail, Follower, History, Minutes, TableColumn, TableDetail, TableSchema
from relay.monitoring.explain import explain
from relay.monitoring.history import Recorder
from relay.monitoring.stat import Stat
from relay.monitoring.usage import Usage

if TYPE_CHECKING:
    from relay.monitoring.schema_report import TableHistory


class Views:
    """Combine the facts of several parts of the monitor.

    `config` returns the configuration in force, `deliveries` the last ten deliveries of a client by its id.
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
        """/api/schema: all tables of which rows were read, by name."""
        found = [_table_schema(definition) for definition in self._usage.definitions()]
        return sorted(found, key=lambda table: (table.schema, table.table))

    def table_history(self, schema: str, table: str) -> TableHistory | None:
        """/api/schema/history; None if the schema history lacks the table."""
        from relay.monitoring import schema_report  # this loads the libraries for the source

        return schema_report.history(Path(self._config().relay.data_dir), schema, table)

    def table(self, document: Stat, schema: str, table: str) -> TableDetail | None:
        """/api/table; None if no row of the table was read."""
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
