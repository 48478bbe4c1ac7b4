"""Options of feeds, checked before anything is sent."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from freight_exchange import validation
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.state import WIDEST
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_INTERVAL, flag
from freight_exchange.store import database

if TYPE_CHECKING:
    from freight_exchange.options import Start
    from freight_exchange.store import Store

MIN_INTERVAL: Final = timedelta(seconds=1)
MIN_RETENTION: Final = timedelta(seconds=WIDEST + 86_400)
"""A day more than the service may list a request again for the same update."""

_DAY: Final = timedelta(days=1)
_MIN_LEASE: Final = 90.0


@attrs.frozen(kw_only=True)
class WatchOptions:
    """Options of a feed of requests, or of a poller. `exchange.watch()` describes most of them.

    Attributes:
        where: A `RequestFilter`, or an `OfferFilter` for offers; `None` for all events.
        retention: Time for which the store keeps acknowledged events, and records that are no longer listed.
        lease: Seconds for which each page extends the lease of the feed; by default three intervals, or more.
    """

    name: str = "requests"
    start: Start = "now"
    interval: timedelta = DEFAULT_INTERVAL
    allowance: timedelta = DEFAULT_ALLOWANCE
    where: Any = None
    store: Store | str | os.PathLike[str] | None = None
    standby: bool = False
    retention: timedelta = MIN_RETENTION
    lease: float = attrs.field(default=attrs.Factory(lambda self: _lease(self.interval), takes_self=True))

    _filter: ClassVar[type[RequestFilter | OfferFilter]] = RequestFilter

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"name must be a text that is not empty, not {self.name!r}")
        check_text(self.name, "name")
        self._check_start()
        _check_duration(self.interval, "interval")
        if self.interval < MIN_INTERVAL:
            raise ConfigurationError(f"interval must be at least one second, to spare the service, not {self.interval}")
        _check_duration(self.allowance, "allowance")
        flag(self.standby, "standby")
        if self.where is not None and not isinstance(self.where, self._filter):
            raise ConfigurationError(f"where must be {self._filter.__name__}(...), not {type(self.where).__name__}")
        database.as_store(self.store)

    def _check_start(self) -> None:
        if isinstance(self.start, timedelta):
            if not timedelta(0) <= self.start <= validation.MAX_WINDOW:
                raise ConfigurationError(
                    f"start must be from zero to five days, which is all that the service lists, not {self.start}"
                )
        elif self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now', 'backfill' or a timedelta, not {self.start!r}")


@attrs.frozen(kw_only=True)
class WatchOffersOptions(WatchOptions):
    """Options of a feed of offers. `exchange.watch_offers()` describes them."""

    _filter = OfferFilter

    def _check_start(self) -> None:
        if self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now' or 'backfill', not {self.start!r}")


def check_text(text: str, name: str) -> None:
    """Check that a text can be stored as UTF-8; raise `ConfigurationError` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name} holds half a character (a lone surrogate), which cannot be kept: {text!r}"
        ) from None


def _lease(interval: object) -> float:
    return max(_MIN_LEASE, 3 * interval.total_seconds() if isinstance(interval, timedelta) else 0.0)


def _check_duration(value: object, name: str) -> None:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    if value > _DAY:
        raise ConfigurationError(f"{name} must be at most {_DAY}, not {value}")
