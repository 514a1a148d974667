"""The moments at which a table can be read: a `_seq`, the end of a transaction by its GTID, or a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake.documents import DataFile, LakeState, TableState
from relay.lake.storage import Storage

if TYPE_CHECKING:
    import pyarrow

Moment = int | str | datetime
"""A `_seq`; a GTID of one transaction; an aware time, also as a text of ISO 8601."""

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GTID: Final = re.compile(rf"(?:\d+-\d+-\d+|{_UUID}:(?:\w+:)?\d+)", re.IGNORECASE)


def seq_at(storage: Storage, state: LakeState, table: TableState, moment: Moment) -> int:
    """Return the `_seq` at which a table has its state of a moment.

    At a GTID: after its transaction, which may be one of other tables. At a time: before the first transaction of the
    table that was committed later, in the order of the binlog; so clocks that go back make no difference to the order.

    Raises `RelayError` (usage) for a moment that is none, or that the lake does not have.
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str) and _GTID.fullmatch(moment.strip()):
        return _after(storage, state, table, moment.strip().lower())
    return _before_later(storage, state, table, _time(table, moment))


def _time(table: TableState, moment: str | datetime) -> datetime:
    try:
        time = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment.strip())
    except ValueError:
        raise _refusal(table, moment, "it is no _seq, GTID or time", "one transaction: UUID:N or D-S-N") from None
    if time.tzinfo is None:
        raise _refusal(table, moment, "it has no time zone", "add one: 2026-11-20 09:30:00Z")
    return time.astimezone(UTC)


def _after(storage: Storage, state: LakeState, table: TableState, gtid: str) -> int:
    others = [each for each in state.tables.values() if each is not table]
    for each in (table, *others):
        for file in reversed(_changes(each)):
            found = _read(storage, file, ["_commit_version"], [("_gtid", "==", gtid)])
            if len(found):
                return int(found["_commit_version"][0].as_py())
    raise _refusal(table, gtid, "the lake has no row of this transaction", "give another one, or a time")


def _before_later(storage: Storage, state: LakeState, table: TableState, time: datetime) -> int:
    first: int | None = None
    for file in _changes(table):
        if file.date < f"{time:%Y-%m-%d}" or (first is not None and file.first > first):
            continue  # a file has the transactions of its date only
        later = _read(storage, file, ["_seq"], [("_commit_timestamp", ">", time)])["_seq"].to_pylist()
        first = min(later if first is None else [first, *later], default=None)
    if first is not None:
        return first - 1
    end = state.place
    if end is None or end.timestamp < int(time.timestamp()):
        at = "nothing" if end is None else f"{datetime.fromtimestamp(end.timestamp, UTC):%Y-%m-%d %H:%M:%S}Z"
        raise _refusal(table, time, f"the lake ends at {at}", "export more, or give an earlier time")
    return end.seq


def _changes(table: TableState) -> list[DataFile]:
    return sorted((file for file in table.files.values() if file.kind == "changes"), key=lambda file: file.first)


def _read(
    storage: Storage, file: DataFile, columns: list[str], filters: Iterable[tuple[str, str, Any]]
) -> pyarrow.Table:
    import pyarrow.parquet as pq

    with storage.arrow_source(file.path) as source:
        return pq.read_table(source, columns=columns, filters=list(filters))


def _refusal(table: TableState, moment: Moment, cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.USAGE, f"read the state of {table.table} at {moment}", cause, hint=hint)
