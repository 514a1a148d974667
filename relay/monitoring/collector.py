"""The collector: keeps table usage and the probes of the source up to date on the monitor's status page."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from relay.ingest import position_report
from relay.monitoring.usage import Usage
from relay.runtime.context import MonitorContext
from relay.runtime.process_status import MonitorReport, Watch, write_report

if TYPE_CHECKING:
    from relay.monitoring.source_probe import FilePosition
    from relay.source.connect import Account

REPORT_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 5.0
ENDING_SECONDS: Final = 0.2


class Collector:
    """Keep table usage and the source's position up to date.

    A collector belongs to the thread that creates it, except for a separate thread that probes the source.

    `step` raises what ends that thread.
    """

    def __init__(self, context: MonitorContext) -> None:
        self.usage = Usage(context.data_dir / "usage.db", context.journal_dir)
        self._context = context
        self._watch = Watch()
        self._reported = 0.0  # when
        self._trouble = ""
        self._failure: Exception | None = None  # of the probing thread
        self._ending = threading.Event()
        self._probing = threading.Thread(target=self._probe_source, name="probe", daemon=True)
        self._probing.start()

    def step(self) -> bool:
        """Do a bit of work. False if there is more to do at once; otherwise call it again a moment later."""
        if self._failure is not None:
            raise self._failure
        now = time.time()
        caught_up = self.usage.advance(now, self._context.arena.flushed)
        self._log_trouble()
        if not 0 <= now - self._reported < REPORT_SECONDS:
            self._reported = now
            write_report(self._context.status_pages.monitor, MonitorReport(self.usage.usage(), self._watch))
        return caught_up

    def close(self) -> None:
        """Save the counts. Do not wait for a source that does not reply."""
        self._ending.set()
        self.usage.close()
        self._probing.join(ENDING_SECONDS)  # so that it ends a PasswordCommand that runs
        self._log_trouble()

    def _log_trouble(self) -> None:
        if self.usage.trouble != self._trouble:
            self._trouble = self.usage.trouble
            if self._trouble:
                self._context.log("usage_failed", error=self._trouble)

    def _probe_source(self) -> None:
        # Imports a database driver, for which the page does not wait.
        from relay.monitoring.source_probe import SourceProbe

        probe = SourceProbe()
        try:
            while not self._ending.is_set():
                watch = probe.run(self._account(), self._position)
                # Until the reader has reported what it had read, else the relay would seem to be behind.
                self._ending.wait(position_report.REPORT_SECONDS)
                self._watch = watch
                self._ending.wait(PROBE_SECONDS)
        except Exception as failure:
            self._failure = failure
        probe.close()

    def _account(self) -> Account:
        """Return the account that reads the binlog. It may also query the binlog's end."""
        from relay.source.connect import Account

        config = self._context.config
        host = self._context.arena.source()["host"] or config.server.ip_addr[0]
        return Account.at(config, host, alive=self._check_ending)

    def _check_ending(self) -> None:
        from relay.source.failures import SourceLost

        if self._ending.is_set():
            raise SourceLost("the relay stops")

    def _position(self) -> FilePosition:
        source = self._context.arena.source()
        return source["file"], source["position"]
