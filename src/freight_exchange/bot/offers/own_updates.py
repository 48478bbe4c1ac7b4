"""What a request shows because of an own offer, and what is no news to the bot that made it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from freight_exchange.models import BidStatus

if TYPE_CHECKING:
    from freight_exchange.bot.offers.record import OfferRecord
    from freight_exchange.models import Bid, RateRequest

__all__ = ["may_be_turned", "shown", "shows_answer", "turned", "turned_alone"]

_TURNED_BY_OFFERS: Final = ("status", "notes")
"""What an offer may change. Whatever else the answer shows otherwise, the shipper has changed meanwhile."""


def shown(request: RateRequest) -> Mapping[str, str]:
    """What the request shows in the fields that an offer may change, as an entry keeps it."""
    said = {name: getattr(request, name) for name in _TURNED_BY_OFFERS}
    return {name: str(text) for name, text in said.items() if text is not None}


def turned(bid: Bid, on: Mapping[str, str] | None) -> tuple[str, ...]:
    """The fields in which the answer shows what the offer may have made of the request.

    Args:
        bid: The answer, or the bid as it was found where none came. One that is selected meanwhile is the shipper's
            doing.
        on: What the request showed before, where that is known.
    """
    if on is None:
        return ()
    said = {name: getattr(bid, name) for name in _TURNED_BY_OFFERS}
    return tuple(name for name, text in said.items() if text not in (None, on.get(name), BidStatus.SELECTED))


def may_be_turned(changed: tuple[str, ...]) -> bool:
    """Whether nothing has changed but what an offer may change."""
    return {*changed} <= {*_TURNED_BY_OFFERS}


def shows_answer(entry: OfferRecord, request: RateRequest) -> bool:
    """Whether the request has become what the answer to the offer showed."""
    return bool(_of(entry)) and all(getattr(entry.bid, name) == getattr(request, name) for name in _of(entry))


def turned_alone(entry: OfferRecord, changed: tuple[str, ...]) -> bool:
    """Whether nothing has changed but what the answer showed."""
    return {*changed} <= _of(entry)


def _of(entry: OfferRecord) -> set[str]:
    # Earlier versions kept other fields too.
    return {*entry.turned}.intersection(_TURNED_BY_OFFERS)
