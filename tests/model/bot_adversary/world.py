"""World of one run: the exchange, the time, the deploys of the bot, and the calls of its handlers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs
import httpx

from freight_exchange.platform.clock import Reading

from .disk import Disk
from .market import Market, Shipment
from .service import Call, Service, read

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from .deploy import Deploy

__all__ = ["FailureRule", "OfferCall", "World"]

BEGAN: Final = 1_780_000_000.0


@attrs.define
class OfferCall:
    """Call of `ctx.offer` by a handler, and its result.

    Attributes:
        ending: `bid`, `already`, `rejected`, `doubt`, or the name of the raised error; empty while the call runs.
    """

    at: float
    deploy: str
    request: int
    revision: int
    amount: Decimal
    currency: str
    rates: dict[str, Decimal]
    terms: str | None
    allow_existing: bool = False
    ending: str = ""
    returned: Decimal | None = None
    ended: float = float("inf")


@attrs.define
class Handled:
    """Completed call of a handler."""

    at: float
    kind: str
    request: int | None
    handler: str
    quantity: int | None
    ending: str


@attrs.define(kw_only=True)
class FailureRule:
    """Rule for failing calls.

    Attributes:
        when: Returns whether the rule applies to a call.
        how: `refused` (it never arrives), `lost` (the answer is lost), `silent` (the answer never comes), or a status.
        body: The body with that status.
        takes: Whether the exchange handles the call nevertheless.
        times: Number of calls to which it applies.
        delay: Seconds until the exchange handles the call.
    """

    when: Callable[[Call], bool]
    how: str | int
    times: float = float("inf")
    delay: float = 0.0
    body: Any = None
    takes: bool = True
    struck: int = 0


@attrs.define
class World:
    """Exchange, clocks, stores and deploys of one scenario.

    Attributes:
        wall_step: Error of the bot's wall clock, in seconds.
        service_step: Error of the exchange's clock, in seconds; no reply shows it.
    """

    rng: Random
    folder: Path
    tasks: TaskGroup
    market: Market = attrs.field(factory=Market)
    service: Service = attrs.field(init=False)
    offer_calls: list[OfferCall] = attrs.field(factory=list)
    handled: list[Handled] = attrs.field(factory=list)
    failures: list[FailureRule] = attrs.field(factory=list)
    deploys: list[Deploy] = attrs.field(factory=list)
    gaps: list[tuple[float, float]] = attrs.field(factory=list)
    before_call: Callable[[Call], None] | None = None
    after_call: Callable[[Call], None] | None = None
    latency: float = 0.05
    owed_when_open: float = 300.0
    wall_step: float = 0.0
    boot_step: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.market.first_index = self.rng.randrange(1, 5000)
        self.service = Service(self.market, self.rng)
        if self.rng.random() < 0.8:
            self._offered_before()

    @property
    def now(self) -> float:
        """Return the seconds since the epoch by the exchange's clock."""
        return BEGAN + anyio.current_time()

    def _offered_before(self) -> None:
        """Give the account earlier offers on requests that are no longer listed."""
        for ago in (9 * 86400.0, 7 * 86400.0):
            old = self.market.publish(BEGAN - ago, 10)
            old.absences.append((BEGAN - ago + 3600.0, float("inf")))
            self.market.take(BEGAN - ago + 60.0, old.index, Decimal(old.index), 23, author="an earlier bot")

    async def wait(self, seconds: float) -> None:
        """Sleep in virtual time."""
        await anyio.sleep(seconds)

    def disk(self, name: str = "a") -> Disk:
        """Create a folder for a bot's store."""
        return Disk(self.folder, name)

    def publish(self, many: int = 1) -> list[Shipment]:
        """Publish requests with different quantities."""
        return [self.market.publish(self.now, self.rng.randrange(1, 400)) for _ in range(many)]

    def offer_by_hand(self, request: int, amount: Decimal | int, currency: int = 23) -> None:
        """Make an offer by hand on the bot's account."""
        lag = self.service.quirks.bid_lag()
        self.market.take(self.now, request, Decimal(amount), currency, author="a person", lag=lag)

    def fail(self, **rule: Any) -> FailureRule:
        """Add a rule for failing calls."""
        failure = FailureRule(**rule)
        self.failures.append(failure)
        return failure

    def heal(self) -> None:
        """Remove all rules for failing calls."""
        self.failures.clear()
        self.before_call = self.after_call = None

    async def until(self, condition: Callable[[], bool], within: float = 3600.0, step: float = 0.5) -> bool:
        """Wait until a condition holds; return whether it did in time."""
        end = anyio.current_time() + within
        while not condition():
            if anyio.current_time() >= end:
                return False
            await anyio.sleep(step)
        return True

    def clock(self) -> WorldClock:
        """Return the clock of a new process."""
        return WorldClock(self, secrets.token_hex(8))

    def client_of(self, deploy: Deploy) -> httpx.AsyncClient:
        """Return the HTTP client of a deploy."""
        return httpx.AsyncClient(transport=Line(self, deploy), trust_env=False)


@attrs.frozen
class WorldClock:
    """Clock of one process in the world."""

    world: World
    run: str

    def read(self) -> Reading:
        """Return the reading of the clock."""
        loop = anyio.current_time()
        wall = self.world.now + self.world.wall_step
        return Reading(run=self.run, loop=loop, boot_id="here", boot=loop + self.world.boot_step, wall=wall)


class _Box:
    """Reply in flight."""

    def __init__(self) -> None:
        self.there = anyio.Event()
        self.reply: tuple[int, Any] | None = None
        self.error: type[httpx.TransportError] | None = None


class Line(httpx.AsyncBaseTransport):
    """Network between one deploy and the exchange. It delivers sent data even after the sender has died."""

    def __init__(self, world: World, deploy: Deploy) -> None:
        self._world = world
        self._deploy = deploy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        if self._deploy.is_gone:
            raise httpx.ConnectError("this process is gone")
        call = Call(
            method=request.method,
            path=request.url.path.removeprefix("/api/"),
            parameters=dict(request.url.params) | read(content),
            token=request.headers.get("authorization", "").removeprefix("Bearer ") or None,
            author=self._deploy.name,
        )
        box = _Box()
        self._world.tasks.start_soon(self._carry, call, box)
        timeout = request.extensions.get("timeout", {}).get("read")
        with anyio.move_on_after(timeout):
            await box.there.wait()
        if self._deploy.is_gone:
            raise httpx.ReadError("this process is gone")
        if box.error is not None:
            raise box.error(f"{call.method} {call.path} went wrong")
        if box.reply is None:
            raise httpx.ReadTimeout("no answer")
        status, body = box.reply
        return httpx.Response(status, json=body, request=request)

    async def _carry(self, call: Call, box: _Box) -> None:
        world = self._world
        failure = next((each for each in world.failures if each.struck < each.times and each.when(call)), None)
        if failure is not None:
            failure.struck += 1
        await anyio.sleep(world.latency / 2)
        if failure is not None and failure.how == "refused":
            box.error = httpx.ConnectError
            box.there.set()
            return
        if world.before_call is not None and not self._deploy.is_gone:
            world.before_call(call)
        if failure is not None:
            await anyio.sleep(failure.delay)
        if failure is None or failure.takes:
            box.reply = world.service.answer(call, world.now)
        if failure is not None and isinstance(failure.how, int):
            box.reply = failure.how, failure.body
        if world.after_call is not None and not self._deploy.is_gone:
            world.after_call(call)
        await anyio.sleep(world.latency / 2)
        if failure is not None and failure.how == "silent":
            box.reply = None
            return
        if failure is not None and failure.how == "lost":
            box.error = httpx.ReadError
        box.there.set()


@asynccontextmanager
async def world_of(seed: int, folder: Path) -> AsyncIterator[World]:
    """Create a world, and end its deploys at the end of the block."""
    async with anyio.create_task_group() as tasks:
        world = World(Random(seed), folder, tasks)
        try:
            yield world
        finally:
            for deploy in world.deploys:
                deploy.vanish()
            with anyio.CancelScope(shield=True):
                for deploy in world.deploys:
                    with anyio.move_on_after(3600):
                        await deploy.ghost_ended.wait()
            tasks.cancel_scope.cancel()


SETTLE: Final = timedelta(seconds=30)
