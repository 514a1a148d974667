"""Snapshots of a lake's tables: selects the tables, reads them one by one, and restarts a table if necessary."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple, Self

from relay.base.errors import ErrorCode, RelayError
from relay.base.log import Log
from relay.config.tree import Config
from relay.datadir.lockfile import locked
from relay.ingest.rules import Rules
from relay.lake import paths
from relay.lake.documents import Snapshot, Table, TableState
from relay.lake.log import LakeLog, versions_of
from relay.lake.snapshot import estimate, plan
from relay.lake.snapshot.pace import MOST_ROWS
from relay.lake.snapshot.source import open_source
from relay.lake.snapshot.table import Outdated, TableSnapshot, Work
from relay.lake.storage import Storage

_POLL_SECONDS: Final = 0.2


class Progress(NamedTuple):
    """The progress of one table: rows read, and an estimate of the total."""

    table: Table
    rows: int
    total: int


class Snapshots:
    """Read the rows of tables that are incomplete in the lake.

    A context manager: it holds a connection to the source.

    Raises `SourceLost` if another attempt may succeed, else `RelayError`.
    """

    def __init__(
        self,
        config: Config,
        storage: Storage,
        patterns: Sequence[str],
        log: Log = lambda event, **_: None,
        *,
        alive: Callable[[], None] = lambda: None,
        show: Callable[[Progress], None] = lambda _: None,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """`patterns` select tables as `schema.table`. `most_rows` is the most rows of a page.

        `alive` is called regularly, also while waiting, and may raise; `show` is called after each page.
        """
        self._config = config
        self._lake = LakeLog(storage)
        self._selected = Rules(patterns)
        self._log = log
        self._alive = alive
        self._show = show
        self._most_rows = most_rows
        source = config.source
        self._rules = Rules(source.tables, source.exclude_tables, source.exclude_columns)
        exported = self._lake.state().place
        if exported is None or not exported.identity:
            raise RelayError(
                ErrorCode.USAGE,
                "snapshot",
                "nothing was exported to this lake yet: later changes would be lost",
                position=storage.url(),
                hint="run `relay start` with [Lake] Path, or `relay export`, first",
            )
        self.source = open_source(config, exported.identity, alive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def todo(self) -> list[Table]:
        """Return the source's tables that still have to be read, by name."""
        state = self._lake.state()
        tables = plan.tables(self.source.metadata, self._wanted)
        return [table for table in tables if needs_reading(state.tables.get(paths.table_key(table)))]

    def unseen(self) -> list[Table]:
        """Tables of the lake that need a snapshot but do not exist in the source, or that the account may not see."""
        seen = set(plan.tables(self.source.metadata, self._wanted))
        known = self._lake.state().tables.values()
        missing = [one.table for one in known if needs_reading(one) and one.table not in seen]
        return sorted(table for table in missing if self._wanted(table.schema, table.table))

    @staticmethod
    def unseen_error(table: Table) -> RelayError:
        """Return the error for a table that `unseen` returns."""
        return plan.unreadable_error(table)

    def waiting(self) -> list[Table]:
        """Tables whose rows are all read. They are complete once the export has passed the end of the reading."""
        return [one.table for one in self._lake.state().tables.values() if awaits_export(one)]

    def wait_until_complete(self, patience: float) -> bool:
        """Wait up to `patience` seconds until no table is `waiting`. Returns False if one still is."""
        until = time.monotonic() + patience
        while self.waiting():
            self._alive()
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def sizes(self, tables: Sequence[Table]) -> dict[Table, int]:
        """Return the source's estimate of rows in each table."""
        return estimate.row_estimates(self.source.metadata, tables)

    def fetch(self, table: Table) -> None:
        """Read a table to its last row, from its first row or from where the log says that the snapshot is."""
        while True:
            known = self._lake.state().tables.get(paths.table_key(table))
            if not needs_reading(known):
                return
            current = self._plan(table)
            begun = known.snapshot if known else None
            if begun is not None and not self._can_continue(begun, current):
                begun = None
            work = Work(
                self._lake,
                self.source,
                Path(self._config.relay.data_dir) / "journal",
                lambda: self._plan(table),
                self._alive,
                lambda rows, total: self._show(Progress(table, rows, total)),
                self._most_rows,
            )
            self._log("snapshot_begins", table=table, rows=begun.rows if begun else 0)
            try:
                TableSnapshot(work, current, begun).run()
            except Outdated as reason:
                self._log("snapshot_begins_again", table=table, reason=reason)
                continue
            self._log("snapshot_done", table=table)
            return

    def _wanted(self, schema: str, table: str) -> bool:
        return self._selected.wants(schema, table) and self._rules.wants(schema, table)

    def _plan(self, table: Table) -> plan.Plan:
        return plan.plan(
            self.source.metadata,
            self.source.server,
            table,
            versions_of(self._lake.state().tables, table),
            lambda column: self._rules.keeps(table.schema, table.table, column),
        )

    def _can_continue(self, begun: Snapshot, current: plan.Plan) -> bool:
        return (
            begun.version == current.version.version
            and begun.identity == self.source.server.identity
            and begun.after is not None
            # Versions come from the export, which may not have reached a change of the key: compare the key too.
            and begun.key == current.key_names
        )


def only_one(config: Config) -> AbstractContextManager[None]:
    """Lock the DataDir against a second snapshot. Raises `RelayError` (already_running)."""
    path = Path(config.relay.data_dir) / "snapshot.lock"
    return locked(
        path,
        lambda pid: RelayError(
            ErrorCode.ALREADY_RUNNING,
            "snapshot",
            f"process {pid} already makes one",
            position=str(path),
            hint="a relay with [Lake] Snapshot = auto makes snapshots itself: `relay stat` shows its progress",
        ),
    )


def needs_reading(known: TableState | None) -> bool:
    """Whether rows of the table still have to be read."""
    return known is None or (known.complete_from is None and not (known.snapshot and known.snapshot.done))


def awaits_export(known: TableState) -> bool:
    """Whether all rows of the table are read but the export has not passed the end of the reading."""
    return known.complete_from is None and known.snapshot is not None and known.snapshot.done
