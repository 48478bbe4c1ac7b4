"""The account that is logged in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen
from freight_exchange.models.company import Company

__all__ = ["User"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class User(Record):
    """The account that is logged in, without its token (service document, User).

    Attributes:
        first_name, middle_name, last_name: The person's name; `middle_name` may be empty.
        email: The address that logs in.
        title: The person's title.
        enabled: Whether the account is enabled.
        last_login: The last login, naive, as the document does not name the zone.
        image_url: The address of the avatar.
        company: The person's company.
        extra: Fields of the reply that are unknown to this package, and those that it could not read.
    """

    first_name: str | None = None
    middle_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    title: str | None = None
    enabled: bool | None = None
    last_login: datetime | None = None
    image_url: str | None = None
    company: Company | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
