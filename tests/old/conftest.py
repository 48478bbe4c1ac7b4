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


import sys  # noqa: E402
from unittest.mock import MagicMock  # noqa: E402

for name in (
    "freight_exchange.bot.delivery freight_exchange.bot.delivery.routing freight_exchange.bot.delivery.attempt_log "
    "freight_exchange.bot.delivery.retry_policy freight_exchange.bot.delivery.backfills freight_exchange.bot.delivery.worker "
    "freight_exchange.bot.delivery.updates freight_exchange.bot.delivery.absence freight_exchange.bot.delivery.dispatcher "
    "freight_exchange.bot.unit_of_work freight_exchange.bot.metrics.metrics freight_exchange.feed.core freight_exchange.feed.core.state "
    "freight_exchange.feed.core.first_scan freight_exchange.feed.core.changes freight_exchange.feed.core.changes.diff "
    "freight_exchange.feed.core.watermark freight_exchange.bot.handlers freight_exchange.bot.handlers.context "
    "freight_exchange.bot.handlers.decorators freight_exchange.bot.handlers.injection freight_exchange.bot.handlers.router "
    "freight_exchange.bot.offers freight_exchange.bot.offers.record freight_exchange.bot.ops freight_exchange.bot.ops.probes "
    "freight_exchange.bot.process.signals freight_exchange.bot.process.watchdog freight_exchange.store.protocol freight_exchange.store.seat "
    "freight_exchange.bot.runtime freight_exchange.bot.runtime.fleet freight_exchange.bot.runtime.fleet.membership "
    "freight_exchange.store.sqlite freight_exchange.store.sqlite.feed freight_exchange.store.sqlite.seat freight_exchange.feed.lease "
    "freight_exchange.bot.runtime.session freight_exchange.bot.runtime.session.session freight_exchange.bot.runtime.session.drain freight_exchange.bot.runtime.session.health"
).split():
    sys.modules.setdefault(name, MagicMock())
