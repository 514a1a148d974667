"""The log of one Delta table: its state, and commits on top of it. The relay is its only writer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.lake.arrow import pyarrow
from relay.lake.delta import checkpoints, vectors
from relay.lake.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    MetaData,
    Protocol,
    Remove,
    Transaction,
    decoded,
    encoded,
)
from relay.lake.delta.data_files import statistics_of
from relay.lake.storage import Storage

ENGINE: Final = "binlog-relay"
CHECKPOINT_COMMITS: Final = 50
RETENTION_SECONDS: Final = 24 * 3600.0
"""How long what a commit has replaced stays for its readers: data files, deletion vectors and old commits."""


class _LastCheckpoint(msgspec.Struct, frozen=True):
    version: int
    size: int


class DeltaLog:
    """The state of a table in a folder of the lake's storage. Not thread-safe.

    `version` is the number of the newest commit, -1 for a table that does not exist. `files` are by path, and so are
    `removed`, of which readers of older versions may need the files. `transactions` are by application.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        """Read the state. Raises RelayError: lake_conflict if the newest commit is not the relay's, or lake_damaged."""
        self.storage = storage
        self.folder = folder
        self.version = -1
        self.checkpoint = -1
        self.first = 0  # all commits below it were deleted
        self.meta_data: MetaData | None = None
        self.files: dict[str, Add] = {}
        self.removed: dict[str, Remove] = {}
        self.transactions: dict[str, int] = {}
        self._masks: dict[str, tuple[DeletionVector, pyarrow.BooleanArray]] = {}
        self._load()

    def commit(self, operation: str, actions: Sequence[Action]) -> None:
        """Commit on top of the state, and advance it.

        Raises RelayError (lake_conflict) if somebody else has written to the table.
        """
        now = int(time.time() * 1000)
        info = CommitInfo(now, operation, ENGINE)
        number = self.version + 1
        name = self._commit_name(number)
        if not self.storage.create(name, encoded([info, *actions])):
            raise self._conflict(name)
        self._apply(actions)
        self.version = number
        self._masks = {path: mask for path, mask in self._masks.items() if path in self.files}
        if number - self.checkpoint >= CHECKPOINT_COMMITS:
            self._write_checkpoint()

    def exists(self) -> bool:
        """Whether the newest commit still exists: somebody may have deleted the folder."""
        return self.version < 0 or self.storage.exists(self._commit_name(self.version))

    def deleted(self, add: Add) -> pyarrow.BooleanArray | None:
        """Return the mask of a file's deleted rows; None if there are none."""
        vector = add.deletion_vector
        if vector is None:
            return None
        name = vectors.name_of(vector)
        if (mask := self._masks.get(add.path)) is None or mask[0] != vector:
            try:
                rows = statistics_of(add).num_records
                mask = vector, vectors.read(vector, rows, self.storage.read(self.path(name)) if name else b"")
            except (ValueError, FileNotFoundError) as error:
                raise self._damaged(self.path(name or add.path), error) from error
            self._masks[add.path] = mask
        return mask[1]

    def path(self, name: str) -> str:
        """Return the name in the lake of a file of the table."""
        return f"{self.folder}/{name}"

    def _load(self) -> None:
        last = self.path("_delta_log/_last_checkpoint")
        if self.storage.exists(last):
            try:
                number = msgspec.json.decode(self.storage.read(last), type=_LastCheckpoint).version
                self._apply(checkpoints.decoded(self.storage.read(self._checkpoint_name(number))))
            except (msgspec.DecodeError, OSError, ValueError) as error:  # its file may be missing
                raise self._damaged(last, error) from error
            self.version = self.checkpoint = number
        newest: Sequence[Action] = ()
        while True:
            name = self._commit_name(self.version + 1)
            try:
                newest = decoded(self.storage.read(name))
            except FileNotFoundError:
                break
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._damaged(name, error) from error
            self._apply(newest)
            self.version += 1
        if self.version < 0 and self.storage.list(self.path("_delta_log")):
            raise self._damaged(self._commit_name(0), "it is missing, but later documents exist")
        if newest and not any(isinstance(each, CommitInfo) and each.engine_info == ENGINE for each in newest):
            raise self._conflict(self._commit_name(self.version))

    def _apply(self, actions: Sequence[Action]) -> None:
        for each in actions:  # before the additions: a file with other deletions is removed and added
            if (isinstance(each, Remove) and self.files.pop(each.path, None) is not None) or isinstance(each, Remove):
                self.removed[each.path] = each
        for each in actions:
            match each:
                case Add():
                    self.files[each.path] = each
                    self.removed.pop(each.path, None)
                case MetaData():
                    self.meta_data = each
                case Transaction():
                    self.transactions[each.app_id] = each.version

    def _write_checkpoint(self) -> None:
        """Write a checkpoint, and delete commits and checkpoints that nobody needs any more."""
        assert self.meta_data is not None
        transactions = [Transaction(name, version) for name, version in self.transactions.items()]
        removed = [msgspec.structs.replace(each, data_change=False) for each in self.removed.values()]
        actions: list[checkpoints.Lasting] = [Protocol(), self.meta_data, *transactions, *self.files.values(), *removed]
        self.storage.replace(self._checkpoint_name(self.version), checkpoints.encoded(actions))
        last = _LastCheckpoint(self.version, len(actions))
        self.storage.replace(self.path("_delta_log/_last_checkpoint"), msgspec.json.encode(last))
        self.checkpoint = self.version
        self._clean()

    def _clean(self) -> None:
        before = time.time() - RETENTION_SECONDS
        for name in self.storage.list(self.path("_delta_log")):
            digits = name.rpartition("/")[2][:20]
            if not digits.isdigit() or int(digits) >= self.checkpoint:
                continue
            if (modified := self.storage.modified(name)) is None or modified >= before:
                break  # they are listed in order
            self.storage.delete(name)

    def _commit_name(self, version: int) -> str:
        return self.path(f"_delta_log/{version:020}.json")

    def _checkpoint_name(self, version: int) -> str:
        return self.path(f"_delta_log/{version:020}.checkpoint.parquet")

    def _conflict(self, name: str) -> RelayError:
        return RelayError(
            StopCode.LAKE_CONFLICT, "write an open table", "somebody else has written to it",
            position=self.storage.url(name),
            hint=f"delete the folder {self.storage.url(self.folder)}: the relay makes the table again",
        )  # fmt: skip

    def _damaged(self, name: str, cause: str | BaseException) -> RelayError:
        return RelayError(
            StopCode.LAKE_DAMAGED, "read an open table", cause, position=self.storage.url(name),
            hint=f"delete the folder {self.storage.url(self.folder)}: the relay makes the table again",
        )  # fmt: skip
