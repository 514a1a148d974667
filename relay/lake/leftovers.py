"""Delete files of a lake that its log does not refer to: leftovers of a kill, and files that compaction replaced."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake import paths
from relay.lake.checkpoints import KEEP_SECONDS
from relay.lake.documents import Commit
from relay.lake.log import LakeLog

GRACE_SECONDS: Final = 24 * 3600.0
"""How long a leftover stays: longer than the time from sealing a file to its commit, and than a reader needs."""

_LAST: Final = re.compile(r"/part-\d+-(\d+)[-.][^/]*\Z")


def delete_leftovers(log: LakeLog, grace: float = GRACE_SECONDS) -> list[str]:
    """Delete data files that no commit refers to, and checkpoints that are no longer named; return their names.

    A file is deleted only if it, and the commit that removed it, are older than `grace` seconds. Files beyond the
    exporter's position always stay: after a kill it may write them again under the same name. Checkpoints stay at least
    GRACE_SECONDS. Raises RelayError (usage) if the log does not have the commits of so many seconds.
    """
    if grace > KEEP_SECONDS:
        hint = f"give at most {KEEP_SECONDS / 3600:.0f} hours"
        raise RelayError(ErrorCode.USAGE, "delete leftovers", "the log does not keep commits for so long", hint=hint)
    storage = log.storage
    now = time.time()
    found = list(storage.walk(paths.CHANGES))
    documents = storage.list(paths.LOG)
    # The state is read after the listings, so that it includes commits made meanwhile.
    state = log.state()
    kept = {path for table in state.tables.values() for path in table.files}
    kept |= {path for commit in _recent_commits(log, state.number, now - grace) for path in commit.remove}
    exported = state.place.seq if state.place else 0
    ahead = {name for name in found if (last := _LAST.search(name)) is not None and int(last[1]) > exported}
    unnamed = {name for name in documents if paths.is_of_checkpoint(name)} - log.files_in_use()
    leftovers = [(name, now - grace) for name in found if name not in kept and name not in ahead]
    leftovers += [(name, now - max(grace, GRACE_SECONDS)) for name in sorted(unnamed)]
    deleted = []
    for name, before in leftovers:
        if (modified := storage.modified(name)) is not None and modified < before:
            storage.delete(name)
            deleted.append(name)
    return deleted


def _recent_commits(log: LakeLog, number: int, moment: float) -> Iterator[Commit]:
    """Yield the commits up to `number` that are not older than `moment` (Unix seconds), newest first."""
    for each in range(number, 0, -1):
        commit = log.commit_at(each)
        if commit is None or commit.at < moment:
            return
        yield commit
