"""Source of a bot's metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.ops.status import BotStatus

__all__ = ["MetricsSource"]


class MetricsSource(NamedTuple):
    """Source of a bot's metrics.

    Attributes:
        name: Name of the bot.
        status: Returns the status of the bot; called in the thread of the scrape.
        metrics: The metrics.
        handlers: Returns the ids of the handlers.
    """

    name: str
    status: Callable[[], BotStatus]
    metrics: Metrics
    handlers: Callable[[], Collection[str]]
