"""Tests of listings against services that cut, hide, move, refuse and repeat pages: what is requested and returned."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import attrs
import httpx
import pytest

from freight_exchange import (
    Applied,
    BadRequestError,
    ConfigurationError,
    DecodeError,
    FeedProtocolError,
    FreightExchange,
    FreightExchangeError,
    NotApplied,
    OutcomeUnknownError,
    Paginator,
    RetryPolicy,
    ServerError,
    StillUnknown,
    ValidationError,
)
from freight_exchange.testing import Profile, Sandbox

pytestmark = pytest.mark.virtual_time

PRICE = Decimal("1840.50")
REQUEST = 9000
SETTLE = timedelta(seconds=2)
KEYS = {
    "quote/request": "raterequests",
    "quote/getrequests": "raterequests",
    "quote/offer": "offers",
    "quote/getoffers": "offers",
    "quote/bid": "bids",
    "route": "routes",
    "carrier": "carriers",
    "currency": "currencies",
}
LISTINGS: dict[str, Callable[..., Paginator[Any]]] = {
    "requests.open": lambda fx, **options: fx.requests.open(**options),
    "requests.search": lambda fx, **options: fx.requests.search(**options),
    "offers.list": lambda fx, **options: fx.offers.list(**options),
    "offers.search": lambda fx, **options: fx.offers.search(**options),
    "bids.list": lambda fx, **options: fx.bids.list(**options),
    "routes.list": lambda fx, **options: fx.routes.list(**options),
}
BLANK = httpx.Response(200, content=b" ")
NO_CONTENT = httpx.Response(204)
NOT_FOUND = {"message": "No records found."}
PAST_END: dict[str, Any] = {
    "empty": None,
    "400": httpx.Response(400, json={"message": "no such page"}),
    "404": httpx.Response(404, json=NOT_FOUND),
    "a bare 404": httpx.Response(404, text="Not Found"),
    "416": httpx.Response(416, json={}),
    "422": httpx.Response(422, json={}),
    "500": httpx.Response(500, json={}),
    "a sentence": httpx.Response(200, json=NOT_FOUND),
    "blank": BLANK,
    "204": NO_CONTENT,
    "last page": None,
}
EACH_END = pytest.mark.parametrize("end", PAST_END)
EITHER_WAY = pytest.mark.parametrize("sweep", [False, True])


@attrs.define
class Service:
    """Service that lists the same rows under each path, and takes offers without a reply."""

    rows: list[int]
    cut: int | None = None
    counts_in: str = "cut size"
    end: str = "empty"
    hidden: Callable[[int], bool] = lambda _: False
    limit: int | None = None
    refusal: int = 400
    offset_ignored: bool = False
    drops_bodies: bool = False
    unreadable: frozenset[int] = frozenset()
    replies: dict[int, httpx.Response] = attrs.Factory(dict)
    """Replies in place of pages, by `offset`."""
    meanwhile: Callable[[list[int]], None] | None = None
    """Change of the rows after each page."""
    commits: bool = True
    submitted: int = 0
    under_way: int = 0
    most_under_way: int = 0
    latency: float = 0.0
    requests: list[tuple[int | None, int | None]] = attrs.Factory(list)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/")
        if path == "login":
            return httpx.Response(200, json={"user": {"access_token": "token", "expires_on": 3600}})
        if path == "quote/submitoffer":
            self.submitted += 1
            self.rows += [REQUEST] if self.commits else []
            raise httpx.ReadError("reset")
        body = {} if self.drops_bodies and request.method == "GET" else json.loads(request.content or b"{}")
        number, size = body.get("offset"), body.get("rowsperpage")
        # Recorded as they begin: on asyncio a cancelled request through a caller's client goes on in its own task.
        self.requests.append((number, size))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await anyio.sleep(self.latency)
        finally:
            self.under_way -= 1
        return self._page(KEYS[path], number or 0, size or self.cut or len(self.rows))

    def _page(self, key: str, number: int, size: int) -> httpx.Response:
        if number in self.replies:
            return self.replies[number]
        if self.limit is not None and size > self.limit:
            return httpx.Response(self.refusal, json={"message": "rowsperpage is too large"})
        given = min(size, self.cut or size)
        start = 0 if self.offset_ignored else number * (given if self.counts_in == "cut size" else size)
        rows = self.rows[start : start + given]
        if number and not rows:
            if self.end == "last page" and self.rows:
                rows = self.rows[(len(self.rows) - 1) // given * given :]
            elif (reply := PAST_END[self.end]) is not None:
                return httpx.Response(reply.status_code, content=reply.content)
        shown = [self._row(key, row) for row in rows if not self.hidden(row)]
        if self.meanwhile is not None:
            self.meanwhile(self.rows)
        return httpx.Response(200, json={key: {str(place): row for place, row in enumerate(shown)}})

    def _row(self, key: str, index: int) -> object:
        if index in self.unreadable:
            return {"index": index, "cargoname": ["Tea"], "origin": 7, "offer": 3, "qty": "many", "price": {}}
        price = str(PRICE) if index == REQUEST else "700"
        row = {"index": index, "price": price, "currencyIndex": 1, "code": f"C{index}", "name": "x"}
        return row if key != "routes" else {"index": index, "origin": "Hong Kong"}

    def client(self, **options: Any) -> FreightExchange:
        return FreightExchange(
            "https://host.example/api",
            email="me@co.example",
            password="secret-of-mine",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self)),
            retries=RetryPolicy(base=0.001, cap=0.001),
            **options,
        )


def indexes(records: Any) -> list[int]:
    return [record.index for record in records]


async def collect(service: Service, listing: str = "requests.open", *, strict: bool = False, **options: Any) -> Any:
    """Return the indexes of all records that a client reads."""
    async with service.client(strict=strict) as exchange:
        return indexes(await LISTINGS[listing](exchange, **options).collect())


@pytest.mark.parametrize(
    ("listing", "rows", "page_size", "requests"),
    [
        ("requests.open", 0, 100, [(0, 10), (1, 10)]),
        ("requests.open", 5, 100, [(0, 10), (1, 10), (2, 10)]),
        ("requests.open", 10, 100, [(0, 10), (0, 100), (1, 10), (2, 10)]),
        ("requests.open", 35, 100, [(0, 10), (0, 100), *((n, 10) for n in range(1, 6))]),
        ("requests.open", 150, 100, [(0, 10), (0, 100), (1, 100), (2, 100)]),
        ("requests.open", 150, 1000, [(0, 10), (0, 100), (0, 1000), (1, 100), (2, 100)]),
        ("requests.open", 2500, 1000, [(0, 10), (0, 100), *((n, 1000) for n in range(4))]),
        ("requests.open", 60, 50, [(0, 10), (0, 50), (1, 50), (2, 50)]),
        ("requests.open", 15, 7, [(0, 7), (1, 7), (2, 7), (3, 7), (4, 7), (5, 7)]),
        ("requests.search", 0, 100, [(0, 20)]),
        ("requests.search", 19, 100, [(0, 20), (1, 20)]),
        ("requests.search", 20, 100, [(0, 20), (0, 100), (1, 20)]),
        ("requests.search", 100, 100, [(0, 20), (0, 100), (1, 100)]),
        ("bids.list", 5, 100, [(0, 10), (1, 10), (2, 10)]),
        ("offers.list", 5, 100, [(0, 10), (1, 10), (2, 10)]),
        ("offers.search", 5, 100, [(0, 10), (1, 10), (2, 10)]),
        ("routes.list", 5, 100, [(0, 10), (1, 10), (2, 10)]),
    ],
)
async def test_the_documented_size_comes_first_and_a_larger_one_after_a_full_page(
    listing: str, rows: int, page_size: int, requests: list[tuple[int, int]]
) -> None:
    service = Service([*range(1, rows + 1)])
    assert await collect(service, listing, page_size=page_size) == service.rows
    assert service.requests == requests


async def test_nothing_is_remembered_between_two_listings() -> None:
    service = Service([*range(1, 151)], cut=50)
    async with service.client() as exchange:
        for _ in range(2):
            service.requests.clear()
            assert len(await exchange.requests.open().collect()) == 150
            assert service.requests[:3] == [(0, 10), (0, 100), (1, 10)]


@pytest.mark.parametrize("rows", [0, 20, 37, 100])
async def test_carriers_and_currencies_are_one_request(rows: int) -> None:
    service = Service([*range(1, rows + 1)])
    async with service.client() as exchange:
        assert indexes(await exchange.carriers.list()) == service.rows
        assert indexes(await exchange.currencies.list().collect()) == service.rows
        assert (await exchange.currencies.list()).page_size == 0
    assert service.requests == [(None, None)] * 3


@EACH_END
@EITHER_WAY
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("rows", [1, 10, 25, 120])
async def test_every_way_of_ending_ends_a_listing(end: str, sweep: bool, window: int, rows: int) -> None:
    service = Service([*range(1, rows + 1)], end=end)
    assert await collect(service, "offers.list", sweep=sweep, window=window, strict=True) == service.rows
    assert len(service.requests) < 90


@EITHER_WAY
@pytest.mark.parametrize("cut", [10, 25, 50, 99])
@pytest.mark.parametrize("counts_in", ["cut size", "requested size"])
@pytest.mark.parametrize("page_size", [7, 30, 100, 1000])
async def test_a_silent_cut_skips_no_row(sweep: bool, cut: int, counts_in: str, page_size: int) -> None:
    service = Service([*range(1, 124)], cut=cut, counts_in=counts_in)
    assert await collect(service, sweep=sweep, page_size=page_size, strict=True) == service.rows


@pytest.mark.parametrize("listing", LISTINGS)
async def test_a_sweep_trusts_ten_rows_of_every_listing(listing: str) -> None:
    service = Service([*range(1, 24)], cut=10, counts_in="requested size")
    assert await collect(service, listing, sweep=True, strict=True) == service.rows


@pytest.mark.parametrize("counts_in", ["cut size", "requested size"])
@pytest.mark.parametrize("cut", [None, 10, 25])
@pytest.mark.parametrize("first", [1, 2, 9, 11, 15, 31, 50, 69])
async def test_a_sweep_finds_rows_behind_twenty_hidden_ones(counts_in: str, cut: int | None, first: int) -> None:
    service = Service([*range(1, 90)], cut=cut, counts_in=counts_in, hidden=lambda row: first <= row < first + 20)
    visible = [row for row in service.rows if not service.hidden(row)]
    assert await collect(service, sweep=True, strict=True) == visible


@EITHER_WAY
async def test_short_pages_in_the_middle_end_no_listing(sweep: bool) -> None:
    service = Service([*range(1, 250)], hidden=lambda row: row % 4 == 0)
    assert await collect(service, "bids.list", sweep=sweep) == [row for row in service.rows if row % 4]


@EITHER_WAY
@pytest.mark.parametrize("refusal", [400, 404, 413, 500])
@pytest.mark.parametrize(("limit", "page_size"), [(10, 100), (50, 100), (100, 1000), (999, 1000)])
async def test_a_refused_size_falls_back_one_step(sweep: bool, refusal: int, limit: int, page_size: int) -> None:
    service = Service([*range(1, page_size + 201)], limit=limit, refusal=refusal)
    assert await collect(service, sweep=sweep, page_size=page_size) == service.rows
    assert {size for _, size in service.requests if size} <= {10, 100, 1000}


@EITHER_WAY
@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (httpx.Response(400, json={"message": "offset is unknown"}), BadRequestError, "offset is unknown"),
        (httpx.Response(404, text="Not Found"), FreightExchangeError, "base_url"),
        (httpx.Response(500, json={}), ServerError, "500"),
        (httpx.Response(200, json=NOT_FOUND), DecodeError, "raterequests"),
        (BLANK, DecodeError, "empty"),
        (NO_CONTENT, DecodeError, "empty"),
    ],
)
async def test_a_first_page_that_is_none_is_an_error(
    sweep: bool, reply: httpx.Response, error: type[Exception], words: str
) -> None:
    service = Service([], replies={0: reply})
    with pytest.raises(error, match=words):
        await collect(service, sweep=sweep)


@EITHER_WAY
async def test_a_404_that_speaks_of_no_records_is_an_empty_listing(sweep: bool) -> None:
    assert await collect(Service([], replies={0: PAST_END["404"]}), sweep=sweep) == []


@EITHER_WAY
@pytest.mark.parametrize("reply", [httpx.Response(200, json={"message": "maintenance"}), httpx.Response(503, json={})])
async def test_another_error_ends_no_listing(sweep: bool, reply: httpx.Response) -> None:
    with pytest.raises((DecodeError, ServerError)):
        await collect(Service([*range(1, 250)], replies={2: reply}), sweep=sweep)


@EITHER_WAY
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_refused_page_with_rows_behind_it_is_an_error(sweep: bool, status: int) -> None:
    service = Service([*range(1, 60)], replies={2: httpx.Response(status, json={"message": "no"})})
    with pytest.raises(FreightExchangeError) as caught:
        await collect(service, sweep=sweep)
    assert caught.value.status == status


async def test_an_outage_at_the_end_truncates_no_listing() -> None:
    service = Service([*range(1, 60)], end="500")
    service.meanwhile = lambda _: service.replies.update(dict.fromkeys(range(9), httpx.Response(500, json={})))
    with pytest.raises(ServerError):
        await collect(service)


async def test_a_failure_that_passes_ends_no_listing() -> None:
    service = Service([*range(1, 26)], replies={2: httpx.Response(500, json={})})

    def recover(_: list[int]) -> None:
        if service.requests.count((2, 10)):
            service.replies.clear()

    service.meanwhile = recover
    assert await collect(service) == service.rows


async def test_pages_have_their_numbers_and_the_size_for_the_next_one() -> None:
    async with Service([*range(1, 251)]).client() as exchange:
        pages = [page async for page in exchange.requests.open().pages()]
        assert [(page.number, len(page)) for page in pages] == [(0, 100), (1, 100), (2, 50)]
        assert {page.page_size for page in pages} == {100}
        page = await exchange.requests.open()
        assert page == pages[0]
        assert (page[-1], page[1:3]) == (page.records[99], page.records[1:3])


@pytest.mark.parametrize("rows", [0, 3, 10, 45, 130])
@pytest.mark.parametrize("cut", [None, 10, 25])
@pytest.mark.parametrize("counts_in", ["cut size", "requested size"])
async def test_a_reader_resumes_after_any_page(rows: int, cut: int | None, counts_in: str) -> None:
    service = Service([*range(1, rows + 1)], cut=cut, counts_in=counts_in)
    async with service.client() as exchange:
        awaited = await exchange.requests.open()
        pages = [page async for page in exchange.requests.open().pages()]
        assert pages[:1] in ([awaited], [])
        for place, page in enumerate(pages):
            read = [record for earlier in pages[: place + 1] for record in earlier]
            later = exchange.requests.open(page_size=page.page_size).pages(start=page.number + 1)
            read += [record async for further in later for record in further]
            assert {*indexes(read)} == {*service.rows}
            if cut is None:
                assert len(read) == rows


@pytest.mark.parametrize("start", [-1, True, 1.5, "1"])
async def test_a_start_that_is_no_page_number_is_refused(start: Any) -> None:
    async with Service([1]).client() as exchange:
        with pytest.raises(ValidationError, match="start"):
            exchange.requests.open().pages(start=start)


async def test_the_first_record_costs_one_request() -> None:
    service = Service([*range(1, 251)])
    async with service.client() as exchange:
        first = await exchange.requests.open(window=4).first()
    assert first is not None
    assert (first.index, service.requests) == (1, [(0, 10)])
    async with Service([]).client() as exchange:
        assert await exchange.requests.open().first() is None
        assert list(await exchange.requests.open()) == []


@EITHER_WAY
async def test_a_listing_that_grows_yields_no_row_twice(sweep: bool) -> None:
    new = iter(range(1000, 1006))
    service = Service([*range(1, 60)])
    service.meanwhile = lambda rows: rows.insert(0, number) if (number := next(new, 0)) else None
    found = await collect(service, sweep=sweep, strict=sweep)
    assert len(found) == len({*found})
    assert {*range(1, 60)} <= {*found}


async def test_a_sweep_finds_the_row_that_moves_to_a_page_already_read() -> None:
    def leave(rows: list[int]) -> None:
        if service.requests[-1] == (1, 100) and 5 in rows:
            rows.remove(5)

    service = Service([*range(1, 251)], meanwhile=leave)
    assert {*service.rows} - {*await collect(service)} == {201}
    service = Service([*range(1, 251)], meanwhile=leave)
    assert {*service.rows} <= {*await collect(service, sweep=True, strict=True)}


@pytest.mark.parametrize("disorder", ["order", "doubled"])
@pytest.mark.parametrize("rows", [45, 250])
async def test_a_service_without_an_order_is_said_to_have_none(
    disorder: str, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(3)
    service = Service([*range(1, rows + 1)])

    def shuffle(listed: list[int]) -> None:
        if disorder == "order":
            random.shuffle(listed)
        else:
            listed[:] = sorted([*range(1, rows + 1), *random.choices(range(1, rows + 1), k=rows // 3)])

    service.meanwhile = shuffle
    for end in ("empty", "last page"):
        service.end = end
        found = await collect(service)
        assert len(found) == len({*found})
    assert len(service.requests) < 4 * rows
    service.requests.clear()
    assert {*await collect(service, sweep=True)} == {*range(1, rows + 1)}
    assert len(service.requests) < 400
    assert "rows change their places" in caplog.text
    with pytest.raises(FeedProtocolError, match="no two passes agree"):
        await collect(service, sweep=True, strict=True)


async def test_a_listing_that_never_stops_growing_is_given_up() -> None:
    service = Service([*range(1, 30)])
    service.meanwhile = lambda rows: rows.insert(0, 1000 + len(rows))
    with pytest.raises(FeedProtocolError, match="changed"):
        await collect(service, sweep=True)
    assert len(service.requests) < 400


@EITHER_WAY
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("rows", [2, 25, 230])
async def test_ignored_page_numbers_are_reported(
    sweep: bool, window: int, rows: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service([*range(1, rows + 1)], offset_ignored=True)
    found = await collect(service, sweep=sweep, window=window)
    assert found == service.rows[: len(found)]
    assert [record.levelname for record in caplog.records if "get_parameters" in record.message] == ["WARNING"]
    with pytest.raises(FeedProtocolError, match="first one"):
        await collect(service, sweep=sweep, strict=True, window=window)


@EITHER_WAY
async def test_equal_bids_are_all_listed(sweep: bool) -> None:
    service = Service([7, *[8] * 25, 9, 8])
    assert sorted(await collect(service, "bids.list", sweep=sweep)) == [7, *[8] * 26, 9]
    service = Service([*[8] * 12, *range(10, 200), 8])
    assert sorted(await collect(service, "bids.list", sweep=sweep)) == [*[8] * 13, *range(10, 200)]


@pytest.mark.parametrize("listing", ["bids.list", "offers.list", "offers.search", "routes.list"])
@pytest.mark.parametrize("rows", [6, 9, 37])
@pytest.mark.parametrize("cut", [1, 5, 9])
async def test_a_sweep_notices_a_cut_below_a_size_that_no_document_states(listing: str, rows: int, cut: int) -> None:
    service = Service([*range(1, rows + 1)], cut=cut, counts_in="requested size")
    if cut >= rows:
        assert await collect(service, listing, sweep=True, strict=True) == service.rows
        return
    with pytest.raises(FeedProtocolError, match="below ten"):
        await collect(service, listing, sweep=True, strict=True)
    service.counts_in = "cut size"
    assert await collect(service, listing, sweep=True, strict=True) == service.rows


async def test_a_documented_size_is_not_doubted() -> None:
    service = Service([*range(1, 6)])
    await collect(service, "requests.open", sweep=True)
    assert {size for _, size in service.requests} == {10}
    service.requests.clear()
    await collect(service, "bids.list", sweep=True)
    assert [request for request in service.requests if request[1] == 1] == [(5, 1)]


@EITHER_WAY
async def test_unreadable_rows_are_rows(sweep: bool) -> None:
    service = Service([*range(1, 60)], unreadable=frozenset(range(11, 41)))
    assert {*range(1, 60)} - service.unreadable <= {*await collect(service, sweep=sweep)}


@EITHER_WAY
async def test_a_window_has_that_many_pages_in_flight(sweep: bool) -> None:
    service = Service([*range(1, 1001)], latency=1.0)
    assert await collect(service, sweep=sweep, window=4, strict=True) == service.rows
    assert service.most_under_way == 4
    service = Service([1, 2, 3], latency=1.0)
    assert await collect(service, window=8) == [1, 2, 3]
    assert sorted(service.requests) == [(0, 10), (1, 10), (2, 10)]


@pytest.mark.parametrize("window", [1, 3])
async def test_a_failed_page_is_raised_in_its_turn_and_requested_again(window: int) -> None:
    service = Service([*range(1, 1001)], replies={4: httpx.Response(503, json={})})
    found: list[int] = []
    async with service.client() as exchange:
        pages = exchange.requests.open(window=window).pages()
        for _ in range(4):
            found += indexes(await anext(pages))
        with pytest.raises(ServerError):
            await anext(pages)
        assert found == [*range(1, 401)]
        service.replies.clear()
        assert found + [record.index async for page in pages for record in page] == service.rows


async def test_a_cancelled_page_is_requested_again_and_a_left_listing_requests_none() -> None:
    service = Service([*range(1, 1001)])
    async with service.client() as exchange:
        pages = exchange.requests.open(window=3).pages()
        found = indexes(await anext(pages))
        service.latency = 5.0
        with anyio.move_on_after(1):
            await anext(pages)
        service.latency = 0.0
        async for page in pages:
            found += indexes(page)
            if page.number == 5:
                break
        assert found == service.rows[:600]
        before = len(service.requests)
        await pages.aclose()
        await anyio.sleep(60)
        assert [page async for page in pages] == []
        assert (len(service.requests), service.under_way) == (before, 0)


async def test_two_tasks_may_not_pull_pages_of_one_iterator() -> None:
    async with Service([*range(1, 99)], latency=1.0).client() as exchange:
        pages = exchange.requests.open().pages()
        async with anyio.create_task_group() as group:
            group.start_soon(pages.__anext__)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ConfigurationError, match="another task"):
                await anext(pages)


async def in_doubt(exchange: FreightExchange) -> OutcomeUnknownError:
    with pytest.raises(OutcomeUnknownError) as caught:
        await exchange.bids.submit(REQUEST, amount=PRICE, currency=1)
    return caught.value


@pytest.mark.parametrize("own", [[], [1, 2], [3, 10]])
@pytest.mark.parametrize(("rows", "cut"), [(5, 10), (11, 10), (21, 20), (26, 25)])
async def test_an_offer_that_stands_is_applied(own: list[int], rows: int, cut: int) -> None:
    """Pages are cut silently, counted in the requested size, and the bids of others are hidden after the cut."""
    service = Service([*range(rows)], cut=cut, counts_in="requested size")
    service.hidden = lambda row: row not in (*own, REQUEST)
    async with service.client(strict=True) as exchange:
        error = await in_doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)
        listed = indexes(await exchange.bids.list(sweep=True).collect())
        assert listed == [row for row in service.rows if not service.hidden(row)]
    assert service.submitted == 1


@pytest.mark.parametrize("hidden", [lambda row: row % 3 == 1, lambda row: 100 < row <= 190, lambda row: row <= 90])
@pytest.mark.parametrize("commits", [True, False])
async def test_hidden_rows_make_no_verdict_wrong(hidden: Callable[[int], bool], commits: bool) -> None:
    service = Service([*range(1, 250)], hidden=hidden, commits=commits)
    async with service.client() as exchange:
        verdict = await (await in_doubt(exchange)).reconcile(settle=SETTLE)
    assert isinstance(verdict, Applied if commits else NotApplied)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("quirk", ["offset ignored", "bodies dropped", "cut below ten", "order"])
async def test_a_listing_that_proves_nothing_leaves_an_offer_in_doubt(commits: bool, quirk: str) -> None:
    service = Service([*range(1, 40)], commits=commits)
    match quirk:
        case "offset ignored":
            service.offset_ignored, service.rows = True, [*range(1, 250)]
        case "bodies dropped":
            service.drops_bodies, service.cut = True, 10
        case "cut below ten":
            service.cut, service.counts_in, service.hidden = 3, "requested size", lambda row: row == REQUEST
        case "order":
            service.meanwhile, service.hidden = Random(4).shuffle, lambda row: row == REQUEST
    async with service.client() as exchange:
        found = await (await in_doubt(exchange)).reconcile(settle=SETTLE)
    assert found == StillUnknown()


@pytest.mark.parametrize("rows_clamp", [None, 20])
@pytest.mark.parametrize("rights", ["before_paging", "after_paging"])
@pytest.mark.parametrize("past_end", ["empty", "400", "404", "500", "last_page"])
async def test_the_sandbox_lists_each_request_once(rows_clamp: int | None, rights: Any, past_end: Any) -> None:
    sandbox = Sandbox(Profile(rows_clamp=rows_clamp, rights=rights, past_end=past_end, clamp_stride="asked"))
    published = sorted(sandbox.publish() for _ in range(33))
    async with sandbox.client() as exchange:
        for listing in (exchange.requests.open, exchange.requests.search):
            assert sorted(indexes(await listing().collect())) == published
            assert sorted(indexes(await listing(sweep=True).collect())) == published
            assert sorted(indexes(await listing(window=3).collect())) == published
