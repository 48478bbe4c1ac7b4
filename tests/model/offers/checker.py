"""Checker: compares the offers that a reader received with the true ones. Imports nothing of the package."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tests.model.offers.market import Market, Quote

__all__ = ["FLAWS", "Reported", "check"]

FLAWS = ("missed", "invented", "repeated", "false gone")


class Reported(NamedTuple):
    """Event that a reader received.

    Attributes:
        offer: The offer.
        quote: Its state; `None` if it is gone.
        was_standing: Whether the service would have listed it then.
    """

    offer: int
    quote: Quote | None
    was_standing: bool


def check(reported: list[Reported], market: Market) -> Counter[str]:
    """Count the flaws of the reported events after the market has become quiet."""
    flaws: Counter[str] = Counter()
    last: dict[int, Quote | None] = {}
    for event in reported:
        if event.offer not in market.states or (
            event.quote is not None and event.quote not in market.states[event.offer]
        ):
            flaws["invented"] += 1
        elif event.quote is None and event.was_standing:
            flaws["false gone"] += 1
        elif event.offer in last and last[event.offer] == event.quote:
            flaws["repeated"] += 1
        last[event.offer] = event.quote
    standing = market.standing()
    for offer, quote in standing.items():
        flaws["missed"] += last.get(offer) != quote
    gone = {offer for offer, states in market.states.items() if states[-1] is None} - market.hidden()
    flaws["missed"] += sum(last.get(offer) is not None for offer in gone)
    return flaws
