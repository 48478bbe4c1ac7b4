"""Writes as values.

An `OutcomeUnknownError` has its write as a value, so that it can be pickled and reconciled later, in another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import attrs

from freight_exchange.models._base import Frozen, frozen_rates
from freight_exchange.models.request import RateRequestDraft
from freight_exchange.models.route import Route, RouteDraft

__all__ = [
    "CreateRoute",
    "Publish",
    "RawWrite",
    "Respond",
    "SubmitOffer",
    "UpdateRoute",
    "Write",
]


@attrs.frozen(eq=False, repr=False)
class Publish(Frozen):
    """Publication of a rate request (service document, 4.3)."""

    draft: RateRequestDraft


@attrs.frozen(eq=False, repr=False)
class SubmitOffer(Frozen):
    """Submission of an offer (service document, 4.10). `request` and `currency` are indexes, `amount` is the total."""

    request: int
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = attrs.field(default=None, converter=frozen_rates)
    terms: str | None = None


@attrs.frozen(eq=False, repr=False)
class Respond(Frozen):
    """Approval or decline of an offer by its identifier (service document, 4.8).

    `request` is the index of its request, if the client has read the offer. After an offer is selected, the service may
    list only that one; the state of the others is visible only on their request.
    """

    offer: int
    approved: bool
    request: int | None = None


@attrs.frozen(eq=False, repr=False)
class CreateRoute(Frozen):
    """Creation of a route (service document, 4.5)."""

    draft: RouteDraft


@attrs.frozen(eq=False, repr=False)
class UpdateRoute(Frozen):
    """Replacement of the route that has this index (service document, 4.5).

    `before` is the route as it was read before, if known. Without it, an update that did not happen cannot be told from
    an update that another party has reverted.
    """

    route: Route
    before: Route | None = None


@attrs.frozen(eq=False, repr=False)
class RawWrite(Frozen):
    """A write of `exchange.request(...)`, whose meaning is unknown."""

    method: str
    path: str


Write = Publish | SubmitOffer | Respond | CreateRoute | UpdateRoute | RawWrite
