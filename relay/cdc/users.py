"""The users of the CDC port: the user file in MaxScale's format, and the account on the source.

A line is `name:HASH`; the hash is that of the password's digest in hex digits. If several lines have the same name, the
last one counts. Lines of any other form are ignored, and kept.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relay.base.errors import ErrorCode, RelayError
from relay.config.tree import Config
from relay.protocol.cdc_messages import MAX_USER, digest_of, stored_of

_LINE: Final = re.compile(rb"([^:\r\n]+):([0-9A-Fa-f]{40})\r?")
_NO_HASH: Final = stored_of(b"")
_NEW_MODE: Final = 0o600

Signature = tuple[int, int, int] | None


class Users:
    """The users of a file, which is read again when it has changed, and the service user.

    `rule` says whether the account on the source may log in too: "always", "never", or "when-no-users". `problem` is
    the reason why the file cannot be read, "" if it can be read or does not exist. Nobody can log in while the file
    cannot be read.
    """

    def __init__(self, path: Path, rule: str, login: str, password: str) -> None:
        self.problem = ""
        self._path = path
        self._rule = rule
        self._service = {login: stored_of(digest_of(_raw(password)))} if login and password else {}
        self._users: Mapping[str, str] = {}
        self._signature: Signature = None

    def check(self, user: str, digest: bytes) -> bool:
        """Whether `digest` is the SHA-1 of the user's password. Compares in constant time."""
        if _signature(self._path) != self._signature:
            self._read()
        if self._knows(user, digest):
            return True
        self._read()  # the signature does not show a change within the resolution of the clock
        return self._knows(user, digest)

    def _knows(self, user: str, digest: bytes) -> bool:
        serves = not self.problem and (self._rule == "always" or (self._rule == "when-no-users" and not self._users))
        stored = stored_of(digest)
        in_file = _matches(self._users, user, stored)
        in_source = _matches(self._service if serves else {}, user, stored)
        return in_file or in_source

    def _read(self) -> None:
        self._signature = _signature(self._path)
        try:
            self._users = _parsed(_content(self._path))
            self.problem = ""
        except OSError as error:
            self._users = {}
            self.problem = f"{error.strerror}: {self._path}"


def path_of(config: Config) -> Path:
    """Return the user file of this configuration."""
    return Path(config.cdc.users or os.path.join(config.relay.data_dir, "cdcusers"))


def names(path: Path) -> list[str]:
    """Return the users in the file, in its order."""
    return list(_parsed(_content(path)))


def add(path: Path, user: str, password: str) -> bool:
    """Add the user, or change the password of an existing one. Returns whether the user is new.

    Raises `RelayError` (usage) for a name that cannot log in, and for an empty password.
    """
    name = _raw(user)
    if not name or len(name) > MAX_USER or not user.isprintable() or ":" in user:
        cause = f"a name has 1 to {MAX_USER} bytes, none of them a colon or a control character"
        raise RelayError(ErrorCode.USAGE, "add CDC user", cause, position=user)
    if not password:
        raise RelayError(ErrorCode.USAGE, "add CDC user", "the password is empty", position=user)
    line = name + b":" + stored_of(digest_of(_raw(password))).encode()
    return not _rewrite(path, user, lambda lines: [*_without(lines, user), line])


def remove(path: Path, user: str) -> bool:
    """Remove the user from the file. Returns whether it was there."""
    return _rewrite(path, user, lambda lines: _without(lines, user))


def _rewrite(path: Path, user: str, change: Callable[[list[bytes]], list[bytes]]) -> bool:
    """Replace the file's lines as a whole. Returns whether the user was there before."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        content = _content(path)
        lines = content.removesuffix(b"\n").split(b"\n") if content else []
        changed = change(lines)
        if changed != lines:
            _replace(path, b"".join(line + b"\n" for line in changed))
        return user in _parsed(content)


def _replace(path: Path, content: bytes) -> None:
    """Write the file. It keeps its owner and mode; a new file has its folder's owner and mode 0600."""
    like = path.stat() if path.exists() else path.parent.stat()
    mode = like.st_mode & 0o777 if path.exists() else _NEW_MODE
    fd, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(fd, mode)
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
                os.fchown(fd, like.st_uid, like.st_gid)
            os.fsync(fd)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder against other calls of this module."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
        os.fsync(fd)
    finally:
        os.close(fd)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _parsed(content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in content.split(b"\n"):
        if match := _LINE.fullmatch(line):
            found[_name(match)] = match[2].decode().upper()
    return found


def _without(lines: list[bytes], user: str) -> list[bytes]:
    return [line for line in lines if not (match := _LINE.fullmatch(line)) or _name(match) != user]


def _name(line: re.Match[bytes]) -> str:
    return line[1].decode("utf-8", "surrogateescape")


def _matches(users: Mapping[str, str], user: str, stored: str) -> bool:
    """Whether the user has this hash. An unknown user is compared too, for constant time."""
    same = hmac.compare_digest(users.get(user, _NO_HASH), stored)
    return same and user in users


def _signature(path: Path) -> Signature:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:  # it may exist: reading it reports the error
        return -1, -1, error.errno or 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
