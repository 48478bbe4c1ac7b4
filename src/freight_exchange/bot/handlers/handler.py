"""Handler: a function and the events that it is called for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast

import attrs

from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, Unreadable
from freight_exchange.models import RateRequest
from freight_exchange.models.request_filter import RequestFilter

__all__ = ["BotEvent", "Function", "Handler", "Kind", "subject"]

BotEvent = RequestEvent | Gap | Unreadable | BidSelected
"""Event that a handler can be called for."""

Kind = Literal["new", "updated", "withdrawn", "selected", "gap", "unreadable"]
"""Kind of an event."""

Function = Callable[..., Awaitable[object]]


@attrs.frozen(kw_only=True, eq=False)
class Handler:
    """A function and the events that it is called for.

    Attributes:
        id: Key of its deliveries in the store.
        function: The function.
        filters: A filter of requests for each kind of event.
        retries: Further calls after a failure, before the delivery is dead.
        timeout: Seconds that a call may take.
        from_start: Whether it also gets requests from before it was first registered.
        selected_from_start: Whether it also gets bids that were selected before.
    """

    id: str
    function: Function
    filters: Mapping[Kind, RequestFilter]
    retries: int
    timeout: float
    from_start: bool
    selected_from_start: bool = False

    def handles(self, kind: str) -> bool:
        """Return whether it is called for events of a kind."""
        return kind in self.filters

    def matches(self, event: BotEvent) -> bool:
        """Return whether it is called for an event. Raises what the `where=` function of its filter raises."""
        filter_ = self.filters.get(event.kind)
        if filter_ is None:
            return False
        argument = subject(event)
        return not hasattr(argument, "origin") or filter_.matches(cast(RateRequest, argument))


def subject(event: BotEvent) -> Any:
    """Return the first argument of a handler: the request, the bid, or the event itself."""
    match event:
        case RequestEvent():
            return event.request
        case BidSelected():
            return event.bid
        case _:
            return event
