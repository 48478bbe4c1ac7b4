"""Events of a feed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeVar, get_args

import attrs

from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError
from freight_exchange.models import Bid, RateRequest

__all__ = [
    "KINDS", "Acknowledgeable", "BidSelected", "Event", "Gap", "RequestEvent", "RequestKind", "SchemaChanged",
    "Unreadable", "acknowledgeable", "number_of"
]  # fmt: skip


RequestKind = Literal["new", "updated", "withdrawn"]


class Acknowledgeable(Serializable):
    """Event that can be acknowledged on its own. It compares, prints and pickles as a value."""

    __slots__ = ("__weakref__", "_acknowledge", "_number")

    _acknowledge: Callable[[], Awaitable[None]]
    _number: int

    async def ack(self) -> None:
        """Acknowledge this event durably, so that it is not delivered again. A second call does nothing.

        Raises:
            ConfigurationError: No feed of this process has delivered the event, or that feed is closed.
            StoreError: The store cannot record it.
        """
        acknowledge = getattr(self, "_acknowledge", None)
        if acknowledge is None:
            raise ConfigurationError("only an event that a feed of this process has handed out can be acknowledged")
        await acknowledge()


EventT = TypeVar("EventT", bound=Acknowledgeable)


def acknowledgeable(event: EventT, number: int, acknowledge: Callable[[], Awaitable[None]]) -> EventT:
    """Return the event, tied to the feed that delivers it under that number."""
    object.__setattr__(event, "_number", number)
    object.__setattr__(event, "_acknowledge", acknowledge)
    return event


def number_of(event: Acknowledgeable) -> int:
    """Return the number under which a feed delivers the event."""
    return event._number


@attrs.frozen(kw_only=True)
class RequestEvent(Acknowledgeable):
    """A rate request appeared, changed, or is gone.

    Attributes:
        kind: `new`, `updated` or `withdrawn`.
        request: The request as it is now; for a withdrawn one, as it was last seen.
        previous: The request as it was seen before. `None` for a new one, and for one last seen so long ago that the
            store keeps only its digest.
        changed: The names of the fields that differ; undocumented fields by the service's names.
        returned: Whether the request was reported as withdrawn and is listed again. The kind is then `updated`, and
            `changed` is empty if the request is the same as before.
        observed_between: Earliest and latest time of the change, in UTC by this machine's clock. The earliest is the
            last complete scan before it, less the allowance; `None` without such a scan. The latest is when it was
            seen. An update that the service shows later than the allowance may be older.
    """

    kind: RequestKind
    request: RateRequest
    previous: RateRequest | None = None
    changed: tuple[str, ...] = ()
    returned: bool = False
    observed_between: tuple[datetime | None, datetime]


@attrs.frozen(kw_only=True)
class Gap(Acknowledgeable):
    """Time without a scan, longer than the service looks back. Updates in it are lost, unless a later one follows.

    Attributes:
        since: Start of the time in which updates may have been missed, UTC by this machine's clock.
        until: End of that time. Later updates are listed, and delivered.
    """

    kind: ClassVar[Literal["gap"]] = "gap"

    since: datetime
    until: datetime


@attrs.frozen(kw_only=True)
class SchemaChanged(Acknowledgeable):
    """The service began to send other fields for many requests at once, without an update by their shippers.

    Attributes:
        added: The new fields; undocumented ones by the service's names.
        removed: The fields that are no longer sent.
        requests: The indexes of the requests with this change. A request without another change gets no event of its
            own, unless the window that lists it proves an update.
        observed: When the change was detected, UTC.
    """

    kind: ClassVar[Literal["schema_changed"]] = "schema_changed"

    added: tuple[str, ...]
    removed: tuple[str, ...]
    requests: tuple[int, ...]
    observed: datetime


@attrs.frozen(kw_only=True)
class Unreadable(Acknowledgeable):
    """A listed request that cannot be read; another event follows if its content changes.

    Attributes:
        index: The request's identifier, or `None` where that cannot be read either.
        raw: The record as received, in JSON's own types; fractions as text with all digits.
        error: Description of the defect, and its place in the reply.
        observed: When the record was received, UTC.
    """

    kind: ClassVar[Literal["unreadable"]] = "unreadable"

    index: int | None
    raw: object
    error: str
    observed: datetime


@attrs.frozen(kw_only=True)
class BidSelected(Acknowledgeable):
    """The shipper selected a bid of this account (service document, 4.9). Only a bot has such events, not a feed.

    Attributes:
        bid: The bid as it is listed, with the shipper's contact.
        observed: When it was seen, UTC.
    """

    kind: ClassVar[Literal["selected"]] = "selected"

    bid: Bid
    observed: datetime


Event = RequestEvent | Gap | SchemaChanged | Unreadable

KINDS: Final = frozenset({*get_args(RequestKind), Gap.kind, SchemaChanged.kind, Unreadable.kind})
"""Kinds of the events that a feed delivers. Other events in its store belong to a bot."""
