"""A forwarder's price on a rate request."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import reduce

import attrs

from freight_exchange.models._base import EXACT, NOTHING, Record, frozen, frozen_rates
from freight_exchange.models.enums import OfferStatus, UnknownWord

__all__ = ["Offer"]


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Offer(Record):
    """A price on a rate request (service document, Offer entry).

    Attributes:
        id: The offer's identifier, for approving or declining it.
        request: The index of its request, on which reconciliation looks for it.
        amount: The total, in `currency`.
        currency: The index of the currency; `exchange.currencies.get(...)` names it.
        status: Pending, selected, or an undocumented word.
        terms: Terms and conditions.
        rates: The itemised fees by name, in `currency`; a discount is negative. `None` if the reply has none. Fees
            without an amount are only in `extra`.
        extra: Fields of the reply that are unknown to this package.
    """

    id: int | None = None
    request: int | None = None
    amount: Decimal | None = None
    currency: int | None = None
    status: OfferStatus | UnknownWord | None = None
    terms: str | None = None
    rates: Mapping[str, Decimal] | None = attrs.field(default=None, converter=frozen_rates)
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)

    @property
    def rates_total(self) -> Decimal | None:
        """The exact sum of the itemised fees; `None` where there are none."""
        if not self.rates:
            return None
        return reduce(EXACT.add, self.rates.values(), Decimal(0))

    @property
    def difference(self) -> Decimal | None:
        """The total minus the sum of the itemised fees. The service does not check that they are equal."""
        total = self.rates_total
        if total is None or self.amount is None:
            return None
        return EXACT.subtract(self.amount, total)
