"""The monitor process: shows the counters of all processes over HTTP, and keeps the last hour for the charts.

It imports asyncio when it runs: the supervisor, which imports this module, does not need it.
"""

from __future__ import annotations

from relay.monitoring.stat import Stat
from relay.monitoring.stat_collect import collect
from relay.monitoring.state_view import StateView
from relay.runtime.context import MonitorContext


def run(context: MonitorContext) -> int:
    """Serve until SIGTERM."""
    import asyncio

    from relay.monitoring import app

    state = StateView(context.arena, context.data_dir)

    def document() -> Stat:
        places = context.arena, context.data_dir, context.processes, context.status_pages
        return collect(context.config, *places, state)

    asyncio.run(app.serve(context, document))
    return 0
