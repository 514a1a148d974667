"""What only the monitor knows, kept up to date on its board: table usage, and what the source says of itself."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from relay.board import Seen, Watch, show_seen
from relay.context import MonitorContext
from relay.usage import Usage

if TYPE_CHECKING:
    from relay.binlog.connect import Account
    from relay.watch import Place

SHOW_SECONDS: Final = 1.0
WATCH_SECONDS: Final = 5.0


class Lookout:
    """Belongs to the thread that makes it, but for a thread of its own in which the source is asked.

    What ends that thread is raised by `step`.
    """

    def __init__(self, context: MonitorContext) -> None:
        self.usage = Usage(context.data_dir / "usage.db", context.journal_dir)
        self._context = context
        self._watch = Watch()
        self._shown = 0.0
        self._trouble = ""
        self._failure: Exception | None = None  # of the thread
        self._ending = threading.Event()
        threading.Thread(target=self._keep_watching, name="watch", daemon=True).start()

    def step(self) -> bool:
        """Do a little; False if there is more to do at once, otherwise it may be called again a moment later."""
        if self._failure is not None:
            raise self._failure
        now = time.time()
        level = self.usage.advance(now, self._context.arena.flushed)
        self._log_trouble()
        if not 0 <= now - self._shown < SHOW_SECONDS:
            self._shown = now
            show_seen(self._context.boards.monitor, Seen(self.usage.usage(), self._watch))
        return level

    def close(self) -> None:
        """Keep what was counted. A source that does not answer is not waited for."""
        self._ending.set()
        self.usage.close()
        self._log_trouble()

    def _log_trouble(self) -> None:
        if self.usage.trouble != self._trouble:
            self._trouble = self.usage.trouble
            if self._trouble:
                self._context.log("usage_failed", error=self._trouble)

    def _keep_watching(self) -> None:
        from relay.watch import Watcher  # opens a database driver: the page need not wait for it

        watcher = Watcher()
        try:
            while not self._ending.is_set():
                self._watch = watcher.look(self._account(), self._place)
                self._ending.wait(WATCH_SECONDS)
        except Exception as failure:
            self._failure = failure
        watcher.close()

    def _account(self) -> Account:
        """The one that reads the binlog, where it does so: whoever may read it may ask how far it is."""
        from relay.binlog.connect import Account

        config = self._context.config
        return Account.at(config, self._context.arena.source()["host"] or config.server.ip_addr[0])

    def _place(self) -> Place:
        source = self._context.arena.source()
        return source["file"], source["position"]
