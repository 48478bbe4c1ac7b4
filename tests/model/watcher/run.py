"""Run of a plan: a service, a program that watches it, and the flaws that the checker finds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import anyio
import attrs
from tests.model.watcher.checker import Flaw, check
from tests.model.watcher.clocks import Clocks
from tests.model.watcher.history import History
from tests.model.watcher.naive import NAIVE, Naive, naive_loop
from tests.model.watcher.program import Program
from tests.model.watcher.schedule import Plan
from tests.model.watcher.world import World

from freight_exchange.testing import virtual_time_options

__all__ = ["Ran", "naive_run", "run"]

_TO_THE_PROGRAM = frozenset({"stop", "cancel", "disk", "slow", "break", "batches"})


@attrs.frozen(kw_only=True)
class Ran:
    """Result of a run.

    Attributes:
        flaws: Flaws of the run.
        happened: Number of occurrences, by kind of event.
        calls: Number of requests to the service.
    """

    plan: Plan
    history: History
    flaws: Sequence[Flaw]
    happened: Mapping[str, int]
    calls: int


def run(plan: Plan, *, lowered: bool = False) -> Ran:
    """Make a run, and check it."""
    ran = _in_virtual_time(plan, _watched, plan, lowered)
    assert isinstance(ran, Ran)
    return ran


def naive_run(plan: Plan, name: str) -> int:
    """Return the number of final states that the naive loop of a name misses under the same plan."""
    missed = _in_virtual_time(plan, _naively_watched, plan, name)
    assert isinstance(missed, int)
    return missed


def _in_virtual_time(plan: Plan, work: Any, *args: object) -> object:
    random.seed(plan.seed)
    drawn = random.Random(plan.seed)

    def pace() -> random.Random:
        return random.Random(drawn.random())

    with ExitStack() as patched:
        patched.enter_context(mock.patch("freight_exchange.feed.stream.Random", pace))
        if plan.backend == "trio":
            from trio._core import _run

            # Trio draws the order of tasks anew for each run; a seed must repeat the same run.
            patched.enter_context(mock.patch.object(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True))
            _run._r.seed(plan.seed)
        return anyio.run(work, *args, backend=plan.backend, backend_options=virtual_time_options(plan.backend))


async def _watched(plan: Plan, lowered: bool) -> Ran:
    world = World(plan, Clocks(plan.boot), lowered=lowered)
    async with world.client() as exchange:
        program = Program(world, exchange)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program.run)
            await _play(world, program)
            program.end()
        program.store.close()
    for name, _, _ in world.exchange.faults.fired:
        world.count(f"fault {name}")
    for moment in program.store.deaths:
        world.count(f"died {moment}")
    happened = {name: world.happened[name] for name in sorted(world.happened)}
    return Ran(
        plan=plan,
        history=world.history,
        flaws=check(world.history),
        happened=happened,
        calls=len(world.history.audit_log.calls),
    )


async def _naively_watched(plan: Plan, name: str) -> int:
    world = World(plan, Clocks(plan.boot))
    async with world.client() as exchange:
        loop = NAIVE[name]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(naive_loop, loop, world, exchange)
            await _play(world, loop)
            tasks.cancel_scope.cancel()
    return loop.missed(world)


async def _play(world: World, program: Program | Naive) -> None:
    """Apply each operation at its time, then wait for the end of the quiet period."""
    clocks, plan = world.clocks, world.plan
    for op in sorted(plan.ops, key=lambda op: op.at):
        await anyio.sleep(max(0.0, op.at - clocks.loop()))
        if op.what not in _TO_THE_PROGRAM:
            world.happen(op)
        elif isinstance(program, Program):
            program.happen(op)
        elif op.what == "stop":
            program.down_until = op.at + op.amount
    await anyio.sleep(max(0.0, plan.quiet - clocks.loop()))
    world.calm()
    if isinstance(program, Program):
        program.calm()
    await anyio.sleep(plan.end - clocks.loop())
