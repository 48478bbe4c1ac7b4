"""Durations of a bot's calls of the service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.hooks import CallInfo, Instrumentation

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.histogram import Histograms

__all__ = ["PATHS", "CallTimes"]

PATHS: Final = frozenset(
    {
        "login", "request", "route", "carrier", "currency", "quote/request", "quote/getrequests", "quote/submitrequest",
        "quote/offer", "quote/getoffers", "quote/approveoffer", "quote/bid", "quote/submitoffer",
    }
)  # fmt: skip
"""Paths of the service document. Others are one series: `exchange.request()` takes any path."""


class CallTimes(Instrumentation):
    """Instrumentation that observes the durations of calls, by operation and outcome.

    Args:
        histograms: Receives the durations.
    """

    def __init__(self, histograms: Histograms) -> None:
        self._histograms = histograms

    @contextmanager
    def call(self, call: CallInfo) -> Iterator[None]:
        """Surround a call."""
        path = call.path if call.path in PATHS else "other"
        began, outcome = anyio.current_time(), "cancelled"
        try:
            yield
            outcome = "ok"
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._histograms[f"{call.method} {path}", outcome].observe(anyio.current_time() - began)
