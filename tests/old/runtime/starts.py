"""Bots with a separate client."""

from __future__ import annotations

from tests.old.rig import (
    offering_bot,
)

from freight_exchange import Bot, FreightExchange
from freight_exchange.store import MemoryStore


def bot_with_client(store: MemoryStore, exchange: FreightExchange) -> Bot:
    bot = offering_bot(store)
    bot._exchange = exchange
    return bot
