"""Test support: a freight exchange in the test's own process.

    from freight_exchange.testing import Sandbox

    async def test_my_code():
        sandbox = Sandbox()
        sandbox.publish()
        async with sandbox.client() as exchange:
            assert len(await exchange.requests.search().collect()) == 1

`sandbox.running(bot)` runs a bot against it, and can crash the bot at any failpoint. With pytest, every
test has the fixture `sandbox`. No sockets are opened, on asyncio and on trio.

`world` has the sandbox, `trial` the run of a bot, and `virtual_time` the clocks that jump.
"""

from __future__ import annotations

from freight_exchange.sandbox import FAULTS, AuditLog, Cargo, Cut, Fault, Profile, WireFault
from freight_exchange.testing.trial import FAILPOINTS, Trial
from freight_exchange.testing.virtual_time import VirtualDeadlockError, VirtualTimeLoop, virtual_time_options
from freight_exchange.testing.world import Machine, Sandbox, inline_store

__all__ = [
    "FAILPOINTS",
    "FAULTS",
    "AuditLog",
    "Cargo",
    "Cut",
    "Fault",
    "Machine",
    "Profile",
    "Sandbox",
    "Trial",
    "VirtualDeadlockError",
    "VirtualTimeLoop",
    "WireFault",
    "inline_store",
    "virtual_time_options",
]


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def sandbox() -> Sandbox:
        """Freight exchange of one test."""
        return Sandbox()

    __all__ += ["sandbox"]
