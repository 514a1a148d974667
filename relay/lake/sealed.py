"""What a lake needs of the place it stands in: relay.lake.folder and relay.lake.objectstore give it.

All names are relative to the lake, with `/` between folders. A file appears whole and durable or not at all, and of
several who create the same name one wins. Files whose names start with `.` are on their way, or were left by a kill;
`list` does not show them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any


class SealedFile:
    """A file that is being written, by pyarrow or by hand; counts `bytes` and makes `sha256` of them on the way."""

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
        """How many bytes were written."""
        return self.bytes

    def flush(self) -> None:
        """Nothing: it is sealed at the end of its `with` block."""

    def close(self) -> None:
        """Nothing: pyarrow closes what it was given, and sealing is the block's."""

    def writable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """False."""
        return False

    def seekable(self) -> bool:
        """False."""
        return False

    @property
    def sha256(self) -> str:
        """Of the bytes so far, in hex."""
        return self._digest.hexdigest()


class Storage(ABC):
    """A lake's files. Failures are RelayErrors (lake_storage), but for FileNotFoundError of a missing name."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Make a file that must not exist yet, whole and durable. False: somebody else made it.

        `data` must tell its writer apart: where an answer of an object store was lost, what stands there decides.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes) -> None:
        """Make a file or put another in its place; readers see the old or the new one."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All of a file; FileNotFoundError if it is not there."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Bytes of a file, None if it is not there."""

    @abstractmethod
    def folders(self, folder: str) -> list[str]:
        """The names, relative to the lake, of the folders right in a folder, sorted; none if it is not there."""

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """The names, relative to the lake, of the files right in a folder, sorted; none if it is not there."""

    @abstractmethod
    def walk(self, folder: str) -> Iterator[str]:
        """The names, relative to the lake, of all files in and under a folder, those that start with `.` too."""

    @abstractmethod
    def modified(self, name: str) -> float | None:
        """When a file was last written, Unix seconds; None if it is not there."""

    @abstractmethod
    @contextmanager
    def writer(self, name: str) -> Iterator[SealedFile]:
        """A file under way. It appears at the end of the block, in place of one of that name; on an error, never."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def delete_folder(self, folder: str) -> None:
        """Remove all files in and under a folder, and the folder where there are such."""
        for name in self.walk(folder):
            self.delete(name)

    @abstractmethod
    def sync(self, names: Iterable[str]) -> None:
        """Make files durable that were not written through this storage but beside it, by Spark."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return self.size(name) is not None

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """A file to be read piece by piece; FileNotFoundError if it is not there."""

    @abstractmethod
    def arrow_source(self, name: str) -> Any:
        """What pyarrow.parquet.ParquetFile reads, closed by the caller; FileNotFoundError if it is not there."""

    @abstractmethod
    def url(self, name: str = "") -> str:
        """Of a file or a folder, for Spark: `file:///lake/...`, `s3a://bucket/lake/...`."""
