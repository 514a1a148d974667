"""Delete merged versions that are no longer read, after a grace period, and leftovers of killed merges."""

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
"""How long a version stays after the next one is published: longer than a query that began with it."""


def vacuum(storage: Storage, table: Table, grace: float = GRACE_SECONDS) -> list[str]:
    """Delete the folders of `table` that no version of the last `grace` seconds refers to; return their names.

    A folder with a number beyond the newest version stays, since a merge may be writing it. Of several folders with one
    number, only the published one stays: the others are leftovers of kills, or belong to merges that came too late.
    Files of earlier versions that the oldest kept version does not use are not used by any later version.
    """
    known = pointers.numbers(storage, table)
    if not known:
        return []
    oldest = _oldest(storage, table, known, time.time() - grace)
    used = {file.path.rpartition("/")[0] for file in (*oldest.files, *oldest.recent)}
    folders: dict[int, list[str]] = {}
    for folder in storage.folders(paths.table_folder(table, paths.CURRENT)):
        if found := re.fullmatch(r"ver-(\d+)-.*", folder.rpartition("/")[2]):
            folders.setdefault(int(found[1]), []).append(folder)
    unreferenced = []
    for number, candidates in folders.items():
        if number < oldest.number:
            for folder in candidates:
                units = storage.folders(folder)
                unused = [unit for unit in units if unit not in used]
                unreferenced += unused if len(unused) < len(units) else [folder]
        elif number <= known[-1] and len(candidates) > 1:
            own = pointers.load(storage, table, number).folder
            unreferenced += [folder for folder in candidates if folder != own]
    for folder in unreferenced:
        storage.delete_folder(folder)
    for number in known:
        if number < oldest.number:
            storage.delete(pointers.path(table, number))
    return unreferenced


def _oldest(storage: Storage, table: Table, known: list[int], before: float) -> Pointer:
    """Return the oldest version that was the newest at some time after `before`."""
    oldest = pointers.load(storage, table, known[0])
    for number in known[1:]:
        following = pointers.load(storage, table, number)
        if following.at >= before:
            break
        oldest = following
    return oldest
