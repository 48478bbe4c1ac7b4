"""Tests of quotes of the example tariff, with amounts worked out by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import RateRequest, RequestType
from freight_exchange.tariff import NoQuote, Quote, Tariff

FILE = Path(__file__).parents[3] / "examples" / "tariff.csv"
TARIFF = Tariff.read(FILE, weight_per="unit")
ON = date(2026, 6, 1)
HK, SZ, LB, RTM = "Hong Kong", "Shenzhen", "Long Beach", "Rotterdam"
SEA, AIR, ROAD, STORE = RequestType.SHIPPING, RequestType.AIR_FREIGHT, RequestType.TRUCKING, RequestType.WAREHOUSING


def request(
    type: RequestType, origin: str, destination: str, quantity: int, size: str, weight: str, **others: Any
) -> RateRequest:
    length, width, height = (Decimal(side) for side in size.split("x"))
    lane = {"type": type, "origin": origin, "destination": destination, "hazardous": False}
    sizes = {"quantity": quantity, "length": length, "width": width, "height": height, "weight": Decimal(weight)}
    fields: dict[str, Any] = {**lane, **sizes, **others}
    return RateRequest(index=4, **fields)


# Each line: the request, and its charges by hand.
QUOTED = [
    # 1.08 m3 over 0.64 t: 1.08 x 62.40 = 67.39, below the minimum of 95.
    (
        request(SEA, HK, LB, 1, "1.2x1.0x0.9", "640"),
        {"Ocean Freight": "95.00", "Documents": "45.00"},
    ),
    # 2.16 m3 x 62.40 = 134.784
    (
        request(SEA, SZ, LB, 2, "1.2x1.0x0.9", "640"),
        {"Ocean Freight": "134.78", "Documents": "45.00"},
    ),
    # 9 t over 4.5 m3: 9 x 62.40
    (request(SEA, HK, LB, 9, "1x1x0.5", "1000"), {"Ocean Freight": "561.60", "Documents": "45.00"}),
    # Exactly the break of 10: 10 x 58
    (request(SEA, HK, LB, 10, "1x1x1", "500"), {"Ocean Freight": "580.00", "Documents": "45.00"}),
    # 21.6 m3 x 58
    (
        request(SEA, "hong  kong", "LONG BEACH", 20, "1.2x1.0x0.9", "640"),
        {"Ocean Freight": "1252.80", "Documents": "45.00"},
    ),
    # 59.999 m3 x 58 = 3479.942
    (
        request(SEA, HK, LB, 1, "59.999x1x1", "20000"),
        {"Ocean Freight": "3479.94", "Documents": "45.00"},
    ),
    # 2.16 x 71.10 = 153.576; 6.5 % of 153.58 = 9.98, below 12
    (
        request(SEA, SZ, RTM, 2, "1.2x1.0x0.9", "640"),
        {"Ocean Freight": "153.58", "Documents": "45.00", "Low Sulphur": "12.00"},
    ),
    # 21.6 x 71.10 = 1535.76; 6.5 % = 99.8244
    (
        request(SEA, SZ, RTM, 20, "1.2x1.0x0.9", "640"),
        {"Ocean Freight": "1535.76", "Documents": "45.00", "Low Sulphur": "99.82"},
    ),
    # The same, hazardous.
    (
        request(SEA, SZ, RTM, 20, "1.2x1.0x0.9", "640", hazardous=True),
        {"Ocean Freight": "1535.76", "Documents": "45.00", "Low Sulphur": "99.82", "Dangerous Goods": "180.00"},
    ),
    # 10 kg gross, 8 kg by volume: 10 x 6.20 = 62, below 75; security 1.50, below 10
    (request(AIR, SZ, "Frankfurt", 1, "0.4x0.4x0.3", "10"), {"Air Freight": "75.00", "Security": "10.00"}),
    # 30 kg: 30 x 6.20; security 4.50, below 10
    (request(AIR, SZ, "Frankfurt", 3, "0.4x0.4x0.3", "10"), {"Air Freight": "186.00", "Security": "10.00"}),
    # 45 kg: 45 x 4.80
    (request(AIR, SZ, "Frankfurt", 5, "0.4x0.4x0.3", "9"), {"Air Freight": "216.00", "Security": "10.00"}),
    # 0.512 m3 is 85.333 kg by volume, 85.5 rounded up: x 4.80; 40 kg gross
    (request(AIR, SZ, "Frankfurt", 1, "0.8x0.8x0.8", "40"), {"Air Freight": "410.40", "Security": "10.00"}),
    # 250 kg: x 4.35 = 1087.50; 250 x 0.15 = 37.50
    (request(AIR, SZ, "Frankfurt", 10, "0.4x0.4x0.3", "25"), {"Air Freight": "1087.50", "Security": "37.50"}),
    # The rule for every destination: 120 x 5.10; 120 x 0.15
    (request(AIR, HK, "Chicago", 10, "0.4x0.4x0.3", "12"), {"Air Freight": "612.00", "Security": "18.00"}),
    # 1 x 0.96 m2 floor is 0.4 m: 740 kg by loading metres: 740 x 0.12 = 88.80, below 110
    (request(ROAD, RTM, "Duisburg", 1, "1.2x0.8x1.0", "300"), {"Haulage": "110.00"}),
    # The same to another place: 740 x 0.21
    (request(ROAD, RTM, "Basel", 1, "1.2x0.8x1.0", "300"), {"Haulage": "155.40"}),
    # 24 pallets: 9.6 m, 17760 kg, x 0.12
    (request(ROAD, RTM, "Duisburg", 24, "1.2x0.8x1.1", "150"), {"Haulage": "2131.20"}),
    # 10 m3 x 14; 10 packages x 3.50
    (request(STORE, RTM, RTM, 10, "1x1x1", "200"), {"Storage": "140.00", "Handling": "35.00"}),
    # 1.5 m3 x 14; 3 packages x 3.50
    (request(STORE, RTM, "Basel", 3, "1x1x0.5", "200"), {"Storage": "21.00", "Handling": "10.50"}),
]


@pytest.mark.parametrize(("request_", "charges"), QUOTED)
def test_quote_has_the_charges_worked_out_by_hand(request_: RateRequest, charges: dict[str, str]) -> None:
    quote = TARIFF.quote(request_, on=ON)
    assert isinstance(quote, Quote), quote
    assert dict(quote.rates) == {name: Decimal(amount) for name, amount in charges.items()}
    assert quote.amount == sum(quote.rates.values())
    assert quote.currency == ("USD" if request_.type in (SEA, AIR) else "EUR")


def test_quote_joins_the_terms_of_its_charges() -> None:
    dangerous = request(SEA, SZ, RTM, 2, "1.2x1.0x0.9", "640", hazardous=True)
    quote = TARIFF.quote(dangerous, on=ON)
    assert isinstance(quote, Quote)
    assert quote.terms == "valid 14 days; subject to the carrier's acceptance"


REFUSED = [
    (
        request(SEA, SZ, "Oslo", 1, "1x1x1", "500"),
        "there is no freight rate for Shipping from Shenzhen to Oslo",
    ),
    (request(SEA, SZ, LB, 60, "1x1x1", "500"), "Ocean Freight is on request from 60 revenue tons"),
    (request(SEA, HK, LB, 1, "1x1x1", "500", hazardous=True), "there is no freight rate"),
    (request(SEA, HK, LB, 1, "1x1x1", "500", hazardous=None), "whether the goods are hazardous"),
    (request(SEA, HK, RTM, 1, "1x1x1", "9000"), "the weight is implausible: about 9000 kg/m3"),
    (request(SEA, HK, LB, 1, "1x1x1", "500", mass_unit="stone"), "mass_unit is 'stone'"),
    (request(SEA, HK, LB, 1, "1x1x1", "500", measure_unit="cubit"), "measure_unit is 'cubit'"),
    (request(AIR, HK, "Chicago", 1, "0.4x0.4x0.3", "10"), "Air Freight has no rate below 100 chargeable kg"),
    (
        request(STORE, RTM, "Basel", 1, "0.5x1x1", "200"),
        "Storage has no rate below 1 m3; the request has 0.5 m3",
    ),
    (attrs.evolve(request(STORE, RTM, "Basel", 1, "1x1x1", "200"), quantity=None), "quantity is missing"),
    (attrs.evolve(request(SEA, HK, LB, 1, "1x1x1", "500"), weight=None), "weight is missing"),
    (request(ROAD, "Antwerp", "Basel", 1, "1x1x1", "200"), "there is no freight rate for Trucking from Antwerp"),
]


@pytest.mark.parametrize(("request_", "reason"), REFUSED)
def test_request_without_a_price_gets_the_reason(request_: RateRequest, reason: str) -> None:
    answer = TARIFF.quote(request_, on=ON)
    assert isinstance(answer, NoQuote), answer
    assert reason in answer.reason


def test_rate_applies_on_its_days_only() -> None:
    pallet = request(SEA, HK, LB, 1, "1x1x1", "500")
    assert isinstance(TARIFF.quote(pallet, on=date(2026, 1, 1)), Quote)
    assert isinstance(TARIFF.quote(pallet, on=date(2027, 12, 31)), Quote)
    assert isinstance(TARIFF.quote(pallet, on=date(2028, 1, 1)), NoQuote)


def test_weight_is_read_per_unit_or_in_total_as_the_caller_chooses() -> None:
    cartons = request(AIR, SZ, "Frankfurt", 10, "0.4x0.4x0.3", "250")
    total = Tariff.read(FILE, weight_per="total").quote(cartons, on=ON)
    per_unit = TARIFF.quote(cartons, on=ON)
    assert isinstance(total, Quote)
    assert total.rates["Air Freight"] == Decimal("1087.50")
    assert isinstance(per_unit, NoQuote)
    assert per_unit.reason.startswith('the weight is implausible: about 5210 kg/m3 with per="unit"')


def tariff(tmp_path: Path, *rows: str) -> Tariff:
    file = tmp_path / "tariff.csv"
    file.write_text("\n".join(["type,origin,destination,currency,kind,charge,unit,from,rate,minimum", *rows]))
    return Tariff.read(file, weight_per="unit")


def test_charges_in_two_currencies_make_no_quote(tmp_path: Path) -> None:
    mixed = tariff(
        tmp_path, "Shipping,A,B,EUR,freight,Freight,m3,,10,", "Shipping,*,*,USD,surcharge,Documents,shipment,,45,"
    )
    answer = mixed.quote(request(SEA, "A", "B", 1, "1x1x1", "500"))
    assert answer == NoQuote(reason="the charges are in EUR and USD, and an offer has one currency")


def test_amount_is_rounded_to_the_smallest_unit_of_the_currency(tmp_path: Path) -> None:
    for currency, amount in (("JPY", "13"), ("EUR", "12.50"), ("KWD", "12.500")):
        rates = tariff(tmp_path, f"Shipping,A,B,{currency},freight,Freight,m3,,10,")
        quote = rates.quote(request(SEA, "A", "B", 1, "1.25x1x1", "500"))
        assert isinstance(quote, Quote)
        assert str(quote.amount) == amount


def test_discount_is_subtracted_and_never_makes_the_total_zero(tmp_path: Path) -> None:
    freight = "Shipping,A,B,EUR,freight,Freight,m3,,10,"
    pallet = request(SEA, "A", "B", 1, "1x1x1", "500")
    quote = tariff(tmp_path, freight, "Shipping,A,B,EUR,surcharge,Discount,percent,,-10,").quote(pallet)
    assert isinstance(quote, Quote)
    assert quote.amount == Decimal("9.00")
    nothing = tariff(tmp_path, freight, "Shipping,A,B,EUR,surcharge,Discount,percent,,-100,").quote(pallet)
    assert nothing == NoQuote(reason="the charges come to 0.00 EUR, and an offer must be above zero")


def test_most_precise_lane_wins(tmp_path: Path) -> None:
    rates = tariff(
        tmp_path,
        "Shipping,*,*,EUR,freight,Freight,m3,,1,",
        "Shipping,*,B,EUR,freight,Freight,m3,,2,",
        "Shipping,A,*,EUR,freight,Freight,m3,,3,",
        "Shipping,A,B,EUR,freight,Freight,m3,,4,",
    )
    lanes = {("A", "B"): 4, ("A", "C"): 3, ("D", "B"): 2, ("D", "C"): 1}
    for (origin, destination), amount in lanes.items():
        quote = rates.quote(request(SEA, origin, destination, 1, "1x1x1", "500"))
        assert isinstance(quote, Quote)
        assert quote.amount == amount


@given(
    weights=st.lists(st.integers(20, 3000), min_size=2, max_size=2).map(sorted),
    lane=st.sampled_from([(AIR, SZ, "Frankfurt"), (SEA, SZ, RTM), (ROAD, RTM, "Basel")]),
)
def test_heavier_freight_never_costs_less_within_a_break(
    weights: list[int], lane: tuple[RequestType, str, str]
) -> None:
    # A cubic metre counts as 167 kg by air, which is above the last break.
    light, heavy = (TARIFF.quote(request(*lane, 1, "1x1x1", str(weight)), on=ON) for weight in weights)
    assert isinstance(light, Quote)
    assert isinstance(heavy, Quote)
    assert light.amount <= heavy.amount


@given(weight=st.integers(20, 3000), quantity=st.integers(1, 30))
def test_charge_is_never_below_its_minimum(weight: int, quantity: int) -> None:
    quote = TARIFF.quote(request(ROAD, RTM, "Duisburg", quantity, "1x1x1", str(weight)), on=ON)
    assert isinstance(quote, Quote)
    assert quote.rates["Haulage"] >= 110
