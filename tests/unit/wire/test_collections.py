"""Tests of the collections of a reply: keyed objects, lists, empty ones, and errors next to them."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.raw_records import (
    READ,
    REQUEST,
    request,
    shuffled,
)

from freight_exchange import wire
from freight_exchange.errors import DecodeError


def test_documented_record_is_decoded() -> None:
    assert request() == READ
    assert request().volume == Decimal("9.600")
    assert str(request().width) == "1.20"


class TestCollections:
    """A collection is an object keyed by numbers, a list, or one of several forms of an empty one."""

    def test_sorted_by_number_with_gaps(self) -> None:
        raws = {"10": {**REQUEST, "index": 10}, "9": {**REQUEST, "index": 9}, "0": {**REQUEST, "index": 0}}
        for order in shuffled(raws):
            found = wire.decode_rows({"raterequests": order}, wire.REQUESTS)
            assert [record.index for record in found.records] == [0, 9, 10]

    @given(st.permutations(list(range(30))), st.sets(st.integers(0, 29)))
    def test_any_order_and_any_gaps(self, order: list[int], gaps: set[int]) -> None:
        raws = {str(place): {**REQUEST, "index": place} for place in order if place not in gaps}
        found = wire.decode_rows({"raterequests": raws}, wire.REQUESTS)
        assert [record.index for record in found.records] == sorted(set(range(30)) - gaps)

    def test_collection_may_be_a_list(self) -> None:
        found = wire.decode_rows({"raterequests": [REQUEST, {**REQUEST, "index": 5}]}, wire.REQUESTS)
        assert [record.index for record in found.records] == [4, 5]

    @pytest.mark.parametrize("empty", [{}, [], None])
    @pytest.mark.parametrize(
        ("key", "value"), [("error", "the database is away"), ("Errors", [{"code": 7}]), ("error", True)]
    )
    def test_an_error_beside_an_empty_collection_is_not_an_empty_one(
        self, empty: object, key: str, value: object
    ) -> None:
        """A watcher that mistook it for an empty one would report nothing."""
        with pytest.raises(DecodeError, match="an error beside an empty 'raterequests'"):
            wire.decode_rows({"raterequests": empty, key: value}, wire.REQUESTS)

    @pytest.mark.parametrize("value", [None, False, "", [], "No records found.", "No rate requests found"])
    def test_a_message_of_no_records_is_no_error(self, value: object) -> None:
        assert wire.decode_rows({"raterequests": [], "error": value, "message": "db"}, wire.REQUESTS) == wire.Rows(())

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            *itertools.product(["success", "Success", "ok"], [False, "false", 0, "0", " No "]),
            *itertools.product(["status", "statusCode"], [False, "error", "Failed", 500, "503", 404]),
        ],
    )
    def test_a_message_of_a_failure_is_not_empty(self, key: str, value: object) -> None:
        with pytest.raises(DecodeError, match="an error beside an empty 'raterequests'"):
            wire.decode_rows({"raterequests": [], key: value, "message": "the database is away"}, wire.REQUESTS)
        none = {"raterequests": [], key: value, "message": "No records found."}
        assert wire.decode_rows(none, wire.REQUESTS) == wire.Rows(())

    def test_an_error_beside_records_loses_neither(self) -> None:
        value = {"raterequests": [REQUEST], "error": "query timed out after 1 of 3 rows"}
        found = wire.decode_rows(value, wire.REQUESTS)
        assert [record.index for record in found.records] == [4]
        assert found.failure is not None
        assert found.failure.raw == value

    @pytest.mark.parametrize(
        "beside",
        [
            {"success": True},
            {"success": None},
            {"message": "failed over"},
            {"error": False},
            {"ok": 1},
            {"status": "ok"},
            {"status": 200},
            {"status": 0},
            {"status": "4"},
        ],
    )
    def test_other_messages_beside_records_are_no_failure(self, beside: dict[str, object]) -> None:
        assert wire.decode_rows({"raterequests": [REQUEST], **beside}, wire.REQUESTS).failure is None

    @pytest.mark.parametrize("empty", [{}, [], None])
    def test_empty_collection_has_no_rows(self, empty: object) -> None:
        assert wire.decode_rows({"raterequests": empty}, wire.REQUESTS) == wire.Rows(())
        assert wire.decode_rows(empty, wire.REQUESTS) == wire.Rows(())

    @pytest.mark.parametrize(
        "data",
        [{"message": "maintenance"}, {"offers": {}}, [1, 2, 3], [REQUEST], "text", 0, False, Decimal(1), ""],
    )
    def test_a_reply_without_the_collection_is_not_an_empty_one(self, data: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.decode_rows(data, wire.REQUESTS)
        assert caught.value.path == "$"

    @pytest.mark.parametrize("held", ["none", 3, {"message": "maintenance"}, True])
    def test_a_collection_that_is_none(self, held: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.decode_rows({"raterequests": held}, wire.REQUESTS)
        assert caught.value.path == "raterequests"

    def test_a_stray_key_loses_nothing(self) -> None:
        found = wire.decode_rows({"raterequests": {"0": REQUEST, "total": 1, "9" * 5000: 2}}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.total", f"raterequests.{'9' * 5000}"]


def test_byte_order_mark_is_ignored() -> None:
    content = b"\xef\xbb\xbf" + json.dumps({"raterequests": {"0": REQUEST}}, default=float).encode()
    assert wire.decode_one(wire.parse(content), wire.REQUESTS).index == 4


def test_carrier_and_currency_are_read_from_numbered_entries() -> None:
    assert wire.decode_one({"carriers": {"0": {"index": "3", "name": "Line"}}}, wire.CARRIERS).index == 3
    assert (
        wire.decode_one({"currencies": {"0": {"index": 1, "name": "Dollar", "code": "USD"}}}, wire.CURRENCIES).code
        == "USD"
    )
