"""Bot: handlers on a feed, with at most one offer for each request.

- `bot`: the class `Bot`
- `handlers`: handlers, and the routers that they are registered with
- `delivery`: delivery of events to handlers
- `offers`: the ledger of offers
- `answers`: the ledger of a shipper's answers to offers
- `events`: events for bids of this account that a shipper selected, and for offers on its requests
- `runtime`: process, sessions, lifespan and shutdown
- `ops`: status, probes and administration
- `unit_of_work`: the durable steps, and `failpoints` around them
- `metrics`: counters and histograms
- `writes`: outcomes, late arrivals and versions of writes, shared by `offers` and `answers`
- `outcomes`: results of a handler other than success: `Drop` and `RetryLater`
"""

from __future__ import annotations

from freight_exchange.bot.bot import Bot
from freight_exchange.bot.handlers.context import Context
from freight_exchange.bot.handlers.handler import Handler
from freight_exchange.bot.handlers.router import Router
from freight_exchange.bot.ops.status import BotStatus, DeadLetter, Doubt
from freight_exchange.bot.outcomes import Drop, RetryLater
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
