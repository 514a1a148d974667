"""The interface between a lake and its storage. relay.lake.folder and relay.lake.objectstore implement it.

All names are relative to the lake, with `/` between folders. A file appears whole and durable or not at all. If several
writers create the same name, one wins. Files whose names start with `.` are being written or were left by a kill;
`list` does not show them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any


class SealedFile:
    """A file that is being written, by pyarrow or by hand; counts `bytes` and computes their `sha256`."""

    def __init__(self, file: IO[bytes], failing: Callable[[], AbstractContextManager[None]]) -> None:
        self._file = file
        self._failing = failing
        self._digest = hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append bytes."""
        with memoryview(data) as view, self._failing():
            self._digest.update(view)
            self.bytes += view.nbytes
            self._file.write(view)
            return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing: the file is sealed at the end of its `with` block."""

    def close(self) -> None:
        """Do nothing: pyarrow closes what it is given, but the `with` block seals the file."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes so far, in hex."""
        return self._digest.hexdigest()


class Storage(ABC):
    """The files of a lake. Raises RelayError (lake_storage), except FileNotFoundError for a missing name."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Create a file that must not exist, whole and durable. Returns False if another writer has created it.

        `data` must identify its writer: if the reply of an object store is lost, the stored contents show the writer.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes) -> None:
        """Write or replace a file; readers see the old or the new one."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the contents of a file. Raises FileNotFoundError."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if it does not exist."""

    @abstractmethod
    def folders(self, folder: str) -> list[str]:
        """Return the names, relative to the lake, of the folders directly in a folder, sorted.

        The list is empty if the folder does not exist.
        """

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """Return the names, relative to the lake, of the files directly in a folder, sorted.

        The list is empty if the folder does not exist.
        """

    @abstractmethod
    def walk(self, folder: str) -> Iterator[str]:
        """Yield the names, relative to the lake, of all files in and under a folder.

        This includes names that start with `.`.
        """

    @abstractmethod
    def modified(self, name: str) -> float | None:
        """When a file was last written, Unix seconds; None if it does not exist."""

    @abstractmethod
    @contextmanager
    def writer(self, name: str) -> Iterator[SealedFile]:
        """Write a file. At the end of the block it appears or replaces the file of that name; on an error, never."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def delete_folder(self, folder: str) -> None:
        """Delete all files in and under a folder, and the folder itself if the storage has folders."""
        for name in self.walk(folder):
            self.delete(name)

    @abstractmethod
    def sync(self, names: Iterable[str]) -> None:
        """Make files durable that Spark wrote, not this storage."""

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        return self.size(name) is not None

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading. Raises FileNotFoundError."""

    @abstractmethod
    def arrow_source(self, name: str) -> Any:
        """Return a source for pyarrow.parquet.ParquetFile, which the caller closes. Raises FileNotFoundError."""

    @abstractmethod
    def url(self, name: str = "") -> str:
        """Return the URL of a file or a folder for Spark: `file:///lake/...`, `s3a://bucket/lake/...`."""
