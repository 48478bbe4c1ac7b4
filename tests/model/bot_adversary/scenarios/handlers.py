"""Handlers that block, leak, and raise unexpected errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import trio
from tests.model.bot_adversary.deploy import Deploy, price_of, quoting
from tests.model.bot_adversary.disk import Disk
from tests.model.bot_adversary.scenario import Scenario, is_offer

from freight_exchange import (
    ConfigurationError,
    Context,
    FreightExchangeError,
    OfferInDoubtError,
    RateRequest,
    RetryLater,
)


def block(seconds: float) -> None:
    """Hold the event loop for a time, as a synchronous call does."""
    try:
        loop: Any = asyncio.get_running_loop()
    except RuntimeError:
        clock: Any = trio.lowlevel.current_clock()
        clock.jump(seconds)
    else:
        loop._selector.now += seconds


def spawn(work: Callable[[], Awaitable[None]]) -> None:
    """Leave a task running in the background."""

    async def quietly() -> None:
        with contextlib.suppress(FreightExchangeError, RetryLater):
            await work()

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        trio.lowlevel.spawn_system_task(quietly)
    else:
        _left_running.add(task := loop.create_task(quietly()))
        task.add_done_callback(_left_running.discard)


_left_running: set[asyncio.Task[None]] = set()


class Blocking(Scenario, name="handlers that block the loop"):
    """Handlers block for seconds or hours, before and after the offer, while replies arrive and timers expire."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._start(disk)
        await world.wait(self.rng.uniform(1, 60))
        if self.rng.random() < 0.5:
            world.fail(when=is_offer, how=self.any_of("lost", "silent", "refused"), times=2)
        world.publish(4)
        await world.wait(self.interval * 3)
        deploy = world.deploys[-1]
        deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
        await self.finish(disk)

    def _start(self, disk: Disk) -> None:
        deploy = self.deploy(disk)
        longest = self.any_of(5.0, 100.0, 7200.0)

        @deploy.bot.on_new(id="quote")
        async def quote(request: RateRequest, ctx: Context) -> None:
            deploy.check()
            if self.rng.random() < 0.5:
                block(self.rng.uniform(0, longest))
            async with anyio.create_task_group() as tasks:
                if self.rng.random() < 0.5:
                    tasks.start_soon(self._block_soon, longest)
                await deploy.offer(ctx, request, price_of(request))
            if self.rng.random() < 0.5:
                block(self.rng.uniform(0, longest))
            deploy.note(ctx, request, "done")

        deploy.start()

    async def _block_soon(self, longest: float) -> None:
        await anyio.sleep(self.rng.uniform(0, 0.1))
        block(self.rng.uniform(0, longest))


class Leaking(Scenario, name="handlers that leak tasks"):
    """Background tasks make offers with their own prices, while their handler runs or after it has returned."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._start(disk)
        world.publish(5)
        if self.rng.random() < 0.5:
            world.fail(when=is_offer, how=self.any_of("lost", "silent", "refused"), times=2)
        await world.wait(self.interval + self.rng.uniform(0, 100))
        if self.rng.random() < 0.5:
            world.deploys[-1].kill()
        await self.finish(disk)

    def _start(self, disk: Disk) -> None:
        deploy = self.deploy(disk)

        @deploy.bot.on_new(id="quote")
        async def quote(request: RateRequest, ctx: Context) -> None:
            deploy.check()
            many, offers_itself = self.rng.randrange(1, 4), self.rng.random() < 0.6
            for number in range(many):
                pause = self.rng.choice([0.0, 0.02, 0.5, 40.0])
                spawn(lambda pause=pause, number=number: self._late(deploy, request, ctx, pause, number))  # type: ignore[misc]
            if offers_itself:
                await deploy.offer(ctx, request, price_of(request))
                deploy.note(ctx, request, "done")
            else:
                deploy.note(ctx, request, "passed")

        deploy.start()

    async def _late(self, deploy: Deploy, request: RateRequest, ctx: Context, pause: float, number: int) -> None:
        await anyio.sleep(pause)
        if not deploy.is_gone:
            await deploy.offer(ctx, request, price_of(request) + number)


class Poison(BaseException):
    """Exception that no handler should raise."""


class Raising(Scenario, name="handlers that raise base exceptions and groups"):
    """Handlers raise `Poison` before the offer, after it, and instead of an error that they should not catch."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        world.publish(5)
        if self.rng.random() < 0.6:
            world.fail(when=is_offer, how=self.any_of("lost", "silent", "refused", 500), times=2)
        await self.supervise(self.interval * 2 + self.rng.uniform(60, 300), lambda: self._start(disk))
        world.deploys[-1].kill()
        await self.finish(disk)

    def _start(self, disk: Disk) -> Deploy:
        deploy = self.deploy(disk)

        @deploy.bot.on_new(id="quote", retries=3)
        async def quote(request: RateRequest, ctx: Context) -> None:
            deploy.check()
            if self.rng.random() < 0.3:
                raise self._error(ValueError())
            try:
                await deploy.offer(ctx, request, price_of(request))
            except OfferInDoubtError as error:
                if self.rng.random() < 0.5:
                    raise self._error(error) from error
                raise
            if self.rng.random() < 0.3:
                raise self._error(ValueError())
            deploy.note(ctx, request, "done")

        return deploy.start()

    def _error(self, inner: Exception) -> BaseException:
        kinds: list[Callable[[], BaseException]] = [
            lambda: Poison("poison"),
            lambda: ExceptionGroup("several", [inner, KeyError("x")]),
            lambda: BaseExceptionGroup("several", [inner, Poison()]),
            lambda: ExceptionGroup("nested", [ExceptionGroup("inner", [inner])]),
            lambda: StopAsyncIteration(),
            lambda: RecursionError("too deep"),
            lambda: MemoryError(),
            lambda: GeneratorExit(),
            lambda: asyncio.CancelledError(),
        ]
        return self.rng.choice(kinds)()


class Swallowing(Scenario, name="handlers that swallow errors and cancellation, or run out of time"):
    """Handlers suppress the errors of `ctx.offer`, return normally, and cancel their offers."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._start(disk)
        world.publish(5)
        world.fail(
            when=is_offer, how=self.any_of("lost", "silent", "refused", 500), times=3, delay=self.any_of(0.0, 3.0, 20.0)
        )
        await world.wait(self.interval + self.rng.uniform(0, 100))
        if self.rng.random() < 0.5:
            deploy = world.deploys[-1]
            deploy.kill() if self.rng.random() < 0.5 else await deploy.stop()
        await self.finish(disk)

    def _start(self, disk: Disk) -> None:
        deploy = self.deploy(disk)
        timeout = self.any_of(0.01, 1.0, 10.0, 300.0)

        @deploy.bot.on_new(id="quote")
        async def quote(request: RateRequest, ctx: Context) -> None:
            deploy.check()
            try:
                with anyio.move_on_after(timeout):
                    await deploy.offer(ctx, request, price_of(request))
            except (ConfigurationError, OSError):
                raise
            except FreightExchangeError:
                if self.rng.random() < 0.3:
                    raise
            deploy.note(ctx, request, "done")

        deploy.start()


class SeveralHandlers(Scenario, name="several handlers offer on one request"):
    """Several handlers offer on a request, each with its own price, delay, revisions and events."""

    async def play(self) -> None:
        world, disk = self.world, self.world.disk()
        self._start(disk)
        requests = world.publish(4)
        if self.rng.random() < 0.6:
            world.fail(when=is_offer, how=self.any_of("lost", "silent", "refused", 500), times=3)
        for _ in range(self.rng.randrange(1, 4)):
            await world.wait(self.interval * self.rng.uniform(0.3, 2))
            for request in self.rng.sample(requests, 2):
                world.market.update(request.index, world.now, self.rng.randrange(1, 400))
            if self.rng.random() < 0.3:
                world.deploys[-1].kill()
                self._start(disk)
        await self.finish(disk, lambda: self._start(disk))

    def _start(self, disk: Disk) -> Deploy:
        deploy = self.deploy(disk)
        think = self.thoughts(self.any_of(0.0, 5.0))
        deploy.bot.on_new(id="quote")(quoting(deploy, think=think))
        deploy.bot.on_new(id="rival")(quoting(deploy, think=think, price=lambda request: price_of(request) + 500))
        deploy.bot.on_updated(id="follow")(quoting(deploy, think=think))
        if self.revises:
            deploy.bot.on_updated(id="revise")(
                quoting(deploy, think=think, price=lambda request: price_of(request) - 100, revision=1)
            )
        return deploy.start()

    @property
    def revises(self) -> bool:
        """Return whether the handler quotes a second price."""
        return bool(self.world.market.first_index % 2)
