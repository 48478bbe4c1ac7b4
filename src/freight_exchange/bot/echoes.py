"""What a request shows because of an own offer, and what is no news to the bot that made it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from freight_exchange.bot.entry import Entry
    from freight_exchange.models import Bid, RateRequest

__all__ = ["shows_answer", "turned", "turned_alone"]

_TURNED_BY_OFFERS: Final = ("status", "notes")
"""What an offer may change. Whatever else the answer shows otherwise, the shipper has changed meanwhile."""


def turned(bid: Bid, on: RateRequest) -> tuple[str, ...]:
    """The fields in which the answer shows what the offer may have made of the request."""
    return tuple(name for name in _TURNED_BY_OFFERS if getattr(bid, name) not in (None, getattr(on, name)))


def shows_answer(entry: Entry, request: RateRequest) -> bool:
    """Whether the request has become what the answer to the offer showed."""
    return bool(_of(entry)) and all(getattr(entry.bid, name) == getattr(request, name) for name in _of(entry))


def turned_alone(entry: Entry, changed: tuple[str, ...]) -> bool:
    """Whether nothing has changed but what the answer showed."""
    return {*changed} <= _of(entry)


def _of(entry: Entry) -> set[str]:
    # Earlier versions kept other fields too.
    return {*entry.turned}.intersection(_TURNED_BY_OFFERS)
