"""Tests of locks by key."""

from __future__ import annotations

import anyio
import pytest

from freight_exchange.bot.keyed_locks import KeyedLocks


@pytest.mark.virtual_time
async def test_tasks_take_turns_on_one_key_and_not_on_another() -> None:
    locks, steps = KeyedLocks(), list[tuple[str, int]]()

    async def work(name: str, key: int) -> None:
        async with locks.hold(key):
            steps.append((name, round(anyio.current_time() - began)))
            await anyio.sleep(10)

    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for name, key in (("first", 1), ("second", 1), ("other", 2)):
            tasks.start_soon(work, name, key)
        await anyio.sleep(1)
        await locks.wait_released()
        steps.append(("released", round(anyio.current_time() - began)))
    assert sorted(steps) == [("first", 0), ("other", 0), ("released", 20), ("second", 10)]
    assert not locks._locks
