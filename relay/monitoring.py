"""What the monitor does, as tasks of one event loop: answer requests, beat, sample, count.

Whatever ends one of them ends the process: the supervisor tells what it was and starts another.
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

from relay.context import MonitorContext
from relay.deliveries import Delivery, deliveries
from relay.history import INTERVAL, Recorder
from relay.log import Log
from relay.lookout import Lookout
from relay.repeats import Repeats
from relay.serving.addresses import Addresses, plain
from relay.stat import Stat
from relay.views import Views
from relay.web import Latest, Server, application

BEAT_SECONDS: Final = 1.0
NICE: Final = 5
LOOK_SECONDS: Final = 0.25


async def serve(context: MonitorContext, collect: Callable[[], Stat]) -> None:
    """Until SIGTERM, which ends it at once: no peer is waited for."""
    assert context.listener is not None
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    logging.getLogger("tornado").handlers = [_Handler(context.log)]
    latest, recorder, lookout, repeats = Latest(collect), Recorder(), Lookout(context), Repeats(context.log)

    def last_ten(client_id: int) -> list[Delivery]:
        return deliveries(context.arena, context.journal_dir, client_id) or []

    views = Views(lambda: context.config, recorder, lookout.usage, last_ten)
    server = Server(application(latest, views, context.log, lambda: context.config.server.http_hosts))
    server.admits = partial(_admits, context)
    server.serve(context.listener)
    context.arena.mark_running(context.slot)
    # From here on whoever moves rows goes first, where there is not enough of the processor for all.
    with suppress(OSError):  # where that is forbidden, it competes as an equal
        os.nice(NICE)
    tasks = [
        asyncio.create_task(told.wait()),
        asyncio.create_task(_every(BEAT_SECONDS, context.beat)),
        asyncio.create_task(_every(LOOK_SECONDS, context.take_config)),
        asyncio.create_task(_look_out(lookout)),
        asyncio.create_task(_every(INTERVAL, lambda: _sample(latest.document(), recorder, repeats))),
    ]
    if context.stopping:  # the signal came before its handler was there
        told.set()
    ended, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    for task in ended:
        task.result()
    lookout.close()


def _admits(context: MonitorContext, address: str) -> bool:
    allowed = Addresses(context.config.server.http_from)
    if allowed.admit(address) or plain(address).is_loopback:
        return True
    context.log("address_refused", client="", peer=address, rule="[Server] HTTPFrom")
    return False


def _sample(document: Stat, recorder: Recorder, repeats: Repeats) -> None:
    recorder.sample(document)
    repeats.look(document.clients)


async def _look_out(lookout: Lookout) -> None:
    """Also with a long journal to catch up with, requests are answered between two steps."""
    while True:
        await asyncio.sleep(LOOK_SECONDS if lookout.step() else 0)


async def _every(seconds: float, work: Callable[[], None]) -> None:
    """Does it now and then again, at an even pace; what was missed is not made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        work()
        due = max(due + seconds, loop.time())
        await asyncio.sleep(due - loop.time())


class _Handler(logging.Handler):
    """Tornado's own troubles, as records of the relay's log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = repr(record.exc_info[1]) if record.exc_info else ""
        self._log("http_trouble", text=record.getMessage(), error=error)
