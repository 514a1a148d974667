"""Constructed lakes: Parquet files and commits as the exporter and the snapshot write them, from rows in a test.

    lake = MadeLake(tmp_path)
    lake.define("shop.orders", {"id": "int", "item": "string"}, key=["id"])
    lake.mark("shop.orders", "create")
    lake.insert("shop.orders", {"id": 1, "item": "pen"})
    lake.update("shop.orders", {"id": 1, "item": "pen"}, {"id": 1, "item": "ink"})
    lake.commit()

Each change takes the next `_seq`; `commit` seals one file a table, version, kind and date, and writes the document.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from relay.lake.documents import (
    ChangeKind,
    Commit,
    DataFile,
    ExportPosition,
    Field,
    Gap,
    Marker,
    MarkerKind,
    Snapshot,
    Table,
    TableVersion,
)
from relay.lake.paths import part_name
from relay.lake.types import file_schema

Row = Mapping[str, Any]


def field_of(name: str, type_name: str, names: Sequence[str]) -> Field:
    """The field of a column; one named like a side column of another is that side."""
    base, _, side = name.rpartition("__")
    if base in names and side in ("text", "raw", "srid"):
        return Field(name, type_name, base, side=cast(Literal["text", "raw", "srid"], side))
    return Field(name, type_name, name)


class MadeLake:
    """A lake in a folder, written by a test.

    `seq` is the last number taken; `clock` the time of the next changes, in Unix seconds, and `gtid` their GTID: a test
    may set both.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)
        self.seq = 0
        self.clock = int(datetime(2026, 11, 20, 9, 30, tzinfo=UTC).timestamp())
        self.gtid = ""
        self.versions: dict[str, TableVersion] = {}
        self._number = 0
        self._rows: dict[tuple[str, int, ChangeKind, str], list[dict[str, Any]]] = {}
        self._new_versions: list[TableVersion] = []
        self._markers: list[Marker] = []
        self._snapshots: list[Snapshot] = []
        (root / "_log").mkdir(parents=True, exist_ok=True)

    def define(
        self, table: str, columns: Mapping[str, str], key: Sequence[str] = (), *, new_generation: bool = False
    ) -> TableVersion:
        """Begin a version of `schema.table` with these columns by name and Spark type, sides among them."""
        schema, _, name = table.partition(".")
        before = self.versions.get(table)
        version = TableVersion(
            table=Table(schema, name),
            generation=(before.generation if before else 1) + (1 if before and new_generation else 0),
            version=before.version + 1 if before else 1,
            fields=[field_of(column, type_name, list(columns)) for column, type_name in columns.items()],
            key=list(key),
        )
        self.versions[table] = version
        self._new_versions.append(version)
        return version

    def insert(self, table: str, *rows: Row) -> None:
        """An insert of each row."""
        for row in rows:
            self._change(table, {"insert": row})

    def transaction(self, table: str, *rows: Row) -> None:
        """Inserts of one transaction."""
        last = self.seq + len(rows)
        for row in rows:
            self.seq += 1
            self._row(table, "changes", row, "insert", self.seq, last)

    def delete(self, table: str, *rows: Row) -> None:
        """A delete of each row."""
        for row in rows:
            self._change(table, {"delete": row})

    def update(self, table: str, before: Row, after: Row) -> None:
        """One update: two flat rows of one number."""
        self._change(table, {"update_preimage": before, "update_postimage": after})

    def mark(self, table: str, kind: MarkerKind) -> int:
        """A marker, in the commit and as a row; its number."""
        self._change(table, {kind: {}})
        self._markers.append(Marker(self.versions[table].table, kind, self.seq, self.clock, f"{kind} {table}"))
        return self.seq

    def snapshot(self, table: str, *rows: Row, seq: int | None = None, after: Sequence[str] | None = None) -> None:
        """Rows of a snapshot, at `seq` (by default the last number), which is whole unless `after` says how far."""
        seq = self.seq if seq is None else seq
        for row in rows:
            self._row(table, "snapshot", row, "snapshot", seq)
        version = self.versions[table]
        self._snapshots.append(
            Snapshot(
                table=version.table,
                id=f"snapshot-{version.table}",
                version=version.version,
                lowest=seq,
                after=list(after) if after else None,
                rows=len(rows),
                total=len(rows),
                done=after is None,
                end_file="binlog.000001",
                end_offset=4 + 100 * seq,
                identity="made",
            )
        )

    def gap(self) -> None:
        """An accepted loss of changes, in a commit of its own."""
        self.seq += 1
        self.write(
            Commit(
                number=self._number + 1,
                writer="export",
                at=float(self.clock),
                place=self._place(),
                gap=Gap(self.seq, "lost"),
            )
        )

    def commit(self) -> Commit:
        """Seal what was gathered and write the next document; its place is the last number."""
        add = [self._seal(*group, rows) for group, rows in self._rows.items()]
        snapshot = bool(self._snapshots)
        commit = Commit(
            number=self._number + 1,
            writer="snapshot" if snapshot else "export",
            at=float(self.clock),
            place=None if snapshot else self._place(),
            add=add,
            versions=self._new_versions,
            markers=self._markers,
            snapshots=self._snapshots,
        )
        self.write(commit)
        self._rows, self._new_versions, self._markers, self._snapshots = {}, [], [], []
        return commit

    def follow(self, number: int) -> None:
        """Let the next commit come after `number`, which another writer made."""
        self._number = number

    def write(self, commit: Commit) -> None:
        """Write a document as it is; who reads meanwhile sees all of it or nothing."""
        path = self.root / "_log" / f"{commit.number:020}.json"
        written = path.with_name(f".{path.name}")
        written.write_bytes(msgspec.json.encode(commit))
        written.rename(path)
        self._number = commit.number

    def _change(self, table: str, images: Mapping[str, Row]) -> None:
        self.seq += 1
        for change_type, row in images.items():
            self._row(table, "changes", row, change_type, self.seq)

    def _row(
        self, table: str, kind: ChangeKind, row: Row, change_type: str, seq: int, commit_version: int | None = None
    ) -> None:
        version = self.versions[table]
        moment = datetime.fromtimestamp(self.clock, UTC)
        flat = dict.fromkeys(field.name for field in version.fields) | dict(row)
        flat |= {
            "_change_type": change_type,
            "_commit_version": commit_version or seq,
            "_commit_timestamp": moment,
            "_seq": seq,
            "_file": "binlog.000001",
            "_pos": 4 + 100 * seq,
            "_gtid": self.gtid,
            "_schema_version": version.version,
        }
        self._rows.setdefault((table, version.version, kind, f"{moment:%Y-%m-%d}"), []).append(flat)

    def _seal(self, table: str, number: int, kind: ChangeKind, date: str, rows: list[dict[str, Any]]) -> DataFile:
        version = self.versions[table]
        assert version.version == number, "commit before a new version is defined"
        first, last = rows[0]["_seq"], rows[-1]["_seq"]
        chunk = str(self._number + 1) if kind == "snapshot" else ""
        path = self.root / part_name(version.table, date, kind, first, last, number, chunk)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=file_schema(version)), path, compression="zstd")
        sealed = path.read_bytes()
        return DataFile(
            path=os.path.relpath(path, self.root),
            table=version.table,
            version=number,
            date=date,
            kind=kind,
            first=first,
            last=last,
            rows=len(rows),
            bytes=len(sealed),
            sha256=hashlib.sha256(sealed).hexdigest(),
            sides=[f.name for f in version.fields if f.side and any(row[f.name] is not None for row in rows)],
        )

    def _place(self) -> ExportPosition:
        return ExportPosition(
            generation=1,
            base=0,
            position=64 + 100 * self.seq,
            seq=self.seq,
            file="binlog.000001",
            offset=4 + 100 * self.seq,
            gtid="",
            identity="made",
            timestamp=self.clock,
        )
