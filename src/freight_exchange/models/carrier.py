"""A carrier of the service's reference list."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Carrier"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Carrier(Record):
    """A carrier, to which routes refer by index (service document, Carrier).

    Attributes:
        index: The carrier's identifier.
        name: The carrier's name.
        extra: Fields of the reply that are unknown to this package.
    """

    index: int
    name: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
