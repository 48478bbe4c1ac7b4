"""Seat of a bot in its store: the heartbeat, and notifications."""

from __future__ import annotations

import time
from typing import Any, cast

import anyio
import pytest
from tests.unit.store.rows import BINDING

from freight_exchange.bot.runtime.fleet.membership import Membership, TermHeldError


class LosesNotifications:
    """Store and seat of a replica that receives no notifications."""

    inline = False
    lease = 0.03

    def join(self, *_: object, **__: object) -> Any:
        return self

    def take_term(self) -> Any:
        return self

    def heartbeat(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False


@pytest.mark.both_backends
async def test_replica_looks_for_work_at_each_beat_though_no_notification_came() -> None:
    joined = Membership(cast("Any", LosesNotifications()), handlers=["quote"], closes_store=False)
    joined.open(BINDING, lease=60.0)
    woken = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(joined.heartbeat, woken.set)
            await woken.wait()
            tasks.cancel_scope.cancel()


class IsLeftOut(LosesNotifications):
    """Store and seat of a replica with a handler that the newest version lacks."""

    holder = "another replica"
    feed_state = None

    def __init__(self) -> None:
        self.checks = 0

    def take_term(self) -> Any:
        return None

    def left_out(self) -> list[str]:
        self.checks += 1
        return ["quote"]


def test_replica_compares_its_handlers_at_intervals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the term at each notification."""
    now, store = 100.0, IsLeftOut()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    joined = Membership(cast("Any", store), handlers=["quote"], closes_store=False)

    def ask() -> int:
        with pytest.raises(TermHeldError):
            joined.open(BINDING, lease=60.0)
        return store.checks

    assert [ask(), ask()] == [1, 1]
    now += 2.0
    assert [ask(), ask()] == [2, 2]
