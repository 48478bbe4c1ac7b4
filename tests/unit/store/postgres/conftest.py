"""Store of the tests of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.store.postgres.databases import empty_store

from freight_exchange.store.postgres.store import PostgresStore


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    """Return a store in an empty database."""
    store = empty_store()
    yield store
    store.close()
