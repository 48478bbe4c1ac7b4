"""Tests of a paginator on asyncio and trio: prefetched pages, leaving early, errors, cancellation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.paging.listing_server import ENDS, End, ListingServer
from tests.unit.paging.server import MakeServer, Server

from freight_exchange.errors import (
    FeedProtocolError,
    ValidationError,
)
from freight_exchange.paging import Page


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


async def test_listing_yields_records_or_pages(serve: MakeServer) -> None:
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
    server.source.own_page_size = 100
    assert await server.listing(page_size=None, window=3, sweep=True).collect() == [0, 1, 2]
    assert server.numbers == [0]


@pytest.mark.parametrize("clamp", [None, 7])
async def test_a_reader_resumes_where_it_stopped(serve: MakeServer, clamp: int | None) -> None:
    first = serve(50)
    first.source.clamp = clamp
    page = await anext(first.listing(page_size=20).pages())
    second = serve(50)
    second.source.clamp, second.source.stride = clamp, "asked"
    rest = [r async for p in second.listing(page_size=page.page_size).pages(start=page.number + 1) for r in p]
    assert [*page, *rest] == [*range(50)]


@pytest.mark.parametrize("start", [-1, True, 1.5, "1"])
async def test_start_that_is_not_a_page_number_is_refused(serve: MakeServer, start: Any) -> None:
    with pytest.raises(ValidationError, match="start"):
        serve(1).listing().pages(start=start)


async def test_listing_that_keeps_changing_raises_after_the_rows_that_were_found(serve: MakeServer) -> None:
    server = serve(20)
    server.source.clamps = lambda before: server.source.rows.insert(0, 1000 + before)
    found: list[int] = []

    async def read() -> None:
        async for record in server.listing(sweep=True):
            found.append(record)

    with pytest.raises(FeedProtocolError, match="changed"):
        await read()
    assert len(found) == len(set(found)) >= 20


async def test_ignored_offset_is_reported_once_and_fails_a_strict_client(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(ListingServer([*range(25)], offset_ignored=True))
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
async def test_repeated_last_page_does_not_fail_a_strict_client(
    serve: MakeServer, length: int, end: End, window: int
) -> None:
    server = serve(length)
    server.source.end = end
    assert await server.listing(strict=True, window=window).collect() == [*range(length)]


async def test_strict_client_confirms_a_doubtful_end(serve: MakeServer) -> None:
    lenient, strict = serve(10), serve(10)
    lenient.source.end = strict.source.end = "last page"
    await lenient.listing().collect()
    await strict.listing(strict=True).collect()
    assert lenient.source.requests == [(0, 10), (1, 10)]
    assert strict.source.requests == [(0, 10), (1, 10), (1, 1)]


@pytest.mark.parametrize("length", [0, 3, 7, 50])
@pytest.mark.parametrize("clamp", [None, 7])
@pytest.mark.parametrize("known", [False, True])
async def test_an_awaited_page_is_the_first_of_the_pages(
    serve: MakeServer, length: int, clamp: int | None, known: bool
) -> None:
    awaited, read = serve(length), serve(length)
    for server in (awaited, read):
        server.source.clamp = clamp
        if known:
            await server.listing(page_size=20).collect()
    page = await awaited.listing(page_size=20)
    assert page == await anext(read.listing(page_size=20).pages(), page)


@pytest.mark.parametrize("clamp", [None, 7])
async def test_a_reader_resumes_after_an_awaited_page(serve: MakeServer, clamp: int | None) -> None:
    first, second = serve(50), serve(50)
    first.source.clamp = second.source.clamp = clamp
    second.source.stride = "asked"
    page = await first.listing(page_size=20)
    assert page.page_size == (clamp or 20)
    rest = [r async for p in second.listing(page_size=page.page_size).pages(start=page.number + 1) for r in p]
    assert [*page, *rest] == [*range(50)]
