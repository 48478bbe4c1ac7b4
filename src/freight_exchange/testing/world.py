"""Freight exchange in the test's own process."""

from __future__ import annotations

import os
import secrets
import time
from types import ModuleType
from typing import Final

import anyio
import httpx

from freight_exchange.bot import Bot
from freight_exchange.client import FreightExchange
from freight_exchange.platform.clock import Reading
from freight_exchange.sandbox import Account, AuditLog, Cargo, Exchange, Fault, Profile
from freight_exchange.sandbox.faces.inprocess import transport
from freight_exchange.store import SQLiteStore, Store
from freight_exchange.testing.trial import Trial

__all__ = ["Machine", "Sandbox", "inline_store"]

_UP: Final = 5_000.0
"""Seconds for which the machine has run at the start."""


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
        url: Its API root.
    """

    url = "http://127.0.0.1/api"

    def __init__(self, profile: Profile | None = None, *, seed: int = 0, began: float | None = None) -> None:
        self.exchange = Exchange(profile if profile is not None else Profile(), seed=seed)
        self.machine = Machine(time.time() if began is None else began)

    @property
    def audit_log(self) -> AuditLog:
        """Log of all calls, publications, offers and changes of state."""
        return self.exchange.audit_log

    @property
    def shipper(self) -> Account:
        return self.exchange.shipper

    @property
    def forwarder(self) -> Account:
        return self.exchange.forwarder

    @property
    def rival(self) -> Account:
        return self.exchange.rival

    def now(self) -> float:
        """Return the exchange's time in seconds since the epoch. It follows the event loop's clock."""
        return self.machine.now()

    def publish(self, cargo: Cargo | None = None) -> int:
        """Publish a rate request as the shipper, and return its index."""
        return self.exchange.publish(self.shipper, self.now(), cargo if cargo is not None else Cargo())

    def strike(self, *faults: Fault) -> None:
        """Arm faults; `FAULTS[name](...)` makes the rules of a fault."""
        self.exchange.faults.add(*faults)

    def transport(self, library: ModuleType | None = None) -> httpx.AsyncBaseTransport:
        """Make a transport to the exchange, for a client of httpx or of the given library."""
        return transport(self.exchange, library=library, clock=self.now)

    def http_client(self) -> httpx.AsyncClient:
        """Make an HTTP client for `FreightExchange(http_client=...)`, for tests that need other options."""
        import httpx

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

    def client(self, account: Account | None = None) -> FreightExchange:
        """Make a client of an account, default the forwarder."""
        holder = account if account is not None else self.forwarder
        client = FreightExchange(self.url, email=holder.email, password=holder.password, http_client=self.http_client())
        client._shared.clock = _Clock(self.machine)
        return client


class _Clock:
    """Clock of one client, on which virtual time counts also after a restart."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._run = secrets.token_hex(8)

    def read(self) -> Reading:
        machine = self._machine
        now = machine.now()
        return Reading(
            run=self._run,
            loop=anyio.current_time(),
            boot_id=f"sandbox {machine._boots}",
            boot=now - machine._booted,
            wall=now + machine._stepped,
        )


def inline_store(path: str | os.PathLike[str]) -> Store:
    """Return a store in a file that works in the event loop, for feeds and bots in virtual time.

    The store that `store=path` makes works in a thread, for which virtual time does not wait.
    """
    return SQLiteStore(path, inline=True)
