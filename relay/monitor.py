"""The monitor process: shows over HTTP what everybody's counters say, and keeps the last hour of it for the charts.

What it runs on is imported when it runs: the supervisor, which imports this module, has no use for asyncio.
"""

from __future__ import annotations

from relay import stat
from relay.context import MonitorContext


def run(context: MonitorContext) -> int:
    """Serves until told to stop."""
    import asyncio

    from relay import monitoring

    def collect() -> stat.Stat:
        return stat.collect(context.config, context.arena, context.data_dir, context.processes, context.boards)

    asyncio.run(monitoring.serve(context, collect))
    return 0
