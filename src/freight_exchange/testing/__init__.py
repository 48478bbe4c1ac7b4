"""For the tests of those who use this package: a whole freight exchange in the test's own process.

    from freight_exchange.testing import Sandbox

    async def test_my_code():
        sandbox = Sandbox()
        sandbox.publish()
        async with sandbox.client() as exchange:
            assert len(await exchange.requests.search().collect()) == 1

A bot is run against it, and crashed where it hurts, with `sandbox.running(bot)`. With pytest,
`from freight_exchange.testing import sandbox` in a `conftest.py` gives every test the fixture `sandbox`. No sockets are
opened, on asyncio and trio alike.
"""

from __future__ import annotations

from freight_exchange.sandbox import FAULTS, AuditLog, Cargo, Cut, Fault, Profile, WireFault
from freight_exchange.testing.trial import FAILPOINTS, Trial
from freight_exchange.testing.virtual_time import VirtualDeadlockError, VirtualTimeLoop, virtual_time_options
from freight_exchange.testing.world import Sandbox

__all__ = [
    "FAILPOINTS",
    "FAULTS",
    "AuditLog",
    "Cargo",
    "Cut",
    "Fault",
    "Profile",
    "Sandbox",
    "Trial",
    "VirtualDeadlockError",
    "VirtualTimeLoop",
    "WireFault",
    "virtual_time_options",
]


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def sandbox() -> Sandbox:
        """A freight exchange of the test's own."""
        return Sandbox()

    __all__ += ["sandbox"]
