"""Tests of replies with many broken records: the count is exact, and each costs little."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import wire
from freight_exchange.errors import DecodeError
from freight_exchange.wire import shapes
from freight_exchange.wire.converter import RecordShape
from freight_exchange.wire.scalars import UnreadableRecordError

WAYS: list[dict[str, Any]] = [
    {"weight": {}},
    {"qty": [1]},
    {"qty": "many"},
    {"origin": {"port": "Oslo"}},
    {"height": "tall"},
    {"index": 2**70},
]
FINE: list[dict[str, Any]] = [{}, {"weight": "1.5"}, {"qty": 0.5}, {"origin": 5}, {"height": None}, {"status": "x"}]


def reading(raws: list[object]) -> wire.Rows[Any]:
    return wire.decode_rows({"raterequests": raws}, wire.REQUESTS)


def breaks(raw: object) -> bool:
    try:
        shapes.REQUEST.structure(raw)
    except UnreadableRecordError:
        return True
    return False


def test_every_broken_record_counts_and_keeps_its_index() -> None:
    raws = [{"index": number, **WAYS[number % 5]} for number in range(1000)]
    found = reading([*raws, {"index": 1000}])
    assert [record.index for record in found.records] == [1000]
    assert [wire.index_of_raw(error.raw) for error in found.broken] == list(range(1000))
    assert [error.raw for error in found.broken[:100]] == raws[:100]
    assert {str(error) for error in found.broken[100:]} == {"one more record that cannot be read"}
    assert [error.raw for error in found.broken[100:103]] == [{"index": 100}, {"index": 101}, {"index": 102}]


@given(st.lists(st.sampled_from([*WAYS, *FINE, [], 5, None, {"index": None}]), max_size=60))
def test_records_after_the_described_ones_are_read_as_the_first_are(tail: list[Any]) -> None:
    head: list[object] = [{"index": 1, **WAYS[number % len(WAYS)]} for number in range(100)]
    raws = [{"index": 7, **raw} if isinstance(raw, dict) else raw for raw in tail]
    found = reading([*head, *raws])
    bad = [raw for raw in raws if breaks(raw)]
    assert len(found.broken) == 100 + len(bad)
    assert len(found.records) == len(raws) - len(bad)
    assert [wire.index_of_raw(error.raw) for error in found.broken[100:]] == [wire.index_of_raw(raw) for raw in bad]


@pytest.mark.parametrize(
    "raws", [[{"index": number, **WAYS[number % 3]} for number in range(2000)], [5] * 2000], ids=["records", "numbers"]
)
def test_records_that_break_as_the_first_hundred_did_are_not_read_in_full(
    raws: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = 0
    tolerant = RecordShape.structure

    def counting(self: RecordShape[Any], *arguments: Any, **options: Any) -> Any:
        nonlocal readings
        readings += 1
        return tolerant(self, *arguments, **options)

    monkeypatch.setattr(RecordShape, "structure", counting)
    found = reading(raws)
    assert len(found.broken) == 2000
    assert readings == 101


def test_parts_that_were_left_out_are_counted_as_well() -> None:
    raws: list[object] = [{"index": number, "loadingPOC": 5} for number in range(150)]
    found = wire.decode_rows({"offers": raws}, wire.OFFERS)
    assert (len(found.records), len(found.broken), len(found.flaws)) == (150, 0, 150)
    assert len({error.path for error in found.flaws}) == 101
    assert wire.index_of_raw(found.flaws[149].raw) == 149


@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_error_of_an_undescribed_record_is_as_any(twin: Any) -> None:
    error = reading([{"index": number, "weight": {}} for number in range(101)]).broken[100]
    error.path, error.method, error.raw = "raterequests", "GET", {"index": "masked"}
    again = twin(error)
    assert isinstance(again, DecodeError)
    assert (str(again), again.raw, again.path) == (str(error), {"index": "masked"}, "raterequests")


def test_error_quotes_an_excerpt_of_the_record() -> None:
    [error] = reading([{"index": 1, "weight": {}, **{f"field {number}": number for number in range(10_000)}}]).broken
    assert isinstance(error.raw, dict)
    assert len(error.raw) < 1000
    assert error.raw["..."] == "..."
