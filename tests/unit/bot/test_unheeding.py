"""Handlers that do not end when they are told to: whoever operates the bot is told which they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.bot import rig
from tests.unit.bot.rig import HOUR, Watch, bot_on, other

from freight_exchange import LoginRejectedError, StoreError
from freight_exchange.bot.metrics import ActiveDelivery, InFlight
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Profile, Sandbox, virtual_time_options

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]

store = rig.store


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]


async def unheeding(seconds: float) -> None:
    """Swallows its cancellation, and goes on."""
    with contextlib.suppress(BaseException):
        await anyio.sleep(HOUR)
    with anyio.CancelScope(shield=True):
        await anyio.sleep(seconds)


async def test_one_that_does_not_heed_its_time_limit_is_told_of_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox, watch = Sandbox(), Watch()
    bot = bot_on(store, concurrency=2)

    @bot.on_new(id="deaf", timeout=10, retries=0)
    async def deaf(request: Any, ctx: Any) -> None:
        watch.note("deaf", ctx, request.index)
        if request.origin == "Ningbo":
            await unheeding(300)

    index = sandbox.publish(other("Ningbo"))
    async with sandbox.running(bot) as trial:
        await anyio.sleep(14)
        assert told(caplog) == [], "it may need a moment to close what it has open"
        await anyio.sleep(5)
        (said,) = told(caplog)
        assert "'deaf'" in said
        assert str(index) in said
        sandbox.publish()
        await trial.idle()
        assert len(told(caplog)) == 1
        assert len(watch.of("deaf")) == 2, "others are handed over meanwhile"


async def test_one_that_heeds_it_is_not_told_of(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)

    @bot.on_new(timeout=10, retries=1)
    async def slow(request: Any, ctx: Any) -> None:
        await anyio.sleep(HOUR)

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        assert trial.status.dead == 1
    assert told(caplog) == []


async def test_one_that_does_not_heed_the_end_of_the_drain_is_told_of(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Here the bot can but wait for it; a process of the bot's own ends all the same."""
    sandbox = Sandbox()
    bot = bot_on(store, drain=timedelta(seconds=5))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await (unheeding(30) if request.origin == "Ningbo" else anyio.sleep(HOUR))

    deaf_to, index = sandbox.publish(other("Ningbo")), sandbox.publish()
    async with sandbox.running(bot):
        await anyio.sleep(60)
        began = anyio.current_time()
    assert anyio.current_time() == pytest.approx(began + 35)
    (said,) = told(caplog)
    assert f"request {deaf_to}" in said
    assert f"request {index}" not in said


class Ended:
    """What is told of what ends a bot, and when."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.times: list[float] = []
        self.has_ended: Callable[[], bool] = lambda: False

    def __call__(self, error: BaseException, has_ended: Callable[[], bool]) -> None:
        if not self.errors:
            self.has_ended = has_ended
        self.errors.append(error)
        self.times.append(anyio.current_time())


@pytest.mark.parametrize("error", [StoreError("the disk is gone"), SystemExit(3)], ids=["store", "exit"])
async def test_of_what_ends_the_bot_it_is_told_at_once_though_one_does_not_heed_it(
    store: Store, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """The bot itself can but wait for it; whoever is told can end the process."""
    sandbox, ended, states = Sandbox(), Ended(), list[str]()
    bot = bot_on(store)

    @bot.on_new(id="deaf", origin="Ningbo")
    async def deaf(request: Any, ctx: Any) -> None:
        await unheeding(60)

    @bot.on_new(id="ender", origin="Hong Kong")
    async def ender(request: Any, ctx: Any) -> None:
        await anyio.sleep(5)
        if isinstance(error, SystemExit):
            raise error
        breaks.append(error)

    breaks: list[BaseException] = []

    def visit(point: str) -> None:
        if breaks:
            raise breaks[0]

    deaf_to = sandbox.publish(other("Ningbo"))
    sandbox.publish()
    began = anyio.current_time()

    async def look() -> None:
        await anyio.sleep(20)
        states.append(bot.status().state)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        bot.begin(ended)
        with pytest.raises(type(error)):
            await bot.serve(exchange=sandbox.client(), failpoints=visit)
    assert anyio.current_time() == pytest.approx(began + 65, abs=1)
    assert [cause.reason if isinstance(cause, ProcessEnd) else cause for cause in ended.errors] == [error]
    assert ended.times == [pytest.approx(began + 5, abs=1)]
    assert not ended.has_ended()
    assert states == ["draining"]
    first, second = told(caplog)
    assert "ends the bot by SystemExit" in first or "the bot ends by StoreError: the disk is gone" in first
    assert "ignore their cancellation" in second
    assert f"request {deaf_to}" in second


@pytest.mark.parametrize("heeds", [False, True])
async def test_a_login_that_is_rejected_later_is_told_at_once_and_ends_one_run(
    store: Store, caplog: pytest.LogCaptureFixture, heeds: bool
) -> None:
    sandbox, ended = Sandbox(Profile(token_lifetime=30)), Ended()
    bot = bot_on(store, drain=timedelta(seconds=10))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await (anyio.sleep(HOUR) if heeds else unheeding(400))

    sandbox.publish()

    async def stop() -> None:
        # Credentials that have worked are tried again twice, after half a minute and a minute, before the bot ends.
        await anyio.sleep(180)
        assert {type(error) for error in ended.errors} == {LoginRejectedError}
        assert ended.has_ended() is heeds
        assert heeds or bot.status().state == "draining"
        assert "http://127.0.0.1/api rejects the login, which it accepted before" in told(caplog)[0]
        bot.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        bot.begin(ended)

        async def strike() -> None:
            await anyio.sleep(20)
            sandbox.strike(*FAULTS["login_message_401"](times=None))

        tasks.start_soon(strike)
        await bot.serve(exchange=sandbox.client())
    assert ended.has_ended()


@pytest.mark.parametrize("by", ["what handlers share", "the application", "a stop"])
async def test_a_cancellation_is_told_of_at_once_where_what_handlers_share_has_asked_for_it(
    store: Store, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    sandbox, ended, states = Sandbox(), Ended(), list[str]()

    async def fails() -> None:
        await anyio.sleep(20)
        raise OSError("the tariff is gone")

    async def shared() -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if by == "what handlers share":
                tasks.start_soon(fails)
            yield

    bot = bot_on(store, lifespan=shared, drain=timedelta(0))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await unheeding(60)

    async def look() -> None:
        await anyio.sleep(20)
        if by == "a stop":
            bot.stop()
        await anyio.sleep(20)
        states.append(bot.status().state)

    sandbox.publish()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        bot.begin(ended)
        with contextlib.ExitStack() as stack:
            if by == "the application":
                stack.enter_context(anyio.move_on_after(20))
            if by == "what handlers share":
                stack.enter_context(pytest.raises(OSError, match="the tariff is gone"))
            await bot.serve(exchange=sandbox.client())
    assert states == ["draining"]
    assert len(ended.errors) == (by != "a stop")
    *first, last = told(caplog)
    assert "ignore their cancellation" in last
    assert ["what handlers share has cancelled it" in said for said in first] == [True] * (by == "what handlers share")


def test_the_cancellation_of_a_task_of_the_applications_is_its_own_affair(caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox()
    bot = bot_on(None)

    @bot.on_new
    async def slow(request: Any, ctx: Any) -> None:
        await anyio.sleep(HOUR)

    async def main() -> None:
        task = asyncio.ensure_future(bot.serve(exchange=sandbox.client()))
        await anyio.sleep(20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    sandbox.publish()
    anyio.run(main, backend_options=virtual_time_options("asyncio"))
    assert told(caplog) == []


class Refused(BaseException):
    """Nothing that a handler should raise."""


@pytest.mark.parametrize("error", [Refused("no"), GeneratorExit(), SystemExit(), KeyboardInterrupt()], ids=repr)
async def test_one_that_ends_the_bot_is_told_of(
    store: Store, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    sandbox = Sandbox()
    bot = bot_on(store)

    @bot.on_new(id="ender")
    async def ender(request: Any, ctx: Any) -> None:
        raise error

    index = sandbox.publish()
    with pytest.raises(type(error)):
        await bot.serve(exchange=sandbox.client())
    (said,) = told(caplog)
    assert "'ender'" in said
    assert str(index) in said
    assert type(error).__name__ in said


def test_of_many_at_work_the_first_are_named() -> None:
    in_flight = InFlight()
    assert (len(in_flight), str(in_flight)) == (0, "")
    with contextlib.ExitStack() as blocks:
        for index in range(7):
            blocks.enter_context(in_flight.track(ActiveDelivery("quote", "new", index, 0.0)))
        blocks.enter_context(in_flight.track(ActiveDelivery("tell", "gap", None, 0.0)))
        assert len(in_flight) == 8
        assert str(in_flight).startswith("the handler 'quote' of the event 'new' of request 0; ")
        assert str(in_flight).endswith("request 4; and 3 more")
    assert len(in_flight) == 0
    with in_flight.track(ActiveDelivery("tell", "gap", None, 0.0)):
        assert str(in_flight) == "the handler 'tell' of the event 'gap'"
