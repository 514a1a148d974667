"""The snapshot of a lake's tables: which of them, one after the other, and what to do when one has to begin again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple, Self

from relay.binlog.rules import Rules
from relay.config import Config
from relay.errors import ErrorCode, RelayError
from relay.lake import paths
from relay.lake.documents import Snapshot, Table, TableState
from relay.lake.log import LakeLog
from relay.lake.snapshot import estimate, plan
from relay.lake.snapshot.pace import MOST_ROWS
from relay.lake.snapshot.source import reach
from relay.lake.snapshot.table import Outdated, TableSnapshot, Work
from relay.lake.storage import Storage
from relay.lockfile import held
from relay.log import Log

_LOOK_SECONDS: Final = 0.2


class Progress(NamedTuple):
    """Of one table: rows read, of about so many."""

    table: Table
    rows: int
    total: int


class Snapshots:
    """Fetches the rows of tables that the lake does not know whole. A context: it holds a connection to the source.

    Failures leave as `SourceLost`, after which another attempt may succeed, and as `RelayError`.
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
        """`patterns`: tables as `schema.table`; `alive` is called now and then, also while this waits, and may raise;
        `show` when something was read; `most_rows` are asked for at a time."""
        self._config = config
        self._lake = LakeLog(storage)
        self._patterns = patterns
        self._log = log
        self._alive = alive
        self._show = show
        self._most_rows = most_rows
        source = config.source
        self._rules = Rules(source.tables, source.exclude_tables, source.exclude_columns)
        place = self._lake.state().place
        if place is None or not place.identity:
            raise RelayError(
                ErrorCode.USAGE,
                "snapshot",
                "nothing was exported to this lake yet, so that later changes would be missed",
                position=storage.url(),
                hint="run `relay start` with [Lake] Path, or `relay export`, first",
            )
        self.source = reach(config, place.identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def todo(self) -> list[Table]:
        """Tables of the source that are still to be read, by name."""
        state = self._lake.state()
        tables = plan.tables(self.source.asking, self._wanted)
        return [table for table in tables if is_wanting(state.tables.get(paths.table_key(table)))]

    def unseen(self) -> list[Table]:
        """Tables of the lake that wait for a snapshot, and that the source does not have or the account may not see."""
        seen = set(plan.tables(self.source.asking, self._wanted))
        known = self._lake.state().tables.values()
        return sorted(
            one.table for one in known if is_wanting(one) and one.table not in seen and self._wanted(*_names(one.table))
        )

    @staticmethod
    def unseen_error(table: Table) -> RelayError:
        """Why such a table is not read."""
        return plan.not_to_be_read(table)

    def waiting(self) -> list[Table]:
        """Tables that are read, and complete as soon as the export has passed where that ended."""
        known = self._lake.state().tables.values()
        return [one.table for one in known if is_waiting(one)]

    def is_followed(self, patience: float) -> bool:
        """Whether an export passes what was read, within so many seconds; then nothing waits any more."""
        until = time.monotonic() + patience
        while self.waiting():
            self._alive()
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def sizes(self, tables: Sequence[Table]) -> dict[Table, int]:
        """The rows that the source guesses the tables have."""
        return estimate.guesses(self.source.asking, tables)

    def fetch(self, table: Table) -> None:
        """Read a table up to its last row, from its beginning or from where the log says that it was left."""
        while True:
            known = self._lake.state().tables.get(paths.table_key(table))
            if not is_wanting(known):
                return
            how = self._plan(table)
            begun = known.snapshot if known else None
            if begun is not None and not self._goes_on(begun, how):
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
                TableSnapshot(work, how, begun).run()
            except Outdated as reason:
                self._log("snapshot_begins_again", table=table, reason=reason)
                continue
            self._log("snapshot_done", table=table)
            return

    def _wanted(self, schema: str, table: str) -> bool:
        patterns = (pattern.split(".", 1) for pattern in self._patterns)
        chosen = any(fnmatchcase(schema, first) and fnmatchcase(table, second) for first, second in patterns)
        return chosen and self._rules.wants(schema, table)

    def _plan(self, table: Table) -> plan.Plan:
        known = self._lake.state().tables.get(paths.table_key(table))
        return plan.plan(
            self.source.asking,
            self.source.server,
            table,
            known.versions if known else [],
            lambda column: self._rules.keeps(table.schema, table.table, column),
        )

    def _goes_on(self, begun: Snapshot, how: plan.Plan) -> bool:
        return (
            begun.version == how.version.version
            and begun.identity == self.source.server.identity
            and begun.after is not None
            # The key is the source's of this moment: the export, which tells versions, may not have come to its change.
            and begun.key == how.key_names
        )


def only_one(config: Config) -> AbstractContextManager[None]:
    """Keeps a second snapshot away from this DataDir. Raises `RelayError` (already_running)."""
    path = Path(config.relay.data_dir) / "snapshot.lock"
    return held(
        path,
        lambda pid: RelayError(
            ErrorCode.ALREADY_RUNNING,
            "snapshot",
            f"process {pid} is at it",
            position=str(path),
            hint="a relay with [Lake] Snapshot = auto does it itself: `relay stat` shows how far it is",
        ),
    )


def _names(table: Table) -> tuple[str, str]:
    return table.schema, table.table


def is_wanting(known: TableState | None) -> bool:
    """Whether rows of the table are still to be read."""
    return known is None or (known.complete_from is None and not (known.snapshot and known.snapshot.done))


def is_waiting(known: TableState) -> bool:
    """Whether all rows of the table are read, and the export is still to pass where that ended."""
    return known.complete_from is None and known.snapshot is not None and known.snapshot.done
