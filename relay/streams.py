"""A process of the CDC port: streams tables to clients of MaxScale's protocol.

A loop and its I/O; the service itself is in relay/cdc/. What stops it is shown, and stops nothing else. What it runs on
is imported when it runs: the supervisor, which imports this module, has no use for asyncio.
"""

from __future__ import annotations

from relay.context import StreamsContext


def run(context: StreamsContext) -> int:
    """Serves until told to stop. Errors and named stops leave as `RelayError`."""
    import asyncio

    from relay.cdc import serving

    context.report("starting")
    if not context.await_journal():
        return 0
    asyncio.run(serving.serve(context))
    return 0
