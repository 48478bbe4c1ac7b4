"""Fixtures of the tests of the feed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freight_exchange.store import MemoryStore, Store


@pytest.fixture
def store() -> Iterator[Store]:
    """Return a store that runs in the event loop itself."""
    made = MemoryStore()
    yield made
    made.close()
