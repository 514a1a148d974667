"""The socket of local admin commands: DataDir/admin.sock, mode 0600, for its owner and root.

The file's permissions decide who may connect. Everyone who may connect is an administrator. The kernel reports the user
and the process of a connection.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relay.base.errors import ErrorCode, RelayError

NAME: Final = "admin.sock"
MODE: Final = 0o600

MAX_PATH: Final = 107
"""The most bytes of a path that the kernel accepts as the address of a socket, without its NUL."""

_BACKLOG: Final = 128
_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


def listen(data_dir: Path) -> socket.socket:
    """Create the socket, owned by the user of this process. The caller holds the lock on DataDir.

    It replaces an existing socket, which a killed relay has left.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        discard(data_dir)
        with _address(data_dir) as address:
            listener.bind(address)
            os.chmod(address, MODE)  # before `listen`: nobody can connect earlier
    except OSError as error:
        listener.close()
        position = str(data_dir / NAME)
        hint = "DataDir has to be on a file system with Unix sockets, in a folder of the relay's user"
        operation = "listen for admin commands"
        raise RelayError(ErrorCode.ENVIRONMENT, operation, error, position=position, hint=hint) from None
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def discard(data_dir: Path) -> None:
    """Remove the socket's file."""
    (data_dir / NAME).unlink(missing_ok=True)


def connect(data_dir: Path, timeout: float) -> socket.socket:
    """Connect to the relay that runs with this DataDir. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with _address(data_dir) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def client_of(connection: socket.socket) -> str:
    """Return the user and process that connected, as the log shows them."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    return f"uid {uid} pid {pid}"


@contextmanager
def _address(data_dir: Path) -> Iterator[str]:
    """Yield a path of the socket that the kernel accepts: if it is too long, through the descriptor of its folder."""
    path = str(data_dir / NAME)
    if len(os.fsencode(path)) <= MAX_PATH:
        yield path
        return
    folder = os.open(data_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)
