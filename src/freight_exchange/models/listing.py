"""A shipper's request with its offers."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401 - for get_type_hints of the generated __init__
from datetime import datetime  # noqa: F401 - for get_type_hints of the generated __init__
from decimal import Decimal  # noqa: F401 - for get_type_hints of the generated __init__

import attrs

from freight_exchange.models.company import Company
from freight_exchange.models.contact import Contact
from freight_exchange.models.enums import (  # noqa: F401 - for get_type_hints of the generated __init__
    OfferStatus,
    Packaging,
    RequestStatus,
    RequestType,
    UnknownWord,
)
from freight_exchange.models.offer import Offer
from freight_exchange.models.shipment import Shipment

__all__ = ["Listing"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Listing(Shipment):
    """A shipper's request with its offers (service document, Offer listing record).

    The fields of the freight are those of `RateRequest`; listings often lack `ref_id`, `type`, `incoterm` and
    `hazardous`.

    Attributes:
        status: The request's state.
        offers: The offers on the request; only the selected one, once there is one.
        contact: The forwarder's contact, once an offer is selected.
        company: The forwarder's company, once an offer is selected.
    """

    status: RequestStatus | UnknownWord | None = None
    offers: tuple[Offer, ...] = ()
    contact: Contact | None = None
    company: Company | None = None

    @property
    def selected(self) -> Offer | None:
        """The offer that was approved, or `None`."""
        return next((offer for offer in self.offers if offer.status == OfferStatus.SELECTED), None)
