"""Options of feeds, checked before anything is sent."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange import validation
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.core import watermark
from freight_exchange.filters import RequestFilter
from freight_exchange.store.factory import check_store

if TYPE_CHECKING:
    from freight_exchange.options import Start
    from freight_exchange.store import Store

__all__ = ["MIN_INTERVAL", "MIN_RETENTION", "FeedOptions", "WatchOptions", "check_text"]

MIN_INTERVAL: Final = timedelta(seconds=1)
MIN_RETENTION: Final = timedelta(seconds=watermark.MIN_RETENTION)

_MAX_ALLOWANCE: Final = timedelta(days=1)
_MAX_INTERVAL: Final = timedelta(days=1)


@attrs.frozen(kw_only=True)
class FeedOptions:
    """Options shared by feeds of requests and of offers. `exchange.watch()` describes most of them.

    Attributes:
        retention: Time for which the store keeps finished events, and records that are no longer listed.
    """

    store: Store | str | os.PathLike[str] | None
    interval: timedelta
    name: str
    standby: bool
    retention: timedelta = MIN_RETENTION

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"name must be a text that is not empty, not {self.name!r}")
        check_text(self.name, "name")
        if not isinstance(self.standby, bool):
            raise ConfigurationError(f"standby must be True or False, not {self.standby!r}")
        if _positive(self.interval, "interval") < MIN_INTERVAL:
            raise ConfigurationError(f"interval must be at least one second, to spare the service, not {self.interval}")
        if self.interval > _MAX_INTERVAL:
            raise ConfigurationError(f"interval must be at most {_MAX_INTERVAL}, not {self.interval}")
        check_store(self.store)


@attrs.frozen(kw_only=True)
class WatchOptions(FeedOptions):
    """Options of a feed of requests.

    Attributes:
        is_idle: Whether the feed sends no requests, and only holds its store and keeps its clock. This is the feed of a
            bot without handlers of requests.
    """

    start: Start
    allowance: timedelta
    where: RequestFilter | None = None
    is_idle: bool = False

    def __attrs_post_init__(self) -> None:
        if isinstance(self.start, timedelta):
            if not timedelta(0) <= self.start <= validation.MAX_WINDOW:
                raise ConfigurationError(
                    f"start must be from zero to five days, which is all that the service lists, not {self.start}"
                )
        elif self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now', 'backfill' or a timedelta, not {self.start!r}")
        if self.where is not None and not isinstance(self.where, RequestFilter):
            raise ConfigurationError(f"where must be RequestFilter(...), not {type(self.where).__name__}")
        if _positive(self.allowance, "allowance") > _MAX_ALLOWANCE:
            raise ConfigurationError(
                f"allowance must be at most {_MAX_ALLOWANCE}, not {self.allowance}: it lengthens the window of each"
                " scan"
            )
        super().__attrs_post_init__()


def check_text(text: str, name: str) -> None:
    """Check that a text can be stored as UTF-8; raise `ConfigurationError` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name} holds half a character (a lone surrogate), which cannot be kept: {text!r}"
        ) from None


def _positive(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    return value
