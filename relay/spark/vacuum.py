"""Merged versions that nobody reads any more are deleted after a grace; so is what a kill left of one."""

from __future__ import annotations

import re
import time
from typing import Final

from relay.lake import paths
from relay.lake.documents import Table
from relay.lake.storage import Storage
from relay.spark import pointer as pointers

GRACE_SECONDS: Final = 24 * 3600.0
"""How long a version stays after the next one: longer than a query takes that began with it."""


def vacuum(storage: Storage, table: Table, grace: float = GRACE_SECONDS) -> list[str]:
    """Delete folders of `table`'s versions that no version of the last `grace` seconds refers to, and say which.

    A folder of a number beyond the newest version may be one that a merge is writing, and stays. One of a number that
    was taken can only be what a kill left, or belongs to somebody who has lost that number.
    """
    known = pointers.numbers(storage, table)
    if not known:
        return []
    oldest = _oldest(storage, table, known, time.time() - grace)
    used = {
        name.rpartition("/")[0]
        for number in known
        if number >= oldest
        for name in (file.path for file in pointers.load(storage, table, number).files)
    }
    deleted = []
    for version in storage.folders(paths.table_folder(table, paths.CURRENT)):
        found = re.fullmatch(r"ver-(\d+)-.*", version.rpartition("/")[2])
        if found is None or int(found[1]) > known[-1]:
            continue
        units = storage.folders(version)
        dead = [unit for unit in units if unit not in used]
        for folder in dead if len(dead) < len(units) else [version]:
            storage.delete_folder(folder)
            deleted.append(folder)
    for number in known:
        if number < oldest:
            storage.delete(pointers.path(table, number))
    return deleted


def _oldest(storage: Storage, table: Table, known: list[int], before: float) -> int:
    """The oldest version that counted at some time after `before`."""
    oldest = known[-1]
    for number in reversed(known[:-1]):
        if pointers.load(storage, table, oldest).at < before:
            break
        oldest = number
    return oldest
