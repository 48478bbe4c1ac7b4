"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from freight_exchange import FreightExchange
from freight_exchange.testing import Sandbox


@pytest.fixture
async def exchange(sandbox: Sandbox) -> AsyncIterator[FreightExchange]:
    """Entered client, which a bot leaves open."""
    async with sandbox.client() as client:
        yield client
