"""Tests of the benchmarks: ratios within a round, missed aims, and decoders that read the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs
import pytest
from benchmarks import decoding, imports
from benchmarks.__main__ import report
from benchmarks.rounds import SDK, Table, interleaved, ratios
from benchmarks.server import page

from freight_exchange.models import RateRequest


def a_table(ours: Sequence[float] = (5, 40, 30), theirs: Sequence[float] = (10, 40, 20)) -> Table:
    rows = {name: [{"cpu": one, "memory": one} for one in each] for name, each in ((imports.PEER, theirs), (SDK, ours))}
    return Table("imports", "A title", {"cpu": "CPU ms"}, rows, imports.PEER)


def test_ratio_is_taken_within_a_round() -> None:
    assert ratios(a_table().values(SDK, "cpu"), a_table().values(imports.PEER, "cpu")) == [0.5, 1.0, 1.5]
    assert f"| {SDK} | 30.0 (5.00 to 40.0) | 1.00 (0.50 to 1.50) |" in [*a_table().lines()]


def test_each_round_measures_all_candidates_in_turn() -> None:
    order: list[str] = []

    def run(name: str) -> dict[str, float]:
        order.append(name)
        return {"n": len(order)}

    assert interleaved({name: partial(run, name) for name in "ab"}, 2)["b"] == [{"n": 2}, {"n": 4}]
    assert order == ["a", "b", "a", "b"]


@pytest.mark.parametrize(("more", "verdict"), [(20, "holds"), (21, "**missed**")])
def test_aim_is_judged_from_the_figures(more: float, verdict: str) -> None:
    text = "\n".join(report({"imports": a_table([100 + more], [100])}, "Here and today."))
    assert f"| CPU ms of an import beyond its dependencies | 20 | {more:.1f} | {verdict} |" in text
    assert "Here and today." in text


def test_decoders_read_the_same_fields() -> None:
    content = page(1, 30)
    theirs, ours = (decoding.DECODERS[name]()(content) for name in (decoding.PEER, SDK))
    for record, mine in zip(theirs, ours, strict=True):
        for field in decoding.FIELDS:
            value = getattr(record, field)
            # An enum member equals its value in any case.
            assert getattr(mine, field) == getattr(value, "value", value), field
    assert isinstance(ours[0], RateRequest)
    assert {field.name for field in attrs.fields(RateRequest)} - {"extra"} == decoding.FIELDS.keys()
    assert None not in [getattr(ours[0], name) for name in decoding.FIELDS]
