"""A lake in a folder of a local or shared file system."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake.sealed import SealedFile, Storage

_READ: Final = "read"


class Folder(Storage):
    """A folder of a local or shared file system with hard links."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, name: str, data: bytes) -> bool:
        """Write a temporary file, and link it to the name."""
        path = self._root / name
        with self._failing("create", name):
            temporary = self._temporary(path)
            try:
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                try:
                    os.link(temporary, path)
                except FileExistsError:
                    # A network file system may repeat a request whose reply was lost, and find its own link.
                    if temporary.stat().st_nlink == 1:
                        return False
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(path.parent)
            return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a temporary file, and rename it."""
        with self.writer(name) as file:
            file.write(data)

    def read(self, name: str) -> bytes:
        """Read the whole file."""
        with self._failing(_READ, name):
            return (self._root / name).read_bytes()

    def size(self, name: str) -> int | None:
        """Return the size that the file system reports."""
        with self._failing("look at", name), suppress(FileNotFoundError):
            return (self._root / name).stat().st_size
        return None

    def folders(self, folder: str) -> list[str]:
        """List the entries of the folder that are folders."""
        return sorted(f"{folder}/{name}" for name in self._entries(folder, os.DirEntry.is_dir))

    def list(self, folder: str) -> list[str]:
        """List the entries that are files, without temporary ones."""
        names = self._entries(folder, os.DirEntry.is_file)
        return sorted(f"{folder}/{name}" for name in names if not name.startswith("."))

    def _entries(self, folder: str, wanted: Callable[[os.DirEntry[str]], bool]) -> Iterator[str]:
        with self._failing("list", folder), suppress(FileNotFoundError), os.scandir(self._root / folder) as entries:
            yield from (entry.name for entry in entries if wanted(entry))

    def walk(self, folder: str) -> Iterator[str]:
        """Walk the folder from the top down, temporary files included."""
        for above, _, names in os.walk(self._root / folder):
            for name in sorted(names):
                yield (Path(above) / name).relative_to(self._root).as_posix()

    def modified(self, name: str) -> float | None:
        """Return the time of modification that the file system reports."""
        with self._failing("look at", name), suppress(FileNotFoundError):
            return (self._root / name).stat().st_mtime
        return None

    @contextmanager
    def writer(self, name: str) -> Iterator[SealedFile]:
        """Write to a temporary file, which replaces the name once it is on disk."""
        path = self._root / name
        failing = partial(self._failing, "write", name)
        with failing():
            temporary = self._temporary(path)
            file = temporary.open("xb")
        try:
            yield SealedFile(file, failing)
            with failing():
                file.flush()
                os.fsync(file.fileno())
                file.close()
                temporary.rename(path)
        except BaseException:
            with suppress(OSError):  # the write error was raised already
                file.close()
            temporary.unlink(missing_ok=True)
            raise
        with failing():
            _sync_folder(path.parent)

    def delete(self, name: str) -> None:
        """Unlink the file."""
        with self._failing("delete", name):
            (self._root / name).unlink(missing_ok=True)

    def delete_folder(self, folder: str) -> None:
        """Remove the folder with all that is in it."""
        with self._failing("delete", folder), suppress(FileNotFoundError):
            shutil.rmtree(self._root / folder)

    def sync(self, names: Iterable[str]) -> None:
        """Flush the files, and the folders above them."""
        folders = set[Path]()
        for name in names:
            with self._failing("write", name):
                _sync(self._root / name)
                folders |= {self._root / above for above in Path(name).parents}
        for folder in folders:
            _sync_folder(folder)

    def open(self, name: str) -> IO[bytes]:
        """Open the file itself."""
        with self._failing(_READ, name):
            return (self._root / name).open("rb")

    def arrow_source(self, name: str) -> Any:
        """Open the file in pyarrow, without Python in between."""
        from relay.lake.arrow import pyarrow

        with self._failing(_READ, name):
            return pyarrow.OSFile(str(self._root / name))

    def url(self, name: str = "") -> str:
        """Return a `file://` URL."""
        return f"file://{self._root / name}"

    def _temporary(self, path: Path) -> Path:
        """Return a path beside `path` that only this process uses, and make the folder."""
        _make_folder(path.parent)
        return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")

    @contextmanager
    def _failing(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and action == _READ:
                raise
            raise RelayError(
                ErrorCode.LAKE_STORAGE, f"{action} a file of the lake", error, position=self.url(name)
            ) from error


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents durably."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
        try:
            _sync_folder(folder.parent)
        except OSError:
            with suppress(OSError):  # the folder is not empty: another process uses it
                folder.rmdir()  # otherwise a later call would take the folder for durable
            raise


def _sync_folder(folder: Path) -> None:
    _sync(folder, os.O_DIRECTORY)


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
