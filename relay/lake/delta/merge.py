"""One merge of an open table: new rows in new files, and the rows that they replace marked as deleted in the old ones.

Nothing counts before the commit of `actions`. Like a log-structured merge tree, files of similar size become one larger
file, so each row is written again only a few times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.lake.arrow import pyarrow
from relay.lake.delta import data_files, vectors
from relay.lake.delta.actions import Action, Add, Remove
from relay.lake.delta.data_files import Value
from relay.lake.delta.images import images
from relay.lake.delta.log import DeltaLog
from relay.lake.documents import Field

TARGET_BYTES: Final = 16 << 20
"""The size of a file that is merged with no other one."""

_LEAST_BYTES: Final = 64 << 10  # files up to this size are one tier
_RATIO: Final = 6  # between the sizes of two tiers; so many files of a tier become one of the next
_MOST_DELETED: Final = 0.5  # the share of deleted rows from which a file is written again
_MOST_COMPACTED: Final = 2 * TARGET_BYTES  # bytes that a merge compacts beside a first group, so that it ends soon
_THREADS: Final = 2


class _File:
    """A file as this merge leaves it. `deleted` is a mask of all its rows, None if all are live."""

    def __init__(self, add: Add, deleted: pyarrow.BooleanArray | None, *, new: bool) -> None:
        self.add = add
        self.statistics = data_files.statistics_of(add)
        self.deleted = deleted
        self.new = new
        self.changed = False

    @property
    def live(self) -> float:
        """The share of rows that are live."""
        if self.deleted is None or not self.statistics.num_records:
            return 1.0
        return 1 - int(self.deleted.true_count) / self.statistics.num_records

    @property
    def bytes(self) -> float:
        """The size of the live rows."""
        return self.add.size * self.live


class Merge:
    """A merge on top of a table's newest commit."""

    def __init__(self, log: DeltaLog, fields: Sequence[Field], key: Sequence[str], *, anew: bool = False) -> None:
        """`fields` are those that the table has afterwards, `key` the names of those that identify a row.

        A table without a key has all of them in `key`. With `anew`, the table begins without rows.
        """
        self._log = log
        self._storage = log.storage
        self._fields = fields
        self._key = key
        self._files = {} if anew else {path: self._open(add) for path, add in log.files.items()}
        self._gone = list(log.files.values()) if anew else []
        self.rows_written = self.bytes_written = 0

    def apply(self, changed: pyarrow.Table) -> None:
        """Replace the rows with the keys of `changed`, which are unique, by those of its rows that are `present`."""
        if not changed.num_rows:
            return
        sought = images(changed, self._key)
        if isinstance(sought, pyarrow.ChunkedArray):
            sought = sought.combine_chunks()
        with ThreadPoolExecutor(_THREADS) as threads:
            candidates = list(self._candidates(changed))
            masks = threads.map(lambda file: self._find(file, sought), candidates)
            for file, mask in zip(candidates, masks, strict=True):
                self._delete(file, mask)
        present = changed.filter(changed["present"]).drop_columns("present")
        if present.num_rows:
            self._write(present.sort_by([(name, "ascending") for name in self._sortable()]))

    def apply_counts(self, changed: pyarrow.Table) -> None:
        """Add and delete rows of a table without a key: `changed` has the fields, and how many equal rows to add.

        Rows of a negative `count` are deleted: so many that are equal in every value, whichever they are. Raises
        RelayError (lake_damaged) if the table does not have them.
        """
        count = changed["count"]
        fewer = changed.filter(pyarrow.compute.less(count, 0))
        if fewer.num_rows:
            sought = images(fewer, self._key)
            left = dict(zip(sought.to_pylist(), fewer["count"].to_pylist(), strict=True))
            for file in list(self._candidates(fewer)):
                self._delete(file, self._chosen(file, sought, left))
            if missing := -sum(left.values()):
                raise RelayError(
                    StopCode.LAKE_DAMAGED, "merge an open table", f"it lacks {missing} rows that were deleted",
                    position=self._storage.url(self._log.folder),
                    hint="delete that folder: the relay makes the table again",
                )  # fmt: skip
        more = changed.filter(pyarrow.compute.greater(count, 0))
        if more.num_rows:
            times = more["count"].to_pylist()
            positions = pyarrow.array([at for at, each in enumerate(times) for _ in range(each)])
            self._write(more.drop_columns("count").take(positions))

    def _chosen(self, file: _File, sought: pyarrow.Array, left: dict[Any, int]) -> pyarrow.BooleanArray:
        """Return a mask of rows to delete in a file, and count them in `left`, by image."""
        found = self._find(file, sought)
        if file.deleted is not None:
            found = pyarrow.compute.and_not(found, file.deleted)
        rows = self._rows(file, self._key).filter(found)
        positions = []
        for position, image in zip(
            pyarrow.compute.indices_nonzero(found).to_pylist(), images(rows, self._key).to_pylist(), strict=True
        ):
            if left[image] < 0:
                left[image] += 1
                positions.append(position)
        every = pyarrow.array(range(len(found)), pyarrow.uint64())
        return pyarrow.compute.is_in(every, pyarrow.array(positions, pyarrow.uint64()))

    def rewrite(self, old: Sequence[Field]) -> None:
        """Write all files again, from the fields `old` to those of this merge."""
        for file in list(self._files.values()):
            rows = self._live_rows(file, old)
            self._drop(file)
            self._write(data_files.conformed(rows, old, self._fields))

    def discard(self) -> None:
        """Delete the files that this merge has written: it will not be committed."""
        for file in self._files.values():
            if file.new:
                self._storage.delete(self._log.path(file.add.path))

    def compact(self, alive: Callable[[], None]) -> None:
        """Merge files of similar size, and files with many deleted rows."""
        done = 0
        for group in self._groups():
            size = sum(file.add.size for file in group)
            if done and done + size > _MOST_COMPACTED:
                continue
            done += size
            alive()
            rows = pyarrow.concat_tables([self._live_rows(file, self._fields) for file in group])
            for file in group:
                self._drop(file)
            if rows.num_rows:
                self._write(rows.sort_by([(name, "ascending") for name in self._sortable()]))

    def actions(self) -> list[Action]:
        """Return the actions of the commit. The files of its deletion vectors are written."""
        collected = vectors.VectorFile()
        now = int(time.time() * 1000)
        actions: list[Action] = [_removal(add, now) for add in self._gone]
        for file in self._files.values():
            if file.new or file.changed:
                add = file.add
                if file.changed and not file.new:
                    actions.append(_removal(self._log.files[add.path], now))
                if file.deleted is not None and file.changed:
                    stats = msgspec.structs.replace(file.statistics, tight_bounds=False)
                    add = msgspec.structs.replace(
                        add, deletion_vector=collected.add(file.deleted), stats=msgspec.json.encode(stats).decode()
                    )
                actions.append(add)
        if collected.has_vectors:
            self._storage.replace(self._log.path(collected.name), collected.data)
        return actions

    def _open(self, add: Add) -> _File:
        return _File(add, self._log.deleted(add), new=False)

    def _candidates(self, changed: pyarrow.Table) -> Iterator[_File]:
        """Yield the files that may have rows with these keys."""
        name = self._key[0]
        column = changed[name]
        bounds = None if column.null_count else data_files.bounds_of(column)
        for file in self._files.values():
            low, high = file.statistics.min_values.get(name), file.statistics.max_values.get(name)
            if bounds is None or low is None or high is None or _overlap(bounds, (low, high)):
                yield file

    def _find(self, file: _File, sought: pyarrow.Array) -> pyarrow.BooleanArray:
        """Return a mask of the file's rows that have one of these images."""
        found = pyarrow.compute.is_in(images(self._rows(file, self._key), self._key), sought)
        return found.combine_chunks() if isinstance(found, pyarrow.ChunkedArray) else found

    def _delete(self, file: _File, mask: pyarrow.BooleanArray) -> None:
        before = file.deleted.true_count if file.deleted is not None else 0
        deleted = mask if file.deleted is None else pyarrow.compute.or_(file.deleted, mask)
        if deleted.true_count == before:
            return
        if deleted.true_count == file.statistics.num_records:
            self._drop(file)
        else:
            file.deleted, file.changed = deleted, True

    def _drop(self, file: _File) -> None:
        del self._files[file.add.path]
        if file.new:
            self._storage.delete(self._log.path(file.add.path))
        else:
            self._gone.append(self._log.files[file.add.path])

    def _write(self, rows: pyarrow.Table) -> None:
        parts = max(1, round(rows.nbytes / (6 * TARGET_BYTES)))  # about what is left of columns in a file
        step = -(-rows.num_rows // parts)
        for begin in range(0, rows.num_rows, step):
            add = data_files.write(self._storage, self._log.folder, rows.slice(begin, step), self._fields, self._key[0])
            self._files[add.path] = _File(add, None, new=True)
            self.rows_written += min(step, rows.num_rows - begin)
            self.bytes_written += add.size

    def _rows(self, file: _File, names: Sequence[str]) -> pyarrow.Table:
        named = {field.name: field for field in self._fields}
        return data_files.read(self._storage, self._log.folder, file.add, [named[name] for name in names])

    def _live_rows(self, file: _File, fields: Sequence[Field]) -> pyarrow.Table:
        rows = data_files.read(self._storage, self._log.folder, file.add, fields)
        return rows if file.deleted is None else rows.filter(pyarrow.compute.invert(file.deleted))

    def _groups(self) -> Iterator[list[_File]]:
        """Yield groups of files that are worth writing as one, small files first."""
        tiers: dict[int, list[_File]] = {}
        for file in self._files.values():
            tiers.setdefault(_tier(file.bytes), []).append(file)
        for tier, files in sorted(tiers.items()):
            worn = [file for file in files if file.live < 1 - _MOST_DELETED]
            if tier < _tier(TARGET_BYTES) and len(files) >= _RATIO:
                yield _smallest(files)
            else:
                yield from ([file] for file in worn)

    def _sortable(self) -> list[str]:
        types = {field.name: field.type for field in self._fields}
        return [name for name in self._key if not types[name].startswith("array")]


def _tier(size: float) -> int:
    tier = 0
    while size >= _LEAST_BYTES * _RATIO**tier:
        tier += 1
    return tier


def _smallest(files: Sequence[_File]) -> list[_File]:
    """Return the smallest files, as many as make a file of the target size."""
    group: list[_File] = []
    for file in sorted(files, key=lambda file: file.bytes):
        group.append(file)
        if sum(each.bytes for each in group) >= TARGET_BYTES:
            break
    return group


def _overlap(one: tuple[Value, Value], other: tuple[Value, Value]) -> bool:
    if isinstance(one[0], str) != isinstance(other[0], str):
        return True
    return one[0] <= other[1] and other[0] <= one[1]  # type: ignore[operator]


def _removal(add: Add, now: int) -> Remove:
    return Remove(add.path, add.size, now, True, deletion_vector=add.deletion_vector)
