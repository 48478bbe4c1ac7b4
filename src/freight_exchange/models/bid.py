"""A forwarder's own offer with its request."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: F401 - for get_type_hints of the generated __init__
from datetime import datetime  # noqa: F401 - for get_type_hints of the generated __init__
from decimal import Decimal

import attrs

from freight_exchange.models.company import Company
from freight_exchange.models.contact import Contact
from freight_exchange.models.enums import (  # noqa: F401 - for get_type_hints of the generated __init__
    BidStatus,
    Packaging,
    RequestType,
    UnknownWord,
)
from freight_exchange.models.offer import Offer
from freight_exchange.models.shipment import Shipment

__all__ = ["Bid"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Bid(Shipment):
    """One of your offers, with its request (service document, 4.9 and 4.10).

    The fields of the freight are those of `RateRequest`; `index` is the request's. A bid has no identifier of its own,
    and one request may have two equal bids.

    Attributes:
        status: The bid's state.
        amount: The offered price, in `currency`, for both submitted and listed bids.
        currency: The index of the currency.
        offer: The offer with its terms and rates, which only a submission returns.
        contact: The shipper's contact, once the bid is selected.
        company: The shipper's company, once the bid is selected.
    """

    status: BidStatus | UnknownWord | None = None
    amount: Decimal | None = None
    currency: int | None = None
    offer: Offer | None = None
    contact: Contact | None = None
    company: Company | None = None
