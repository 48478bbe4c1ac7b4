"""Fixtures of the bot's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Store that outlives the bots that use it, as a file outlives a restart."""
    yield MemoryStore()
