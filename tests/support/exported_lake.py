"""Reads an exported lake in a folder without the relay's readers: the log's documents, and the files that they name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from relay.lake import paths
from relay.lake.documents import LakeState, Table, TableState
from relay.lake.exporter import Exporter, Progress
from relay.lake.log import LakeLog, verify
from relay.lake.storage import open_storage

_RANK = {"update_preimage": 0}


class Lake:
    """A lake in `folder`. Every access reads its log again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def state(self) -> LakeState:
        """The state after all commits."""
        return LakeLog(open_storage(str(self.folder))).state()

    def table(self, schema: str, table: str) -> TableState:
        """The log's state of one table."""
        return self.state().tables[paths.table_key(Table(schema, table))]

    def rows(self, schema: str, table: str) -> list[dict[str, Any]]:
        """The flat rows of a table by `_seq`, from all files in the log."""
        known = self.state().tables.get(paths.table_key(Table(schema, table)))
        files = known.files.values() if known else ()
        found = [row for file in files for row in self.read(file.path).to_pylist()]
        return sorted(found, key=lambda row: (row["_seq"], _RANK.get(row["_change_type"], 1)))

    def read(self, path: str) -> pyarrow.Table:
        """One file."""
        return pyarrow.parquet.ParquetFile(self.folder / path).read()

    def sequences(self) -> Counter[int]:
        """How often each `_seq` occurs in the lake, over all tables; the two rows of an update count once."""
        return Counter(
            row["_seq"]
            for known in self.state().tables.values()
            for row in self.rows(known.table.schema, known.table.table)
            if row["_change_type"] != "update_preimage"
        )

    def check(self) -> None:
        """Checks that every file is as the log describes it."""
        storage = open_storage(str(self.folder))
        assert verify(storage, LakeLog(storage).state()) == []

    def commits(self) -> int:
        """The number of the last commit."""
        return self.state().number


def export(exporter: Exporter) -> Progress:
    """All that is flushed."""
    while not exporter.step().caught_up:
        pass
    return exporter.finish()


def changes(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """The kind of each change, with some of its columns."""
    return [(row["_change_type"], *(row[column] for column in columns)) for row in rows]
