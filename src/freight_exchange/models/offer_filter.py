"""Filter of offers on the shipper's own requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from freight_exchange.models import validation
from freight_exchange.models.listing import Listing
from freight_exchange.models.offer import Offer
from freight_exchange.models.request_filter import RequestFilter, Texts, as_boolean, plain_function
from freight_exchange.models.validation import Number
from freight_exchange.platform.errors import ValidationError

if TYPE_CHECKING:
    from freight_exchange.models.request import RateRequest

__all__ = ["Numbers", "OfferFilter", "OfferWhere"]

Numbers: TypeAlias = int | AbstractSet[int] | Sequence[int]
"""An index, or a set or sequence of alternatives."""

OfferWhere: TypeAlias = Callable[[Offer, Listing], bool]
"""A predicate of the caller, on the offer and the request with all its offers."""


@attrs.frozen(kw_only=True, init=False, eq=False, repr=False)
class OfferFilter:
    """Filter of offers, which must pass every field given. All offers pass `OfferFilter()`.

    A missing field never excludes an offer, as in `RequestFilter`.

    Args:
        request: The index of one of your requests, or several.
        origin, destination, commodity: As in `RequestFilter`.
        currency: The index of the offer's currency, or several.
        max_amount: The highest accepted amount of the offer, in its own currency; requires `currency`.
        where: A predicate of your own, a plain function of the offer and its request. It is called last; its errors are
            not caught.

    Raises:
        ValidationError: A value is invalid, or a collection is empty, which would exclude all offers; `field`
            names it.
    """

    request: frozenset[int] | None
    currency: frozenset[int] | None
    max_amount: Decimal | None
    where: OfferWhere | None
    _freight: RequestFilter

    def __init__(
        self,
        *,
        request: Numbers | None = None,
        origin: Texts | None = None,
        destination: Texts | None = None,
        commodity: Texts | None = None,
        currency: Numbers | None = None,
        max_amount: Number | None = None,
        where: OfferWhere | None = None,
    ) -> None:
        if max_amount is not None and currency is None:
            raise ValidationError("max_amount needs currency: offers come in several", field="max_amount")
        validation.set_fields(
            self,
            {
                "request": _identifiers(request, "request"),
                "currency": _identifiers(currency, "currency"),
                "max_amount": None if max_amount is None else validation.amount(max_amount, "max_amount"),
                "where": None if where is None else plain_function(where),
                "_freight": RequestFilter(origin=origin, destination=destination, commodity=commodity),
            },
        )

    def matches(self, offer: Offer, listing: Listing) -> bool:
        """Return whether the offer passes.

        Raises:
            ValidationError: `where` turned out to be async.
        """
        if self.request is not None and listing.index not in self.request:
            return False
        if self.currency is not None and offer.currency is not None and offer.currency not in self.currency:
            return False
        if self.max_amount is not None and offer.amount is not None and offer.amount > self.max_amount:
            return False
        if not self._freight.matches(cast("RateRequest", listing)):
            return False
        return self.where is None or as_boolean(self.where(offer, listing))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OfferFilter):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.request, self.currency, self.max_amount, self._freight))

    def __repr__(self) -> str:
        fields = {
            "request": self.request,
            "currency": self.currency,
            "max_amount": self.max_amount,
            "where": self.where,
        }
        parts = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        freight = repr(self._freight).removeprefix("RequestFilter(").removesuffix(")")
        return f"OfferFilter({', '.join([*parts, *([freight] if freight else [])])})"

    def _values(self) -> tuple[object, ...]:
        return self.request, self.currency, self.max_amount, self.where, self._freight


def _identifiers(value: Numbers | None, field: str) -> frozenset[int] | None:
    if value is None:
        return None
    numbers = value if isinstance(value, (AbstractSet, Sequence)) and not isinstance(value, (str, bytes)) else (value,)
    if not numbers:
        raise ValidationError(f"{field} must not be empty: no offer would ever pass", field=field)
    return frozenset(validation.identifier(number, field) for number in numbers)
