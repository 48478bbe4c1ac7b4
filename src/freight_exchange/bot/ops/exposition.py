"""Metrics in the text format of Prometheus, where the extra `metrics` is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.bot.ops.collector import BotCollector
    from freight_exchange.bot.ops.metrics_source import MetricsSource

__all__ = ["INSTALL_HINT", "Expose", "make_collector", "make_exposition"]

INSTALL_HINT: Final = 'metrics need the extra "metrics": pip install "freight-exchange[metrics]"'

Expose = Callable[[str], tuple[str, bytes]]
"""Function of a header `Accept` that returns a content type and a text."""


def make_collector(bots: Sequence[MetricsSource]) -> BotCollector:
    """Return a collector of the metrics of one bot, or of several with the label `bot`.

    Raises:
        ConfigurationError: The extra is not installed, or two bots have one name.
    """
    names = [bot.name for bot in bots]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(
            f"two bots are named {repeated!r}, which the label `bot` must distinguish: give each its own name="
        )
    try:
        from freight_exchange.bot.ops.collector import BotCollector
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise ConfigurationError(INSTALL_HINT) from None
    return BotCollector(bots)


def make_exposition(collector: Callable[[], BotCollector]) -> Expose | None:
    """Return the text of a bot's metrics as a function, or `None` if the extra is not installed."""
    try:
        metrics = collector()
    except ConfigurationError:
        return None
    from freight_exchange.bot.ops.collector import Exposition

    return Exposition(metrics)
