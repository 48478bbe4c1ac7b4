"""Tests of the benchmarks' report: medians, ratios within a round, and missed aims."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import attrs
import httpx
import pytest
from benchmarks import records
from benchmarks.aims import aims
from benchmarks.crowd import CrowdedExchange
from benchmarks.decoders import DECODERS, FIELDS
from benchmarks.imports import BOT, DEPENDENCIES, OURS
from benchmarks.report import markdown
from benchmarks.rounds import Metric, Scale, Table, interleaved

from freight_exchange.models import RateRequest


def a_table(**changes: Any) -> Table:
    rows: Mapping[str, Sequence[Mapping[str, float]]] = {
        "theirs": [{"cpu": 10.0}, {"cpu": 40.0}, {"cpu": 20.0}],
        "ours": [{"cpu": 5.0}, {"cpu": 40.0}, {"cpu": 30.0}],
    }
    table = Table(
        name="imports",
        title="A title",
        metrics=(Metric("cpu", "CPU us", 1, ratio=True),),
        rows=rows,
        peers={"ours": "theirs"},
    )
    return attrs.evolve(table, **changes)


def report(table: Table, description: str = "") -> str:
    tables = {table.name: json.loads(json.dumps(attrs.asdict(table)))}
    return markdown({"machine": {"description": description}, "tables": tables, "odd_records": [], "profiles": {}})


def test_a_ratio_is_taken_within_a_round() -> None:
    assert a_table().ratios("ours", "cpu") == [0.5, 1.0, 1.5]
    assert a_table().median("ours", "cpu") == 30.0


def test_each_round_measures_all_that_it_compares_by_turns() -> None:
    order: list[str] = []
    numbers = itertools.count()
    rows = interleaved({name: lambda: {"n": next(numbers)} for name in "ab"}, 2, order.append)
    assert rows == {"a": [{"n": 0}, {"n": 2}], "b": [{"n": 1}, {"n": 3}]}
    assert order == ["round 1 of 2: a", "round 1 of 2: b", "round 2 of 2: a", "round 2 of 2: b"]


def test_a_small_measurement_does_something() -> None:
    assert Scale(rounds=1, share=0.001).of(100) == 1
    assert Scale(rounds=1, share=0.5).of(100) == 50


@pytest.mark.parametrize(("more", "verdict"), [(30.0, "holds"), (31.0, "**missed**")])
def test_an_aim_is_judged_from_the_figures(more: float, verdict: str) -> None:
    rows = {
        DEPENDENCIES: [{"cpu": 100.0, "memory": 20.0}],
        OURS: [{"cpu": 100.0 + more, "memory": 30.0}],
        BOT: [{"cpu": 200.0, "memory": 31.0}],
    }
    table = a_table(rows=rows, peers={OURS: DEPENDENCIES})
    page = report(table, "Here and today.")
    assert f"| at most 30 ms | {more:.0f} ms | {verdict} |" in page
    assert [aim.held for aim in aims({"imports": table})] == [verdict == "holds", True, False]
    assert "Here and today." in page


def test_the_report_has_medians_and_the_range_of_the_rounds() -> None:
    rows = {
        DEPENDENCIES: [{"cpu": 100.0, "memory": 1}] * 2,
        OURS: [{"cpu": 90.0, "memory": 1}, {"cpu": 110, "memory": 1}],
        BOT: [{"cpu": 200.0, "memory": 1}] * 2,
    }
    page = report(a_table(rows=rows, peers={OURS: DEPENDENCIES}))
    assert f"| {OURS} | 100.0 (90.0 to 110.0) | 1.00 (0.90 to 1.10) |" in page
    assert f"| {DEPENDENCIES} | 100.0 (100.0 to 100.0) | 1 |" in page
    assert "**A title**, 2 rounds" in page


@pytest.mark.parametrize("name", ["cattrs", "pydantic"])
def test_every_decoder_reads_the_same(name: str) -> None:
    content = records.page(1, 30)
    for record, ours in zip(DECODERS[name].ready()(content), DECODERS["sdk"].ready()(content), strict=True):
        for field in FIELDS:
            description = getattr(record, field)
            # An enum member equals its value in any case.
            assert getattr(ours, field) == getattr(description, "value", description), field


def test_the_records_hold_every_field_of_a_request() -> None:
    [first] = DECODERS["sdk"].ready()(records.page(1, 1))
    assert isinstance(first, RateRequest)
    assert {field.name for field in attrs.fields(RateRequest)} - {"extra"} == FIELDS.keys()
    assert not first.extra
    assert None not in [getattr(first, name) for name in FIELDS]


async def listed(exchange: CrowdedExchange, **parameters: int) -> list[Mapping[str, Any]]:
    async with httpx.AsyncClient(transport=exchange) as client:
        reply = await client.post(f"{exchange.url}/quote/getrequests", json=parameters)
    return [*reply.json()["raterequests"].values()]


@pytest.mark.virtual_time
class TestACrowdedExchange:
    async def test_lists_updates_in_the_window_newest_first(self) -> None:
        began = anyio.current_time()
        exchange = CrowdedExchange(1000, lambda: anyio.current_time() - began)
        everything = [
            row["index"]
            for page in range(11)
            for row in await listed(exchange, offset=page, rowsperpage=100, secondsSinceUpdate=432_000)
        ]
        # The oldest ones leave the window as the pages are read.
        assert everything == [*range(1000, 1000 - len(everything), -1)]
        assert len(everything) >= 999
        assert exchange.traffic.calls == len(exchange.traffic.received) == 11

    async def test_deals_states_that_can_be_distinguished(self) -> None:
        began = anyio.current_time()
        exchange = CrowdedExchange(10, lambda: anyio.current_time() - began)
        await anyio.sleep(100)
        for _ in range(20):
            exchange.deal()
        rows = await listed(exchange, offset=0, rowsperpage=100, secondsSinceUpdate=60)
        assert {row["index"]: row["qty"] for row in rows} == exchange.last
        assert len(exchange.began) == 20
        assert len(exchange.last) < 20
        assert [row["qty"] for row in rows] == sorted(exchange.last.values(), reverse=True)
