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

__all__ = ["MIN_RETENTION", "BotOptions", "check_host", "check_port"]

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

    def __attrs_post_init__(self) -> None:
        _check_whole(self.concurrency, "concurrency", 1, _MAX_CONCURRENCY)
        self.watch_options(self.store)
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

    def watch_options(self, store: Store | str | os.PathLike[str] | None, *, is_idle: bool = False) -> WatchOptions:
        """Return the options of the bot's feed of requests; raise `ConfigurationError` for one that is invalid."""
        return WatchOptions(
            store=store,
            start=self.start,
            interval=self.interval,
            allowance=self.allowance,
            name=self.name,
            standby=self.standby,
            retention=self.retention,
            is_idle=is_idle,
        )


def check_port(port: object) -> None:
    """Check the operator's port."""
    _check_whole(port, "port", 0, _MAX_PORT)


def check_host(host: object) -> None:
    """Check the address of the operator's port."""
    if not isinstance(host, str) or not host:
        raise ConfigurationError(f"host must be a text that is not empty, not {host!r}")


def _check_whole(value: object, name: str, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def _check_duration(value: object, name: str, *, allow_zero: bool = False) -> None:
    if not isinstance(value, timedelta):
        raise ConfigurationError(f"{name} must be a timedelta, not {type(value).__name__}")
    if not (allow_zero and value == timedelta(0)):
        seconds(value, name)
