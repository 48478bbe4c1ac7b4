"""The company of the user, or of the other party of a selected offer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Company"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Company(Record):
    """A company (service document, Company).

    Attributes:
        index: The company's identifier; only in one form of the login reply.
        name: The company's name.
        address1: Street address.
        city, state, postal, country: The rest of the address; `postal` is text and keeps leading zeros.
        phone: The phone number; only for the user's own company.
        fax: The fax number; only for the other party's company.
        oti_license: The ocean transportation intermediary's license number, as text.
        extra: Fields of the reply that are unknown to this package.
    """

    index: int | None = None
    name: str | None = None
    address1: str | None = None
    city: str | None = None
    state: str | None = None
    postal: str | None = None
    country: str | None = None
    phone: str | None = None
    fax: str | None = None
    oti_license: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
