"""Tests of freight arithmetic: examples by hand, laws over any freight, and refusals."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import cargo
from freight_exchange.cargo import Cargo, GrossWeight, Per
from freight_exchange.errors import ValidationError
from freight_exchange.models import Bid, Listing, RateRequest, RateRequestDraft, RequestType, UnknownWord
from freight_exchange.validation import Number

D = Decimal
READINGS: tuple[Per, ...] = ("unit", "total")
INVALID: tuple[Any, ...] = (0, -1, D("NaN"), math.inf, True, "x")


class Row(NamedTuple):
    """Row of a user's own table: no record of this package, with measures of any number type."""

    quantity: int | None = 1
    length: Number | None = 1
    width: Number | None = 1
    height: Number | None = 1
    weight: Number | None = 300


def row(quantity: int, length: Number, width: Number, height: Number, weight: Number) -> Row:
    return Row(quantity, length, width, height, weight)


PALLETS = row(24, "1.2", "0.8", "1.1", 3600)  # 25.344 m3 on 9.6 loading metres


class TestVolume:
    def test_every_record_of_freight_is_measured(self) -> None:
        measures: dict[str, Any] = {"length": D("1.2"), "width": D("0.8"), "height": D("1.1"), "weight": D(3600)}
        draft = RateRequestDraft(
            commodity="Tiles", type="Shipping", origin="Hong Kong", destination="Oslo", arrival=datetime(2025, 3, 1),
            packaging="pallet", quantity=24, incoterm="FOB", hazardous=False, **measures,
        )  # fmt: skip
        for freight in (draft, *(kind(index=4, quantity=24, **measures) for kind in (RateRequest, Listing, Bid))):
            assert cargo.volume(freight) == freight.volume == D("25.344")
            assert cargo.air_chargeable_weight(freight, per="total").kilograms == 4224


class TestGrossWeight:
    @pytest.mark.parametrize(
        ("weight", "density"),
        [
            ("39.99999", "20.0"),
            ("40", None),
            ("6000", None),
            ("6000.00001", "3000"),
            ("24691.2", "12300"),
            ("0.0002468", "0.000123"),
        ],
    )
    def test_implausible_density_gives_a_warning(self, weight: str, density: str | None) -> None:
        gross = cargo.gross_weight(row(2, 1, 1, 1, weight), per="total")
        assert gross.kilograms == D(weight)
        if density is None:
            assert gross.warning is None
        else:
            assert gross.warning is not None
            assert gross.warning.field == "weight"
            assert gross.warning.message == f'about {density} kg/m3 with per="total", where freight has 20 to 3000'

    def test_total_requires_only_the_weight_and_gives_no_warning_without_a_volume(self) -> None:
        for missing in ("quantity", "length", "width", "height"):
            freight = PALLETS._replace(weight=D("0.001"), **{missing: None})
            assert cargo.gross_weight(freight, per="total") == GrossWeight(kilograms=D("0.001"))


class TestAirChargeableWeight:
    """A box of 60 x 40 x 50 cm has 120 000 cm3, which is 20 kg at 6000 and 24 kg at 5000."""

    @pytest.mark.parametrize(
        ("height", "weight", "options", "kilograms", "basis"),
        [
            ("0.5", "12", {}, "20.0", "volume"),
            ("0.5", "20", {}, "20.0", "weight"),
            ("0.5", "20.5", {}, "20.5", "weight"),
            ("0.5", "20.50000000000000000000000000000000000001", {}, "21.0", "weight"),
            ("0.5000000000000000000000000000000000001", "12", {}, "20.5", "volume"),
            ("0.5125", "12", {}, "20.5", "volume"),
            ("0.51250001", "12", {}, "21.0", "volume"),
            ("0.0001", "0.001", {}, "0.5", "volume"),
            ("0.5", "12", {"divisor": 5000}, "24.0", "volume"),
            ("0.5", "12", {"divisor": 7000}, "17.5", "volume"),  # 17.142857...
            ("0.5", "12", {"divisor": 7000, "step": "0.01"}, "17.15", "volume"),
            ("0.5", "12", {"divisor": 7000, "step": 1}, "18", "volume"),
            ("0.5", "12", {"divisor": 7000, "step": D("0.3")}, "17.4", "volume"),
        ],
    )
    def test_examples(self, height: str, weight: str, options: dict[str, Any], kilograms: str, basis: str) -> None:
        charged = cargo.air_chargeable_weight(row(1, "0.6", "0.4", height, weight), per="total", **options)
        assert (str(charged.kilograms), charged.basis) == (kilograms, basis)


class TestRoadChargeableWeight:
    @pytest.mark.parametrize(
        ("freight", "options", "kilograms", "basis"),
        [
            (PALLETS, {}, "17760", "loading metres"),  # 9.6 x 1850
            (PALLETS, {"stacked": 2}, "8880", "loading metres"),  # 4.8 x 1850
            (PALLETS, {"stacked": 3}, "8440", "volume"),  # 25.344 x 333 = 8439.552
            (PALLETS, {"per_loading_metre": None}, "8440", "volume"),
            (PALLETS, {"per_loading_metre": None, "step": "0.001"}, "8439.552", "volume"),
            (PALLETS, {"per_loading_metre": 1000, "per_cubic_metre": 400}, "10138", "volume"),  # 10137.6
            (PALLETS, {"per_loading_metre": 375, "per_cubic_metre": 100}, "3600", "weight"),  # 9.6 x 375, a tie
            (PALLETS._replace(weight="17760.5"), {}, "17761", "weight"),
            (row(1, 1, 1, 1, 10), {}, "771", "loading metres"),  # 1850 / 2.4 = 770.83...: not 0.42 x 1850 = 777
            (row(1, 1, 1, 1, 333), {"per_loading_metre": None}, "333", "weight"),
            (row(1, 1, 1, 1, "333.0000001"), {"per_loading_metre": None}, "334", "weight"),
        ],
    )
    def test_examples(self, freight: Cargo, options: dict[str, Any], kilograms: str, basis: str) -> None:
        charged = cargo.road_chargeable_weight(freight, per="total", **options)
        assert (str(charged.kilograms), charged.basis) == (kilograms, basis)


class TestRevenueTons:
    @pytest.mark.parametrize(
        ("weight", "per", "minimum", "tons", "basis"),
        [
            (1500, "total", None, "2", "volume"),
            (2000, "total", None, "2", "weight"),
            ("2000.001", "total", None, "2.000001", "weight"),
            (1500, "unit", None, "3", "weight"),
            (1500, "total", 1, "2", "volume"),
            (1500, "total", 2, "2", "volume"),
            (1500, "total", "2.5", "2.5", "minimum"),
        ],
    )
    def test_examples(self, weight: Number, per: Per, minimum: Number | None, tons: str, basis: str) -> None:
        charged = cargo.revenue_tons(row(2, 1, 1, 1, weight), per=per, minimum=minimum)
        assert (charged.tons, charged.basis) == (D(tons), basis)


class TestLoadingMetres:
    @pytest.mark.parametrize(
        ("quantity", "length", "width", "options", "metres"),
        [
            (1, "1.2", "0.8", {}, "0.40"),
            (33, "1.2", "0.8", {}, "13.20"),
            (1, 1, 1, {}, "0.42"),  # 0.41666...
            (1, 1, 1, {"step": "0.1"}, "0.5"),
            (1, "2.4", "0.41", {}, "0.41"),
            (1, "2.4", "0.41000000000000000000000000000000001", {}, "0.42"),
            (4, "1.2", "0.8", {"stacked": 2}, "0.80"),
            (5, "1.2", "0.8", {"stacked": 2}, "1.20"),
            (5, "1.2", "0.8", {"stacked": 9}, "0.40"),
        ],
    )
    def test_examples(self, quantity: int, length: Number, width: Number, options: dict[str, Any], metres: str) -> None:
        freight = Row(quantity, length, width, height=None, weight=None)
        assert str(cargo.loading_metres(freight, **options)) == metres


class TestIncotermWarning:
    @pytest.mark.parametrize("rule", ["EXW", "FCA", "CPT", "CIP", "DAP", "DPU", "DDP", "fca", " dap ", "", "  ", None])
    def test_term_for_any_mode_and_no_term_give_none(self, rule: str | None) -> None:
        assert [cargo.incoterm_warning(rule, way) for way in (*RequestType, "Drone", None)] == [None] * 6

    @pytest.mark.parametrize("rule", ["FAS", "FOB", "CFR", "CIF", "fob", " Cif "])
    def test_sea_term_warns_for_air_and_road(self, rule: str) -> None:
        ways: list[str] = [RequestType.AIR_FREIGHT, RequestType.TRUCKING, "trucking", UnknownWord("AIR FREIGHT")]
        for way in ways:
            doubt = cargo.incoterm_warning(rule, way)
            assert doubt is not None
            assert doubt.field == "incoterm"
            named = rule.strip().upper()
            assert doubt.message == f"{named} is for sea and inland waterway transport only, not for {way}"
        silent = (RequestType.SHIPPING, RequestType.WAREHOUSING, UnknownWord("Barge"), None)
        assert [cargo.incoterm_warning(rule, way) for way in silent] == [None] * 4

    @pytest.mark.parametrize("rule", ["DAT", "DDU", "XYZ", "free on board"])
    def test_unknown_term_warns_for_every_type(self, rule: str) -> None:
        for way in (*RequestType, None):
            doubt = cargo.incoterm_warning(rule, way)
            assert doubt is not None
            assert (doubt.field, doubt.message) == ("incoterm", f"{rule.upper()} is none of the Incoterms 2020")


MEASURES = frozenset(Row._fields)
NEEDS: list[tuple[Callable[..., object], dict[str, Any], frozenset[str]]] = [
    (cargo.volume, {}, MEASURES - {"weight"}),
    (cargo.loading_metres, {}, MEASURES - {"weight", "height"}),
    (cargo.gross_weight, {"per": "total"}, frozenset({"weight"})),
    (cargo.gross_weight, {"per": "unit"}, frozenset({"weight", "quantity"})),
    *(
        (by, {"per": per}, MEASURES)
        for by in (cargo.air_chargeable_weight, cargo.road_chargeable_weight, cargo.revenue_tons)
        for per in READINGS
    ),
]
ARGUMENTS: list[tuple[Callable[..., object], str]] = [
    (cargo.air_chargeable_weight, "divisor"),
    (cargo.air_chargeable_weight, "step"),
    (cargo.road_chargeable_weight, "per_cubic_metre"),
    (cargo.road_chargeable_weight, "per_loading_metre"),
    (cargo.road_chargeable_weight, "stacked"),
    (cargo.road_chargeable_weight, "step"),
    (cargo.revenue_tons, "minimum"),
    (cargo.loading_metres, "stacked"),
    (cargo.loading_metres, "step"),
]
CALLS = [f"{function.__name__}-{'-'.join(options.values())}" for function, options, _ in NEEDS]


class TestRefusals:
    @pytest.mark.parametrize(("function", "options", "needed"), NEEDS, ids=CALLS)
    def test_missing_measure_is_named_if_it_is_required(
        self, function: Callable[..., object], options: dict[str, Any], needed: frozenset[str]
    ) -> None:
        for field in needed:
            with pytest.raises(ValidationError, match=f"^{field} is missing") as refusal:
                function(PALLETS._replace(**{field: None}), **options)
            assert refusal.value.field == field
        function(PALLETS._replace(**dict.fromkeys(MEASURES - needed)), **options)

    @pytest.mark.parametrize(("function", "options", "needed"), NEEDS, ids=CALLS)
    def test_invalid_measure_is_named(
        self, function: Callable[..., object], options: dict[str, Any], needed: frozenset[str]
    ) -> None:
        for field, value in product(needed, INVALID):
            with pytest.raises(ValidationError, match=f"^{field} must be") as refusal:
                function(PALLETS._replace(**{field: value}), **options)
            assert refusal.value.field == field

    def test_quantity_and_stack_must_be_whole(self) -> None:
        half = cast("Any", D("2.5"))
        with pytest.raises(ValidationError, match=r"^quantity must be a positive integer"):
            cargo.volume(PALLETS._replace(quantity=half))
        with pytest.raises(ValidationError, match=r"^stacked must be a positive integer"):
            cargo.loading_metres(PALLETS, stacked=half)

    @pytest.mark.parametrize(
        ("function", "argument"), ARGUMENTS, ids=lambda argument: getattr(argument, "__name__", argument)
    )
    def test_invalid_argument_is_named(self, function: Callable[..., object], argument: str) -> None:
        options = {} if function is cargo.loading_metres else {"per": "total"}
        for value in INVALID:
            with pytest.raises(ValidationError, match=f"^{argument} must be") as refusal:
                function(PALLETS, **{argument: value}, **options)
            assert refusal.value.field == argument

    @pytest.mark.parametrize("per", ["", "Unit", "units", None, True, []])
    def test_reading_is_unit_or_total(self, per: Any) -> None:
        by = (cargo.gross_weight, cargo.air_chargeable_weight, cargo.road_chargeable_weight, cargo.revenue_tons)
        for function in by:
            with pytest.raises(ValidationError, match=r"^per must be 'unit' or 'total', not ") as refusal:
                function(PALLETS, per=per)
            assert refusal.value.field == "per"


def numbers(least: str = "0.001", most: str = "100") -> st.SearchStrategy[Decimal]:
    """Return plain measures, and some with far more digits than the ambient context keeps."""
    return st.decimals(least, most, places=3) | st.decimals(least, most, places=35)


FREIGHT = st.builds(row, st.integers(1, 500), numbers(), numbers(), numbers(), numbers(most="50000"))
PER = st.sampled_from(READINGS)
STEPS = st.sampled_from([D("0.01"), D("0.3"), D("0.5"), D(1), D(100)])


def charges(freight: Cargo, per: Per) -> list[Decimal]:
    """Return every result as numbers."""
    return [
        cargo.volume(freight),
        cargo.gross_weight(freight, per=per).kilograms,
        cargo.air_chargeable_weight(freight, per=per).kilograms,
        cargo.road_chargeable_weight(freight, per=per).kilograms,
        cargo.revenue_tons(freight, per=per, minimum=1).tons,
        cargo.loading_metres(freight),
    ]


class TestAnyFreight:
    @given(FREIGHT, PER, STEPS, numbers("1", "10000"), st.integers(1, 5))
    def test_results_equal_rational_arithmetic_rounded_up_once(
        self, freight: Row, per: Per, step: Decimal, rate: Decimal, stacked: int
    ) -> None:
        length, width, height, weight = (Fraction(cast("Decimal", measure)) for measure in freight[1:])
        units = cast("int", freight.quantity)
        gross = weight * (units if per == "unit" else 1)
        cubic = units * length * width * height
        floor = math.ceil(Fraction(units, stacked)) * length * width / Fraction(24, 10)

        assert Fraction(cargo.volume(freight)) == cubic
        assert Fraction(cargo.gross_weight(freight, per=per).kilograms) == gross
        assert Fraction(cargo.revenue_tons(freight, per=per).tons) == max(cubic, gross / 1000)
        air = cargo.air_chargeable_weight(freight, per=per, divisor=rate, step=step)
        road = cargo.road_chargeable_weight(
            freight, per=per, per_cubic_metre=rate, per_loading_metre=1850, stacked=stacked, step=step
        )
        rounded = [
            (air.kilograms, max(gross, cubic * 10**6 / Fraction(rate))),
            (road.kilograms, max(gross, cubic * Fraction(rate), floor * 1850)),
            (cargo.loading_metres(freight, stacked=stacked, step=step), floor),
        ]
        for result, exact in rounded:
            assert Fraction(result) % Fraction(step) == 0
            assert 0 <= Fraction(result) - exact < Fraction(step)

    @given(FREIGHT, PER)
    def test_decimal_context_of_the_caller_changes_nothing(self, freight: Row, per: Per) -> None:
        expected = charges(freight, per)
        with localcontext(Context(prec=1, traps=[Inexact, Rounded])):
            assert charges(freight, per) == expected


def test_examples_of_the_docstrings_are_true() -> None:
    # One session, because the module's docstring, which comes first, has the freight of the others.
    session: dict[str, Any] = {}
    runner = doctest.DocTestRunner()
    for example in sorted(doctest.DocTestFinder().find(cargo), key=lambda found: found.lineno or 0):
        example.globs = session
        runner.run(example, clear_globs=False)
    outcome = runner.summarize()
    assert (outcome.failed, outcome.attempted) == (0, 16)


def test_arrival_is_past_once_its_day_is_over_in_every_time_zone() -> None:
    late, over = datetime(2026, 11, 24, 11, 59, tzinfo=UTC), datetime(2026, 11, 24, 12, tzinfo=UTC)
    for arrival in (datetime(2026, 11, 23), datetime(2026, 11, 24)):
        assert cargo.arrival_warning(arrival, now=late) is None
    warning = cargo.arrival_warning(datetime(2026, 11, 23, 23, 59), now=over)
    assert warning is not None
    assert (warning.field, warning.message) == ("arrival", "the arrival 2026-11-23 is in the past")
