"""Tests of the arguments of a request filter: refused values, and functions of the caller."""

from __future__ import annotations

import functools
import math
import zoneinfo
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.models.filters import NEEDED, REQUEST, TEXTS, Heavy, later

from freight_exchange.errors import ValidationError
from freight_exchange.models import Packaging, RateRequest, RequestType
from freight_exchange.models.request_filter import RequestFilter


def test_error_of_where_is_not_caught() -> None:
    def where(request: RateRequest) -> bool:
        raise KeyError(request.index)

    with pytest.raises(KeyError):
        RequestFilter(where=where).matches(REQUEST)


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("empty", [[], (), set(), frozenset(), {}.keys()])
def test_an_empty_collection_would_exclude_everything_and_is_refused(field: str, empty: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} must not be empty: no request would ever pass$") as caught:
        RequestFilter(**{field: empty})
    assert caught.value.field == field


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        5,
        True,
        b"FOB",
        bytearray(b"FOB"),
        {"FOB": 1},
        iter(["FOB"]),
        [None],
        ["FOB", ""],
        {"FOB", 5},
        [["FOB"]],
    ],
)
def test_value_that_is_no_text_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} must ") as caught:
        RequestFilter(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("value", [b"FOB", b"", bytearray(b"FOB")])
def test_bytes_are_no_collection_of_numbers(value: Any) -> None:
    with pytest.raises(ValidationError, match=f"not a {type(value).__name__}$"):
        RequestFilter(origin=value)


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
        *(("need_by", value) for value in ("2024-05-17", 1715904000, timedelta(days=5), [NEEDED])),
        *(("where", value) for value in (True, "origin == 'Hong Kong'", RequestFilter())),
    ],
)
def test_impossible_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{field} ") as caught:
        RequestFilter(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("zone", [UTC, zoneinfo.ZoneInfo("Asia/Hong_Kong")])
def test_need_dates_have_no_zone_and_so_need_by_has_none(zone: Any) -> None:
    with pytest.raises(ValidationError, match="need_date, which has no zone") as caught:
        RequestFilter(need_by=NEEDED.replace(tzinfo=zone))
    assert caught.value.field == "need_by"


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


@pytest.mark.parametrize(
    ("where", "passes"), [(Heavy(), True), (Heavy().light, False), (functools.partial(Heavy.light, Heavy()), False)]
)
def test_where_takes_any_callable(where: Callable[[RateRequest], bool], passes: bool) -> None:
    assert RequestFilter(where=where).matches(REQUEST) is passes
