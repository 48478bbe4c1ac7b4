"""Reports of a feed's scans to hooks and to the log."""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import anyio

from freight_exchange.hooks import Degraded, Recovered, Scan, ScanProgress

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.feed.core.planning.active_scan import ActiveScan
    from freight_exchange.feed.core.planning.scanner import Scanner
    from freight_exchange.hooks import Hooks

__all__ = ["ScanReports"]

_logger = logging.getLogger("freight_exchange.feed")

_BETWEEN_LINES: Final = 15.0
"""Seconds from one log line about a long scan to the next."""


class ScanReports:
    """Reports of one feed.

    Args:
        hooks: Hooks of the client.
        name: Name of the feed.
        url: Address of the service.
    """

    def __init__(self, hooks: Hooks, *, name: str, url: str) -> None:
        self._hooks = hooks
        self._name = name
        self._url = url
        self._failing_since: float | None = None
        self._unsent: deque[Degraded | Recovered] = deque()
        self._logged = -math.inf

    def log_progress(self, scan: ActiveScan) -> None:
        """Log the progress of a long scan, at intervals."""
        now = anyio.current_time()
        if now - max(self._logged, scan.started) < _BETWEEN_LINES:
            return
        self._logged = now
        _logger.info(
            "the feed %r is reading what was updated in the last %d s: %d pages, %d requests so far",
            self._name,
            scan.window,
            scan.scanner.pages,
            len(scan.indexes),
        )

    def log_ignored_offset(self) -> None:
        """Log that the service returns its first page for each offset."""
        _logger.warning(
            "%s ignores `offset`: the feed %r misses what its first page lacks; if a proxy drops the bodies of GETs,"
            ' set get_parameters="query"',
            self._url,
            self._name,
        )

    async def send_progress(self, scan: ActiveScan) -> None:
        """Send the progress of a scan to the hooks."""
        if self._hooks:
            await self._hooks.emit(
                ScanProgress(
                    feed=self._name,
                    tier=scan.tier.name,
                    first=scan.is_first,
                    window=scan.window,
                    pages=scan.scanner.pages,
                    requests=len(scan.indexes),
                    elapsed=anyio.current_time() - scan.started,
                )
            )

    async def send_end(
        self,
        scanner: Scanner[Any],
        *,
        tier: str,
        window: int,
        events: int,
        elapsed: float,
        error: FreightExchangeError | None,
        is_complete: bool,
    ) -> None:
        """Send the end of a scan to the hooks."""
        if self._hooks:
            await self._hooks.emit(
                Scan(
                    feed=self._name,
                    tier=tier,
                    window=window,
                    pages=scanner.pages,
                    rows=scanner.rows,
                    events=events,
                    complete=is_complete,
                    elapsed=elapsed,
                    error=error,
                )
            )

    def record_error(self, error: FreightExchangeError, wait: float) -> None:
        """Record a failure; log it and prepare its report if it is the first of several."""
        if self._failing_since is None:
            self._failing_since = anyio.current_time()
            _logger.warning("the feed %r cannot read %s: %s; retrying in %.0f s", self._name, self._url, error, wait)
            self._unsent.append(Degraded(feed=self._name, error=error, retry_in=wait))

    def record_recovery(self) -> None:
        """Record the end of failures; log it and prepare its report if there were any."""
        if self._failing_since is not None:
            after, self._failing_since = anyio.current_time() - self._failing_since, None
            _logger.info("the feed %r recovered: %s can be read again, after %.0f s", self._name, self._url, after)
            self._unsent.append(Recovered(feed=self._name, after=after))

    async def send_changes(self) -> None:
        """Send starts and ends of failures to the hooks. After a cancellation, the next call repeats the last one."""
        while self._unsent:
            if self._hooks:
                await self._hooks.emit(self._unsent[0])
            self._unsent.popleft()
