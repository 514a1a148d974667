"""The client library: typed rows of a relay, at least once, in order.

    with RelayClient("127.0.0.1", 6001, "my-cache", "secret") as client:
        client.add_filter("shop", "orders")
        for row in client:
            print(row.kind, row.table, row.after)

`AsyncRelayClient` is the same for asyncio, with `async with`, `async for` and `await`.

A client is identified by its name: its filters and its queue are kept by the relay and survive disconnects. A row is
confirmed by asking for more, or by leaving the `with` block without an exception; unconfirmed rows come again.
"""

from relay.client.asynchronous import AsyncRelayClient
from relay.client.blocking import RelayClient
from relay.client.session import BATCH_ROWS, ITERATION_WAIT, Row, Values

__all__ = ["BATCH_ROWS", "ITERATION_WAIT", "AsyncRelayClient", "RelayClient", "Row", "Values"]
