"""Reads the documents of a lake's log from its storage, and names what is wrong with one."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.lake.documents import FORMAT, Checkpoint, Commit, LatestCheckpoints
from relay.lake.storage import Storage

_Document = TypeVar("_Document", Commit, Checkpoint, LatestCheckpoints)
_HINTS: Final[dict[type, str]] = {
    Checkpoint: "delete that file: the log then begins at the checkpoint before it",
    LatestCheckpoints: "delete that file: the relay finds the newest checkpoint without it",
}


class _Format(msgspec.Struct, frozen=True):
    format: int = 1


def read_document(storage: Storage, name: str, kind: type[_Document]) -> _Document | None:
    """Return a document, None if it does not exist.

    Raises RelayError: lake_damaged if it is not such a document, environment if a newer release wrote it.
    """
    try:
        data = storage.read(name)
    except FileNotFoundError:
        return None
    try:
        if (found := msgspec.json.decode(data, type=_Format).format) > FORMAT:
            raise RelayError(
                ErrorCode.ENVIRONMENT,
                "read the lake's log",
                f"it is of format {found}, this release knows up to {FORMAT}",
                position=storage.url(name),
                hint="upgrade binlog-relay to the release that writes this lake",
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(storage.url(name), error, _HINTS.get(kind, "")) from error


def damaged(path: str, cause: str | BaseException, hint: str = "") -> RelayError:
    """Return the error for a document that cannot be right; without a `hint`, that of lake_damaged."""
    return RelayError(StopCode.LAKE_DAMAGED, "read the lake's log", cause, position=path, hint=hint)
