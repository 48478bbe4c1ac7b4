"""Tests of units of length and mass: converted exactly or refused, never read as metres and kilograms."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from freight_exchange import RateRequest, RequestFilter, ValidationError, cargo
from freight_exchange.models.units import kilograms_per, metres_per

BOX: dict[str, Any] = {
    "index": 4,
    "quantity": 10,
    "length": Decimal(120),
    "width": Decimal(80),
    "height": Decimal(100),
    "weight": Decimal(500),
}


@pytest.mark.parametrize(
    ("unit", "volume"),
    [("cm", "9.6"), ("CM", "9.6"), (" Centimetres ", "9.6"), ("mm", "0.0096"), ("m", "9600000"), (None, "9600000")],
)
def test_volume_converts_the_measure_unit(unit: str | None, volume: str) -> None:
    assert RateRequest(**BOX, measure_unit=unit).volume == Decimal(volume)


def test_volume_in_feet_is_exact() -> None:
    request = RateRequest(**BOX | {"length": Decimal(1), "width": Decimal(1), "height": Decimal(1)}, measure_unit="ft")
    assert request.volume == 10 * Decimal("0.3048") ** 3


def test_unknown_measure_unit_has_no_volume_and_is_refused() -> None:
    request = RateRequest(**BOX, measure_unit="cubit")
    assert request.volume is None
    with pytest.raises(ValidationError, match=r"measure_unit is 'cubit', which is unknown") as caught:
        cargo.volume(request)
    assert caught.value.field == "measure_unit"


@pytest.mark.parametrize(("unit", "kilograms"), [("kg", "5000"), ("g", "5"), ("t", "5000000"), ("lbs", "2267.96185")])
def test_gross_weight_converts_the_mass_unit(unit: str, kilograms: str) -> None:
    assert cargo.gross_weight(RateRequest(**BOX, mass_unit=unit), per="unit").kilograms == Decimal(kilograms)


def test_chargeable_weight_converts_both_units() -> None:
    request = RateRequest(**BOX, measure_unit="cm", mass_unit="g")
    assert cargo.revenue_tons(request, per="unit").tons == Decimal("9.6")


def test_unknown_mass_unit_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        cargo.gross_weight(RateRequest(**BOX, mass_unit="stone"), per="unit")
    assert caught.value.field == "mass_unit"


def test_filter_compares_kilograms_and_cubic_metres() -> None:
    light = RateRequest(**BOX, measure_unit="cm", mass_unit="g")
    wanted = RequestFilter(max_weight=1, max_volume=10)
    assert wanted.matches(light)
    assert wanted.excluded_by(RateRequest(**BOX, measure_unit="cm", mass_unit="kg")) == "max_weight"


def test_filter_passes_a_request_whose_unit_is_unknown() -> None:
    assert RequestFilter(max_weight=1, max_volume=1).matches(
        RateRequest(**BOX, measure_unit="cubit", mass_unit="stone")
    )


@pytest.mark.parametrize("unit", [None, "", " "])
def test_missing_unit_is_the_documented_one(unit: str | None) -> None:
    assert metres_per(unit) == kilograms_per(unit) == 1
