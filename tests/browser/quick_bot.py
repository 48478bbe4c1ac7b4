"""Forwarder's bot of the examples with a short interval, so that a person can watch it work."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta

from examples.bot import router, shared

from freight_exchange import Bot

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
PACE = timedelta(seconds=1)
SETTLED = timedelta(seconds=1)  # the sandbox shows an offer to its forwarder at once
bot = Bot(store=sys.argv[1], lifespan=shared, start="backfill", interval=PACE, selection_interval=PACE, settle=SETTLED)
bot.include(router)
bot.run()
