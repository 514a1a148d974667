"""Offsets of a stream: `_seq` numbers. A batch ends between transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from relay.lake.documents import DataFile

if TYPE_CHECKING:
    import pyarrow

    from relay.lake.storage import Storage


def files_between(
    files: Iterable[DataFile], start: int, end: int | None, kinds: Collection[str] = ("changes", "snapshot")
) -> list[DataFile]:
    """Return the files of `kinds` with rows of start < `_seq` <= end, in their order.

    Without `end`: all rows after start.
    """
    found = (file for file in files if file.kind in kinds and file.last > start and (end is None or file.first <= end))
    return sorted(found, key=lambda file: (file.first, file.last, file.path))


def limited_end(storage: Storage, files: Sequence[DataFile], start: int, end: int, max_rows: int) -> int:
    """Return the greatest end of a transaction in (start, end] up to which there are at most `max_rows` rows.

    A transaction that has more rows by itself is taken whole: it is never split, and the stream must advance. The
    result is `end` if everything fits. Reads two columns, and no more files than the rows need.
    """
    import pyarrow as pa

    read: list[pyarrow.Table] = []
    rows = 0
    for index, file in enumerate(files):
        read.append(_numbers(storage, file, start, end))
        rows += read[-1].num_rows
        settled = index + 1 == len(files) or files[index + 1].first > max(each.last for each in files[: index + 1])
        if rows > max_rows and settled:
            break
    if rows <= max_rows:
        return end
    ordered = pa.concat_tables(read).sort_by("_seq")
    ends = ordered["_commit_version"]
    first_left_out = ends[max_rows].as_py()
    for index in range(max_rows - 1, -1, -1):
        if (found := ends[index].as_py()) != first_left_out:
            return int(found)
    return int(first_left_out)


def _numbers(storage: Storage, file: DataFile, start: int, end: int) -> pyarrow.Table:
    import pyarrow.parquet as pq

    with storage.arrow_source(file.path) as source:
        return pq.read_table(
            source, columns=["_seq", "_commit_version"], filters=[("_seq", ">", start), ("_seq", "<=", end)]
        )
