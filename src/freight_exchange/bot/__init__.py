"""Bot: handlers on a feed, with at most one offer for each request.

An event of a feed is routed to the handlers that want it (`route`), claimed and handled (`work`), and what its handler
sends is in the ledger first (`ledger`). A `process` runs a `bot`; its `run` opens the `lifespan` and has one session in
the store after another. `status`, `metrics`, `port` and `admin` are for operators.
"""

from __future__ import annotations

# First: a signal may come while the others are imported.
from freight_exchange.bot import signals as _signals  # noqa: F401  # isort: skip

from freight_exchange.bot.bot import Bot
from freight_exchange.bot.context import Context, OfferContext, RequestContext, SelectedContext
from freight_exchange.bot.handler import Handler
from freight_exchange.bot.outcomes import Drop, RetryLater
from freight_exchange.bot.router import Router
from freight_exchange.bot.status import BotStatus, DeadLetter, Doubt
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
    "OfferContext",
    "RequestContext",
    "RetryLater",
    "Router",
    "SelectedContext",
]
