"""The tasks of the monitor, in one event loop: answer requests, send heartbeats, sample, count.

If one task ends, the process ends: the supervisor logs the cause and starts a new one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from relay.base.log import Log
from relay.monitoring.collector import Collector
from relay.monitoring.deliveries import Delivery, deliveries
from relay.monitoring.history import INTERVAL, Recorder
from relay.monitoring.http import Latest, Server, application
from relay.monitoring.inquiries import Inquiries
from relay.monitoring.repeats import Repeats
from relay.monitoring.stat import Stat
from relay.monitoring.views import Views
from relay.net.addresses import Addresses, plain
from relay.runtime.context import MonitorContext

NICE: Final = 5
WORK_SECONDS: Final = 1.0  # an idle process is woken no more often: waking costs more than the work


async def serve(context: MonitorContext, collect: Callable[[], Stat]) -> None:
    """Serve until SIGTERM. Do not wait for connections to end."""
    assert context.listener is not None
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    logging.getLogger("tornado").handlers = [_Handler(context.log)]
    latest, recorder, collector, repeats = Latest(collect), Recorder(), Collector(context), Repeats(context.log)

    def last_ten(client_id: int) -> list[Delivery]:
        return deliveries(context.arena, context.journal_dir, client_id)

    views = Views(lambda: context.config, recorder, collector.usage, last_ten)
    server = Server(application(latest, views, context.log, lambda: context.config.server.http_hosts))
    server.admits = partial(_admits, context)
    server.serve(context.listener)
    Inquiries(context, lambda: latest.document(now=True)).start(asyncio.get_running_loop())
    context.arena.mark_running(context.slot)
    # From here on, processes that move rows have priority.
    with suppress(OSError):  # if this is forbidden, it competes like other processes
        os.nice(NICE)
    tasks = [
        asyncio.create_task(terminated.wait()),
        asyncio.create_task(_work(context, collector)),
        asyncio.create_task(_sample(latest.document, recorder, repeats)),
    ]
    if context.stopping:  # the signal came before its handler was set
        terminated.set()
    ended, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    for task in ended:
        task.result()
    collector.close()


def _admits(context: MonitorContext, address: str) -> bool:
    allowed = Addresses(context.config.server.http_from)
    if allowed.admit(address) or plain(address).is_loopback:
        return True
    context.log("address_refused", client="", peer=address, rule="[Server] HTTPFrom")
    return False


async def _work(context: MonitorContext, collector: Collector) -> None:
    """Send heartbeats, switch to new configurations, and collect.

    Other tasks run between two steps, even while the collector catches up with a long journal.
    """
    while True:
        context.beat()
        await asyncio.sleep(WORK_SECONDS if collector.step() else 0)


async def _sample(collect: Callable[[], Stat], recorder: Recorder, repeats: Repeats) -> None:
    """Sample at once and then at an even pace. Do not make up for missed samples."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        document = collect()
        recorder.sample(document)
        repeats.check(document.clients)
        due = max(due + INTERVAL, loop.time())
        await asyncio.sleep(due - loop.time())


class _Handler(logging.Handler):
    """Write tornado's own warnings to the relay's log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = repr(record.exc_info[1]) if record.exc_info else ""
        self._log("http_trouble", text=record.getMessage(), error=error)
