"""What a feed hands out."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from freight_exchange.models import RateRequest

__all__ = ["RequestEvent"]


@attrs.frozen(kw_only=True)
class RequestEvent:
    """A rate request appeared, or changed.

    Attributes:
        kind: `new` or `updated`.
        request: The request as it is now.
        previous: As it was seen before, or `None` for a new one.
        changed: The names of the fields that differ.
        observed_between: When it happened at the earliest and latest, in UTC: the last complete look before, and this.
    """

    kind: Literal["new", "updated"]
    request: RateRequest
    previous: RateRequest | None
    changed: tuple[str, ...]
    observed_between: tuple[datetime | None, datetime]
