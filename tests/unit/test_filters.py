"""Tests of filters: what passes, what is excluded and by which field, and which filters are refused."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import pickle
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unicodedata import normalize

import attrs
import pytest

from freight_exchange import (
    Currency,
    Listing,
    Offer,
    OfferFilter,
    Packaging,
    RateRequest,
    RequestFilter,
    RequestType,
    UnknownWord,
    ValidationError,
)

NEEDED = datetime(2024, 5, 17)
# Forty cubic metres.
REQUEST = RateRequest(
    index=4, commodity="Green Tea", type=RequestType.AIR_FREIGHT, origin="Hong Kong", destination="Oakland",
    need_date=NEEDED, quantity=10, length=Decimal("2.5"), width=Decimal("1.6"), height=Decimal(1),
    weight=Decimal("120.5"), incoterm="FOB", hazardous=False,
)  # fmt: skip
SILENT = RateRequest(index=5)
TEXTS = ["origin", "destination", "type", "incoterm", "commodity"]


async def later(request: RateRequest) -> bool:
    return True


class Heavy:
    def __call__(self, request: RateRequest) -> bool:
        return request.weight is None or request.weight > 100

    def light(self, request: RateRequest) -> bool:
        return not self(request)


def light(request: RateRequest) -> bool:
    return not Heavy()(request)


PASSING: dict[str, list[Any]] = {
    "origin": [
        "Hong Kong", "hONG kONG", " \tHong \n\u00a0 Kong ", {"Shenzhen", "HONG KONG"}, frozenset({"hong kong"}),
        ["Shenzhen", "Hong Kong"], ("Hong Kong",), {"Hong Kong": 1}.keys(),
    ],
    "destination": ["OAKLAND", ["Oakland", "Oakland"]],
    "type": [
        RequestType.AIR_FREIGHT, "Air Freight", "  air   FREIGHT", UnknownWord("AIR FREIGHT"),
        {RequestType.SHIPPING, RequestType.AIR_FREIGHT}, ["rail", "air freight"],
    ],
    "incoterm": ["FOB", "fob", {"EXW", "Fob"}],
    "commodity": ["green tea", {"Coffee", "Green  Tea"}],
    "hazardous": [False, 0],
    "max_volume": [40, 40.0, "40", Decimal("40.000"), 1000],
    "max_weight": [Decimal("120.5"), 120.5, 121],
    "need_by": [NEEDED, NEEDED.date(), date(2024, 5, 18)],
    "where": [lambda request: request.index == 4, lambda request: "a truth that is not a bool", Heavy()],
}  # fmt: skip
EXCLUDING: dict[str, list[Any]] = {
    "origin": ["Hong", "HongKong", "Oakland", {"Shenzhen", "Ningbo"}, ["H", "Hong Kong SAR"]],
    "destination": ["Hong Kong", ("Los Angeles", "Long Beach")],
    "type": [RequestType.SHIPPING, "trucking", "AirFreight", "Rail", {RequestType.SHIPPING, RequestType.TRUCKING}],
    "incoterm": ["EXW", ["CIF", "exw"]],
    "commodity": ["tea", {"Coffee"}],
    "hazardous": [True, 1],
    "max_volume": ["39.999999", 1],
    "max_weight": [120, Decimal("120.4999999999999999999999999999999")],
    "need_by": [NEEDED - timedelta(microseconds=1), date(2024, 5, 16)],
    "where": [lambda request: None, Heavy().light, functools.partial(Heavy.light, Heavy())],
}
FIELDS = [*PASSING]


def each(cases: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(field, value) for field, values in cases.items() for value in values]


@pytest.mark.parametrize(("field", "value"), each(PASSING))
def test_request_that_matches_a_field_passes(field: str, value: Any) -> None:
    wanted = RequestFilter(**{field: value})
    assert wanted.excluded_by(REQUEST) is None
    assert wanted.matches(REQUEST) is True


@pytest.mark.parametrize(("field", "value"), each(EXCLUDING))
def test_request_that_differs_in_a_field_is_excluded_by_it(field: str, value: Any) -> None:
    wanted = RequestFilter(**{field: value})
    assert wanted.excluded_by(REQUEST) == field
    assert wanted.matches(REQUEST) is False


def test_every_field_is_tested_both_ways() -> None:
    assert list(PASSING) == list(EXCLUDING) == list(inspect.signature(RequestFilter).parameters)


@pytest.mark.parametrize(("field", "value"), [case for case in each(EXCLUDING) if case[0] != "where"])
def test_missing_field_never_excludes_request(field: str, value: Any) -> None:
    assert RequestFilter(**{field: value}).excluded_by(SILENT) is None


@pytest.mark.parametrize(
    ("field", "wanted", "shown", "passes"),
    [
        ("origin", "Hong Kong", " HONG\t kong", True), ("destination", "Oakland", "oakland ", True),
        ("type", "Air Freight", UnknownWord("AIR  freight"), True), ("incoterm", "FOB", " fob", True),
        ("commodity", "Green Tea", "GREEN\nTEA", True), ("origin", "Oslo", " \t", True), ("incoterm", "FOB", "", True),
        ("type", "Rail", UnknownWord(""), True), ("origin", "GIESSEN", "Gie\u00dfen", True),
        ("origin", normalize("NFC", "M\u00e1laga"), normalize("NFD", "M\u00c1LAGA"), True),
        ("origin", normalize("NFD", "M\u00e1laga"), normalize("NFC", "M\u00c1LAGA"), True),
        ("origin", "M\u00e1laga", "Malaga", False),
    ],
)  # fmt: skip
def test_case_white_space_and_the_form_of_accents_are_ignored(
    field: str, wanted: str, shown: Any, passes: bool
) -> None:
    arguments: dict[str, Any] = {field: wanted}
    assert RequestFilter(**arguments).matches(attrs.evolve(REQUEST, **{field: shown})) is passes


@pytest.mark.parametrize("word", ["Rail", "rail", UnknownWord("RAIL"), {"Rail"}, ["Rail", RequestType.TRUCKING]])
def test_a_word_that_the_service_may_learn_is_compared_as_text(word: Any) -> None:
    wanted = RequestFilter(type=word)
    assert wanted.matches(attrs.evolve(REQUEST, type=UnknownWord("rAIL")))
    assert wanted.excluded_by(attrs.evolve(REQUEST, type=UnknownWord("Drone"))) == "type"
    assert wanted.excluded_by(REQUEST) == "type"


def test_the_first_field_that_excludes_is_named() -> None:
    filtered: list[RateRequest] = []

    def where(request: RateRequest) -> bool:
        filtered.append(request)
        return False

    excluding: dict[str, Any] = {
        "origin": "Ningbo", "destination": "Ningbo", "type": "Rail", "incoterm": "EXW", "commodity": "Coffee",
        "hazardous": True, "max_volume": 1, "max_weight": 1, "need_by": date(2020, 1, 1), "where": where,
    }  # fmt: skip
    assert list(excluding) == FIELDS
    while excluding:
        field = next(iter(excluding))
        # Written in the other order: it is the fields' order that counts.
        assert RequestFilter(**dict(reversed(excluding.items()))).excluded_by(REQUEST) == field
        assert filtered == ([REQUEST] if field == "where" else []), "where is asked last, and only if the rest passes"
        del excluding[field]
    assert RequestFilter().excluded_by(REQUEST) is None


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"origin": None, "where": None}),
    ({"origin": "Hong Kong"}, {"origin": ["hong  KONG"]}),
    ({"origin": {"Hong Kong", "Ningbo"}}, {"origin": ["Ningbo", "Hong Kong", "ningbo"]}),
    ({"type": RequestType.SHIPPING, "incoterm": "fob"}, {"incoterm": "FOB", "type": "SHIPPING"}),
    ({"max_volume": 60}, {"max_volume": "60.0"}),
    ({"hazardous": False}, {"hazardous": 0}),
    ({"need_by": date(2024, 5, 17)}, {"need_by": datetime(2024, 5, 17, 23, 59, 59, 999999)}),
    ({"where": light}, {"where": light}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_filters_with_the_same_effect_are_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert RequestFilter(**one) == RequestFilter(**other)
    assert hash(RequestFilter(**one)) == hash(RequestFilter(**other))


def test_filters_with_other_effects_differ() -> None:
    filters = [RequestFilter(**one) for one, _ in SAME]
    filters += [RequestFilter(destination="Hong Kong"), RequestFilter(max_weight=60), RequestFilter(where=Heavy())]
    for position, one in enumerate(filters):
        assert [other for other in filters if other == one] == [one], position
    assert len(set(filters)) == len(filters)


def test_where_need_not_hash() -> None:
    @attrs.define
    class Over:
        weight: int

        def __call__(self, request: RateRequest) -> bool:
            return request.weight is None or request.weight > self.weight

    assert RequestFilter(where=Over(100)) == RequestFilter(where=Over(100)) != RequestFilter(where=Over(200))
    assert hash(RequestFilter(where=Over(100))) == hash(RequestFilter(where=Over(100)))


def test_filter_shows_its_fields_in_the_form_in_which_they_are_compared() -> None:
    wanted = RequestFilter(
        destination=[" oakland", "OAKLAND"],
        incoterm="fob",
        max_volume="60.0",
        max_weight=1200.5,
        need_by=date(2024, 5, 17),
    )
    assert repr(wanted) == (
        "RequestFilter(destination=['oakland'], incoterm=['fob'], max_volume=Decimal('60.0'), "
        "max_weight=Decimal('1200.5'), need_by=datetime.datetime(2024, 5, 17, 23, 59, 59, 999999))"
    )
    as_the_service_says: Any = 0
    assert RequestFilter(hazardous=as_the_service_says).hazardous is False
    assert repr(RequestFilter()) == "RequestFilter()"
    assert "light" in repr(RequestFilter(where=light))


def test_a_filter_does_not_change() -> None:
    ports = ["Hong Kong"]
    wanted = RequestFilter(origin=ports)
    ports[0] = "Ningbo"
    assert wanted.origin == {"hong kong"}
    assert wanted.matches(REQUEST)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        wanted.origin = "Ningbo"  # type: ignore[misc]  # that it is refused is the test
    with pytest.raises(TypeError):
        RequestFilter("Hong Kong")  # type: ignore[call-arg]  # by keyword alone


def test_a_filter_is_copied_pickled_and_evolved() -> None:
    wanted = RequestFilter(
        origin={"Hong Kong", "Ningbo"}, type=RequestType.AIR_FREIGHT, max_volume=60, need_by=date(2024, 5, 17)
    )
    for twin in (copy.copy(wanted), copy.deepcopy(wanted), pickle.loads(pickle.dumps(wanted)), attrs.evolve(wanted)):
        assert twin == wanted
        assert repr(twin) == repr(wanted)
        assert twin.matches(REQUEST)
    assert attrs.evolve(wanted, origin="Ningbo").excluded_by(REQUEST) == "origin"


def test_error_of_where_is_not_caught() -> None:
    def where(request: RateRequest) -> bool:
        raise KeyError(request.index)

    with pytest.raises(KeyError):
        RequestFilter(where=where).matches(REQUEST)


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("empty", [[], (), set(), frozenset(), {}.keys()])
def test_an_empty_collection_would_exclude_everything_and_is_refused(field: str, empty: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} must not be empty: nothing would ever pass$") as caught:
        RequestFilter(**{field: empty})
    assert caught.value.field == field


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize(
    "value",
    [
        "", " ", 5, True, b"FOB", bytearray(b"FOB"), {"FOB": 1}, iter(["FOB"]), [None], ["FOB", ""], {"FOB", 5},
        [["FOB"]],
    ],
)  # fmt: skip
def test_value_that_is_no_text_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} must ") as caught:
        RequestFilter(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("value", [Packaging.PALLET, [RequestType.SHIPPING, Packaging.PALLET], RequestType])
def test_a_word_of_another_kind_is_no_type(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"^type must be ") as caught:
        RequestFilter(type=value)
    assert caught.value.field == "type"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("incoterm", value) for value in ("FO", "FOBS", "F0B", ["FOB", "any"[:2]])),
        *(("hazardous", value) for value in ("no", 2, 0.0, [True])),
        *(
            (field, value)
            for field in ("max_volume", "max_weight")
            for value in (0, -1, "", "a lot", True, math.nan, math.inf, Decimal("NaN"), [60], 10**40)
        ),
        *(("need_by", value) for value in ("2024-05-17", 1715904000, timedelta(days=5), NEEDED.replace(tzinfo=UTC))),
        *(("where", value) for value in (True, "origin == 'Hong Kong'", RequestFilter())),
    ],
)
def test_impossible_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} ") as caught:
        RequestFilter(**{field: value})
    assert caught.value.field == field


async def _stream(request: RateRequest) -> AsyncIterator[bool]:
    yield True


class _Awaited:
    async def __call__(self, request: RateRequest) -> bool:
        return True

    async def judge(self, request: RateRequest) -> bool:
        return True


class _Promise(Awaitable[bool]):
    def __await__(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    "where", [later, _stream, _Awaited(), _Awaited().judge, functools.partial(later), functools.partial(_stream)]
)
def test_an_async_where_is_refused_once_it_is_detected(where: Any) -> None:
    with pytest.raises(ValidationError, match=r"^where must be a plain function, not an async one") as caught:
        RequestFilter(where=where)
    assert caught.value.field == "where"


@pytest.mark.parametrize(
    "where", [lambda request: later(request), lambda request: _stream(request), lambda request: _Promise()]
)
def test_an_async_where_in_disguise_does_not_pass_everything(where: Any) -> None:
    wanted = RequestFilter(where=where)
    with pytest.raises(ValidationError, match=r"^where must be a plain function, not an async one") as caught:
        wanted.matches(REQUEST)
    assert caught.value.field == "where"


# Filters of offers

OFFER = Offer(id=31, amount=Decimal(900), currency=840)
LISTING = Listing(index=7, origin="Hong Kong", destination="Oakland", commodity="Tea", offers=(OFFER,))


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({}, True), ({"request": 7}, True), ({"request": {7, 8}}, True), ({"request": 8}, False),
        ({"currency": 840}, True), ({"currency": [978, 840]}, True), ({"currency": 978}, False),
        ({"currency": 840, "max_amount": 900}, True), ({"currency": 840, "max_amount": "899.99"}, False),
        ({"origin": "hong kong"}, True), ({"destination": "Los Angeles"}, False), ({"commodity": {"tea"}}, True),
        ({"where": lambda offer, listing: offer in listing.offers}, True),
        ({"where": lambda offer, listing: None}, False),
    ],
)  # fmt: skip
def test_offer_filter_passes_what_each_field_wants(arguments: dict[str, Any], passes: bool) -> None:
    assert OfferFilter(**arguments).matches(OFFER, LISTING) is passes
    assert OfferFilter(**arguments) == OfferFilter(**arguments)
    assert hash(OfferFilter(**arguments)) == hash(OfferFilter(**arguments))
    assert (OfferFilter(**arguments) == OfferFilter(request=99)) is False


async def by_code(code: str) -> Currency:
    return Currency(index={"USD": 840, "EUR": 978}[code], code=code)


@pytest.mark.parametrize(("wanted", "passes"), [("usd", True), ("EUR", False), ({"EUR", 840}, True), (("EUR",), False)])
async def test_offer_filter_compares_codes_by_the_indexes_of_the_service(wanted: Any, passes: bool) -> None:
    filter_ = OfferFilter(currency=wanted, max_amount=900)
    with pytest.raises(ValidationError, match="load_codes"):
        filter_.matches(OFFER, LISTING)
    await filter_.load_codes(by_code)
    assert filter_.matches(OFFER, LISTING) is passes
    assert filter_ == OfferFilter(currency=wanted, max_amount=900)


def test_missing_field_of_an_offer_never_excludes_it() -> None:
    wanted = OfferFilter(currency=978, max_amount=1, origin="Oslo")
    assert wanted.matches(Offer(id=1), Listing(index=7))


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("request", {"request": 0}), ("request", {"request": []}), ("request", {"request": "7"}),
        ("currency", {"currency": -1}), ("currency", {"currency": set()}), ("currency", {"currency": True}),
        ("currency", {"currency": "dollar"}), ("currency", {"currency": ["USD", ""]}),
        ("max_amount", {"max_amount": 5}), ("max_amount", {"max_amount": 0, "currency": 840}),
        ("origin", {"origin": ""}), ("where", {"where": later}), ("where", {"where": 5}),
    ],
)  # fmt: skip
def test_impossible_offer_filter_is_refused_by_name(field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        OfferFilter(**arguments)
    assert caught.value.field == field
