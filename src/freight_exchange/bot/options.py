"""Options of a bot, validated."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.options import MIN_INTERVAL, MIN_RETENTION, WatchOptions
from freight_exchange.options import seconds

if TYPE_CHECKING:
    from freight_exchange.options import Start
    from freight_exchange.store import Store

DEFAULT_NAME: Final = "bot"
"""Default name of a bot in its store. `exchange.watch` has another default, so it shares nothing with the bot."""

_MAX_CONCURRENCY: Final = 1000
_MAX_PORT: Final = 65535


@attrs.frozen(kw_only=True)
class BotOptions:
    """Options of a bot, validated. `Bot` describes them."""

    store: Store | str | os.PathLike[str] | None
    start: Start
    interval: timedelta
    allowance: timedelta
    concurrency: int
    drain: timedelta
    settle: timedelta
    selection_interval: timedelta
    retention: timedelta
    name: str
    standby: bool
    port: int | None
    host: str
    lease: timedelta

    def __attrs_post_init__(self) -> None:
        _check_whole(self.concurrency, "concurrency", 1, _MAX_CONCURRENCY)
        _ = self.watch
        _check_duration(self.drain, "drain", allow_zero=True)
        _check_duration(self.settle, "settle", allow_zero=True)
        _check_duration(self.selection_interval, "selection_interval")
        if self.selection_interval < MIN_INTERVAL:
            raise ConfigurationError(
                f"selection_interval must be at least one second, to spare the service, not {self.selection_interval}"
            )
        _check_duration(self.retention, "retention")
        if self.retention < MIN_RETENTION:
            raise ConfigurationError(
                f"retention must be at least {MIN_RETENTION.days} days, for the service lists an update for five, not"
                f" {self.retention}"
            )
        _check_duration(self.lease, "lease")
        if self.port is not None:
            _check_whole(self.port, "port", 0, _MAX_PORT)
        if not isinstance(self.host, str) or not self.host:
            raise ConfigurationError(f"host must be a text that is not empty, not {self.host!r}")

    @property
    def watch(self) -> WatchOptions:
        """Options of the bot's feed of requests; raises `ConfigurationError` for one that is invalid."""
        return WatchOptions(
            store=self.store,
            start=self.start,
            interval=self.interval,
            allowance=self.allowance,
            name=self.name,
            standby=self.standby,
            retention=self.retention,
        )


def _check_whole(value: object, name: str, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def _check_duration(value: object, name: str, *, allow_zero: bool = False) -> None:
    if not isinstance(value, timedelta):
        raise ConfigurationError(f"{name} must be a timedelta, not {type(value).__name__}")
    if not (allow_zero and value == timedelta(0)):
        seconds(value, name)
