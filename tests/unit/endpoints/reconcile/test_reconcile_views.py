"""Tests of the views of bids that reconciliation reads: all of them only where it may conclude an absence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import anyio
import attrs
import pytest

from freight_exchange import Applied, Bid, BidsType, NotApplied, StillUnknown
from freight_exchange.endpoints.reconcile.reconcile import reconcile
from freight_exchange.models import Reconciliation, SubmitOffer

pytestmark = pytest.mark.virtual_time

SETTLE = timedelta(seconds=30)
ALL = (None, *BidsType)
WRITE = SubmitOffer(7, Decimal(1840), 840)
SAME = Bid(index=7, amount=Decimal(1840), currency=840)
NEAR = Bid(index=7, amount=Decimal(1841), currency=840)


@attrs.define
class Views:
    """The account's bids by view and second, and a record of the views that were read in each second."""

    show: Callable[[BidsType | None, float], list[Bid]]
    strict: bool = True
    read: dict[float, list[BidsType | None]] = attrs.Factory(dict)
    swept: dict[float, bool] = attrs.Factory(dict)
    began: float = attrs.Factory(anyio.current_time)

    async def own_bids(self, type: BidsType | None, *, sweep: bool) -> list[Bid]:
        now = anyio.current_time() - self.began
        self.swept[now] = self.swept.get(now, True) and sweep
        self.read.setdefault(now, []).append(type)
        return self.show(type, now)

    async def verdict(self, baseline: list[Bid] | None) -> Reconciliation:
        readers: Any = self
        return await reconcile(readers, readers, WRITE, settle=SETTLE, baseline=baseline)

    def looks(self) -> list[bool]:
        """Return for each check whether it read all views or only the plain one."""
        assert all(tuple(views) in (ALL, (None,)) for views in self.read.values())
        return [tuple(views) == ALL for views in self.read.values()]


@pytest.mark.parametrize("baseline", [None, []])
async def test_absence_is_read_in_all_views_at_its_begin_and_at_its_end(baseline: list[Bid] | None) -> None:
    views = Views(lambda _, now: [])
    assert isinstance(await views.verdict(baseline), NotApplied)
    first, *between, last = views.looks()
    assert (first, last) == (True, True)
    assert between
    assert not any(between)
    first, *between, last = views.swept.values()
    assert (first, last) == (True, True)
    assert not any(between)
    assert max(views.read) >= SETTLE.total_seconds()


async def test_similar_bid_leaves_the_other_views_to_the_last_search() -> None:
    views = Views(lambda type, now: [NEAR])
    assert await views.verdict([]) == StillUnknown((NEAR,))
    *before, last = views.looks()
    assert last
    assert not any(before)


@pytest.mark.parametrize("since", [0.0, 20.0, 30.0])
async def test_bid_that_another_view_alone_shows_keeps_absence_from_being_proven(since: float) -> None:
    views = Views(lambda type, now: [NEAR] if type is BidsType.SELECTED and now >= since else [])
    assert await views.verdict([]) == StillUnknown((NEAR,))


async def test_bid_that_another_view_showed_at_first_is_absent_a_settle_time_after_it_left() -> None:
    views = Views(lambda type, now: [NEAR] if type is BidsType.SELECTED and now < 3 else [])
    assert isinstance(await views.verdict([]), NotApplied)
    assert max(views.read) >= 3 + SETTLE.total_seconds()


async def test_bid_that_comes_and_goes_in_the_plain_view_begins_absence_anew() -> None:
    views = Views(lambda type, now: [NEAR] if 5 < now < 12 else [])
    assert isinstance(await views.verdict([]), NotApplied)
    assert max(views.read) >= 12 + SETTLE.total_seconds()


async def test_bid_as_before_that_a_plain_pass_shows_twice_is_not_the_offer() -> None:
    """The bid moved from one page to the next. Only a complete read counts bids that look alike."""
    views = Views(lambda type, now: [SAME, SAME] if 10 < now < 20 else [SAME])
    assert await views.verdict([SAME]) == StillUnknown((SAME,))


async def test_offer_that_another_view_alone_shows_is_found_where_nothing_is_known_from_before() -> None:
    views = Views(lambda type, now: [SAME] if type is BidsType.ACTIVE and now > 10 else [])
    assert await views.verdict(None) == Applied(SAME)


async def test_offer_is_found_in_the_plain_view_before_the_settle_time_is_over() -> None:
    views = Views(lambda type, now: [SAME] if now > 10 else [])
    assert await views.verdict([]) == Applied(SAME)
    assert max(views.read) < SETTLE.total_seconds()
