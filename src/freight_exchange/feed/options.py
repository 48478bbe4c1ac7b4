"""Options of feeds, checked before anything is sent."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import attrs

from freight_exchange import validation
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.state import WIDEST
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_INTERVAL
from freight_exchange.store import database

if TYPE_CHECKING:
    from freight_exchange.options import Start
    from freight_exchange.store import Store

MIN_INTERVAL: Final = timedelta(seconds=1)
MIN_RETENTION: Final = timedelta(seconds=WIDEST + 86_400)
"""A day more than the service may list a request again for the same update."""

_MAX_ALLOWANCE: Final = timedelta(days=1)
_MAX_INTERVAL: Final = timedelta(days=1)
_MIN_LEASE: Final = 90.0


@attrs.frozen(kw_only=True)
class PollOptions:
    """Options of a poller. `exchange.watch()` describes most of them.

    Attributes:
        name: Name of the feed in hooks and logs.
        retention: Time for which the store keeps finished events, and records that are no longer listed.
        acked_only: Whether unacknowledged events outlive the retention; not for a bot, whose events have deliveries.
        lease: Seconds for which each page extends the lease of the feed; by default three intervals, or more.
    """

    name: str = "requests"
    start: Start = "now"
    interval: timedelta = DEFAULT_INTERVAL
    allowance: timedelta = DEFAULT_ALLOWANCE
    retention: timedelta = MIN_RETENTION
    acked_only: bool = False
    lease: float = attrs.field(default=attrs.Factory(lambda self: _lease(self.interval), takes_self=True))

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"name must be a text that is not empty, not {self.name!r}")
        check_text(self.name, "name")
        if _positive(self.interval, "interval") < MIN_INTERVAL:
            raise ConfigurationError(f"interval must be at least one second, to spare the service, not {self.interval}")
        if self.interval > _MAX_INTERVAL:
            raise ConfigurationError(f"interval must be at most {_MAX_INTERVAL}, not {self.interval}")
        if isinstance(self.start, timedelta):
            if not timedelta(0) <= self.start <= validation.MAX_WINDOW:
                raise ConfigurationError(
                    f"start must be from zero to five days, which is all that the service lists, not {self.start}"
                )
        elif self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now', 'backfill' or a timedelta, not {self.start!r}")
        if _positive(self.allowance, "allowance") > _MAX_ALLOWANCE:
            raise ConfigurationError(
                f"allowance must be at most {_MAX_ALLOWANCE}, not {self.allowance}: it lengthens the window of each"
                " scan"
            )


@attrs.frozen(kw_only=True)
class ReaderOptions(PollOptions):
    """Options of a feed, beside those of its poller."""

    store: Store | str | os.PathLike[str] | None = None
    standby: bool = False
    acked_only: bool = True

    _filter: ClassVar[type[RequestFilter | OfferFilter]]

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not isinstance(self.standby, bool):
            raise ConfigurationError(f"standby must be True or False, not {self.standby!r}")
        where = getattr(self, "where", None)
        if where is not None and not isinstance(where, self._filter):
            raise ConfigurationError(f"where must be {self._filter.__name__}(...), not {type(where).__name__}")
        database.as_store(self.store)


@attrs.frozen(kw_only=True)
class WatchOptions(ReaderOptions):
    """Options of a feed of requests. `exchange.watch()` describes them."""

    where: RequestFilter | None = None

    _filter = RequestFilter


@attrs.frozen(kw_only=True)
class WatchOffersOptions(ReaderOptions):
    """Options of a feed of offers. `exchange.watch_offers()` describes them."""

    name: str = "offers"
    start: Literal["now", "backfill"] = "backfill"
    where: OfferFilter | None = None

    _filter = OfferFilter

    def __attrs_post_init__(self) -> None:
        if self.start not in ("now", "backfill"):
            raise ConfigurationError(f"start must be 'now' or 'backfill', not {self.start!r}")
        super().__attrs_post_init__()


def check_text(text: str, name: str) -> None:
    """Check that a text can be stored as UTF-8; raise `ConfigurationError` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name} holds half a character (a lone surrogate), which cannot be kept: {text!r}"
        ) from None


def _lease(interval: object) -> float:
    """Return a lease that outlasts the pause between two scans."""
    return max(_MIN_LEASE, 3 * interval.total_seconds() if isinstance(interval, timedelta) else 0.0)


def _positive(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    return value
