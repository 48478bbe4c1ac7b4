"""Tests of crashes of a replica at each durable step, and of the replica that takes over, on a database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from tests.unit.bot.rig import amounts_on, eventually, offering_bot
from tests.unit.store.postgres.databases import empty_store, execute

from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.fleet import seat
from freight_exchange.testing import FAULTS, Sandbox

WITHIN = timedelta(seconds=30)
DOUBTFUL = ("before unknown", "after unknown", "before resolved", "after resolved")
POINTS = (
    "before deliver", "after deliver", "before claim", "after claim", "before intent", "after intent", "before sending",
    "after sending", "before send", "after send", "before confirmed", "after confirmed", *DOUBTFUL, "before settle",
    "after settle",
)  # fmt: skip
FEW = ("after sending", "before confirmed")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    # A crash in a test leaves nothing on its way.
    monkeypatch.setattr(seat, "_ADOPTION_WAIT", 0.1)
    store = empty_store(lease=timedelta(seconds=60))
    yield store
    store.close()


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in FEW else pytest.mark.long) for point in POINTS]
)
async def test_replica_that_ends_at_a_step_changes_nothing_for_the_shipper(
    sandbox: Sandbox, store: PostgresStore, point: str
) -> None:
    index = sandbox.publish()
    if point in DOUBTFUL:
        sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    make = partial(offering_bot, store, interval=timedelta(seconds=1), settle=timedelta(seconds=0.2))
    async with sandbox.running(make(), crash_at=point) as trial:
        await trial.crashed()
    async with sandbox.running(make()):
        await eventually(lambda: amounts_on(sandbox, index), WITHIN)
        await eventually(_is_idle, WITHIN)
    assert len(amounts_on(sandbox, index)) == 1


def _is_idle() -> bool:
    return execute(
        "SELECT (SELECT count(*) FROM freight_exchange.delivery WHERE state <> 'done') + (SELECT count(*) FROM"
        " freight_exchange.effect WHERE key LIKE 'offer:%%' AND state <> 'confirmed')"
    ) == [(0,)]
