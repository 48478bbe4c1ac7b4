"""Tests of records, drafts and words: frozen values that compare, hash, copy, pickle and print by their fields."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import (
    Applied,
    Bid,
    Carrier,
    Company,
    Conflict,
    Contact,
    Currency,
    Listing,
    NotApplied,
    Offer,
    OfferStatus,
    Packaging,
    RateRequest,
    RateRequestDraft,
    RequestFilter,
    RequestStatus,
    RequestType,
    Route,
    RouteDraft,
    StillUnknown,
    UnknownWord,
    User,
    ValidationError,
    cargo,
)
from freight_exchange.models import RawWrite, Respond, SubmitOffer, UpdateRoute

OFFER = Offer(
    id=7, amount=Decimal("1840.50"), currency=840, status=OfferStatus.SELECTED,
    rates={"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.25")},
)  # fmt: skip
ROUTE = Route(
    index=9, departure=datetime(2025, 3, 1, 8, tzinfo=ZoneInfo("Asia/Hong_Kong")), arrival=datetime(2025, 3, 20),
    timezone="Asia/Hong_Kong",
)  # fmt: skip
DRAFT: dict[str, Any] = {
    "commodity": "Widgets", "type": "shipping", "origin": "Hong Kong", "destination": "Los Angeles",
    "arrival": datetime(2025, 3, 1), "packaging": "Pallet", "quantity": 10, "length": "1.20", "width": 0.8, "height": 1,
    "weight": Decimal("450.5"), "incoterm": "fob", "hazardous": 0,
}  # fmt: skip
SAILING: dict[str, Any] = {
    "origin": "Hong Kong", "destination": "Los Angeles", "cy_cutoff": datetime(2025, 3, 1, 12),
    "cfs_cutoff": datetime(2025, 3, 1, 4, tzinfo=UTC), "departure": datetime(2025, 3, 2),
    "arrival": datetime(2025, 3, 20), "carrier": 3, "vessel": "Ever Forward", "voyage_id": "E12",
    "timezone": "Asia/Hong_Kong",
}  # fmt: skip
VALUES: list[Any] = [
    User(first_name="Ada", company=Company(name="Cargo Co")),
    Company(name="Cargo Co", postal="01234"),
    Contact(name="Ada"),
    Carrier(index=1, name="Line"),
    Currency(index=840, name="Dollar", code="USD"),
    OFFER,
    RateRequest(index=4, type=RequestType.SHIPPING, status=UnknownWord("Frozen"), extra={"a": [1, {"b": 2}]}),
    Listing(index=4, offers=(OFFER,), contact=Contact(name="Ada")),
    Bid(index=4, amount=Decimal("1840.50"), currency=840, offer=OFFER),
    ROUTE,
    RateRequestDraft(**DRAFT),
    RouteDraft(**SAILING),
    SubmitOffer(request=4, amount=Decimal(5), currency=840, rates={"Fee": Decimal(5)}, terms="now"),
    Respond(7, approved=True),
    UpdateRoute(ROUTE),
    RawWrite("POST", "quote/new"),
    Applied(ROUTE),
    NotApplied(),
    Conflict(ROUTE),
    StillUnknown((ROUTE,)),
    cargo.revenue_tons(RateRequestDraft(**DRAFT), per="unit"),
    cargo.air_chargeable_weight(RateRequestDraft(**DRAFT), per="total"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_frozen_and_survives_copying_and_pickling(value: Any) -> None:
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value), attrs.evolve(value)):
        assert type(twin) is type(value)
        assert twin == value
        assert hash(twin) == hash(value)
        assert repr(twin) == repr(value)
    for name in ("extra", *[field.name for field in attrs.fields(type(value))]):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, name, None)
    assert not hasattr(value, "__dict__")


def test_values_of_other_fields_or_types_differ() -> None:
    assert Carrier(index=1) != Carrier(index=1, name="Line")
    others: list[Any] = [Currency(index=1), Conflict(ROUTE)]
    assert not any(one == other for one, other in zip([Carrier(index=1), Applied(ROUTE)], others, strict=True))
    assert len({*VALUES}) == len(VALUES)


def test_repr_shows_only_fields_with_a_value() -> None:
    assert repr(Carrier(index=1)) == "Carrier(index=1)"
    assert repr(Carrier(index=1, extra={"rank": 2})) == "Carrier(index=1, extra={'rank': 2})"


def test_extra_is_read_only_at_every_level() -> None:
    source: dict[str, Any] = {"a": [1, {"b": 2}]}
    carrier = Carrier(index=1, extra=source)
    source["a"].append(3)
    assert carrier.extra == {"a": (1, {"b": 2})}
    assert carrier.extra != {"a": 1}
    inner: Any = carrier.extra["a"]
    assert type(inner) is tuple
    mappings: list[Any] = [carrier.extra, inner[1], Carrier(index=1).extra]
    for mapping in mappings:
        assert (isinstance(mapping, Mapping), isinstance(mapping, Hashable)) == (True, True)
        with pytest.raises(TypeError):
            mapping["c"] = 1
    assert carrier == Carrier(index=1, extra={"a": (1, {"b": 2})})


# Offers


@pytest.mark.parametrize(
    ("amount", "rates", "total", "difference"),
    [
        ("1840.50", {"Ocean Freight": "1700", "Chassis Fee": "140.25"}, "1840.25", "0.25"),
        ("90", {"Fee": "100", "Discount": "-10"}, "90", "0"),
        ("5", None, None, None), ("5", {}, None, None), (None, {"Fee": "1"}, "1", None),
    ],
)  # fmt: skip
def test_rates_total_and_difference(
    amount: str | None, rates: dict[str, str] | None, total: str | None, difference: str | None
) -> None:
    def exact(text: str | None) -> Decimal | None:
        return None if text is None else Decimal(text)

    fees = None if rates is None else {name: Decimal(fee) for name, fee in rates.items()}
    offer = Offer(amount=exact(amount), rates=fees)
    assert (offer.rates_total, offer.difference) == (exact(total), exact(difference))


@given(st.lists(st.decimals(allow_nan=False, min_value=-(10**25), max_value=10**25, places=25)))
def test_rates_total_is_exact(fees: list[Decimal]) -> None:
    offer = Offer(amount=Decimal(0), rates={str(place): fee for place, fee in enumerate(fees)})
    with localcontext(prec=400):
        expected = sum(fees, Decimal(0))
    assert offer.rates_total == (expected if fees else None)


def test_rates_are_read_only() -> None:
    rates = {"Fee": Decimal(1)}
    offer = Offer(rates=rates)
    rates["Fee"] = Decimal(2)
    assert offer.rates == {"Fee": Decimal(1)}
    with pytest.raises(TypeError):
        offer.rates["Fee"] = Decimal(3)  # type: ignore[index]  # that it cannot be set is the test


# Volume and units

BOX: dict[str, Any] = {
    "index": 4, "quantity": 10, "length": Decimal(120), "width": Decimal(80), "height": Decimal(100),
    "weight": Decimal(500),
}  # fmt: skip
MEASURES = st.decimals(min_value=0, max_value=10**20, places=30)


@given(st.integers(1, 10**15), MEASURES, MEASURES, MEASURES)
def test_volume_is_exact(quantity: int, length: Decimal, width: Decimal, height: Decimal) -> None:
    with localcontext(prec=400):
        expected = quantity * length * width * height
    assert RateRequest(index=1, quantity=quantity, length=length, width=width, height=height).volume == expected


@pytest.mark.parametrize("field", ["quantity", "length", "width", "height"])
@pytest.mark.parametrize("kind", [RateRequest, Listing, Bid])
def test_volume_is_none_without_a_measure(kind: Any, field: str) -> None:
    assert kind(**BOX).volume == 9_600_000
    assert kind(**BOX | {field: None}).volume is None


@pytest.mark.parametrize(
    ("unit", "volume"),
    [
        ("cm", "9.6"), ("CM", "9.6"), (" Centimetres ", "9.6"), ("mm", "0.0096"), ("ft", "271841.727283200"),
        ("m", "9600000"), (None, "9600000"), ("", "9600000"), (" ", "9600000"),
    ],
)  # fmt: skip
def test_volume_converts_the_measure_unit(unit: str | None, volume: str) -> None:
    assert RateRequest(**BOX, measure_unit=unit).volume == Decimal(volume)


@pytest.mark.parametrize(
    ("unit", "kilograms"),
    [("kg", "5000"), (None, "5000"), ("", "5000"), ("g", "5"), ("t", "5000000"), ("lbs", "2267.96185")],
)
def test_gross_weight_converts_the_mass_unit(unit: str | None, kilograms: str) -> None:
    assert cargo.gross_weight(RateRequest(**BOX, mass_unit=unit), per="unit").kilograms == Decimal(kilograms)


def test_unknown_unit_has_no_volume_and_is_refused() -> None:
    request = RateRequest(**BOX, measure_unit="cubit", mass_unit="stone")
    assert request.volume is None
    with pytest.raises(ValidationError, match=r"measure_unit is 'cubit', which is unknown") as caught:
        cargo.volume(request)
    assert caught.value.field == "measure_unit"
    with pytest.raises(ValidationError) as caught:
        cargo.gross_weight(request, per="unit")
    assert caught.value.field == "mass_unit"


def test_units_of_chargeable_weight_and_of_filters_are_converted() -> None:
    light = RateRequest(**BOX, measure_unit="cm", mass_unit="g")
    assert cargo.revenue_tons(light, per="unit").tons == Decimal("9.6")
    wanted = RequestFilter(max_weight=1, max_volume=10)
    assert wanted.matches(light)
    assert wanted.excluded_by(attrs.evolve(light, mass_unit="kg")) == "max_weight"
    assert wanted.matches(attrs.evolve(light, measure_unit="cubit", mass_unit="stone"))


# Drafts; `tests/contract/test_bad_input.py` has the refused values


def test_request_draft_holds_exact_values() -> None:
    draft = RateRequestDraft(**DRAFT)
    assert (draft.type, draft.packaging) == (RequestType.SHIPPING, Packaging.PALLET)
    assert repr((draft.length, draft.width, draft.height)) == "(Decimal('1.20'), Decimal('0.8'), Decimal('1'))"
    assert (draft.incoterm, draft.hazardous, draft.notes) == ("FOB", False, None)
    assert draft.volume == Decimal("9.6")
    assert attrs.evolve(draft, quantity=20).quantity == 20
    with pytest.raises(ValidationError):
        attrs.evolve(draft, quantity=0)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (Decimal("1840.50"), "1840.50"), (1840, "1840"), ("1840.50", "1840.50"), (" 1840.5 ", "1840.5"),
        (1840.1, "1840.1"), (0.1, "0.1"), ("1.5e3", "1.5E+3"),
    ],
)  # fmt: skip
def test_number_of_a_draft_is_exact(value: Any, exact: str) -> None:
    assert str(RateRequestDraft(**DRAFT | {"weight": value}).weight) == exact


@given(st.decimals(min_value=Decimal("1e-20"), max_value=10**20, places=20), st.floats(1e-20, 1e20))
def test_number_of_a_draft_keeps_every_digit(value: Decimal, number: float) -> None:
    for given_as in (value, str(value)):
        assert RateRequestDraft(**DRAFT | {"weight": given_as}).weight.as_tuple() == value.as_tuple()
    written = float(f"{number:.15g}")
    assert RateRequestDraft(**DRAFT | {"weight": written}).weight == Decimal(repr(written))


def test_float_with_a_rounding_error_is_refused_with_its_rounded_value() -> None:
    with pytest.raises(ValidationError, match=r"weight is the float 0\.30000000000000004, .* round it, .* 0\.3, or"):
        RateRequestDraft(**DRAFT | {"weight": 0.1 + 0.2})


def test_route_draft_takes_naive_and_aware_times() -> None:
    draft = RouteDraft(**SAILING)
    zone = ZoneInfo("Asia/Hong_Kong")
    assert draft.cy_cutoff == datetime(2025, 3, 1, 12, tzinfo=zone)
    assert draft.cy_cutoff.tzinfo is zone
    assert draft.cfs_cutoff.replace(tzinfo=None) == datetime(2025, 3, 1, 12)
    assert draft.arrival.tzinfo is None
    assert attrs.evolve(draft, vessel="Other").cy_cutoff == draft.cy_cutoff
    assert RouteDraft(**SAILING | {"carrier": Carrier(index=3)}) == draft


def test_ambiguous_wall_time_is_the_first_of_the_two_and_a_skipped_one_is_kept() -> None:
    twice, skipped = datetime(2025, 11, 2, 1, 30, fold=1), datetime(2025, 3, 9, 2, 30)
    draft = RouteDraft(**SAILING | {"departure": twice, "cy_cutoff": skipped, "timezone": "America/New_York"})
    assert draft.departure.utcoffset() == timedelta(hours=-4)
    assert draft.cy_cutoff.replace(tzinfo=None) == skipped


# Words


@pytest.mark.parametrize("member", [*RequestType, *Packaging, *RequestStatus, *OfferStatus])
def test_member_equals_its_word_in_any_case_and_is_found_by_its_documented_one(member: Any) -> None:
    word = str(member.value)
    for text in (word, word.upper(), word.lower(), word.title(), word.swapcase()):
        assert member == text
        assert text == member
        assert (member != text) is False
        assert type(member)(text) is member
        assert member == UnknownWord(text)
        assert hash(UnknownWord(text)) == hash(text.casefold())
    members: dict[str, int] = {member: 1}
    assert {word: 1}[member] == members[word] == members[member] == 1
    assert member in {word, "other"}
    assert word in {member, "other"}
    assert pickle.loads(pickle.dumps(member)) is copy.deepcopy(member) is member


def test_different_words_differ() -> None:
    for other in (RequestType.TRUCKING, "truck", 1):
        assert other != RequestType.SHIPPING
    for other in ("Thawed", 1):
        assert UnknownWord("Frozen") != other


def test_unknown_word_keeps_its_text() -> None:
    word = UnknownWord("Frozen")
    assert str(word) == f"{word}" == "Frozen"
    assert word == "FROZEN"
    for twin in (pickle.loads(pickle.dumps(word)), copy.copy(word), copy.deepcopy(word)):
        assert (type(twin), twin, str(twin)) == (UnknownWord, word, "Frozen")


@pytest.mark.parametrize("value", ["Rail", "", 3, None])
def test_other_values_are_no_members(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid RequestType"):
        RequestType(value)
