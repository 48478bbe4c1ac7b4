"""The contact person of a selected offer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Contact"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Contact(Record):
    """The other party's contact person for a selected offer (service document, Offer listing record: `loadingPOC`).

    Attributes:
        name: The person's name.
        email: The person's email address.
        extra: Fields of the reply that are unknown to this package.
    """

    name: str | None = None
    email: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
