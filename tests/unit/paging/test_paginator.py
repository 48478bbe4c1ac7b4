"""What a reader does with a listing, on asyncio and on trio: pages ahead, leaving early, errors, cancellation."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.paging.shelf import ENDS, End, Rows, Shelf

from freight_exchange.errors import (
    ConfigurationError,
    FeedProtocolError,
    NotFoundError,
    TransportError,
    ValidationError,
)
from freight_exchange.paging import Page, PageSizes, Paginator
from freight_exchange.paging.reread import LOOK_FURTHER
from freight_exchange.transport.background import BackgroundTasks


@attrs.define
class Server:
    """A shelf behind a network: a page is under way until its gate is open."""

    shelf: Shelf[int]
    jobs: BackgroundTasks = attrs.Factory(BackgroundTasks)
    sizes: PageSizes = attrs.Factory(PageSizes)
    gates: dict[int, anyio.Event] = attrs.Factory(dict)
    failures: dict[int, Exception] = attrs.Factory(dict)
    under_way: int = 0
    most_under_way: int = 0
    cancelled: list[int] = attrs.Factory(list)

    async def fetch(self, number: int, size: int) -> Rows[int]:
        page = self.failures.pop(number, None) or self.shelf.page
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await anyio.lowlevel.checkpoint()
            if gate := self.gates.get(number):
                await gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(number)
            raise
        finally:
            self.under_way -= 1
        if isinstance(page, Exception):
            raise page
        return page(number, size)

    def listing(
        self,
        *,
        window: int = 1,
        sweep: bool = False,
        page_size: int | None = 10,
        strict: bool = False,
        where: Callable[[int], bool] | None = None,
    ) -> Paginator[int]:
        return Paginator(
            lambda: self.fetch,
            operation="operation",
            sizes=self.sizes,
            tasks=lambda: self.jobs,
            identity=lambda record: record,
            page_size=page_size,
            strict=strict,
            window=window,
            sweep=sweep,
            where=where,
        )

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.shelf.asked]


MakeServer = Callable[[int], Server]


@pytest.fixture
async def serve() -> AsyncIterator[MakeServer]:
    """Makes servers; afterwards nothing of theirs may be left running."""
    servers: list[Server] = []

    def make(length: int, **habits: Any) -> Server:
        servers.append(Server(Shelf([*range(length)], **habits)))
        return servers[-1]

    yield make
    await anyio.wait_all_tasks_blocked()
    assert [server.under_way for server in servers] == [0] * len(servers)


async def test_the_first_page_is_one_request(serve: MakeServer) -> None:
    server = serve(25)
    page = await server.listing(window=4, sweep=True)
    assert (list(page), page.number, page.page_size) == ([*range(10)], 0, 10)
    assert server.numbers == [0]


async def test_an_empty_listing_has_an_empty_first_page_and_no_pages(serve: MakeServer) -> None:
    server = serve(0)
    assert list(await server.listing()) == []
    assert [page async for page in server.listing().pages()] == []
    assert await server.listing().first() is None
    assert await server.listing().collect() == []


@pytest.mark.parametrize("sweep", [False, True])
async def test_filter_applies_to_every_way_of_reading(serve: MakeServer, sweep: bool) -> None:
    listing = serve(35).listing(sweep=sweep, where=lambda record: record % 10 == 4 and record > 10)
    assert await listing.collect() == [14, 24, 34]
    assert await listing.first() == 14
    assert list(await listing) == []
    assert {page.records for page in [page async for page in listing.pages()]} == {(14,), (24,), (34,)}


async def test_the_first_record_costs_one_page(serve: MakeServer) -> None:
    server = serve(25)
    assert await server.listing(window=4).first() == 0
    assert server.numbers == [0]


async def test_records_and_pages(serve: MakeServer) -> None:
    listing = serve(25).listing()
    assert [record async for record in listing] == [*range(25)]
    assert await listing.collect() == [*range(25)]
    pages = [page async for page in listing.pages()]
    assert [(page.number, len(page)) for page in pages] == [(0, 10), (1, 10), (2, 5)]


def test_a_page_is_a_sequence() -> None:
    page = Page((1, 2, 3), 0, 10)
    assert (page[0], page[-1], page[1:], len(page), 2 in page, page.index(3)) == (1, 3, (2, 3), 3, True, 2)
    assert [*reversed(page)] == [3, 2, 1]


async def test_a_listing_without_pages_is_one_request(serve: MakeServer) -> None:
    server = serve(3)
    server.shelf.own_page_size = 100
    assert await server.listing(page_size=None, window=3, sweep=True).collect() == [0, 1, 2]
    assert server.numbers == [0]


@pytest.mark.parametrize("clamp", [None, 7])
async def test_a_reader_resumes_where_it_stopped(serve: MakeServer, clamp: int | None) -> None:
    first = serve(50)
    first.shelf.clamp = clamp
    page = await anext(first.listing(page_size=20).pages())
    second = serve(50)
    second.shelf.clamp, second.shelf.stride = clamp, "asked"
    rest = [r async for p in second.listing(page_size=page.page_size).pages(start=page.number + 1) for r in p]
    assert [*page, *rest] == [*range(50)]


@pytest.mark.parametrize("start", [-1, True, 1.5, "1"])
async def test_a_start_that_is_no_page_number_is_refused(serve: MakeServer, start: Any) -> None:
    with pytest.raises(ValidationError, match="start"):
        serve(1).listing().pages(start=start)


@pytest.mark.parametrize("window", [1, 2, 4, 9])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sweep", [False, True])
async def test_a_window_changes_nothing_but_the_pages_in_flight(
    serve: MakeServer, window: int, end: End, sweep: bool
) -> None:
    server = serve(95)
    server.shelf.end = end
    assert await server.listing(window=window, sweep=sweep).collect() == [*range(95)]
    # Those that a climb left over may still be on their way out when the descent sends for its first.
    assert min(window, 9) <= server.most_under_way <= (2 * window - 1 if sweep or end == "500" else window)
    assert {*range(10)} <= {*server.numbers} <= {*range(11 + (LOOK_FURTHER if sweep else 0) + window)}


async def test_at_most_window_less_one_pages_are_over(serve: MakeServer) -> None:
    server = serve(95)
    await server.listing(window=4).collect()
    await anyio.wait_all_tasks_blocked()
    asked_for = {*server.numbers, *server.cancelled}
    assert asked_for <= set(range(11 + 3))


async def test_a_listing_of_one_short_page_is_looked_past_once_in_any_window(serve: MakeServer) -> None:
    server = serve(5)
    server.sizes.saw("operation", 10)
    assert await server.listing(window=8).collect() == [*range(5)]
    assert server.shelf.asked == [(0, 10), (1, 5)]


async def test_no_page_is_asked_for_ahead_of_what_the_server_makes_of_its_size(serve: MakeServer) -> None:
    server = serve(50)
    server.shelf.clamp, server.shelf.stride = 7, "asked"
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
    # While the pages are still held: the collector cancels what nobody holds.
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
async def test_who_leaves_cancels_what_is_in_flight(serve: MakeServer, leave: Callable[[Server], Any]) -> None:
    server = serve(1000)
    server.gates = {number: anyio.Event() for number in range(2, 100)}
    await leave(server)
    await anyio.wait_all_tasks_blocked()
    assert (sorted(server.cancelled), server.under_way) == ([2, 3, 4], 0)


async def test_the_end_cancels_what_is_beyond_it(serve: MakeServer) -> None:
    server = serve(25)
    server.gates = {number: anyio.Event() for number in range(4, 9)}
    pages = server.listing(window=4).pages()
    assert len([page async for page in pages]) == 3
    await anyio.wait_all_tasks_blocked()
    assert (sorted(server.cancelled), server.under_way) == ([4, 5, 6], 0)
    await pages.aclose()


async def test_an_error_comes_in_its_place_and_the_next_pull_asks_again(serve: MakeServer) -> None:
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
async def test_an_error_on_the_first_page_is_no_end(serve: MakeServer, window: int) -> None:
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
        await server.jobs.close(anyio.lowlevel.checkpoint).wait()

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


async def test_a_listing_that_never_stands_still_is_an_error_after_what_was_found(serve: MakeServer) -> None:
    server = serve(20)
    server.shelf.clamps = lambda before: server.shelf.rows.insert(0, 1000 + before)
    found: list[int] = []

    async def read() -> None:
        async for record in server.listing(sweep=True):
            found.append(record)

    with pytest.raises(FeedProtocolError, match="changed"):
        await read()
    assert len(found) == len(set(found)) >= 20


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_pages_that_outlive_their_loop_are_collected_in_peace(backend: str) -> None:
    async def leave() -> object:
        server = Server(Shelf([*range(1000)]))
        server.gates = {number: anyio.Event() for number in range(2, 100)}
        pages = server.listing(window=4).pages()
        await anext(pages)
        await anext(pages)
        return pages

    left = [anyio.run(leave, backend=backend)]
    left.clear()
    gc.collect()


async def test_an_ignored_offset_is_told_once_and_fails_a_strict_reading(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(Shelf([*range(25)], offset_ignored=True))
    assert await server.listing().collect() == [*range(10)]
    assert await server.listing().collect() == [*range(10)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "get_parameters" in caplog.text
    assert await server.listing(sweep=True).collect() == [*range(10)]
    for sweep in (False, True):
        for window in (1, 3):
            with pytest.raises(FeedProtocolError, match="first one"):
                await server.listing(sweep=sweep, strict=True, window=window).collect()


@pytest.mark.parametrize("length", [1, 10, 20, 25])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("window", [1, 3])
async def test_an_end_that_repeats_fails_no_strict_reading(
    serve: MakeServer, length: int, end: End, window: int
) -> None:
    server = serve(length)
    server.shelf.end = end
    assert await server.listing(strict=True, window=window).collect() == [*range(length)]


async def test_a_strict_reading_asks_why_only_where_it_must(serve: MakeServer) -> None:
    lenient, strict = serve(10), serve(10)
    lenient.shelf.end = strict.shelf.end = "last page"
    await lenient.listing().collect()
    await strict.listing(strict=True).collect()
    assert lenient.shelf.asked == [(0, 10), (1, 10)]
    assert strict.shelf.asked == [(0, 10), (1, 10), (1, 1)]


@pytest.mark.parametrize("length", [0, 3, 7, 50])
@pytest.mark.parametrize("clamp", [None, 7])
@pytest.mark.parametrize("known", [False, True])
async def test_an_awaited_page_is_the_first_of_the_pages(
    serve: MakeServer, length: int, clamp: int | None, known: bool
) -> None:
    awaited, read = serve(length), serve(length)
    for server in (awaited, read):
        server.shelf.clamp = clamp
        if known:
            await server.listing(page_size=20).collect()
    page = await awaited.listing(page_size=20)
    assert page == await anext(read.listing(page_size=20).pages(), page)


@pytest.mark.parametrize("clamp", [None, 7])
async def test_a_reader_resumes_after_an_awaited_page(serve: MakeServer, clamp: int | None) -> None:
    first, second = serve(50), serve(50)
    first.shelf.clamp = second.shelf.clamp = clamp
    second.shelf.stride = "asked"
    page = await first.listing(page_size=20)
    assert page.page_size == (clamp or 20)
    rest = [r async for p in second.listing(page_size=page.page_size).pages(start=page.number + 1) for r in p]
    assert [*page, *rest] == [*range(50)]
