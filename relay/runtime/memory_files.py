"""Send files in memory, for what is larger than a packet.

The packet carries the descriptor. It arrives whole or not at all, even if a process is killed meanwhile.
"""

from __future__ import annotations

import os
import socket
from typing import Final

_MFD_NOEXEC_SEAL: Final = 8
"""Without this flag, some hosts refuse files in memory (vm.memfd_noexec)."""


def send(sock: socket.socket, packet: bytes, content: bytes) -> None:
    """Send the packet with a file that has this content. Raises OSError: BlockingIOError if it does not fit now."""
    with open(_memory_file(), "wb", buffering=0) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
        socket.send_fds(sock, [packet], [file.fileno()])


def read(descriptor: int) -> bytes:
    """Return the content of a received file, and close its descriptor."""
    with open(descriptor, "rb", buffering=0) as file:
        file.seek(0)
        return file.read()


def _memory_file() -> int:
    try:
        return os.memfd_create("content", os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError:  # before Linux 6.3
        return os.memfd_create("content", os.MFD_CLOEXEC)
