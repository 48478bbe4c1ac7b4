"""Tests of pages in flight: their number, their order, and their end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.unit.paging.listing_server import ENDS, End, ListingServer
from tests.unit.paging.server import MakeServer, Server

from freight_exchange.errors import (
    ConfigurationError,
    NotFoundError,
    TransportError,
)
from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.reread import PAGES_PAST_END


@pytest.mark.parametrize("window", [1, 2, 4, 9])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sweep", [False, True])
async def test_a_window_changes_nothing_but_the_pages_in_flight(
    serve: MakeServer, window: int, end: End, sweep: bool
) -> None:
    server = serve(95)
    server.source.end = end
    assert await server.listing(window=window, sweep=sweep).collect() == [*range(95)]
    # Requests of the pass up may still be in flight when the pass down sends its first one.
    assert min(window, 9) <= server.most_under_way <= (2 * window - 1 if sweep or end == "500" else window)
    assert (
        {*range(10)}
        <= {*server.numbers}
        <= {*range(11 + (pages_past_end(PAGES_PAST_END, 10) if sweep else 0) + window)}
    )


async def test_fewer_pages_than_the_window_are_requested_beyond_the_end(serve: MakeServer) -> None:
    server = serve(95)
    await server.listing(window=4).collect()
    await anyio.wait_all_tasks_blocked()
    asked_for = {*server.numbers, *server.cancelled}
    assert asked_for <= set(range(11 + 3))


async def test_a_listing_of_one_short_page_is_looked_past_once_in_any_window(serve: MakeServer) -> None:
    server = serve(5)
    server.sizes.record_rows("operation", 10)
    assert await server.listing(window=8).collect() == [*range(5)]
    assert server.source.requests == [(0, 10), (1, 5)]


async def test_no_page_is_prefetched_before_the_servers_page_size_is_known(serve: MakeServer) -> None:
    server = serve(50)
    server.source.clamp, server.source.stride = 7, "asked"
    assert await server.listing(window=4, page_size=20).collect() == [*range(50)]


async def test_a_slow_consumer_holds_no_more_than_the_window(serve: MakeServer) -> None:
    server = serve(1000)
    pages = server.listing(window=3).pages()
    for _ in range(2):
        await anext(pages)
    await anyio.wait_all_tasks_blocked()
    assert len(server.numbers) <= 2 + 2
    await pages.aclose()


async def test_pages_come_in_order_however_they_arrive(serve: MakeServer) -> None:
    server = serve(60)
    server.gates = {number: anyio.Event() for number in range(1, 5)}
    found: list[int] = []

    async def pull() -> None:
        found.extend(await server.listing(window=4).collect())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pull)
        for number in (4, 3, 2, 1):
            await anyio.wait_all_tasks_blocked()
            server.gates[number].set()
    assert found == [*range(60)]


async def _break(server: Server) -> None:
    async for record in server.listing(window=4):
        if record == 10:
            break


async def _close(server: Server) -> None:
    pages = server.listing(window=4).pages()
    await anext(pages)
    await anext(pages)
    await pages.aclose()
    # While the pages are still held: the collector cancels what has no reference.
    await anyio.wait_all_tasks_blocked()
    assert server.under_way == 0
    with pytest.raises(StopAsyncIteration):
        await anext(pages)


async def _drop(server: Server) -> None:
    pages: Any = server.listing(window=4).pages()
    await anext(pages)
    await anext(pages)
    # In a cycle, so that only the collector finds it.
    pages.itself = pages
    del pages
    gc.collect()


async def _raise(server: Server) -> None:
    async def fail() -> None:
        async for record in server.listing(window=4):
            if record == 10:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


@pytest.mark.parametrize("leave", [_break, _close, _drop, _raise])
async def test_reader_that_leaves_cancels_requests_in_flight(serve: MakeServer, leave: Callable[[Server], Any]) -> None:
    server = serve(1000)
    server.gates = {number: anyio.Event() for number in range(2, 100)}
    await leave(server)
    await anyio.wait_all_tasks_blocked()
    assert (sorted(server.cancelled), server.under_way) == ([2, 3, 4], 0)


async def test_end_of_the_listing_cancels_requests_for_later_pages(serve: MakeServer) -> None:
    server = serve(25)
    server.gates = {number: anyio.Event() for number in range(4, 9)}
    pages = server.listing(window=4).pages()
    assert len([page async for page in pages]) == 3
    await anyio.wait_all_tasks_blocked()
    assert (sorted(server.cancelled), server.under_way) == ([4, 5, 6], 0)
    await pages.aclose()


async def test_error_is_raised_at_its_page_and_the_next_pull_retries(serve: MakeServer) -> None:
    server = serve(60)
    server.failures[3] = TransportError("reset")
    pages = server.listing(window=4).pages()
    found: list[int] = []

    async def pull_all() -> None:
        async for page in pages:
            found.extend(page)

    with pytest.raises(TransportError, match="reset"):
        await pull_all()
    assert found == [*range(30)]
    await pull_all()
    assert found == [*range(60)]


@pytest.mark.parametrize("window", [1, 3])
async def test_error_on_the_first_page_does_not_end_the_listing(serve: MakeServer, window: int) -> None:
    server = serve(5)
    server.failures[0] = NotFoundError("Not Found", status=404)
    with pytest.raises(NotFoundError):
        await server.listing(window=window).collect()


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("sweep", [False, True])
async def test_a_cancelled_pull_loses_nothing(serve: MakeServer, window: int, sweep: bool) -> None:
    server = serve(55)
    pages = server.listing(window=window, sweep=sweep).pages()
    found: list[int] = []
    cancelled = 0
    ended = False

    async def pull() -> None:
        nonlocal ended
        page = await anext(pages, None)
        found.extend(page or ())
        ended = page is None

    while not ended:
        server.gates = {number: anyio.Event() for number in range(20)}
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pull)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        cancelled += scope.cancelled_caught
        for gate in server.gates.values():
            gate.set()
        if not ended:
            await pull()
    assert found == [*range(55)]
    assert cancelled >= 2


async def test_a_client_that_is_closed_ends_its_listings(serve: MakeServer) -> None:
    server = serve(60)
    server.gates = {number: anyio.Event() for number in range(2, 9)}
    pages = server.listing(window=3).pages()
    await anext(pages)
    await anext(pages)

    async def close() -> None:
        await anyio.wait_all_tasks_blocked()
        await server.tasks.close(anyio.lowlevel.checkpoint).wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        with pytest.raises(TransportError, match="closed"):
            await anext(pages)


async def test_two_tasks_cannot_pull_at_once(serve: MakeServer) -> None:
    server = serve(60)
    server.gates[0] = anyio.Event()
    pages = server.listing().pages()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anext, pages)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConfigurationError, match="another task is waiting for the next page"):
            await anext(pages)
        server.gates[0].set()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_pages_that_outlive_their_loop_are_collected_without_error(backend: str) -> None:
    async def leave() -> object:
        server = Server(ListingServer([*range(1000)]))
        server.gates = {number: anyio.Event() for number in range(2, 100)}
        pages = server.listing(window=4).pages()
        await anext(pages)
        await anext(pages)
        return pages

    left = [anyio.run(leave, backend=backend)]
    left.clear()
    gc.collect()
