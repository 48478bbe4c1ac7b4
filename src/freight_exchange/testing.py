"""Test support: a freight exchange in the test's own process, runs of a bot, and clocks that jump.

    from freight_exchange.testing import Sandbox

    async def test_my_code():
        sandbox = Sandbox()
        sandbox.publish()
        async with sandbox.client() as exchange:
            assert len(await exchange.requests.search().collect()) == 1

`sandbox.running(bot)` runs a bot against it, and can crash the bot at any failpoint. With pytest, every
test has the fixture `sandbox`. No sockets are opened, on asyncio and on trio.

In virtual time (`virtual_time_options`), days of waiting pass in milliseconds: if no task can run, the clock jumps to
the next timer of the loop. `time.monotonic` and `time.time` do not change. The clock does not wait for other threads or
for peers on sockets, and may jump past the timers that guard them: code under virtual time does its work in the loop.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from types import CoroutineType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import anyio
import attrs
import httpx

from freight_exchange.bot import Bot, BotStatus
from freight_exchange.bot.failpoints import FAILPOINTS
from freight_exchange.bot.tasks import Background
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError
from freight_exchange.platform.clock import Clock, Reading
from freight_exchange.store import Store
from freight_sandbox import FAULTS, Account, AuditLog, Cargo, Cut, Exchange, Fault, Profile, WireFault, memory
from freight_sandbox.wire import Call

if TYPE_CHECKING:
    from freight_exchange import Request, Response

with suppress(ImportError):  # without pytest
    from freight_exchange.pytest_plugin import sandbox as sandbox

__all__ = [
    "FAILPOINTS", "FAULTS", "AuditLog", "Cargo", "Cut", "Fault", "Machine", "Profile", "Sandbox", "Trial",
    "VirtualDeadlockError", "VirtualTimeLoop", "WireFault", "inline_store", "virtual_time_options",
]  # fmt: skip

_UP: Final = 5_000.0
"""Seconds for which the machine has run at the start."""
_TIMEOUT = timedelta(hours=1)
_THREAD_TIMEOUT: Final = 30.0


class Machine:
    """Machine that runs the clients of a sandbox. Feeds and bots measure time by its clocks.

        sandbox.machine.suspend(8 * 3600)      # a laptop is closed for the night
        sandbox.machine.set_wall_clock(by=-60)

    Args:
        began: Time of the exchange at the start, in seconds since the epoch.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._loop: float | None = None
        self._slept = 0.0
        self._stepped = 0.0
        self._boots = 1
        self._booted = began - _UP

    def now(self) -> float:
        """Return the true time, which is the exchange's. It follows the event loop's clock."""
        try:
            loop = anyio.current_time()
        except RuntimeError:
            return self._began + self._slept
        if self._loop is None:
            self._loop = loop
        return self._began + loop - self._loop + self._slept

    def suspend(self, seconds: float) -> None:
        """Suspend the machine: the true time advances at once, but no timer of the event loop."""
        self._slept += seconds

    def set_wall_clock(self, *, by: float) -> None:
        """Set the wall clock forward by so many seconds, or back if the number is negative."""
        self._stepped += by

    def reboot(self) -> None:
        """Begin the boot clock anew. Programs that ran before have ended."""
        self._boots += 1
        self._booted = self.now()


class Sandbox:
    """Freight exchange in this process, with three accounts: a shipper, a forwarder and the forwarder's rival.

    Args:
        profile: Quirks of the service, default those of its document.
        seed: Seed of its tokens and random orders.
        began: Time at its start in seconds since the epoch, default now.

    Attributes:
        exchange: The exchange itself, for actions that clients cannot do.
        machine: The machine that runs its clients, whose clocks can be set.
        audit_log: Log of all calls, publications, offers and changes of state.
        shipper, forwarder, rival: The accounts.
        url: Its API root.
    """

    url = "http://127.0.0.1/api"

    def __init__(self, profile: Profile | None = None, *, seed: int = 0, began: float | None = None) -> None:
        self.exchange = Exchange(profile if profile is not None else Profile(), seed=seed)
        self.machine = Machine(time.time() if began is None else began)
        self.audit_log: AuditLog = self.exchange.audit_log
        self.shipper: Account = self.exchange.shipper
        self.forwarder: Account = self.exchange.forwarder
        self.rival: Account = self.exchange.rival

    def now(self) -> float:
        """Return the exchange's time in seconds since the epoch. It follows the event loop's clock."""
        return self.machine.now()

    def publish(self, cargo: Cargo | None = None) -> int:
        """Publish a rate request as the shipper, and return its index."""
        return self.exchange.publish(self.shipper, self.now(), cargo if cargo is not None else Cargo())

    def update(self, request: int, **changes: Any) -> None:
        """Change fields of a request's cargo, as its shipper: `sandbox.update(request, quantity=30)`."""
        cargo = attrs.evolve(self.exchange.requests[request].cargo, **changes)
        self.exchange.update(request, self.now(), cargo)

    def strike(self, *faults: Fault) -> None:
        """Arm faults; `FAULTS[name](...)` makes the rules of a fault."""
        self.exchange.faults.add(*faults)

    def transport(self, library: ModuleType | None = None, **options: Any) -> httpx.AsyncBaseTransport:
        """Make a transport to the exchange, for a client of httpx or of the given library.

        `options` are those of the library's own transport, such as `limits`.
        """
        return memory.transport(self.exchange, library=library or httpx, clock=self.now, **options)

    def http_client(self) -> httpx.AsyncClient:
        """Make an HTTP client for `FreightExchange(http_client=...)`."""
        return httpx.AsyncClient(transport=self.transport(), trust_env=False)

    def running(
        self, bot: Bot, *, account: Account | None = None, crash_at: str | None = None, times: int = 1
    ) -> Trial:
        """Run a bot against the exchange during the block, and shut it down gracefully at the end.

            async with sandbox.running(bot) as trial:
                index = sandbox.publish()
                await trial.idle()

        Args:
            bot: The bot; its own client is not used. It may run again, and continues with its store.
            account: The account of the bot, default the forwarder.
            crash_at: One of `freight_exchange.testing.FAILPOINTS`. There the bot ends as if its process were killed:
                only its durable state survives.
            times: Number of the pass through that failpoint at which it crashes, from 1.
        """
        return Trial(bot, self.client(account), crash_at=crash_at, times=times)

    def client(self, account: Account | None = None, **options: Any) -> FreightExchange:
        """Make a client of an account, default the forwarder.

        It sends over the SDK's own connections, whose network ends at the exchange. `options` are those of
        `FreightExchange`.
        """
        holder = account if account is not None else self.forwarder
        login = {"email": holder.email, "password": holder.password}
        middleware = (*options.pop("middleware", ()), _announce)
        client = FreightExchange(self.url, middleware=middleware, **{**login, **options})
        client._shared.clock = _Clock(self.machine)
        client._shared.connection.backend = memory.Network(self.exchange, self.now)
        return client


async def _announce(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    memory.announce(Call(request.method, request.path, dict(request.params)))
    return await call_next(request)


class _Clock(Clock):
    """Clock of one client, on which virtual time counts also after a restart."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def read(self) -> Reading:
        machine, now = self._machine, self._machine.now()
        boot_id, boot, wall = f"sandbox {machine._boots}", now - machine._booted, now + machine._stepped
        return attrs.evolve(super().read(), boot_id=boot_id, boot=boot, wall=wall)


def inline_store(path: str | os.PathLike[str]) -> Store:
    """Return a store in a file that works in the event loop, for feeds and bots in virtual time.

    The store that `store=path` makes works in a thread, for which virtual time does not wait.
    """
    return Store(path, inline=True)


class _Crash(BaseException):
    """Simulated end of the process. It is not an `Exception`, so that no code handles it."""


class Trial:
    """Run of a bot in a test. Made by `sandbox.running(bot)`.

    Attributes:
        has_crashed: Whether the bot reached the failpoint `crash_at`.
    """

    def __init__(self, bot: Bot, client: FreightExchange, *, crash_at: str | None, times: int) -> None:
        if crash_at is not None and crash_at not in FAILPOINTS:
            raise ValueError(f"crash_at must be one of {', '.join(FAILPOINTS)}, not {crash_at!r}")
        self._bot = bot
        self._client = client
        self._crash_at = crash_at
        self._remaining = times
        self._run: Background
        self.has_crashed = False

    async def __aenter__(self) -> Self:
        self._bot._begin()
        self._run = Background(self._serve)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._bot.stop()
        with anyio.CancelScope(shield=True):
            await self._run.wait()
        self._run.raise_error()

    @property
    def status(self) -> BotStatus:
        """Status of the bot."""
        return self._bot.status()

    async def idle(self, within: timedelta = _TIMEOUT) -> None:
        """Wait until the bot has seen everything published so far, and every delivery has ended.

        Raises:
            TimeoutError: It takes longer than `within`.
            BaseException: The error that ended the bot.
        """
        try:
            await self._bot.idle(within)
        except ConfigurationError:
            await self._run.wait()
            self._run.raise_error()
            raise RuntimeError("the bot has crashed" if self.has_crashed else "the bot has stopped") from None

    async def crashed(self, within: timedelta = _TIMEOUT) -> None:
        """Wait until the bot has crashed at its failpoint.

        Raises:
            TimeoutError: The bot does not reach it.
        """
        with anyio.fail_after(within.total_seconds()):
            await self._run.wait()
        if not self.has_crashed:
            self._run.raise_error()

    async def _serve(self) -> None:
        try:
            await self._bot.serve(exchange=self._client, failpoints=self._reach)
        except BaseException as error:
            if not self.has_crashed:
                raise
            del error

    def _reach(self, point: str) -> None:
        if self.has_crashed:
            # Nothing after the crash may become durable.
            raise _Crash
        if point == self._crash_at:
            self._remaining -= 1
            if self._remaining == 0:
                self.has_crashed = True
                if (run := self._bot._run) is not None and run.session is not None:
                    # The claims and leases of an ended process stay in the store.
                    run.store.me = 0
                raise _Crash(point)


class VirtualDeadlockError(RuntimeError):
    """All tasks wait, and no timer, socket or thread can wake one."""


class _JumpingSelector(selectors.DefaultSelector):
    """Selector that advances its clock instead of waiting for a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None:
            self.now += timeout
            return ready
        # One file is always registered: the loop's waker, to which only threads and signals write.
        if len(self.get_map()) > 1:
            return super().select(None)
        # An idle pool thread looks like a busy one: only a timeout distinguishes them.
        if threading.active_count() > 1 and (ready := super().select(_THREAD_TIMEOUT)):
            return ready
        waiting = "; ".join(sorted(map(_location, asyncio.all_tasks())))
        raise VirtualDeadlockError(f"every task waits, and no timer, socket or thread is left to wake one: {waiting}")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Asyncio event loop whose clock starts at 0 and jumps to the next timer when nothing is ready.

    Ready sockets and callbacks always go first. If no timer is set either, and no socket is watched, the loop raises
    `VirtualDeadlockError` with the tasks that wait; while other threads are alive, which may still wake it, after
    thirty real seconds.
    """

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        # Timers within this many seconds of now are due. Here all of them are due exactly now. After 97 days, the
        # default of a nanosecond is lost in float rounding, and they would never fire.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now


def virtual_time_options(backend: Literal["asyncio", "trio"]) -> dict[str, Any]:
    """Return the backend options for virtual time, for `anyio.run` or the `anyio_backend` fixture.

    Each call makes a new trio clock, so that every run starts at 0.
    """
    if backend == "asyncio":
        return {"loop_factory": VirtualTimeLoop}
    # Imported here, as the package does not depend on trio.
    from trio.testing import MockClock

    return {"clock": MockClock(autojump_threshold=0)}


def _location(task: asyncio.Task[Any]) -> str:
    # The innermost coroutine shows the cause; the outermost is often the test runner's.
    innermost = task.get_coro()
    while isinstance(innermost, CoroutineType) and isinstance(innermost.cr_await, CoroutineType):
        innermost = innermost.cr_await
    if not isinstance(innermost, CoroutineType) or innermost.cr_frame is None:
        return task.get_name()
    return f"{task.get_name()} in {innermost.__qualname__}, line {innermost.cr_frame.f_lineno}"
