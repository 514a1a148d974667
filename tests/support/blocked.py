"""The client for asyncio with methods that block, for tests that both clients must pass."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self, TypeVar, cast

from relay.client import AsyncRelayClient, RelayClient, Row

T = TypeVar("T")


class Blocked:
    """A client for asyncio, and an event loop that runs only during a call."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncRelayClient(*arguments, **options)

    @classmethod
    def client(cls, *arguments: Any, **options: Any) -> RelayClient:
        """A new one, which has the methods of a RelayClient."""
        return cast(RelayClient, cls(*arguments, **options))

    def __enter__(self) -> Self:
        self._wait(self._client.__aenter__())
        return self

    def __exit__(self, *reason: Any) -> None:
        try:
            self._wait(self._client.__aexit__(*reason))
        finally:
            self._runner.close()

    def __iter__(self) -> Iterator[Row]:
        return self._each(aiter(self._client))

    def batches(self, *arguments: Any) -> Iterator[list[Row]]:
        """As that of a client."""
        return self._each(self._client.batches(*arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        if not inspect.iscoroutinefunction(method):
            return cast(Callable[..., Any], method)
        return lambda *arguments, **options: self._wait(method(*arguments, **options))

    def _wait(self, result: Awaitable[T]) -> T:
        async def finish() -> T:
            return await result

        return self._runner.run(finish())

    def _each(self, results: AsyncIterator[T]) -> Iterator[T]:
        while True:
            yield self._wait(anext(results))
