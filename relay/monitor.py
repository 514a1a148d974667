"""The monitor process: shows the counters of all processes over HTTP, and keeps the last hour for the charts.

It imports asyncio when it runs: the supervisor, which imports this module, does not need it.
"""

from __future__ import annotations

from relay.monitoring.stat import Client, Stat
from relay.monitoring.stat_collect import collect
from relay.runtime.context import MonitorContext


def run(context: MonitorContext) -> int:
    """Serve until SIGTERM."""
    import asyncio

    from relay.monitoring import app

    last: list[Client] = []

    def document() -> Stat:
        nonlocal last
        places = context.arena, context.data_dir, context.processes, context.status_pages
        made = collect(context.config, *places, last)
        last = made.clients
        return made

    asyncio.run(app.serve(context, document))
    return 0
