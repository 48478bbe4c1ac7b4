"""Events of the market: requests for forwarders, offers for shippers, and answers for both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from freight_sandbox.audit import OfferChange, OfferRecord, RequestChange
from freight_sandbox.records import Offer
from freight_sandbox.service import Exchange

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


def latest_events(exchange: Exchange) -> list[MarketEvent]:
    """Return the last events since the server's start, the newest first, from the last records of each kind."""
    log = exchange.audit_log
    found = [
        *_about_requests(exchange, log.changes[-LIMIT:]),
        *_about_offers(exchange, log.offers[-LIMIT:]),
        *_answers(exchange, log.offer_changes[-LIMIT:]),
    ]
    # The sort is stable, so events of the same time stay in the order of their causes.
    return sorted(found, key=lambda event: event.time)[-LIMIT:][::-1]


def _about_requests(exchange: Exchange, changes: list[RequestChange]) -> Iterator[MarketEvent]:
    for change in changes:
        if change.what in _REQUEST_KINDS:
            owner = exchange.accounts[change.state.owner].email
            yield MarketEvent(change.time, change.what, change.request, None, owner, _ALL_FORWARDERS)


def _about_offers(exchange: Exchange, offers: list[OfferRecord]) -> Iterator[MarketEvent]:
    for record in offers:
        owner = _owner(exchange, record.offer)
        yield MarketEvent(record.time, "offered", record.offer.request, record.offer, record.account, owner)


def _answers(exchange: Exchange, changes: list[OfferChange]) -> Iterator[MarketEvent]:
    for offer, time in changes:
        if (kind := _ANSWERS.get(offer.status)) is not None:
            forwarder = exchange.accounts[offer.account].email
            yield MarketEvent(time, kind, offer.request, offer, _owner(exchange, offer), forwarder)


def _owner(exchange: Exchange, offer: Offer) -> str:
    request = exchange.requests.get(offer.request)
    assert request is not None
    return exchange.accounts[request.owner].email
