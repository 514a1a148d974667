"""A reader process alone: forked with its own arena; its output is read from its journal."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay import reader
from relay._native import Arena, JournalReader
from relay.base.log import logger
from relay.config.load import load
from relay.journal import frames
from relay.journal.frames import Definition, Rows, Table
from relay.runtime import child
from relay.runtime.context import ReaderContext
from tests.support.waiting import until

SHAPE = (4, 1, 0)


class Reader:
    """A forked reader with its own arena; its output is read from its journal."""

    def __init__(
        self, server: DatabaseServer, folder: Path, settings: dict[str, str], *, accept_gap: bool = False
    ) -> None:
        flags = {
            "Server.IPAddr": "127.0.0.1",
            "Server.Port": str(server.port),
            "Server.Login": USER,
            "Server.Password": PASSWORD,
            "Server.AuthSecret": "x",
            "Relay.DataDir": str(folder),
            "Relay.SegmentBytes": "1MiB",
        }
        config, _ = load(None, {}, flags | settings)
        self.arena = Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
        self.context = ReaderContext("reader", 0, config, self.arena, logger("reader"), accept_gap=accept_gap)
        self.journal_dir = folder / "journal"
        self.pid = 0
        self._stacks = os.memfd_create("stacks")

    def start(self) -> Self:
        def run() -> int:
            faulthandler.register(signal.SIGUSR2, self._stacks)
            return reader.run(self.context)

        self.pid = child.fork_child(self.context, run)
        return self

    def streaming(self) -> Self:
        """Waits until it reads."""
        self.until(lambda: self.arena.source_state == "streaming", 60)  # it may call a program for each password
        return self

    def until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        """Waits until the condition holds. Fails at once if the reader ends."""

        def holds() -> object:
            if found := condition():
                return found
            assert self.pid == 0 or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None, (
                f"it ended: {self.arena.stop()}"
            )
            return None

        until(holds, seconds, lambda: f"in vain: {self.arena.source_state}, {self.arena.stop()}", 0.01)

    def wait(self, seconds: float = 20) -> int:
        """Waits for its end and returns its exit code; negative for a signal."""

        def ended() -> tuple[int, int] | None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return (pid, status) if pid else None

        _, status = until(ended, seconds, lambda: f"it does not end: {self._stack()}", 0.01)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def signal(self, number: signal.Signals) -> int:
        os.kill(self.pid, number)
        return self.wait()

    def _stack(self) -> str:
        """What it does now."""
        os.kill(self.pid, signal.SIGUSR2)
        time.sleep(0.5)
        return f"{self.arena.source_state}\n{os.pread(self._stacks, 1 << 16, 0).decode()}"

    def stop(self, field: str) -> str:
        """A field of the fatal error that ended it."""
        named = self.arena.stop()
        assert named is not None
        return str(named[field])

    def close(self) -> None:
        if self.pid:
            self.signal(signal.SIGKILL)
        os.close(self._stacks)

    def frames(self) -> list[frames.Frame]:
        """All committed frames."""
        journal = JournalReader(self.journal_dir)
        return [frames.decode(payload) for _, payload in journal.frames(journal.first(), self.arena.committed)]

    def rows(self, table: str = "t") -> list[tuple[str, int]]:
        """For each rows frame of a table, its column names, joined, and its number of rows."""
        if not self.arena.committed:
            return []
        journal = JournalReader(self.journal_dir)
        found = []
        for _, payload in journal.frames(journal.first(), self.arena.committed):
            frame = frames.decode(payload)
            if isinstance(frame, Rows):
                definition = msgspec.msgpack.decode(definition_at(journal, frame.table), type=Definition)
                if definition.table == table:
                    found.append((",".join(column.name for column in definition.columns), frame.rows))
        return found

    def count(self, table: str = "t") -> int:
        """The number of a table's rows in the journal, repeats included."""
        return sum(rows for _, rows in self.rows(table))


def definition_at(journal: JournalReader, position: int) -> bytes:
    """The definition, packed, that the TABLE frame at a position has or is linked to."""
    frame = frames.decode(journal.frame(position)[1])
    assert isinstance(frame, Table)
    return definition_at(journal, frame.link) if frame.link else frame.definition
