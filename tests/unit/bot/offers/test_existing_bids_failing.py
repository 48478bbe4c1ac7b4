"""Tests of reads of the account's bids at startup that fail after many requests: they cause no request storm."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection
from typing import Any, cast

import anyio
import attrs
import pytest

from freight_exchange import Bid, BidsType
from freight_exchange.bot.offers.existing_bids import ExistingBids
from freight_exchange.bot.offers.repository import OfferRepository
from freight_exchange.errors import FeedProtocolError
from freight_exchange.transport.call import RequestMeter

pytestmark = pytest.mark.virtual_time

TEN_MINUTES = 600.0
REQUESTS = 300
"""Requests of a sweep through a small listing that keeps changing."""


@attrs.define
class Exchange:
    """Client whose listings of bids fail after many requests, in some of the reads."""

    failures: dict[BidsType | None, int]
    _base_url: str = "https://host/api"
    reads: Counter[BidsType | None] = attrs.Factory(Counter)
    passes: Counter[BidsType | None] = attrs.Factory(Counter)
    _meter: RequestMeter = attrs.Factory(RequestMeter)

    @property
    def bids(self) -> Exchange:
        return self

    def with_options(self, **_: object) -> Exchange:
        return self

    def _with_hook(self, _: object) -> Exchange:
        return self

    def _limited(self, *, meter: RequestMeter) -> Exchange:
        self._meter = meter
        return self

    async def list(self, *, type: BidsType | None, sweep: bool = False) -> AsyncIterator[Bid]:
        if not sweep:
            self.passes[type] += 1
            yield Bid(index=7)
            return
        await anyio.sleep(REQUESTS * 0.05)
        self._meter.sent += REQUESTS
        self.reads[type] += 1
        if self.reads[type] <= self.failures.get(type, 0):
            raise FeedProtocolError("the listing changed during each of 16 sweeps")
        yield Bid(index=7)


class NoOffers:
    async def find_requests_with_offers(self, requests: Collection[int]) -> frozenset[int]:
        return frozenset()

    async def has_offers(self) -> bool:
        return False


async def read(exchange: Any, **options: bool) -> ExistingBids:
    bids = ExistingBids(exchange, cast("OfferRepository", NoOffers()))
    with anyio.move_on_after(TEN_MINUTES):
        await bids.read(settle=0, **options)
    return bids


async def test_reading_that_fails_after_many_requests_is_repeated_at_their_pace() -> None:
    exchange = Exchange({None: 1000})
    await read(exchange)
    assert 1 < exchange.reads.total() * REQUESTS <= TEN_MINUTES
    assert not exchange.passes


async def test_view_that_fails_is_read_again_alone() -> None:
    exchange = Exchange({BidsType.OFFERS: 1})
    await read(exchange)
    assert exchange.reads == Counter((None, *BidsType, BidsType.OFFERS))


async def test_reading_beside_replicas_that_offer_all_the_time_ends() -> None:
    """Each offer of the replicas changes the listing."""
    exchange = Exchange({None: 1000})
    bids = await read(exchange, is_shared=True)
    assert await bids.has_unknown_bid(7, is_newer=False, has_known_bid=False)
    assert (exchange.reads[None], exchange.passes) == (1, {None: 2})
