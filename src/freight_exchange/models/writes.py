"""Writes as values, and what was found out about one whose outcome was unknown.

An error about a write holds the write, so that it can be looked for later, elsewhere, after pickling.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import attrs

from freight_exchange.models._base import Frozen, frozen_rates
from freight_exchange.models.bid import Bid
from freight_exchange.models.listing import Listing
from freight_exchange.models.request import RateRequest, RateRequestDraft
from freight_exchange.models.route import Route, RouteDraft

__all__ = [
    "Applied",
    "Conflict",
    "CreateRoute",
    "NotApplied",
    "Publish",
    "RawWrite",
    "Reconciliation",
    "Respond",
    "StillUnknown",
    "SubmitOffer",
    "UpdateRoute",
    "Write",
]


@attrs.frozen(eq=False, repr=False)
class Publish(Frozen):
    """Publish a rate request (service document, 4.3)."""

    draft: RateRequestDraft


@attrs.frozen(eq=False, repr=False)
class SubmitOffer(Frozen):
    """Submit an offer (service document, 4.10): its total, and the indexes of request and currency."""

    request: int
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = attrs.field(default=None, converter=frozen_rates)
    terms: str | None = None


@attrs.frozen(eq=False, repr=False)
class Respond(Frozen):
    """Approve or decline an offer by its identifier (service document, 4.8).

    `request` is the index of the request that it is on, where the client has read it: once an offer is selected the
    service may list that one alone, and what became of the others is seen only on their request.
    """

    offer: int
    approved: bool
    request: int | None = None


@attrs.frozen(eq=False, repr=False)
class CreateRoute(Frozen):
    """Create a route (service document, 4.5)."""

    draft: RouteDraft


@attrs.frozen(eq=False, repr=False)
class UpdateRoute(Frozen):
    """Put an entire route in place of the one with its index (service document, 4.5).

    `before` is the route as it was read, where the caller kept it: without it an update that did not happen
    cannot be told from a third party's.
    """

    route: Route
    before: Route | None = None


@attrs.frozen(eq=False, repr=False)
class RawWrite(Frozen):
    """A write of `exchange.request(...)`, of which nothing more is known."""

    method: str
    path: str


Write = Publish | SubmitOffer | Respond | CreateRoute | UpdateRoute | RawWrite


@attrs.frozen(eq=False, repr=False)
class Applied(Frozen):
    """The write happened: `record` shows it."""

    record: RateRequest | Listing | Bid | Route


@attrs.frozen(eq=False, repr=False)
class NotApplied(Frozen):
    """The write did not happen: complete, agreeing readings over the settle time lack it."""


@attrs.frozen(eq=False, repr=False)
class Conflict(Frozen):
    """Something else stands in the write's place, and `record` shows it: it did not happen, or was undone since."""

    record: RateRequest | Listing | Bid | Route


@attrs.frozen(eq=False, repr=False)
class StillUnknown(Frozen):
    """Nothing was proven; `candidates` are the records that come nearest."""

    candidates: tuple[RateRequest | Listing | Bid | Route, ...] = ()


Reconciliation = Applied | NotApplied | Conflict | StillUnknown
