"""Log of every call, every write that took effect and every state of a request, with times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from freight_sandbox.records import Offer, Request


@attrs.frozen
class CallRecord:
    """One call. `processed` is true if the exchange carried it out. `status` is 0 if no reply was sent."""

    number: int
    time: float
    method: str
    path: str
    query: Mapping[str, str]
    parameters: Mapping[str, Any] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    account: str | None
    status: int
    processed: bool
    fault: str | None = None


class RequestChange(NamedTuple):
    """State of a request from `time` on. `what` is published, updated, touched, selected or withdrawn.

    `call` is the number of the HTTP call; `None` if there was none.
    """

    request: int
    time: float
    what: str
    state: Request
    call: int | None


class OfferRecord(NamedTuple):
    """Submission of an offer, with the offer as it was submitted."""

    offer: Offer
    account: str
    time: float
    call: int | None


class LoginRecord(NamedTuple):
    """Login attempt."""

    email: str
    accepted: bool
    time: float
    call: int | None


class AuditLog:
    """Record of all calls and changes of the exchange, for assertions about clients. It grows until `forget`."""

    def __init__(self) -> None:
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """Drop every record. The numbers of calls continue."""
        self.calls: list[CallRecord] = []
        self.changes: list[RequestChange] = []
        self.offers: list[OfferRecord] = []
        self.logins: list[LoginRecord] = []

    @property
    def publications(self) -> list[RequestChange]:
        return [change for change in self.changes if change.what == "published"]

    def calls_to(self, method: str, path: str) -> list[CallRecord]:
        """Return the calls to one address, in order."""
        return [call for call in self.calls if call.path == path and call.method == method]

    def offers_on(self, request: int, account: str | None = None) -> list[OfferRecord]:
        """Return every offer ever made on a request, by one account or by all."""
        return [it for it in self.offers if it.offer.request == request and account in (None, it.account)]

    def duplicate_offers(self) -> list[list[OfferRecord]]:
        """Return groups of offers with equal request, account, amount and currency: one offer that was sent twice."""
        groups: dict[object, list[OfferRecord]] = {}
        for record in self.offers:
            key = record.offer.request, record.account, record.offer.amount, record.offer.currency
            groups.setdefault(key, []).append(record)
        return [group for group in groups.values() if len(group) > 1]
