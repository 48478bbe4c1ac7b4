"""Naive loop that reports the difference between two listings. It is never stopped."""

from __future__ import annotations

from tests.model.offers.checker import Reported
from tests.model.offers.market import Failure, Market, Quote
from tests.model.offers.schedule import Schedule

__all__ = ["naive_loop"]

_PAGE = 100


def naive_loop(schedule: Schedule) -> tuple[list[Reported], Market]:
    """Follow a schedule; return what the loop reported, and the market."""
    market = Market(schedule, lambda: None)
    reported: list[Reported] = []
    before = _read(market)
    reported += [Reported(offer, quote, True) for offer, quote in before.items()]
    market.open()
    while market.scans < schedule.scans:
        try:
            listed = _read(market)
        except Failure:
            continue
        standing = market.standing()
        for offer, quote in listed.items():
            if before.get(offer) != quote:
                reported.append(Reported(offer, quote, offer in standing))
        reported.extend(Reported(offer, None, offer in standing) for offer in before if offer not in listed)
        before = listed
    return reported, market


def _read(market: Market) -> dict[int, Quote]:
    listed: dict[int, Quote] = {}
    number, longest = 0, 0
    while rows := market.page(number, _PAGE):
        for _, offers, _ in rows:
            listed |= offers
        if len(rows) < longest:
            break
        longest, number = max(longest, len(rows)), number + 1
    return listed
