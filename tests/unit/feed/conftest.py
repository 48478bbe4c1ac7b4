"""What the tests of the feed share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.sqlite.store import SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store of each kind, called in the loop itself."""
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(":memory:", inline=True)
    yield made
    made.close()
