"""The bot: handlers that run for months and never offer twice."""

from __future__ import annotations

from freight_exchange.bot.bot import Bot
from freight_exchange.bot.delivery.context import Context
from freight_exchange.bot.ops.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.outcomes import Drop, RetryLater
from freight_exchange.bot.router import Handler, Router
from freight_exchange.feed.events import BidSelected

__all__ = [
    "BidSelected",
    "Bot",
    "BotStatus",
    "Context",
    "DeadLetter",
    "Doubt",
    "Drop",
    "Handler",
    "RetryLater",
    "Router",
]
