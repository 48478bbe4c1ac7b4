"""Events of the market: requests for forwarders, offers for shippers, and answers for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from freight_exchange.sandbox.core.audit_log import OfferChange, OfferRecord, RequestChange
from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.model.state import Offer

__all__ = ["LIMIT", "MarketEvent", "latest_events"]

LIMIT: Final = 40

_REQUEST_KINDS: Final = frozenset({"published", "updated", "withdrawn"})
_ANSWERS: Final = {"selected": "approved", "declined": "declined", "rejected": "declined", "removed": "declined"}
_ALL_FORWARDERS: Final = "forwarders"


class MarketEvent(NamedTuple):
    """Event of the market.

    Attributes:
        time: When it happened.
        kind: `published`, `updated`, `withdrawn`, `offered`, `approved` or `declined`.
        request: Index of the request.
        offer: The offer, if the event is about one.
        by: Email of the account that caused it.
        to: Email of the account that is notified, or `forwarders`.
    """

    time: float
    kind: str
    request: int
    offer: Offer | None
    by: str
    to: str

    def as_json(self, amount: str | None) -> dict[str, Any]:
        """Return the event as JSON for the page; `amount` is the formatted amount of the offer."""
        return {
            "time": self.time,
            "kind": self.kind,
            "request": self.request,
            "offer": None if self.offer is None else self.offer.index,
            "amount": amount,
            "by": self.by,
            "to": self.to,
        }


def latest_events(database: Database) -> list[MarketEvent]:
    """Return the last events since the server's start, the newest first, from the last records of each kind."""
    log = database.audit_log
    found = [
        *_about_requests(database, log.changes[-LIMIT:]),
        *_about_offers(database, log.offers[-LIMIT:]),
        *_answers(database, log.offer_changes[-LIMIT:]),
    ]
    # The sort is stable, so events of the same time stay in the order of their causes.
    return sorted(found, key=lambda event: event.time)[-LIMIT:][::-1]


def _about_requests(database: Database, changes: list[RequestChange]) -> Iterator[MarketEvent]:
    for change in changes:
        if change.what in _REQUEST_KINDS:
            owner = database.accounts[change.state.owner].email
            yield MarketEvent(change.time, change.what, change.request, None, owner, _ALL_FORWARDERS)


def _about_offers(database: Database, offers: list[OfferRecord]) -> Iterator[MarketEvent]:
    for record in offers:
        owner = _owner(database, record.offer)
        yield MarketEvent(record.time, "offered", record.offer.request, record.offer, record.account, owner)


def _answers(database: Database, changes: list[OfferChange]) -> Iterator[MarketEvent]:
    for offer, time in changes:
        if (kind := _ANSWERS.get(offer.status)) is not None:
            forwarder = database.accounts[offer.account].email
            yield MarketEvent(time, kind, offer.request, offer, _owner(database, offer), forwarder)


def _owner(database: Database, offer: Offer) -> str:
    request = database.requests.get(offer.request)
    assert request is not None
    return database.accounts[request.owner].email
