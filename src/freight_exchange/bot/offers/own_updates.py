"""Updates of a request that an offer of this bot caused: no handler receives them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from freight_exchange.models import BidStatus

if TYPE_CHECKING:
    from freight_exchange.bot.offers.record import OfferRecord
    from freight_exchange.models import Bid, RateRequest

__all__ = ["changed_by_offer", "is_only_own_change", "matches_reply", "may_be_own_update", "offer_fields"]

_OFFER_FIELDS: Final = ("status", "notes")
"""Fields of a request that an offer may change. The shipper changed any other field that differs."""


def offer_fields(request: RateRequest) -> Mapping[str, str]:
    """Return the fields of a request that an offer may change, as a record stores them."""
    values = {name: getattr(request, name) for name in _OFFER_FIELDS}
    return {name: str(value) for name, value in values.items() if value is not None}


def changed_by_offer(bid: Bid, before: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the fields that the offer may have changed.

    Args:
        bid: The reply to the offer, or the bid that was found later. The offer does not cause the shipper's selection.
        before: `offer_fields` of the request before the offer, if known.
    """
    if before is None:
        return ()
    values = {name: getattr(bid, name) for name in _OFFER_FIELDS}
    return tuple(name for name, value in values.items() if value not in (None, before.get(name), BidStatus.SELECTED))


def may_be_own_update(changed: tuple[str, ...]) -> bool:
    """Return whether only fields changed that an offer may change."""
    return {*changed} <= {*_OFFER_FIELDS}


def matches_reply(record: OfferRecord, request: RateRequest) -> bool:
    """Return whether the request now has the values that the reply to the offer had."""
    changed = _changed_fields(record)
    return bool(changed) and all(getattr(record.bid, name) == getattr(request, name) for name in changed)


def is_only_own_change(record: OfferRecord, changed: tuple[str, ...]) -> bool:
    """Return whether only fields changed that the offer changed."""
    return {*changed} <= _changed_fields(record)


def _changed_fields(record: OfferRecord) -> set[str]:
    # Earlier versions stored other fields too.
    return {*record.changed_fields}.intersection(_OFFER_FIELDS)
