"""Drop rights before the relay accepts connections: root, core dumps, files that other users may read."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relay.base.errors import ErrorCode, RelayError

PRIVATE: Final = 0o077
"""The umask for files that only the relay's user may read."""

_DATABASES: Final = ("state.db", "schema.db", "usage.db", "cdc.db")
_PR_SET_DUMPABLE: Final = 4
_NO_CORE: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def disable_core_dumps() -> None:
    """Disable core dumps of this process and its children, whose memory holds all secrets.

    The limit is 1 byte, not 0: the kernel sends dumps to a program such as systemd-coredump under any limit except 1.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NO_CORE if hard == resource.RLIM_INFINITY else min(hard, _NO_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def prepare(data_dir: Path) -> None:
    """Create DataDir, accessible to its owner only, if it does not exist.

    Removes other users' access to databases of earlier releases.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _DATABASES:
        for path in data_dir.glob(f"{name}*"):
            path.chmod(path.stat().st_mode & ~PRIVATE & 0o777)


def owner(name: str | None) -> tuple[int, int] | None:
    """Return user and group of that name, for files that root makes; None without a name, or if this is not root.

    Raises `RelayError` (config) for a user that does not exist.
    """
    if not name or os.geteuid() != 0:
        return None
    user = _lookup(name)
    return user.pw_uid, user.pw_gid


class Privileges:
    """Switch from root to the user that `[Relay] User` names.

    Does nothing if there is no name or it is the current user. Raises `RelayError` (config) for a user that does not
    exist or cannot be switched to.
    """

    def __init__(self, name: str) -> None:
        self._user = _lookup(name) if name else None
        if self._user is not None and os.geteuid() != 0:
            if self._user.pw_uid != os.geteuid():
                raise _config_error(f"user {os.geteuid()} cannot change to {name}", "start the relay as root")
            self._user = None

    def use_for_files(self, data_dir: Path) -> None:
        """Access files as that user from now on, and remain root otherwise. Create DataDir if it does not exist.

        If root worked in a folder of another user, that user could redirect it with a link.
        """
        if self._user is not None:
            if not data_dir.exists():
                data_dir.mkdir(mode=0o700, parents=True)
                os.chown(data_dir, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
            os.initgroups(self._user.pw_name, self._user.pw_gid)
            self._act_as_user()
        prepare(data_dir)

    @contextmanager
    def as_root(self) -> Iterator[None]:
        """Become root again within the block, for ports below 1024."""
        if self._user is None:
            yield
            return
        self._act_as_root()
        try:
            yield
        finally:
            self._act_as_user()

    def drop(self) -> None:
        """Become that user permanently."""
        if self._user is None:
            return
        uid, gid = self._user.pw_uid, self._user.pw_gid
        self._act_as_root()
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # Otherwise the kernel hides this process from processes of its new user, which the relay's own are.
        _libc.prctl(_PR_SET_DUMPABLE, 1)
        # That user must also have access to modules and programs that the relay loads later.
        for path in (os.path.realpath(sys.executable), os.__file__, __file__):
            if not os.access(path, os.R_OK):
                cause = f"{self._user.pw_name} may not read it"
                hint = "install Python and the relay where that user can read them, such as /opt/relay"
                raise RelayError(ErrorCode.ENVIRONMENT, "change the user", cause, position=path, hint=hint)

    def _act_as_user(self) -> None:
        assert self._user is not None
        os.setegid(self._user.pw_gid)
        os.seteuid(self._user.pw_uid)

    def _act_as_root(self) -> None:
        os.seteuid(0)
        os.setegid(0)


def _lookup(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise _config_error(f"there is no user {name!r}", "create it, or correct User in [Relay]") from None


def _config_error(cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.CONFIG, "change the user", cause, hint=hint)
