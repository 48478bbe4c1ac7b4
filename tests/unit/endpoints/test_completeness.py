"""Tests of complete listings under faults of a service's pages: no row is lost, and no outcome is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import attrs
import httpx
import pytest

from freight_exchange import (
    Applied,
    BadRequestError,
    Bid,
    FeedProtocolError,
    FreightExchange,
    NotApplied,
    OutcomeUnknownError,
    RetryPolicy,
    StillUnknown,
)

pytestmark = pytest.mark.virtual_time

PRICE = Decimal("1840.50")
REQUEST = 9000
SETTLE = timedelta(seconds=2)


@attrs.define
class Service:
    """Service that pages bids, carriers and currencies, and accepts offers without a reply."""

    bids: list[int]
    clamp: int = 100
    stride: str = "clamped"
    past_end: int = 200
    most_rows: int = 10**6
    commits: bool = True
    hidden: Callable[[int], bool] = lambda _: False
    offset_ignored: bool = False
    shuffled: Random | None = None
    """Random source of the order, which differs for each page."""
    drops_bodies: bool = False
    """If set, a gateway drops the bodies of GETs, so that the service always returns its first page."""
    requests: list[tuple[str, Any, Any]] = attrs.Factory(list)
    submitted: int = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/")
        drops = self.drops_bodies and request.method == "GET"
        body = json.loads(b"{}" if drops else request.content or b"{}")
        if path == "login":
            return httpx.Response(200, json={"user": {"access_token": "token", "expires_on": 3600}})
        if path == "quote/submitoffer":
            self.submitted += 1
            if self.commits:
                self.bids.append(REQUEST)
            raise httpx.ReadError("reset")
        self.requests.append((path, body.get("offset"), body.get("rowsperpage")))
        match path:
            case "quote/bid":
                if self.shuffled is not None:
                    self.shuffled.shuffle(self.bids)
                return self.page(body, self.bids, "bids", self.bid)
            case "carrier":
                return self.page(body, self.bids, "carriers", lambda index: {"index": index, "name": f"Line {index}"})
            case _:
                return self.page(
                    body, self.bids, "currencies", lambda index: {"index": index, "name": "Money", "code": f"C{index}"}
                )

    def page(self, body: Any, rows: list[int], key: str, render: Callable[[int], object]) -> httpx.Response:
        number, size = body.get("offset", 0), body.get("rowsperpage", self.clamp)
        if size > self.most_rows:
            return httpx.Response(400, json={"message": "rowsperpage is too large"})
        most = min(size, self.clamp)
        start = 0 if self.offset_ignored else number * (most if self.stride == "clamped" else size)
        if number and start >= len(rows) and self.past_end != 200:
            return httpx.Response(self.past_end, json={"message": "no such page"})
        page = [row for row in rows[start : start + most] if not self.hidden(row)]
        return httpx.Response(200, json={key: {str(place): render(row) for place, row in enumerate(page)}})

    def bid(self, index: int) -> object:
        price = PRICE if index == REQUEST else 700
        return {"index": index, "cargoname": "Tea", "status": "Available", "price": str(price), "currencyIndex": 1}

    def client(self, **options: Any) -> FreightExchange:
        return FreightExchange(
            "https://host.example/api",
            email="me@co.example",
            password="secret-of-mine",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self)),
            retries=RetryPolicy(base=0.001, cap=0.001),
            **options,
        )


async def doubt(exchange: FreightExchange) -> OutcomeUnknownError:
    with pytest.raises(OutcomeUnknownError) as caught:
        await exchange.bids.submit(REQUEST, amount=PRICE, currency=1)
    return caught.value


def indexes(records: list[Any]) -> list[int]:
    return [record.index for record in records]


@pytest.fixture
def service() -> Service:
    return Service([*range(1, 250)])


@pytest.mark.parametrize("stride", ["clamped", "asked"])
async def test_a_clamp_lowered_after_longer_pages_were_seen_cuts_no_listing_and_no_verdict(
    service: Service, stride: str
) -> None:
    service.stride = stride
    async with service.client() as exchange:
        assert len(await exchange.bids.list().collect()) == 249
        service.clamp = 50
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)
        for sweep in (False, True):
            assert indexes(await exchange.bids.list(sweep=sweep).collect()) == service.bids
    assert service.submitted == 1


@pytest.mark.parametrize("hidden", [lambda row: row % 3 == 1, lambda row: 100 < row <= 200, lambda row: row <= 100])
@pytest.mark.parametrize("commits", [True, False])
async def test_hidden_rows_make_no_verdict_wrong(
    service: Service, hidden: Callable[[int], bool], commits: bool
) -> None:
    service.hidden, service.commits = hidden, commits
    async with service.client() as exchange:
        error = await doubt(exchange)
        verdict = await error.reconcile(settle=SETTLE)
        assert isinstance(verdict, Applied if commits else NotApplied)
        listed = indexes(await exchange.bids.list(sweep=True).collect())
    assert listed == [row for row in service.bids if not hidden(row)]


@pytest.mark.parametrize("hidden_pages", [5, 9])
async def test_small_pages_hidden_in_a_row_make_no_verdict_wrong(service: Service, hidden_pages: int) -> None:
    """The offer lies behind pages of ten rows that the forwarder may not see."""
    service.clamp = 10
    service.hidden = lambda row: 249 - 10 * hidden_pages < row <= 249
    async with service.client() as exchange:
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)


@pytest.mark.parametrize("own", [1, 7, 10])
@pytest.mark.parametrize("hidden", [40, 90])
async def test_pages_hidden_behind_a_short_listing_make_no_verdict_wrong(
    service: Service, own: int, hidden: int
) -> None:
    """The listing before them fills no page, so it does not show that pages are small."""
    service.bids, service.clamp = [*range(own + hidden)], 10
    service.hidden = lambda row: own <= row < 200
    async with service.client() as exchange:
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)


@pytest.mark.parametrize("own", [0, 1, 30])
async def test_a_run_of_hidden_pages_leaves_an_absence_in_doubt(service: Service, own: int) -> None:
    """If six pages in a row are hidden, fifteen may be, so an empty end is no proof."""
    service.bids, service.clamp = [*range(own), *range(1000, 1060), 500, *range(2000, 2150)], 10
    service.hidden = lambda row: 1000 <= row < 2150
    async with service.client() as exchange:
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), StillUnknown)
        assert isinstance(await error.reconcile(settle=SETTLE, baseline=[]), StillUnknown)


async def test_a_reading_looks_ten_times_as_far_as_pages_were_hidden(service: Service) -> None:
    service.bids, service.clamp = [*range(30), *range(1000, 1020), 500, *range(2000, 2150)], 10
    service.hidden = lambda row: 1000 <= row < 2150
    async with service.client() as exchange:
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)


async def test_plain_listing_continues_past_rows_hidden_on_each_page(service: Service) -> None:
    service.hidden = lambda row: row % 4 == 0
    async with service.client() as exchange:
        assert indexes(await exchange.bids.list().collect()) == [row for row in service.bids if row % 4]


@pytest.mark.parametrize("commits", [True, False])
async def test_an_ignored_offset_leaves_a_write_in_doubt(service: Service, commits: bool) -> None:
    service.offset_ignored, service.commits = True, commits
    async with service.client() as exchange:
        error = await doubt(exchange)
        assert await error.reconcile(settle=SETTLE) == StillUnknown()
        with pytest.raises(FeedProtocolError):
            await exchange.with_options(strict=True).bids.list(sweep=True).collect()


async def test_a_twin_that_stood_before_and_moves_is_no_proof(service: Service) -> None:
    service.commits, service.clamp, service.bids = False, 2, [*range(1, 5), REQUEST]
    service.shuffled = Random(4)
    async with service.client() as exchange:
        error = await doubt(exchange)
        before = [Bid(index=REQUEST, amount=PRICE, currency=1)]
        assert isinstance(await error.reconcile(settle=SETTLE, baseline=before), StillUnknown)


@pytest.mark.parametrize("default", [10, 20])
@pytest.mark.parametrize("rows", [10, 12, 230])
async def test_a_get_whose_body_is_dropped_leaves_a_write_in_doubt(service: Service, default: int, rows: int) -> None:
    service.drops_bodies, service.clamp, service.bids = True, default, [*range(1, rows + 1)]
    async with service.client() as exchange:
        error = await doubt(exchange)
        found = await error.reconcile(settle=SETTLE)
        assert isinstance(found, Applied if rows < default else StillUnknown)


@pytest.mark.parametrize("status", [400, 404, 416, 422, 500])
@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("rows", [200, 230])
async def test_an_error_past_the_end_ends_the_listing(service: Service, status: int, sweep: bool, rows: int) -> None:
    service.past_end, service.bids = status, [*range(1, rows + 1)]
    async with service.client() as exchange:
        assert indexes(await exchange.bids.list(sweep=sweep).collect()) == service.bids


@pytest.mark.parametrize(
    ("wanted", "most", "taken"), [(1000, 100, 100), (1000, 999, 100), (100, 50, 20), (100, 15, 10)]
)
async def test_a_refused_page_size_is_stepped_down_and_remembered(
    service: Service, wanted: int, most: int, taken: int
) -> None:
    service.most_rows = most
    async with service.client(page_size=wanted) as exchange:
        assert indexes(await exchange.bids.list().collect()) == service.bids
        service.requests.clear()
        page = await exchange.bids.list()
        assert (page.page_size, service.requests) == (taken, [("quote/bid", 0, taken)])
        error = await doubt(exchange)
        assert isinstance(await error.reconcile(settle=SETTLE), Applied)


async def test_a_first_page_is_awaited_in_the_size_that_is_taken(service: Service) -> None:
    service.most_rows = 20
    async with service.client() as exchange:
        page = await exchange.bids.list()
        assert (len(page), page.page_size) == (20, 20)
        assert (await exchange.bids.list().first()) == page[0]


async def test_a_refusal_in_every_size_is_raised(service: Service) -> None:
    service.most_rows = 0
    async with service.client() as exchange:
        with pytest.raises(BadRequestError, match="rowsperpage"):
            await exchange.bids.list().collect()
    assert [size for _, _, size in service.requests] == [100, 20, 10]


async def test_the_page_size_of_a_client_and_of_a_view(service: Service) -> None:
    async with service.client(page_size=40) as exchange:
        for client, size in ((exchange, 40), (exchange.with_options(page_size=7), 7), (exchange.with_options(), 40)):
            service.requests.clear()
            await client.bids.list()
            assert service.requests == [("quote/bid", 0, size)]
        error = await doubt(exchange)
        service.requests.clear()
        await error.reconcile(settle=SETTLE)
        assert max(size for _, _, size in service.requests) == 40


@pytest.mark.parametrize(("clamp", "rows"), [(10, 10), (10, 45), (20, 40), (100, 230), (500, 230)])
async def test_paged_lists_of_carriers_and_currencies_are_read_whole(clamp: int, rows: int) -> None:
    service = Service([*range(1, rows + 1)], clamp=clamp)
    async with service.client() as exchange:
        assert indexes(await exchange.carriers.list().collect()) == service.bids
        assert indexes(await exchange.currencies.list().collect()) == service.bids
        assert (await exchange.currencies.by_code(f"C{rows}")).index == rows


async def test_carriers_of_no_round_number_are_one_request() -> None:
    service = Service([*range(1, 38)])
    async with service.client() as exchange:
        assert len(await exchange.carriers.list().collect()) == 37
    assert service.requests == [("carrier", None, None)]


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_a_round_number_of_carriers_is_looked_past_once(status: int) -> None:
    service = Service([*range(1, 21)], past_end=status)
    async with service.client() as exchange:
        assert len(await exchange.carriers.list().collect()) == 20
    assert service.requests[:2] == [("carrier", None, None), ("carrier", 1, 20)]
