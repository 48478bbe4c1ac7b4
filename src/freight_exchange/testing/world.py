"""A freight exchange in the test's own process."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import anyio

from freight_exchange.client import FreightExchange
from freight_exchange.platform.clock import Reading
from freight_exchange.sandbox import Account, AuditLog, Cargo, Exchange, Fault, Profile
from freight_exchange.sandbox.faces.inprocess import transport
from freight_exchange.testing.trial import Trial

if TYPE_CHECKING:
    from types import ModuleType

    import httpx

    from freight_exchange.bot import Bot

__all__ = ["Sandbox"]


class Sandbox:
    """A freight exchange in this process, with three accounts: a shipper, a forwarder and the forwarder's rival.

    Args:
        profile: The service's habits where its document leaves them open.
        seed: What its tokens and random orders are drawn from.

    Attributes:
        exchange: The exchange itself, for what a client cannot do.
        url: Its API root.
    """

    url = "http://127.0.0.1/api"

    def __init__(self, profile: Profile | None = None, *, seed: int = 0) -> None:
        self.exchange = Exchange(profile if profile is not None else Profile(), seed=seed)
        self._began_wall = time.time()
        self._began_loop: float | None = None

    @property
    def audit_log(self) -> AuditLog:
        """What really happened: every call, publication, offer and change of state."""
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
        """Seconds since the epoch by the exchange's clock, which follows the event loop's: virtual time moves it."""
        try:
            loop = anyio.current_time()
        except RuntimeError:
            return self._began_wall
        if self._began_loop is None:
            self._began_loop = loop
        return self._began_wall + loop - self._began_loop

    def publish(self, cargo: Cargo | None = None) -> int:
        """Publish a rate request as the shipper; its index."""
        return self.exchange.publish(self.shipper, self.now(), cargo if cargo is not None else Cargo())

    def strike(self, *faults: Fault) -> None:
        """Have faults strike the calls that they match; `FAULTS[name](...)` gives those of a name."""
        self.exchange.faults.add(*faults)

    def transport(self, library: ModuleType | None = None) -> httpx.AsyncBaseTransport:
        """A transport that carries requests to the exchange, for a client of httpx, or of httpx2 if that is given."""
        return transport(self.exchange, library=library, clock=self.now)

    def http_client(self) -> httpx.AsyncClient:
        """An HTTP client to give to `FreightExchange(http_client=...)` with whatever other options a test needs."""
        import httpx

        return httpx.AsyncClient(transport=self.transport(), trust_env=False)

    def running(
        self, bot: Bot, *, account: Account | None = None, crash_at: str | None = None, times: int = 1
    ) -> Trial:
        """Run a bot against the exchange for as long as the block lasts; it is drained at its end.

            async with sandbox.running(bot) as trial:
                index = sandbox.publish()
                await trial.idle()

        Args:
            bot: The bot; its own client is not used. It may be run again, and goes on with what its store holds.
            account: Whose bot it is; the forwarder's unless told.
            crash_at: One of `freight_exchange.testing.FAILPOINTS`, at which the bot ends as if its process were killed:
                what is durable by then stays, and nothing else does.
            times: At which of its visits to that point, from 1.
        """
        return Trial(bot, self.client(account), crash_at=crash_at, times=times)

    def client(self, account: Account | None = None) -> FreightExchange:
        """A client of an account, the forwarder's unless told."""
        holder = account if account is not None else self.forwarder
        client = FreightExchange(self.url, email=holder.email, password=holder.password, http_client=self.http_client())
        client._shared.clock = _SandboxClock(self)
        return client


class _SandboxClock:
    """Tells a feed the sandbox's time, so that days which pass virtually have passed for it, after a restart too."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._run = secrets.token_hex(8)

    def read(self) -> Reading:
        wall = self._sandbox.now()
        return Reading(run=self._run, loop=anyio.current_time(), boot_id="sandbox", boot=wall, wall=wall)
