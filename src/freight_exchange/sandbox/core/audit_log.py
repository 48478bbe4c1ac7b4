"""What really happened: every call, every write that took effect, every state, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from freight_exchange.sandbox.model.state import Offer, Request

__all__ = ["AuditLog", "CallRecord", "LoginRecord", "OfferRecord", "Publication", "RequestChange", "Span"]


@attrs.frozen(kw_only=True)
class CallRecord:
    """One call. `processed`: it was handled and succeeded. `status` is that of the reply, 0 without one."""

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


class Publication(NamedTuple):
    """A request that came into being. `call` is `None` when no HTTP call made it."""

    request: int
    account: str
    time: float
    call: int | None


class RequestChange(NamedTuple):
    """A request's state from `time` on. `what` is published, updated, touched, selected or withdrawn."""

    request: int
    time: float
    what: str
    state: Request
    call: int | None


class OfferRecord(NamedTuple):
    """An offer that came into being, as it was then."""

    offer: Offer
    account: str
    time: float
    call: int | None


class LoginRecord(NamedTuple):
    email: str
    accepted: bool
    time: float
    call: int | None


class Span(NamedTuple):
    """A state of a request and the time in which it could be seen; `until` is `None` for the final one."""

    state: Request
    since: float
    until: float | None


class AuditLog:
    """The record against which clients are judged. It only grows, until `forget`."""

    def __init__(self) -> None:
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """Drops everything recorded. Calls keep counting from where they were."""
        self.calls: list[CallRecord] = []
        self.publications: list[Publication] = []
        self.changes: list[RequestChange] = []
        self.offers: list[OfferRecord] = []
        self.logins: list[LoginRecord] = []

    def next_call(self) -> int:
        self.count += 1
        return self.count

    def calls_to(self, method: str, path: str) -> list[CallRecord]:
        """The calls of one address, in order."""
        return [call for call in self.calls if call.path == path and call.method == method]

    def offers_on(self, request: int, account: str | None = None) -> list[OfferRecord]:
        """Every offer ever made on a request, by one account or by all."""
        return [
            record
            for record in self.offers
            if record.offer.request == request and (account is None or record.account == account)
        ]

    def offer_counts(self) -> Mapping[tuple[int, str], int]:
        """How many offers each account has ever made on each request."""
        return Counter((record.offer.request, record.account) for record in self.offers)

    def duplicate_offers(self) -> list[list[OfferRecord]]:
        """Groups of offers alike in request, account, amount and currency: one wish sent more than once."""
        groups: dict[tuple[object, ...], list[OfferRecord]] = {}
        for record in self.offers:
            offer = record.offer
            groups.setdefault((offer.request, record.account, offer.amount, offer.currency), []).append(record)
        return [group for group in groups.values() if len(group) > 1]

    def spans(self, request: int, *, late: float = 0.0) -> list[Span]:
        """Each state of a request and when it could be seen, with changes shown `late` seconds after."""
        changes = [change for change in self.changes if change.request == request]
        ends: list[float | None] = [change.time + late for change in changes[1:]]
        return [
            Span(change.state, change.time + late, end) for change, end in zip(changes, [*ends, None], strict=False)
        ]

    def final_states(self) -> Mapping[int, Request]:
        """The last state of every request, withdrawn ones included."""
        return {change.request: change.state for change in self.changes}
