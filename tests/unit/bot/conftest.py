"""What most tests of bots begin with."""

from __future__ import annotations

import pytest

from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()
