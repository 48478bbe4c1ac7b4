"""Pruning of requests that the service no longer lists, however many there are."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from tests.unit.feed.rig import DAY, HOUR, Rig, Service

from freight_exchange.store import Store
from freight_exchange.store.sqlite.sql import feed_sql

pytestmark = pytest.mark.virtual_time


class Pruned:
    """Store whose pruning records its calls, and returns in turn whether more is due."""

    def __init__(self, answers: list[bool | None]) -> None:
        self.times: list[float] = []
        self._answers = iter(answers)

    def __call__(self, *, before: float) -> bool | None:
        self.times.append(anyio.current_time())
        return next(self._answers, None)


@pytest.fixture
def prunes(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Rig, Pruned]]:
    def make(*answers: bool | None) -> tuple[Rig, Pruned]:
        rig, pruned = Rig(Service(), store=store), Pruned([*answers])
        monkeypatch.setattr(rig.feed_store, "prune", pruned)
        return rig, pruned

    return make


async def test_while_more_is_due_each_scan_prunes_another_part(prunes: Callable[..., tuple[Rig, Pruned]]) -> None:
    rig, pruned = prunes(True, True, True, False)
    await rig.prime()
    await rig.scan_for(0.9 * HOUR)
    first, *others = pruned.times
    assert len(others) == 3
    assert others[-1] - first < 200
    await rig.scan_for(0.3 * HOUR)
    assert len(pruned.times) == 5
    assert pruned.times[-1] - others[-1] >= HOUR


@pytest.mark.parametrize("nothing", [None, False])
async def test_a_store_that_does_not_return_whether_more_is_due_prunes_once_an_hour(
    prunes: Callable[..., tuple[Rig, Pruned]], nothing: bool | None
) -> None:
    rig, pruned = prunes(*[nothing] * 9)
    await rig.prime()
    await rig.scan_for(2.5 * HOUR)
    assert len(pruned.times) == 3
    assert min(later - one for one, later in zip(pruned.times, pruned.times[1:], strict=False)) >= HOUR


async def test_store_that_grows_faster_than_one_part_an_hour_is_pruned_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_sql, "_PRUNE_BATCH", 2)
    service = Service()
    rig = Rig(service, store=store, interval=600.0)
    await rig.prime()
    service.publish(*range(1, 81))
    await rig.scan(2)
    rig.feed_store.acknowledge(
        [one.id for one in rig.feed_store.pending(limit=100)], at=rig.journal.state.watermark.time
    )
    service.withdraw(*range(1, 81))
    await rig.scan_for(7 * DAY)
    rig.feed_store.acknowledge(
        [one.id for one in rig.feed_store.pending(limit=100)], at=rig.journal.state.watermark.time
    )
    left = [index for index in range(1, 81) if rig.seen(index).record is not None]
    assert left == []
