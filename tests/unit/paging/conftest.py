"""Fixtures of the tests of paging."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from tests.unit.paging.listing_server import ListingServer
from tests.unit.paging.server import MakeServer, Server


@pytest.fixture
async def serve() -> AsyncIterator[MakeServer]:
    """Return a maker of servers; check that none has a running task at the end."""
    servers: list[Server] = []

    def make(length: int, **quirks: Any) -> Server:
        servers.append(Server(ListingServer([*range(length)], **quirks)))
        return servers[-1]

    yield make
    await anyio.wait_all_tasks_blocked()
    assert [server.under_way for server in servers] == [0] * len(servers)
