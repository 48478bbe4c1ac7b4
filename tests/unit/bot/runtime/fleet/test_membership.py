"""Seat of a bot in its store: the heartbeat, and notifications."""

from __future__ import annotations

import time
from typing import Any, cast

import anyio
import pytest
from tests.unit.store.rows import BINDING

from freight_exchange.bot.runtime.fleet.membership import Membership


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
    membership = Membership(cast("Any", LosesNotifications()), handlers=["quote"], closes_store=False)
    membership.open(BINDING, lease=60.0)
    woken = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(membership.heartbeat, woken.set)
            await woken.wait()
            tasks.cancel_scope.cancel()
