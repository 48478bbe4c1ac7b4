"""Tests of errors that end a bot: they are reported at once, while handlers still run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.rig import (
    AMOUNT,
    HOUR,
    amounts_on,
    eventually,
    ignore_cancellation,
    messages,
    new_bot,
    other,
    run_until_idle,
)

from freight_exchange import Bot, LoginRejectedError, StoreError
from freight_exchange.bot.outcomes import ProcessEnd
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import FAULTS, Profile, Sandbox, virtual_time_options

pytestmark = [pytest.mark.virtual_time, pytest.mark.both_backends]


class Ended:
    """Recorder of reported errors and their times."""

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
async def test_error_is_reported_at_once(store: Store, caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    """The bot waits for its handlers; the callback may end the process."""
    sandbox, ended, states = Sandbox(), Ended(), list[str]()
    bot = new_bot(store)

    @bot.on_new(id="deaf", origin="Ningbo")
    async def deaf(request: Any, ctx: Any) -> None:
        await ignore_cancellation(60)

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
    first, second = messages(caplog, logging.CRITICAL)
    assert "ends the bot: SystemExit" in first or "the bot ends: StoreError: the disk is gone" in first
    assert "ignore their cancellation" in second
    assert f"request {deaf_to}" in second


@pytest.mark.parametrize("heeds", [False, True])
async def test_rejected_login_is_reported_at_once_and_ends_one_session(
    store: Store, caplog: pytest.LogCaptureFixture, heeds: bool
) -> None:
    sandbox, ended = Sandbox(Profile(token_lifetime=30)), Ended()
    bot = new_bot(store, drain=timedelta(seconds=10))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await (anyio.sleep(HOUR) if heeds else ignore_cancellation(400))

    sandbox.publish()

    async def stop() -> None:
        # Credentials that have worked are tried again twice, after half a minute and a minute, before the bot ends.
        await eventually(lambda: ended.errors)
        # Longer than the drain.
        await anyio.sleep(60)
        assert {type(error) for error in ended.errors} == {LoginRejectedError}
        assert ended.has_ended() is heeds
        assert heeds or bot.status().state == "draining"
        assert "rejects the login, which it accepted before" in messages(caplog, logging.CRITICAL)[0]
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
async def test_cancellation_is_reported_at_once(store: Store, caplog: pytest.LogCaptureFixture, by: str) -> None:
    sandbox, ended, states = Sandbox(), Ended(), list[str]()

    async def fails() -> None:
        await anyio.sleep(20)
        raise OSError("the tariff is gone")

    async def shared() -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if by == "what handlers share":
                tasks.start_soon(fails)
            yield

    bot = new_bot(store, lifespan=shared, drain=timedelta(0))

    @bot.on_new(id="deaf")
    async def deaf(request: Any, ctx: Any) -> None:
        await ignore_cancellation(60)

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
    *first, last = messages(caplog, logging.CRITICAL)
    assert "ignore their cancellation" in last
    assert ["cancelled by the lifespan" in text for text in first] == [True] * (by == "what handlers share")


def test_cancelled_application_task_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    sandbox = Sandbox()
    bot = new_bot(None)

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
    assert messages(caplog, logging.CRITICAL) == []


class Refused(BaseException):
    pass


@pytest.mark.parametrize("error", [Refused("no"), GeneratorExit(), SystemExit(), KeyboardInterrupt()], ids=repr)
async def test_error_that_ends_bot_is_logged_with_its_delivery(
    store: Store, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    sandbox = Sandbox()
    bot = new_bot(store)

    @bot.on_new(id="ender")
    async def ender(request: Any, ctx: Any) -> None:
        raise error

    index = sandbox.publish()
    with pytest.raises(type(error)):
        await bot.serve(exchange=sandbox.client())
    (text,) = messages(caplog, logging.CRITICAL)
    assert "'ender'" in text
    assert str(index) in text
    assert type(error).__name__ in text


class TestServe:
    @pytest.mark.parametrize("at", ["before settle", "before sending", "before confirmed", "before claim"])
    async def test_store_that_fails_for_many_is_one_error(self, sandbox: Sandbox, store: MemoryStore, at: str) -> None:
        """A full disk fails for all handlers together."""

        def full(point: str) -> None:
            if point == at:
                raise StoreError("the disk is full")

        bot = new_bot(store, concurrency=8)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await anyio.sleep(max(0.0, 30 - anyio.current_time()))
            await ctx.offer(amount=AMOUNT, currency=840)

        indexes = [sandbox.publish() for _ in range(8)]
        with pytest.raises(StoreError, match="full"):
            await bot.serve(exchange=sandbox.client(), failpoints=full)
        status = await run_until_idle(sandbox, offering_bot_like(bot, store))
        assert status.parked == 0
        assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 8


def offering_bot_like(bot: Bot, store: MemoryStore) -> Bot:
    """Make a bot with the same handlers."""
    again = new_bot(store)
    again.include(bot)
    return again
