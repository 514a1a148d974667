"""Merged versions that nobody reads any more are deleted after a grace; so is what a kill left of one."""

from __future__ import annotations

import re
import time
from typing import Final

from relay.lake import paths
from relay.lake.documents import Table
from relay.lake.storage import Storage
from relay.spark import pointer as pointers
from relay.spark.pointer import Pointer

GRACE_SECONDS: Final = 24 * 3600.0
"""How long a version stays after the next one: longer than a query takes that began with it."""


def vacuum(storage: Storage, table: Table, grace: float = GRACE_SECONDS) -> list[str]:
    """Delete what no version of the last `grace` seconds refers to: folders of `table`'s buckets; say which.

    A folder of a number beyond the newest version may be one that a merge is writing, and stays. One of a number that
    was taken by another folder is what a kill left, or belongs to somebody who has lost that number. What the oldest
    version that is kept does not have of an earlier one, no later version has.
    """
    known = pointers.numbers(storage, table)
    if not known:
        return []
    oldest = _oldest(storage, table, known, time.time() - grace)
    used = {file.path.rpartition("/")[0] for file in oldest.files}
    folders: dict[int, list[str]] = {}
    for folder in storage.folders(paths.table_folder(table, paths.CURRENT)):
        if found := re.fullmatch(r"ver-(\d+)-.*", folder.rpartition("/")[2]):
            folders.setdefault(int(found[1]), []).append(folder)
    dead = []
    for number, those in folders.items():
        if number < oldest.number:
            for folder in those:
                units = storage.folders(folder)
                unused = [unit for unit in units if unit not in used]
                dead += unused if len(unused) < len(units) else [folder]
        elif number <= known[-1] and len(those) > 1:
            own = pointers.load(storage, table, number).folder
            dead += [folder for folder in those if folder != own]
    for folder in dead:
        storage.delete_folder(folder)
    for number in known:
        if number < oldest.number:
            storage.delete(pointers.path(table, number))
    return dead


def _oldest(storage: Storage, table: Table, known: list[int], before: float) -> Pointer:
    """The oldest version that counted at some time after `before`."""
    oldest = pointers.load(storage, table, known[0])
    for number in known[1:]:
        following = pointers.load(storage, table, number)
        if following.at >= before:
            break
        oldest = following
    return oldest
