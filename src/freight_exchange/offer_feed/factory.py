"""Factory of feeds of offers, which checks every argument before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.factory import check_interval, check_name, check_standby, check_store, make_store
from freight_exchange.models.offer_filter import OfferFilter
from freight_exchange.offer_feed.feed import OfferFeed
from freight_exchange.platform.clock import Clock, SystemClock

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.instrumentation import Instruments
    from freight_exchange.offer_feed.scanning.source import OfferSource
    from freight_exchange.store import Store

__all__ = ["WatchOffersOptions", "offer_feed"]


@attrs.frozen(kw_only=True)
class WatchOffersOptions:
    """Arguments of `exchange.watch_offers()`."""

    store: Store | str | os.PathLike[str] | None
    start: Literal["now", "backfill"]
    interval: timedelta
    where: OfferFilter | None
    name: str
    standby: bool


def offer_feed(
    source: OfferSource,
    options: WatchOffersOptions,
    *,
    account: Callable[[], Awaitable[str]],
    hooks: Hooks,
    instruments: Instruments,
    clock: Clock | None,
    base_url: str,
    account_timeout: float,
    extra_requests: Callable[[], int],
) -> OfferFeed:
    """Return a feed of offers, not entered yet.

    Raises:
        ConfigurationError: An argument is invalid; the message names it.
    """
    if options.start not in ("now", "backfill"):
        raise ConfigurationError(f"start must be 'now' or 'backfill', not {options.start!r}")
    if options.where is not None and not isinstance(options.where, OfferFilter):
        raise ConfigurationError(f"where must be OfferFilter(...), not {type(options.where).__name__}")
    check_name(options.name)
    check_standby(options.standby)
    check_interval(options.interval)
    check_store(options.store)
    store, made_here = make_store(options.store)
    return OfferFeed(
        source,
        store,
        account,
        hooks,
        SystemClock() if clock is None else clock,
        instruments,
        base_url=base_url,
        name=options.name,
        start=options.start,
        interval=options.interval,
        where=options.where,
        standby=options.standby,
        account_timeout=account_timeout,
        closes_store=made_here,
        extra_requests=extra_requests,
    )
