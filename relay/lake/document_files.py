"""Reads the documents of a lake's log from its storage, and names what is wrong with one."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.lake.documents import FORMAT, Checkpoint, Commit, LatestCheckpoints
from relay.lake.storage import Storage

_Document = TypeVar("_Document", Commit, Checkpoint, LatestCheckpoints)
_Kind = TypeVar("_Kind")
_LOG: Final = "read the lake's log"
_HINTS: Final[dict[type, str]] = {
    Checkpoint: "delete that file: the log then begins at the checkpoint before it",
    LatestCheckpoints: "delete that file: the relay finds the newest checkpoint without it",
}


class _Format(msgspec.Struct, frozen=True):
    format: int = 1


def read_document(storage: Storage, name: str, kind: type[_Document]) -> _Document | None:
    """Return a document of the log, None if it does not exist. Raises the errors of `decode_document`."""
    try:
        data = storage.read(name)
    except FileNotFoundError:
        return None
    return decode_document(data, kind, FORMAT, storage.url(name), _LOG, _HINTS.get(kind, ""))


def decode_document(data: bytes, kind: type[_Kind], newest: int, url: str, action: str, hint: str) -> _Kind:
    """Decode a document of at most the format `newest`; `url` and `action` are for errors, `hint` for damage.

    Raises RelayError: lake_damaged if it is not such a document, environment if a newer release wrote it.
    """
    try:
        if (found := msgspec.json.decode(data, type=_Format).format) > newest:
            raise RelayError(
                ErrorCode.ENVIRONMENT,
                action,
                f"it is of format {found}, this release knows up to {newest}",
                position=url,
                hint="upgrade binlog-relay to the release that writes this lake",
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RelayError(StopCode.LAKE_DAMAGED, action, error, position=url, hint=hint) from error


def damaged(path: str, cause: str | BaseException, hint: str = "") -> RelayError:
    """Return the error for a document of the log that cannot be right; without a `hint`, that of lake_damaged."""
    return RelayError(StopCode.LAKE_DAMAGED, _LOG, cause, position=path, hint=hint)
