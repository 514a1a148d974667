"""Open the storage of a lake: a folder, or a prefix of an object store through fsspec."""

from __future__ import annotations

from pathlib import Path

from relay.base.errors import ErrorCode, RelayError
from relay.lake.folder import Folder
from relay.lake.objectstore import CONDITIONAL, ObjectStore
from relay.lake.sealed import SealedFile, Storage

__all__ = ["SealedFile", "Storage", "open_storage"]


def open_storage(url: str) -> Storage:
    """Open the storage of a path or URL (`lake`, `/srv/lake`, `file:///srv/lake`, `s3://bucket/lake`).

    Credentials and endpoints of object stores come from fsspec's configuration and the store's own environment. A store
    that cannot create a file exclusively is refused with RelayError (lake_storage): two writers would overwrite each
    other's commits.
    """
    protocol, separator, rest = url.partition("://")
    if not separator:
        return Folder(Path(url).absolute())
    if protocol == "file":
        return Folder(Path(rest).absolute())
    if protocol not in CONDITIONAL:
        raise RelayError(
            ErrorCode.LAKE_STORAGE,
            "open the lake",
            f"{protocol}:// has no exclusive creation, so two writers would overwrite each other's commits",
            position=url,
            hint=f"use a folder, or one of {', '.join(f'{name}://' for name in CONDITIONAL[:-1])}",
        )
    return ObjectStore(url, protocol)
