"""What another thread does natively, while this one keeps the lock of Python."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.support.waiting import patience, until

_KEEPING = ctypes.PyDLL(None, use_errno=True)  # calls that keep the lock


@contextmanager
def blocked(call: Callable[[], object], fd: int) -> Iterator[None]:
    """A thread makes the call, and waits for this descriptor. At the end of the block the call must return."""
    thread = Thread(target=call, daemon=True)
    thread.start()

    def waits() -> bool:
        number, *arguments = Path(f"/proc/self/task/{thread.native_id}/syscall").read_text().split()
        return number != "running" and arguments[0] == hex(fd)

    until(waits, what=f"the thread does not wait for descriptor {fd}")
    yield
    thread.join(patience(60))
    assert not thread.is_alive(), "the call does not return"


def brings(fd: int, data: bytes, eventfd: int) -> bool:
    """Write `data` to a descriptor that takes it at once. Returns whether native code then writes the eventfd."""
    waiting = ctypes.create_string_buffer(struct.pack("@ihh", eventfd, select.POLLIN, 0))
    assert _KEEPING.write(fd, data, len(data)) == len(data), os.strerror(ctypes.get_errno())
    return bool(_KEEPING.poll(waiting, 1, int(patience(5) * 1000)) == 1)
