"""Tests of offers and their itemised fees."""

from __future__ import annotations

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.models import Offer

FEES = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**25), max_value=10**25, places=25)


def test_rates_total_and_difference() -> None:
    offer = Offer(amount=Decimal("1840.50"), rates={"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.25")})
    assert offer.rates_total == Decimal("1840.25")
    assert offer.difference == Decimal("0.25")
    assert Offer(amount=Decimal(5)).rates_total is None
    assert Offer(amount=Decimal(5)).difference is None
    assert Offer(amount=Decimal(5), rates={}).difference is None
    assert Offer(rates={"Fee": Decimal(1)}).difference is None
    discounted = Offer(amount=Decimal(90), rates={"Fee": Decimal(100), "Discount": Decimal(-10)})
    assert discounted.difference == 0


@given(st.lists(FEES))
def test_rates_total_is_exact(fees: list[Decimal]) -> None:
    offer = Offer(amount=Decimal(0), rates={str(place): fee for place, fee in enumerate(fees)})
    with localcontext() as context:
        context.prec = 400
        expected = sum(fees, Decimal(0))
    assert offer.rates_total == (expected if fees else None)


def test_rates_are_read_only() -> None:
    rates = {"Fee": Decimal(1)}
    offer = Offer(rates=rates)
    rates["Fee"] = Decimal(2)
    assert offer.rates == {"Fee": Decimal(1)}
