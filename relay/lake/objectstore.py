"""A lake in an object store, accessed through the file systems of fsspec."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import IO, Any, Final, Protocol

from relay.base.errors import ErrorCode, RelayError
from relay.lake.sealed import SealedFile, Storage

_PACKAGES: Final = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}
_EXTRAS: Final = {"s3fs": "'binlog-relay[s3]'"}
CONDITIONAL: Final = (*_PACKAGES, "memory")
"""Protocols whose fsspec file system passes `mode="create"` of pipe_file to the store as a condition of the put.

The others check first and then write, which two writers can do at the same time.
"""
_HADOOP: Final = {"s3": "s3a", "gcs": "gs"}
_PROBE: Final = "_log/.probe"
_ATTEMPTS: Final = 3
_READ: Final = "read"


class _FileSystem(Protocol):
    """The part of fsspec's AbstractFileSystem that this module uses."""

    def pipe_file(self, path: str, value: bytes, mode: str = ...) -> object: ...
    def put_file(self, lpath: str, rpath: str) -> object: ...
    def cat_file(self, path: str, **kwargs: Any) -> bytes: ...
    def info(self, path: str, **kwargs: Any) -> dict[str, Any]: ...
    def ls(self, path: str, detail: bool, **kwargs: Any) -> list[dict[str, Any]]: ...
    def find(self, path: str) -> list[str]: ...
    def modified(self, path: str) -> datetime: ...
    def rm_file(self, path: str) -> None: ...
    def open(self, path: str, mode: str) -> IO[bytes]: ...


class ObjectStore(Storage):
    """A prefix of an object store. An object appears once its upload is complete."""

    def __init__(self, url: str, protocol: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise _missing("fsspec", "'binlog-relay[lake]'", url) from error
        self._url = url.rstrip("/")
        self._hadoop = _HADOOP.get(protocol, protocol) + self._url.removeprefix(protocol)
        try:
            # Listings must show what other processes write.
            found: tuple[_FileSystem, str] = url_to_fs(self._url, use_listings_cache=False)
        except ImportError as error:
            package = _PACKAGES[protocol]
            raise _missing(package, _EXTRAS.get(package, package), url) from error
        self._files, self._root = found
        # Otherwise s3fs asks for an object's size first, and lists the bucket if the object is missing.
        self._single_request = {"max_concurrency": 1} if protocol in ("s3", "s3a") else {}
        self._conditional = False

    def create(self, name: str, data: bytes) -> bool:
        """Put the object on the condition that it does not exist."""
        self._check_condition()
        with self._failing("create", name):
            return self._create(name, data)

    def _create(self, name: str, data: bytes) -> bool:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._files.pipe_file(self._path(name), data, mode="create")
                return True
            except FileExistsError:
                pass
            except Exception:
                # The store may have accepted the put although the reply is lost, or refused it with another error (412
                # PreconditionFailed), or be undecided while another put of that name is running (409).
                if attempt == _ATTEMPTS and not self.exists(name):
                    raise
            with suppress(FileNotFoundError):
                return self.read(name) == data
        return False

    def _check_condition(self) -> None:
        """Check before the first creation that the store supports conditional puts: others ignore the condition."""
        if self._conditional:
            return
        with self._failing("create", _PROBE):
            self._files.pipe_file(self._path(_PROBE), b"probe of conditional puts\n")
            try:
                self._files.pipe_file(self._path(_PROBE), b"not taken\n", mode="create")
            except OSError as error:
                if not isinstance(error, FileExistsError) and error.errno != errno.EINVAL:
                    raise
                self._conditional = True
        if not self._conditional:
            raise RelayError(
                ErrorCode.LAKE_STORAGE,
                "create an object of the lake",
                "this store ignores conditions on a put (If-None-Match), so two writers would overwrite each other's"
                " commits",
                position=self._url,
                hint="use a store with conditional puts, or a newer release of this store",
            )

    def replace(self, name: str, data: bytes) -> None:
        """Put the object."""
        with self._failing("write", name):
            self._files.pipe_file(self._path(name), data)

    def read(self, name: str) -> bytes:
        """Get the whole object."""
        with self._failing(_READ, name):
            return self._files.cat_file(self._path(name), **self._single_request)

    def size(self, name: str) -> int | None:
        """Return the size that the store reports; a prefix has none."""
        with self._failing("look at", name), suppress(FileNotFoundError):
            found = self._files.info(self._path(name))
            return int(found["size"]) if found["type"] == "file" else None
        return None

    def folders(self, folder: str) -> list[str]:
        """List the prefixes directly below the folder."""
        names = [name.rstrip("/").rpartition("/")[2] for name in self._entries(folder, "directory")]
        return sorted(f"{folder}/{name}" for name in names)

    def list(self, folder: str) -> list[str]:
        """List the objects directly below the folder, without those whose names start with `.`."""
        names = [name.rpartition("/")[2] for name in self._entries(folder, "file")]
        return sorted(f"{folder}/{name}" for name in names if name and not name.startswith("."))

    def _entries(self, folder: str, kind: str) -> Iterator[str]:
        """Yield the full names of the entries of that kind directly in a folder; none if it does not exist."""
        with self._failing("list", folder), suppress(FileNotFoundError):
            for entry in self._files.ls(self._path(folder), detail=True):
                if entry["type"] == kind:
                    yield str(entry["name"])

    def walk(self, folder: str) -> Iterator[str]:
        """List all objects below the folder."""
        with self._failing("list", folder):
            found = self._files.find(self._path(folder))
        # Some file systems return paths with a leading slash, whatever was asked.
        yield from (path.lstrip("/").removeprefix(f"{self._root.lstrip('/')}/") for path in found)

    def modified(self, name: str) -> float | None:
        """Return the time of modification that the store reports."""
        with self._failing("look at", name), suppress(FileNotFoundError):
            return self._files.modified(self._path(name)).timestamp()
        return None

    @contextmanager
    def writer(self, name: str) -> Iterator[SealedFile]:
        """Write to a local file, and upload it at the end of the block."""
        # Write to an unnamed local file first: the upload happens in one go, and a kill leaves nothing.
        failing = partial(self._failing, "write", name)
        with failing():
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, where its errors are handled
        try:
            yield SealedFile(file, failing)
            with failing():
                file.flush()
                self._files.put_file(f"/proc/self/fd/{file.fileno()}", self._path(name))
        finally:
            with suppress(OSError):  # the write error was raised already
                file.close()

    def delete(self, name: str) -> None:
        """Delete the object."""
        with self._failing("delete", name), suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def sync(self, names: Iterable[str]) -> None:
        """Do nothing: an object is durable once its upload is complete."""

    def open(self, name: str) -> IO[bytes]:
        """Open the object as a stream of fsspec."""
        with self._failing(_READ, name):
            return self._files.open(self._path(name), "rb")

    def arrow_source(self, name: str) -> Any:
        """Open the object, and wrap it for pyarrow."""
        from relay.lake.arrow import pyarrow

        return pyarrow.PythonFile(self.open(name), mode="r")

    def url(self, name: str = "") -> str:
        """Return the URL with the scheme that Hadoop uses."""
        return f"{self._hadoop}/{name}" if name else self._hadoop

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _failing(self, action: str, name: str) -> Iterator[None]:
        try:
            yield
        except RelayError:
            raise
        except Exception as error:  # the stores' clients raise errors of their own, without a common class
            if isinstance(error, FileNotFoundError) and action == _READ:
                raise
            at = f"{self._url}/{name}"
            raise RelayError(ErrorCode.LAKE_STORAGE, f"{action} an object of the lake", error, position=at) from error


def _missing(module: str, wanted: str, url: str) -> RelayError:
    """Return the error for a package that is not installed; `wanted` is the argument for pip."""
    return RelayError(
        ErrorCode.ENVIRONMENT,
        "open the lake",
        f"the package {module} is not installed",
        position=url,
        hint=f"pip install {wanted}",
    )
