"""The person on the other side of a selected offer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Contact"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Contact(Record):
    """Who to talk to; shown once an offer is selected (service document, Offer listing record: `loadingPOC`).

    Attributes:
        name: The person's name.
        email: The person's address.
        extra: Fields of the reply that this package does not know.
    """

    name: str | None = None
    email: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
