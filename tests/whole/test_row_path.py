"""The system calls between a row's arrival and its delivery: none of them waits for a disk."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience

ROWS: Final = 100
# What the main thread of each process calls, besides reading and writing of sockets and eventfds. `getpid` belongs to
# the heartbeat, `futex` to Python's lock, which the thread that flushes shares. A server sets its timer once a
# second, and `epoll_ctl` when it begins or ends to be woken ahead of rows, as clients wait or not. The broker hands
# checkpoints to the state writer by a socket. `restart_syscall` is strace's.
ALLOWED: Final = {
    "reader": {"recvfrom", "poll", "getpid", "futex"},
    "broker": {"epoll_wait", "recvmsg", "sendto", "sendmsg", "getpid"},
    "server-0": {"epoll_wait", "recvfrom", "recvmsg", "sendto", "timerfd_settime", "getpid", "epoll_ctl"},
}
WAITS: Final = {"recvfrom", "poll", "epoll_wait"}
"""What they call to wait for the next event."""
_ARENA: Final = "mmap(NULL, 1048576, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)"
"""What Python's allocator calls when its memory is full: at any allocation, so a process may do it once in a test."""
_CALL: Final = re.compile(r"(?!restart_syscall)(\w+)\((?:\d+<(socket|anon_inode):)?")


@contextmanager
def traced(pid: int, to: Path) -> Iterator[None]:
    """Writes the system calls of the main thread of a process to a file, until the end of the block."""
    with subprocess.Popen(["strace", "-y", "-o", to, "-p", str(pid)], stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        attached = tracer.stderr.readline()
        assert "attached" in attached, f"strace cannot trace the relay: {attached}"
        try:
            yield
        finally:
            tracer.terminate()
            tracer.stderr.read()


def test_nothing_durable_is_between_a_row_and_its_reply(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Callable[..., RelayProcess], tmp_path: Path
) -> None:
    # What other tests leave on a shared server, such as a session that ends late, would be in the trace too.
    server = own_server(kind)
    relay = start_relay(server, {"Relay.Workers": 1})
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter("d", "t")

        def deliver(ids: range) -> None:
            for number in ids:
                server.execute(f"INSERT INTO d.t VALUES ({number})")
                row = client.poll(wait=patience(20))
                assert row is not None and row.after == {"id": number}

        deliver(range(ROWS))  # from here on the table is known
        pids = relay.pids()
        with ExitStack() as stack:
            for name in ALLOWED:
                stack.enter_context(traced(pids[name], tmp_path / name))
            deliver(range(ROWS, 2 * ROWS))
    for name, allowed in ALLOWED.items():
        lines = (tmp_path / name).read_text().splitlines()
        arena = next((line for line in lines if line.startswith(_ARENA)), None)
        if arena:
            lines.remove(arena)
        calls = [(found[1], found[2], line) for line in lines if (found := _CALL.match(line))]
        # What comes before the first wait is the rest of what the process did when strace began.
        began = next((at for at, (call, *_) in enumerate(calls) if call in WAITS), len(calls))
        others = [
            at
            for at, (call, of, _) in enumerate(calls)
            if at > began and call not in allowed and not (call in ("read", "write") and of)
        ]
        around = "\n".join(line for *_, line in calls[max(others[0] - 5, 0) : others[0] + 5]) if others else ""
        assert not others, f"{name} calls this while rows arrive, at call {others[0]}:\n{around}"
        assert len(calls) - began > ROWS, f"{name} was not traced"
