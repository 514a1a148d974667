"""A process of the CDC port: streams tables to clients of MaxScale's protocol.

The service is in relay/cdc/. A fatal error here is shown, and stops no other process. Dependencies are imported when it
runs: the supervisor, which imports this module, does not need asyncio.
"""

from __future__ import annotations

from relay.runtime.context import StreamsContext


def run(context: StreamsContext) -> int:
    """Serve until it must stop. Raises errors, including fatal errors, as `RelayError`."""
    import asyncio

    from relay.cdc import serving

    context.report("starting")
    if not context.await_journal():
        return 0
    asyncio.run(serving.serve(context))
    return 0
