"""Events of feeds, as values and as stored bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, TypeVar, get_args

import attrs

from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError, StoreError, ValidationError
from freight_exchange.models import Bid, Listing, Offer, RateRequest
from freight_exchange.serialization import from_json, to_json

RequestKind = Literal["new", "updated", "withdrawn"]
"""Kind of an event about a request."""

OfferKind = Literal["new", "changed", "gone", "answered"]
"""Kind of an event about an offer."""

Answer = Literal["approved", "declined"]
"""Answer of a shipper to an offer."""


class Acknowledgeable(Serializable):
    """Event that can be acknowledged on its own. It compares, prints and pickles as a value.

    The feed that delivers it sets `_acknowledge`.
    """

    __slots__ = ("__weakref__", "_acknowledge")

    _acknowledge: Callable[[], Awaitable[None]]

    async def ack(self) -> None:
        """Acknowledge this event durably, so that it is not delivered again. A second call does nothing.

        Raises:
            ConfigurationError: No open feed of this process has delivered the event.
            StoreError: The store cannot record it.
        """
        acknowledge = getattr(self, "_acknowledge", None)
        if acknowledge is None:
            raise ConfigurationError("only an event that a feed of this process has handed out can be acknowledged")
        await acknowledge()


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
class OfferEvent(Acknowledgeable):
    """An offer on one of your requests appeared, changed, was answered, or is gone (service document, 4.7).

    Attributes:
        kind: `new`, `changed`, `answered` or `gone`.
        offer: The offer as it is now; for a gone offer, as it was last seen.
        listing: The request as it was last seen, with all offers on it.
        previous: The offer as it was seen before; `None` for an offer seen for the first time.
        changed: The names of the fields that differ, among `amount`, `currency`, `status`, `terms` and `rates`.
        returned: Whether the offer was reported as gone and is listed again.
        answer: `approved` or `declined`, for an answered offer.
        answered_by: The id of the bot's handler that gave the answer; `None` if the bot's ledger does not have the
            answer, and outside of a bot.
        observed_between: As in `RequestEvent`, but the earliest is the last scan, less an interval.
    """

    kind: OfferKind
    offer: Offer
    listing: Listing
    previous: Offer | None = None
    changed: tuple[str, ...] = ()
    returned: bool = False
    answer: Answer | None = None
    answered_by: str | None = None
    observed_between: tuple[datetime | None, datetime]

    @property
    def request(self) -> int:
        """The index of the request."""
        return self.listing.index


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
class Unreadable(Acknowledgeable):
    """A listed request or offer that cannot be read; another event follows if its content changes.

    Attributes:
        index: The request's identifier, or `None` where that cannot be read either.
        raw: The record as received, in JSON's own types.
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


Event = RequestEvent | Gap | Unreadable
"""Event of a feed of requests."""

OfferFeedEvent = OfferEvent | Unreadable
"""Event of a feed of offers. An `Unreadable` is about one of your requests, or an offer on it, that cannot be read."""

StoredEvent = RequestEvent | OfferEvent | BidSelected | Gap | Unreadable
"""Event in a store."""

R = TypeVar("R", bound=Serializable)

UNREADABLE: Final = (
    "cannot be read: another version of this package wrote it, or it is damaged; use the version that wrote it, or"
    " another store"
)


def dump_event(event: StoredEvent) -> bytes:
    return to_json(event).encode()


def load_event(kind: str, payload: bytes) -> StoredEvent:
    """Return the event of a stored row; raise `StoreError` if it is damaged, or of another version of this package."""
    event = _loaded(payload, None, f"an event ({kind}) in the store")
    if not isinstance(event, get_args(StoredEvent)) or event.kind != kind:
        raise StoreError(f"an event ({kind}) in the store {UNREADABLE}")
    return event  # type: ignore[no-any-return]


def load_record(record: bytes, kind: type[R]) -> R:
    return _loaded(record, kind, "a record in the store")  # type: ignore[no-any-return]


def _loaded(payload: bytes, kind: type[Serializable] | None, what: str) -> Any:
    try:
        return from_json(bytes(payload)) if kind is None else from_json(bytes(payload), kind)
    except (ValidationError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{what} {UNREADABLE}") from error
