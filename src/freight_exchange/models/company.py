"""The user's company, or the other party's of a selected offer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Company"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Company(Record):
    """A company (service document, Company).

    Attributes:
        index: The company's identifier, which only one form of the login reply has.
        name: The company's name.
        address1: Street address.
        city, state, postal, country: The rest of the address; `postal` is text and keeps leading zeros.
        phone: Only of the user's own company.
        fax: Only of the other party's company.
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
