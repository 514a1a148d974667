"""The state writer process: stores clients, filters and checkpoints in state.db, as the broker says.

So no row waits for a disk: the broker hands over what is to be stored, and decides on.
"""

from __future__ import annotations

import select
from contextlib import closing

from relay.queues.state_writing import StateWriting
from relay.runtime.context import StateWriterContext
from relay.runtime.signals import Signals

POLL_SECONDS = 2.0  # the period of heartbeats without messages


def run(context: StateWriterContext) -> int:
    """Serve the broker until it must stop."""
    assert context.broker is not None
    sock = context.broker
    signals = Signals(())  # SIGTERM has its handler; here it ends a wait

    def wait_to_send() -> bool:
        """Wait for a broker that reads no answers because it decides, or is down. False if this process must stop."""
        context.beat()
        select.select([signals], [sock], [], POLL_SECONDS)
        return not context.stopping

    count_change = context.arena.count_stored_change
    with closing(StateWriting(context.data_dir / "state.db", sock, wait_to_send, count_change)) as writing:
        context.arena.mark_running(context.slot)
        while not context.stopping:
            context.beat()
            writing.announce()
            select.select([signals.fileno(), sock.fileno()], [], [], POLL_SECONDS)
            writing.receive()
    return 0
