"""Delete files of a lake that no commit refers to: leftovers of a kill, and files that compaction replaced."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

from relay.lake import paths
from relay.lake.documents import Commit
from relay.lake.log import LakeLog

GRACE_SECONDS: Final = 24 * 3600.0
"""How long a leftover stays: longer than the time from sealing a file to its commit, and than a reader needs."""

_LAST: Final = re.compile(r"/part-\d+-(\d+)[-.][^/]*\Z")


def delete_leftovers(log: LakeLog, grace: float = GRACE_SECONDS) -> list[str]:
    """Delete data files that no commit refers to, and return their names.

    A file is deleted only if it, and the commit that removed it, are older than `grace` seconds. Files beyond the
    exporter's position always stay: after a kill it may write them again under the same name.
    """
    storage = log.storage
    before = time.time() - grace
    found = list(storage.walk(paths.CHANGES))
    # The state is read after the listing, so that it includes commits made meanwhile.
    state = log.state()
    kept = {path for table in state.tables.values() for path in table.files}
    kept |= {path for commit in _recent_commits(log, state.number, before) for path in commit.remove}
    exported = state.place.seq if state.place else 0
    deleted = []
    for name in found:
        if name in kept or ((last := _LAST.search(name)) is not None and int(last[1]) > exported):
            continue
        if (modified := storage.modified(name)) is not None and modified < before:
            storage.delete(name)
            deleted.append(name)
    return deleted


def _recent_commits(log: LakeLog, number: int, moment: float) -> Iterator[Commit]:
    """Yield the commits up to `number` that are not older than `moment` (Unix seconds), newest first."""
    for each in range(number, 0, -1):
        commit = next(log.commits(each - 1))
        if commit.at < moment:
            return
        yield commit
