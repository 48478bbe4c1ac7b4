"""The loop that people write: the difference between the last two listings. It is never stopped."""

from __future__ import annotations

from tests.model.offers.checker import Told
from tests.model.offers.market import Market, Quote, Trouble
from tests.model.offers.schedule import Schedule

__all__ = ["naive_loop"]

_PAGE = 100


def naive_loop(schedule: Schedule) -> tuple[list[Told], Market]:
    """Follow a schedule; return what the loop told, and the market."""
    market = Market(schedule, lambda: None)
    told: list[Told] = []
    before = _read(market)
    told += [Told(offer, quote, True) for offer, quote in before.items()]
    market.open()
    while market.scans < schedule.scans:
        try:
            listed = _read(market)
        except Trouble:
            continue
        standing = market.standing()
        for offer, quote in listed.items():
            if before.get(offer) != quote:
                told.append(Told(offer, quote, offer in standing))
        told.extend(Told(offer, None, offer in standing) for offer in before if offer not in listed)
        before = listed
    return told, market


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
