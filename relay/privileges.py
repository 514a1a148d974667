"""What the relay gives up before it listens to anybody: rights of root, core dumps, files that others may read."""

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

from relay.errors import ErrorCode, RelayError

PRIVATE: Final = 0o077
"""The umask of what is written for the relay alone."""

_DATABASES: Final = ("state.db", "schema.db", "usage.db", "cdc.db")
_PR_SET_DUMPABLE: Final = 4
_NO_CORE: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def without_core_dumps() -> None:
    """Have this process and its children leave no image of their memory, in which all secrets stand.

    A limit of 1 byte, not of 0: the kernel gives an image to a program such as systemd-coredump whatever the limit is,
    but for 1.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NO_CORE if hard == resource.RLIM_INFINITY else min(hard, _NO_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def prepare(data_dir: Path) -> None:
    """Make DataDir, for its owner alone if it is new; databases that an earlier release made are closed to others."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _DATABASES:
        for path in data_dir.glob(f"{name}*"):
            path.chmod(path.stat().st_mode & ~PRIVATE & 0o777)


class Privileges:
    """The way from root to the user that `[Relay] User` names; nowhere to go if it names nobody, or whom we are.

    Raises `RelayError` (config) for a user that there is not, or that cannot be reached from here.
    """

    def __init__(self, name: str) -> None:
        self._user = _found(name) if name else None
        if self._user is not None and os.geteuid() != 0:
            if self._user.pw_uid != os.geteuid():
                raise _refused(f"started by user {os.geteuid()}, the relay cannot become {name}", "start it as root")
            self._user = None

    def lend(self, data_dir: Path) -> None:
        """Touch files as that user would from now on, root or not; DataDir is made if it is not there.

        What root does in a folder of somebody else's, that one can turn against anything else, by a link.
        """
        if self._user is not None:
            if not data_dir.exists():
                data_dir.mkdir(mode=0o700, parents=True)
                os.chown(data_dir, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
            os.initgroups(self._user.pw_name, self._user.pw_gid)
            self._act_as_user()
        prepare(data_dir)

    @contextmanager
    def regained(self) -> Iterator[None]:
        """Be root meanwhile, for ports below 1024."""
        if self._user is None:
            yield
            return
        self._act_as_root()
        try:
            yield
        finally:
            self._act_as_user()

    def drop(self) -> None:
        """Be that user for good."""
        if self._user is None:
            return
        uid, gid = self._user.pw_uid, self._user.pw_gid
        self._act_as_root()
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        # The kernel hides a process that has changed its user from those of the same user, so also from each other.
        _libc.prctl(_PR_SET_DUMPABLE, 1)
        # What is imported and started later has to be there for that user, too.
        for path in (os.path.realpath(sys.executable), os.__file__, __file__):
            if not os.access(path, os.R_OK):
                raise RelayError(
                    ErrorCode.ENVIRONMENT,
                    "change the user",
                    f"{self._user.pw_name} may not read it",
                    position=path,
                    hint="install Python and the relay where that user may read them, such as /opt/relay",
                )

    def _act_as_user(self) -> None:
        assert self._user is not None
        os.setegid(self._user.pw_gid)
        os.seteuid(self._user.pw_uid)

    def _act_as_root(self) -> None:
        os.seteuid(0)
        os.setegid(0)


def _found(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise _refused(f"there is no user {name!r}", "make it, or correct User in [Relay]") from None


def _refused(cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.CONFIG, "change the user", cause, hint=hint)
