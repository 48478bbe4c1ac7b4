"""Replicas whose store is away, refuses them, or hangs: they stay live, and join again."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import anyio
import pytest
from tests.unit.bot.rig import INTERVAL, amounts_on, eventually, ignore_cancellation, messages, new_bot, offering_bot
from tests.unit.bot.runtime.fleet.one_of_two import OneOfTwo

from freight_exchange.bot.runtime.fleet.membership import Membership
from freight_exchange.bot.runtime.session import session
from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.protocol import ConflictError, StoreRefusedError
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time

REQUESTS = "quote/getrequests"


@pytest.mark.parametrize(
    "failure", [StoreAwayError("it is away"), ConflictError("a write met another one"), StoreRefusedError("no login")]
)
async def test_bot_stays_live_while_the_store_is_away_and_joins_again(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, failure: StoreError
) -> None:
    store = OneOfTwo()
    store.failure = failure
    bot = offering_bot(store)
    async with sandbox.running(bot) as trial:
        await trial.idle()
        store.is_away = True
        index = sandbox.publish()
        for _ in range(5):
            await anyio.sleep(60)
            assert trial.status.live
            assert trial.status.state in ("starting", "stopped", "draining", "running")
        assert amounts_on(sandbox, index) == []
        store.is_away = False
        await eventually(lambda: amounts_on(sandbox, index))
        assert (trial.status.state, trial.status.live) == ("running", True)
    (lost, *_) = [one for one in caplog.records if f"has lost its seat in the store: {failure}" in one.getMessage()]
    assert lost.levelno == (logging.ERROR if isinstance(failure, StoreRefusedError) else logging.WARNING)


async def test_refusal_is_logged_though_the_loss_of_the_seat_was_just_logged(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection is cut first, and then the next login is refused."""
    store = OneOfTwo()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
        store.is_away = True
        sandbox.publish()
        await eventually(lambda: "lost its seat" in caplog.text)
        store.failure = StoreRefusedError("no login")
        await anyio.sleep(30)
        assert [one.levelname for one in caplog.records if "lost its seat" in one.getMessage()] == ["WARNING", "ERROR"]
        store.is_away = False


async def test_bot_stays_live_while_the_database_hangs(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes ten seconds then. A restart of the process would not help."""
    leave = Membership.leave

    async def leave_slowly(membership: Membership) -> None:
        await leave(membership)
        await anyio.sleep(5 * INTERVAL)

    async def await_slow_replies(*_: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(5 * INTERVAL)

    async def hang(*_: object) -> None:
        await anyio.sleep(10 * INTERVAL)
        raise StoreAwayError("no reply")

    store = OneOfTwo()
    async with sandbox.running(offering_bot(store)) as trial:
        await trial.idle()
        with monkeypatch.context() as patch:
            patch.setattr(Membership, "leave", leave_slowly)
            patch.setattr(session, "await_replies", await_slow_replies)
            patch.setattr(session, "join", hang)
            store.is_away = True
            sandbox.publish()
            await eventually(lambda: trial.status.state != "running")
            for _ in range(60):
                assert (trial.status.live, trial.status.state != "running") == (True, True)
                await anyio.sleep(INTERVAL / 2)
        store.is_away = False
        await eventually(lambda: trial.status.state == "running")


@pytest.mark.parametrize(("seconds", "is_blamed"), [(9.0, False), (30.0, True)])
async def test_handler_is_blamed_for_a_late_end_only_if_no_call_of_the_store_explains_it(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, seconds: float, is_blamed: bool
) -> None:
    """A call of a database that does not reply ends after ten seconds, and cannot be cancelled before."""
    store = OneOfTwo()
    bot = new_bot(store)

    @bot.on_new(id="quote")
    async def wait(request: Any, ctx: Any) -> None:
        await ignore_cancellation(seconds)

    async with sandbox.running(bot) as trial:
        await trial.idle()
        sandbox.publish()
        await eventually(lambda: trial.status.in_flight)
        store.is_away = True
        await eventually(lambda: trial.status.state != "running")
        await anyio.sleep(seconds)
        store.is_away = False
        await eventually(lambda: trial.status.state == "running")
    blames = [text for text in messages(caplog, logging.CRITICAL) if "ignore their cancellation" in text]
    assert bool(blames) == is_blamed


@pytest.mark.parametrize("is_free", [True, False])
async def test_store_that_is_away_after_each_join_is_logged_once_a_minute(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, is_free: bool
) -> None:
    class Crowded(OneOfTwo):
        """Store with a connection for the seat, and none for the work."""

        def join(self, binding: Any, **options: Any) -> Any:
            self.is_away = False
            seat = super().join(binding, **options)
            self.is_away = True
            return seat

    store = Crowded()
    store.is_free = is_free
    index, bot = sandbox.publish(), offering_bot(store)

    def losses() -> list[str]:
        return [text for text in messages(caplog) if "lost its seat" in text]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bot.serve, exchange=sandbox.client()))
        await anyio.sleep(50)
        assert losses() == ["the bot has lost its seat in the store: the database is away; it joins again"]
        await anyio.sleep(50)
        assert len(losses()) == 2
        bot.stop()
    assert amounts_on(sandbox, index) == []


async def test_store_that_is_away_while_the_bot_stops_is_no_reason_to_join_again(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    store, handled = OneOfTwo(), anyio.Event()
    bot = new_bot(store)

    @bot.on_new(id="quote")
    async def wait(request: Any, ctx: Any) -> None:
        await handled.wait()

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await eventually(lambda: trial.status.in_flight)
        bot.stop()
        store.is_away = True
        handled.set()
    losses = [text for text in messages(caplog) if "lost its seat" in text]
    assert losses == ["the bot has lost its seat in the store: the database is away; it was stopped, and ends"]


@pytest.mark.parametrize("failure", [StoreAwayError("it is away"), StoreRefusedError("no login")])
async def test_store_that_is_away_at_the_start_ends_the_bot(sandbox: Sandbox, failure: StoreError) -> None:
    store = OneOfTwo()
    store.is_away, store.failure = True, failure
    with pytest.raises(type(failure)):
        await offering_bot(store).serve(exchange=sandbox.client())


async def test_store_that_refuses_a_bot_before_it_runs_ends_it(sandbox: Sandbox) -> None:
    """A user may have the rights to take a seat, and lack those to the tables of the work."""

    class LacksRights(OneOfTwo):
        def join(self, binding: Any, **options: Any) -> Any:
            seat = super().join(binding, **options)
            self.is_away = True
            return seat

    store = LacksRights()
    store.failure = StoreRefusedError("grant this user all rights")
    with pytest.raises(StoreRefusedError), anyio.fail_after(60):
        await offering_bot(store).serve(exchange=sandbox.client())
