"""Fixtures of the bot's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from freight_exchange import FreightExchange
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def store() -> MemoryStore:
    """Store that outlives the bots that use it, as a file outlives a restart."""
    return MemoryStore()


@pytest.fixture
async def exchange(sandbox: Sandbox) -> AsyncIterator[FreightExchange]:
    """Entered client, which a bot leaves open."""
    async with sandbox.client() as client:
        yield client
