"""Handler: a function and the events that it is called for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import attrs

from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, Unreadable
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.models import Currency
from freight_exchange.offer_feed.events import OfferEvent, OfferKind

__all__ = ["OFFER_KINDS", "REQUEST_KINDS", "BotEvent", "Function", "Handler", "Kind", "kind_of", "subject"]

BotEvent = RequestEvent | Gap | Unreadable | BidSelected | OfferEvent
"""Event that a handler can be called for."""

Kind = Literal[
    "new",
    "updated",
    "withdrawn",
    "selected",
    "gap",
    "unreadable",
    "offer",
    "offer_changed",
    "offer_answered",
    "offer_gone",
]
"""Kind of an event."""

OFFER_KINDS: Final[Mapping[OfferKind, Kind]] = {
    "new": "offer",
    "changed": "offer_changed",
    "answered": "offer_answered",
    "gone": "offer_gone",
}
"""Kinds of the events of the feed of offers, in a bot."""

REQUEST_KINDS: Final = frozenset({"new", "updated", "withdrawn", "gap"})
"""Kinds of the events for which a bot reads the requests of others."""

Function = Callable[..., Awaitable[object]]


@attrs.frozen(kw_only=True, eq=False)
class Handler:
    """A function and the events that it is called for.

    Attributes:
        id: Key of its deliveries in the store.
        function: The function.
        filters: A filter of requests or offers for each kind of event.
        retries: Further calls after a failure, before the delivery is dead.
        timeout: Seconds that a call may take.
        from_start: Whether it also gets requests from before it was first registered.
        selected_from_start: Whether it also gets bids that were selected before.
    """

    id: str
    function: Function
    filters: Mapping[Kind, RequestFilter | OfferFilter]
    retries: int
    timeout: float
    from_start: bool
    selected_from_start: bool = False

    def handles(self, kind: str) -> bool:
        """Return whether the handler is called for events of a kind."""
        return kind in self.filters

    async def load_codes(self, by_code: Callable[[str], Awaitable[Currency]]) -> None:
        """Look up the codes of currencies by which the handler's filters select."""
        for filter_ in self.filters.values():
            if isinstance(filter_, OfferFilter):
                await filter_.load_codes(by_code)

    def matches(self, event: BotEvent) -> bool:
        """Return whether the handler is called for an event. Raises the errors of its `where=` function."""
        filter_ = self.filters.get(kind_of(event))
        if filter_ is None:
            return False
        if isinstance(filter_, OfferFilter):
            return isinstance(event, OfferEvent) and filter_.matches(event.offer, event.listing)
        if isinstance(event, (Gap, Unreadable)):
            # Gaps and unreadable requests have no fields to filter by.
            return True
        return filter_.matches(subject(event))


def kind_of(event: BotEvent) -> Kind:
    """Return the kind of an event in a bot."""
    return OFFER_KINDS[event.kind] if isinstance(event, OfferEvent) else event.kind


def subject(event: BotEvent) -> Any:
    """Return the first argument of a handler: the request, the bid, the offer, or the event itself."""
    match event:
        case RequestEvent():
            return event.request
        case BidSelected():
            return event.bid
        case OfferEvent():
            return event.offer
        case _:
            return event
