"""The client for asyncio: what only it promises."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from types import coroutine
from typing import Any, Final

import pytest

from relay.client import AsyncRelayClient
from relay.errors import RelayError
from tests.support.classic_client import SECRET
from tests.support.server_processes import Serving
from tests.support.waiting import patience

ROWS: Final = 20
WAIT: Final = patience(20)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Two servers."""
    with Serving(tmp_path) as running:
        yield running


def connect(serving: Serving, name: str) -> AsyncRelayClient:
    """A new client of that name."""
    return AsyncRelayClient("127.0.0.1", serving.port, name, SECRET)


@coroutine
def cancelled_at(step: int, late: bool, work: Coroutine[Any, Any, None]) -> Any:
    """Run `work`, and cancel it where it waits for the `step`-th time, before what it waits for has come or after.

    Returns whether it has waited so often.
    """
    task, result = asyncio.current_task(), None
    assert task is not None
    while True:
        try:
            future = work.send(result)
        except StopIteration:
            return False
        step -= 1
        if step == 0:
            with suppress(asyncio.CancelledError, StopIteration):
                if not late:
                    task.cancel()
                try:
                    yield future
                    raise asyncio.CancelledError
                except asyncio.CancelledError as cancelled:
                    work.throw(cancelled)
            task.uncancel()
            return True
        result = yield future


@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
@pytest.mark.parametrize("way", ["poll", "poll_many", "iteration", "batches"])
def test_a_call_that_is_cancelled_anywhere_loses_and_repeats_nothing(serving: Serving, way: str, late: bool) -> None:
    """Each run has one step more before it is cancelled; then the same client takes the rest."""

    async def take(client: AsyncRelayClient, seen: list[int]) -> None:
        """Rows in small parts, and a request of another kind, until all are there."""
        while len(seen) < ROWS:
            if way == "poll":
                row = await client.poll(WAIT)
                seen += [row.after["id"]] if row and row.after else []
            elif way == "poll_many":
                seen += [row.after["id"] for row in await client.poll_many(3, WAIT) if row.after]
            elif way == "batches":
                async for rows in client.batches(3):
                    seen += [row.after["id"] for row in rows if row.after]
                    if len(seen) % 2 == 0 or len(seen) >= ROWS:
                        break
            else:
                async for row in client:
                    seen += [row.after["id"]] if row.after else []
                    await asyncio.sleep(0)
                    if len(seen) % 5 == 0:
                        break
            await client.ping()
        await client.confirm()

    async def main() -> int:
        step, more = 0, True
        while more:
            step += 1
            seen: list[int] = []
            async with connect(serving, f"{way}-{step}") as client:
                await client.add_filter("shop")
                serving.insert(*((number, "x") for number in range(ROWS)))
                more = await cancelled_at(step, late, take(client, seen))
                await asyncio.wait_for(take(client, seen), patience(60))
                assert seen == list(range(ROWS)), f"cancelled at step {step}"
                assert await client.poll() is None
        return step

    assert asyncio.run(main()) > 10


def test_connecting_can_be_cancelled_anywhere(serving: Serving) -> None:
    async def main() -> int:
        step, more = 0, True
        while more:
            step += 1
            client = connect(serving, "connecting")
            more = await cancelled_at(step, False, client.connect())
            await client.ping()
            client.close()
        return step

    assert asyncio.run(main()) > 2


def test_a_timeout_around_a_call_ends_it_and_the_next_goes_on(serving: Serving) -> None:
    async def main() -> None:
        async with connect(serving, "timeout") as client:
            await client.add_filter("shop")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.poll_many(wait=WAIT)
            serving.insert((1, "x"))
            assert [row.after for row in await client.poll_many(wait=WAIT)] == [{"id": 1, "word": "x"}]

    asyncio.run(main())


def test_a_call_fails_if_another_task_closes_the_client_and_a_later_one_opens_it(serving: Serving) -> None:
    async def main() -> None:
        async with connect(serving, "closed") as client:
            await client.add_filter("shop")
            waiting = asyncio.create_task(client.poll_many(wait=WAIT))
            await asyncio.sleep(0)  # it runs to where it waits
            client.close()
            with pytest.raises(RelayError, match="closed the client"):
                await asyncio.wait_for(waiting, patience(10))
            await client.ping()

    asyncio.run(main())


def test_calls_of_several_tasks_follow_one_another(serving: Serving) -> None:
    async def main() -> None:
        async with connect(serving, "tasks") as client:
            filters = [client.add_filter("shop", f"table{number}") for number in range(20)]
            await asyncio.gather(*filters, *(client.ping() for _ in range(20)))
            assert len(await client.filters()) == 20

    asyncio.run(main())


def test_many_clients_share_one_thread(serving: Serving) -> None:
    """Each gets all rows, while the others wait."""

    async def take(name: str, ready: asyncio.Semaphore) -> list[int]:
        async with connect(serving, name) as client:
            await client.add_filter("shop")
            ready.release()
            seen: list[int] = []
            async for row in client:
                seen.append(row.sequence)
                if len(seen) == ROWS:
                    return seen
        raise AssertionError("the rows have an end")

    async def main() -> None:
        ready = asyncio.Semaphore(0)
        async with asyncio.timeout(patience(60)), asyncio.TaskGroup() as group:
            tasks = [group.create_task(take(f"client-{number}", ready)) for number in range(20)]
            for _ in tasks:
                await ready.acquire()
            serving.insert(*((number, "x") for number in range(ROWS)))
        assert all(task.result() == list(range(1, ROWS + 1)) for task in tasks)

    asyncio.run(main())
