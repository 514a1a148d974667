"""The moments at which a table can be read: a `_seq`, the end of a transaction by its GTID, or a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake.documents import DataFile, LakeState, TableState
from relay.lake.storage import Storage

if TYPE_CHECKING:
    import pyarrow

Moment = int | str | datetime
"""A `_seq`; a GTID of one transaction; an aware time, also as a text of ISO 8601."""

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ONE: Final = rf"(?:\d+-\d+-\d+|{_UUID}:(?:\w+:)?\d+)"
_GTID: Final = re.compile(_ONE, re.IGNORECASE)
_GTIDS: Final = re.compile(rf"{_ONE}[-:,].*", re.IGNORECASE | re.DOTALL)


def seq_at(storage: Storage, state: LakeState, tables: Sequence[TableState], moment: Moment | None) -> int | None:
    """Return the `_seq` at which tables have their state of a moment: one for all, so that they fit together.

    At a GTID: after its transaction, which may be one of other tables. At a time: before the first transaction of the
    tables that was committed later, in the order of the binlog; so clocks that go back make no difference to the order.

    None stays None. Raises `RelayError` (usage) for a moment that is none, or that the lake does not have.
    """
    if moment is None or isinstance(moment, int):
        return moment
    if isinstance(moment, str) and _GTID.fullmatch(moment.strip()):
        return _after(storage, state, tables, moment.strip().lower())
    return _before_later(storage, state, tables, _time(tables, moment))


def _time(tables: Sequence[TableState], moment: str | datetime) -> datetime:
    if isinstance(moment, str) and _GTIDS.fullmatch(moment.strip()):
        hint = "give the GTID of its last transaction: UUID:N or D-S-N"
        raise _refusal(tables, moment, "it is a set of GTIDs, which has no place in the order of the lake", hint)
    try:
        time = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment.strip())
    except ValueError:
        raise _refusal(tables, moment, "it is no _seq, GTID or time", "one transaction: UUID:N or D-S-N") from None
    if time.tzinfo is None:
        raise _refusal(tables, moment, "it has no time zone", "add one: 2026-11-20 09:30:00Z")
    return time.astimezone(UTC)


def _after(storage: Storage, state: LakeState, tables: Sequence[TableState], gtid: str) -> int:
    wanted = {each.table for each in tables}
    others = [each for each in state.tables.values() if each.table not in wanted]
    for each in (*tables, *others):
        for file in reversed(_changes(each)):
            found = _read(storage, file, ["_commit_version"], [("_gtid", "==", gtid)])
            if len(found):
                return int(found["_commit_version"][0].as_py())
    raise _refusal(tables, gtid, "the lake has no row of this transaction", "give another one, or a time")


def _before_later(storage: Storage, state: LakeState, tables: Sequence[TableState], time: datetime) -> int:
    first: int | None = None
    date = time.date().isoformat()
    for file in chain.from_iterable(map(_changes, tables)):
        if file.date < date or (first is not None and file.first > first):
            continue  # a file has the transactions of its date only
        later = _read(storage, file, ["_seq"], [("_commit_timestamp", ">", time)])["_seq"].to_pylist()
        first = min(later if first is None else [first, *later], default=None)
    if first is not None:
        return first - 1
    end = state.place
    if end is None or end.timestamp < int(time.timestamp()):
        at = "nothing" if end is None else f"{datetime.fromtimestamp(end.timestamp, UTC):%Y-%m-%d %H:%M:%S}Z"
        raise _refusal(tables, time, f"the lake ends at {at}", "export more, or give an earlier time")
    return end.seq


def _changes(table: TableState) -> list[DataFile]:
    return sorted((file for file in table.files.values() if file.kind == "changes"), key=lambda file: file.first)


def _read(
    storage: Storage, file: DataFile, columns: list[str], filters: Iterable[tuple[str, str, Any]]
) -> pyarrow.Table:
    import pyarrow.parquet as pq

    with storage.arrow_source(file.path) as source:
        # Without threads: see relay.lake.parts.
        return pq.read_table(source, columns=columns, filters=list(filters), use_threads=False, pre_buffer=False)


def _refusal(tables: Sequence[TableState], moment: Moment, cause: str, hint: str) -> RelayError:
    names = ", ".join(str(each.table) for each in tables)
    return RelayError(ErrorCode.USAGE, f"read the state of {names} at {moment}", cause, hint=hint)
