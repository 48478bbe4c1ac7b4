"""Tests of broken records: errors name them, and the other records are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.unit.wire.raw_records import (
    READ,
    REQUEST,
)

from freight_exchange import wire
from freight_exchange.errors import DecodeError


class TestBrokenRecords:
    """One broken record does not lose the others."""

    @pytest.mark.parametrize(
        ("raw", "path"),
        [
            ({**REQUEST, "weight": "heavy"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": True}, "raterequests.3.weight"),
            ({**REQUEST, "weight": {}}, "raterequests.3.weight"),
            ({**REQUEST, "weight": "1e99"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": "Infinity"}, "raterequests.3.weight"),
            ({**REQUEST, "weight": 10**100}, "raterequests.3.weight"),
            ({**REQUEST, "qty": "many"}, "raterequests.3.qty"),
            ({**REQUEST, "qty": 2**70}, "raterequests.3.qty"),
            ({**REQUEST, "index": None}, "raterequests.3.index"),
            ({**REQUEST, "index": "four"}, "raterequests.3.index"),
            ({**REQUEST, "index": Decimal("4.5")}, "raterequests.3.index"),
            ({**REQUEST, "index": ""}, "raterequests.3.index"),
            ({**REQUEST, "hazardous": {}}, "raterequests.3.hazardous"),
            ({**REQUEST, "origin": ["Hong Kong"]}, "raterequests.3.origin"),
            ({**REQUEST, "status": {}}, "raterequests.3.status"),
            ({**REQUEST, "needdate": {"date": 1}}, "raterequests.3.needdate"),
            ({key: value for key, value in REQUEST.items() if key != "index"}, "raterequests.3.index"),
            ({}, "raterequests.3.index"),
            (None, "raterequests.3"),
            ([], "raterequests.3"),
            ("text", "raterequests.3"),
        ],
    )
    def test_other_records_are_read_beside_a_broken_one(self, raw: object, path: str) -> None:
        raws = {"2": REQUEST, "3": raw, "4": {**REQUEST, "index": 5}}
        found = wire.decode_rows({"raterequests": raws}, wire.REQUESTS)
        assert [record.index for record in found.records] == [4, 5]
        assert [error.path for error in found.broken] == [path]
        assert found.broken[0].raw == raw

    def test_record_after_a_broken_one_is_read(self) -> None:
        found = wire.decode_rows({"raterequests": [3, REQUEST]}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.0"]

    def test_one_needs_exactly_one(self) -> None:
        with pytest.raises(DecodeError, match="0 records where one is expected"):
            wire.decode_one({"raterequests": {}}, wire.REQUESTS)
        with pytest.raises(DecodeError, match="2 records where one is expected"):
            wire.decode_one({"raterequests": [REQUEST, REQUEST]}, wire.REQUESTS)
        with pytest.raises(DecodeError) as caught:
            wire.decode_one({"raterequests": [{**REQUEST, "weight": "heavy"}]}, wire.REQUESTS)
        assert caught.value.path == "raterequests.0.weight"

    @pytest.mark.parametrize("kind", [wire.REQUESTS, wire.OFFERS, wire.BIDS, wire.ROUTES, wire.CARRIERS])
    @pytest.mark.parametrize("index", [4, "4"])
    def test_one_that_stands_where_its_collection_is_due(self, kind: wire.Kind[Any], index: object) -> None:
        raw = {"index": index, "new": {"a": 1}}
        record = wire.decode_one({kind.collection: raw}, kind)
        assert record == wire.decode_one({kind.collection: {"0": raw}}, kind)
        assert wire.decode_rows({kind.collection: raw}, kind).records == (record,)

    def test_one_that_stands_so_and_is_broken(self) -> None:
        found = wire.decode_rows({"offers": {"index": 4, "weight": "heavy"}}, wire.OFFERS)
        assert [error.path for error in found.broken] == ["offers.weight"]
        found = wire.decode_rows({"offers": {"index": 4, "offer": {"0": {"offerAmount": "much"}}}}, wire.OFFERS)
        assert [error.path for error in found.flaws] == ["offers.offer.0.offerAmount"]

    @pytest.mark.parametrize("place", ["0", "3"])
    def test_a_collection_with_an_index_beside_is_a_collection(self, place: str) -> None:
        found = wire.decode_rows({"raterequests": {place: REQUEST, "index": 9}}, wire.REQUESTS)
        assert found.records == (READ,)
        assert [error.path for error in found.broken] == ["raterequests.index"]

    @pytest.mark.parametrize("index", [None, {}, [4]])
    def test_an_index_that_is_none_makes_no_record(self, index: object) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.decode_rows({"raterequests": {"index": index}}, wire.REQUESTS)
        assert caught.value.path == "raterequests"

    def test_raw_record_hides_secrets(self) -> None:
        with pytest.raises(DecodeError) as caught:
            wire.decode_rows({"user": {"access_token": "canary", "email": "a"}}, wire.REQUESTS)
        assert caught.value.raw == {"user": {"access_token": "***", "email": "a"}}
