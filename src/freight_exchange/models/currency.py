"""A currency of the service's reference list."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.models._base import NOTHING, Record, frozen

__all__ = ["Currency"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Currency(Record):
    """A currency, to which offers refer by index (service document, Currency).

    Attributes:
        index: The service's number for the currency. Published samples use ISO 4217's numeric codes (840 for USD, 978
            for EUR), but the document does not promise that: `currencies.by_code("USD")` looks it up.
        name: The currency's name.
        code: The three-letter code, e.g. `USD`.
        extra: Fields of the reply that are unknown to this package.
    """

    index: int
    name: str | None = None
    code: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)
