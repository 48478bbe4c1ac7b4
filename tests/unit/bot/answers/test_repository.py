"""Tests of the versions of answers that a process checks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import anyio
import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.answers.repository import AnswerRepository
from freight_exchange.bot.offers.repository import ChangedElsewhereError
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.store import MemoryStore

pytestmark = pytest.mark.virtual_time


async def test_decision_over_an_older_version_ends_no_check() -> None:
    store = MemoryStore().open(BINDING, lease=LEASE)

    async def run(work: Callable[[], Any]) -> Any:
        return work()

    access: Any = SimpleNamespace(inline=True, state=lambda: store, run=run)
    unit_of_work = UnitOfWork(cast("Any", SimpleNamespace(time=anyio.current_time)), lambda _: None, access)
    repository = AnswerRepository(unit_of_work)
    draft = AnswerRecord(request=1, offer=2, state="unknown", approved=True, handler="award", event=1)
    read = await repository.put("unknown", draft, replaces=None)
    await anyio.sleep(1)
    checked = await repository.advance(read, "unknown", checks=1)
    with pytest.raises(ChangedElsewhereError):
        await repository.advance(attrs.evolve(read), "confirmed")
    assert repository.is_current(checked)
    assert await repository.find(checked.key) == checked
