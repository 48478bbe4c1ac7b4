"""Tests of failpoints: two for each durable step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from freight_exchange import Bot
from freight_exchange import bot as package
from freight_exchange.bot.failpoints import FAILPOINTS, STEPS
from freight_exchange.bot.offers.record import State
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAILPOINTS as PUBLISHED
from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time
BESIDE = ("recover", "claim", "deliver", "known")
"""Steps outside of a request's path, or that any step may accompany."""
SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))


def test_each_step_has_two_failpoints() -> None:
    assert len(FAILPOINTS) == 2 * len(STEPS) == len({*FAILPOINTS})
    assert PUBLISHED is FAILPOINTS
    pairs = [(FAILPOINTS[place], FAILPOINTS[place + 1]) for place in range(0, len(FAILPOINTS), 2)]
    assert pairs == [(f"before {step}", f"after {step}") for step in STEPS]


def test_names_are_stable() -> None:
    """Users name them in their tests."""
    assert STEPS == (
        "recover", "deliver", "claim", "intent", "sending", "send", "confirmed", "rejected", "withdrawn", "unknown",
        "resolved", "settle", "selected", "reported", "known",
    )  # fmt: skip


def test_source_uses_each_step() -> None:
    """No test could crash a bot at a misspelt step."""
    text = {word for source in SOURCES for word in strings_in(ast.parse(source.read_text()))}
    steps = {word for word in text if " " not in word} | {word.split(" ", 1)[1] for word in text if " " in word}
    assert steps == {*STEPS}
    assert {word for word in text if " " in word} <= {*FAILPOINTS}


def strings_in(tree: ast.AST) -> Iterator[str]:
    """Yield the steps in `write("step", ...)`, `reach("before step")`, `advance(record, "state")` and `step="step"`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        stepped = [word.value for word in node.keywords if word.arg == "step"]
        match node.func.attr:
            case "write" | "_put" | "reach":
                named = node.args[:1]
            case "advance" | "_advance":
                named = stepped or node.args[1:2]
            case _:
                continue
        yield from (value.value for value in named if isinstance(value, ast.Constant) and isinstance(value.value, str))


class TestOrder:
    async def visits(self, *, currency: int = 840, strike: str = "", select: bool = False) -> list[str]:
        sandbox, visits, selected = Sandbox(), list[str](), list[int]()
        bot = Bot(
            store=MemoryStore(),
            start="backfill",
            interval=timedelta(seconds=10),
            settle=timedelta(0),
            selection_interval=timedelta(seconds=10),
        )

        @bot.on_new(retries=3)
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=5, currency=currency)
            if not select:
                bot.stop()

        if select:

            @bot.on_selected
            async def won(bid: Any, ctx: Any) -> None:
                selected.append(bid.index)
                bot.stop()

        index = sandbox.publish()
        if strike:
            sandbox.strike(*FAULTS[strike](path="quote/submitoffer"))

        def visit(point: str) -> None:
            visits.append(point)
            if point == "after rejected":
                bot.stop()
            if select and point == "after confirmed":
                (offer,) = sandbox.audit_log.offers_on(index)
                sandbox.exchange.select(offer.offer.index, sandbox.now())

        with anyio.fail_after(3600):
            await bot.serve(exchange=sandbox.client(), failpoints=visit)
        assert selected == [index] * select
        return visits

    def paired_steps(self, visits: list[str]) -> list[str]:
        """Check that steps are not nested, and return their order."""
        assert [point.split()[0] for point in visits] == ["before", "after"] * (len(visits) // 2)
        steps = [point.split(" ", 1)[1] for point in visits]
        assert steps[::2] == steps[1::2]
        return steps[::2]

    async def test_of_offer(self) -> None:
        steps = self.paired_steps(await self.visits())
        way = [step for step in steps if step not in BESIDE]
        assert way == ["intent", "sending", "send", "confirmed", "settle"]
        assert steps.index("deliver") < steps.index("intent")
        assert "claim" in steps[: steps.index("intent")]

    async def test_of_refused_offer(self) -> None:
        steps = self.paired_steps(await self.visits(currency=99))
        assert [step for step in steps if step not in BESIDE] == [
            "intent", "sending", "send", "rejected", "settle",
        ]  # fmt: skip

    async def test_of_unsent_offer(self) -> None:
        steps = self.paired_steps(await self.visits(strike="not_found_page"))
        assert [step for step in steps if step not in BESIDE] == [
            "intent", "sending", "send", "withdrawn", "settle", "intent", "sending", "send", "confirmed", "settle",
        ]  # fmt: skip

    async def test_of_offer_in_doubt(self) -> None:
        visits = await self.visits(strike="reset_after_processing")
        way = [point for point in visits if point.split()[1] not in {*BESIDE, "settle"}]
        steps = ("intent", "sending", "send", "unknown", "resolved")
        assert way == [f"{side} {step}" for step in steps for side in ("before", "after")]


@pytest.mark.parametrize("point", ["", "sending", "before", "after send ", "before none", "Before send", 5], ids=repr)
def test_unknown_failpoint_raises(point: Any) -> None:
    with pytest.raises(ValueError, match="crash_at must be one of before recover, after recover, "):
        Sandbox().running(Bot(store=None), crash_at=point)


def test_offer_states_are_steps() -> None:
    assert {*State.__args__} <= {*STEPS}  # type: ignore[attr-defined]  # the words of a literal


async def test_replay_is_a_step() -> None:
    sandbox, visits = Sandbox(), list[str]()
    bot = Bot(store=MemoryStore(), start="backfill", interval=timedelta(seconds=10))

    @bot.on_new(retries=0)
    async def broken(request: Any, ctx: Any) -> None:
        raise ValueError

    sandbox.publish()
    async with anyio.create_task_group() as tasks:

        async def replay() -> None:
            await anyio.sleep(60)
            (dead,) = await bot.dead_letters()
            visits.clear()
            assert await bot.replay(dead.event, dead.handler)
            assert visits == ["before settle", "after settle"]
            bot.stop()

        tasks.start_soon(replay)
        await bot.serve(exchange=sandbox.client(), failpoints=visits.append)
