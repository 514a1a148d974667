"""A reader process on its own: forked with an arena of its own, what it wrote read from its journal."""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay import process, reader
from relay._native import Arena, JournalReader
from relay.config import load
from relay.context import ReaderContext
from relay.journal import frames
from relay.journal.frames import Definition, Rows, Table
from relay.log import logger

SHAPE = (4, 1, 0)


class Reader:
    """A forked reader with an arena of its own; what it wrote is read from its journal."""

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

    def start(self) -> Self:
        supervisor = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(process.become(self.context, supervisor, lambda: reader.run(self.context)))
        return self

    def streaming(self) -> Self:
        """Wait until it reads."""
        self.until(lambda: self.arena.source_state == "streaming")
        return self

    def until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"in vain: {self.arena.source_state}, {self.arena.stop()}"
            assert self.pid == 0 or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None, (
                f"it ended: {self.arena.stop()}"
            )
            time.sleep(0.01)

    def wait(self, seconds: float = 20) -> int:
        """Its exit code; negative for a signal."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(0.01)

    def signal(self, number: signal.Signals) -> int:
        os.kill(self.pid, number)
        return self.wait()

    def stop(self, field: str) -> str:
        """A field of the named stop that ended it."""
        named = self.arena.stop()
        assert named is not None
        return str(named[field])

    def close(self) -> None:
        if self.pid:
            self.signal(signal.SIGKILL)

    def frames(self) -> list[frames.Frame]:
        """Everything committed."""
        journal = JournalReader(self.journal_dir)
        return [frames.decode(payload) for _, payload in journal.frames(journal.first(), self.arena.committed)]

    def rows(self, table: str = "t") -> list[tuple[str, int]]:
        """Of each rows frame of a table, its names joined and its number of rows."""
        if not self.arena.committed:
            return []
        journal = JournalReader(self.journal_dir)
        found = []
        for _, payload in journal.frames(journal.first(), self.arena.committed):
            frame = frames.decode(payload)
            if isinstance(frame, Rows):
                definition = self._definition(journal, frame.table)
                if definition.table == table:
                    found.append((",".join(column.name for column in definition.columns), frame.rows))
        return found

    def count(self, table: str = "t") -> int:
        """Rows of a table, counted once for each time they stand in the journal."""
        return sum(rows for _, rows in self.rows(table))

    @staticmethod
    def _definition(journal: JournalReader, position: int) -> Definition:
        frame = frames.decode(journal.frame(position)[1])
        assert isinstance(frame, Table)
        if frame.link:
            return Reader._definition(journal, frame.link)
        return msgspec.msgpack.decode(frame.definition, type=Definition)
