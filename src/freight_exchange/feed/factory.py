"""Factory of feeds, which checks every argument before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.feed import Feed
from freight_exchange.models import validation
from freight_exchange.models.request_filter import RequestFilter
from freight_exchange.options import Start
from freight_exchange.platform.clock import Clock, SystemClock
from freight_exchange.platform.database_url import is_database

if TYPE_CHECKING:
    from freight_exchange.feed.scanning.source import Source
    from freight_exchange.hooks import Hooks
    from freight_exchange.instrumentation import Instruments
    from freight_exchange.store import Store

__all__ = [
    "LEAST_INTERVAL",
    "WatchOptions",
    "check",
    "check_interval",
    "check_name",
    "check_standby",
    "check_store",
    "check_text",
    "feed",
    "make_store",
    "shared_store",
]

_LONGEST_ALLOWANCE = timedelta(days=1)
LEAST_INTERVAL = timedelta(seconds=1)
_LONGEST_INTERVAL = timedelta(days=1)


@attrs.frozen(kw_only=True)
class WatchOptions:
    """Arguments of `exchange.watch()`."""

    store: Store | str | os.PathLike[str] | None
    start: Start
    interval: timedelta
    allowance: timedelta
    where: RequestFilter | None
    name: str
    standby: bool


def feed(
    source: Source,
    arguments: WatchOptions,
    *,
    account: Callable[[], Awaitable[str]],
    hooks: Hooks,
    instruments: Instruments,
    clock: Clock | None,
    base_url: str,
    account_timeout: float,
    extra_requests: Callable[[], int],
) -> Feed:
    """Return a feed, not entered yet.

    Raises:
        ConfigurationError: An argument is invalid; the message names it.
    """
    check(arguments)
    store, made_here = make_store(arguments.store)
    return Feed(
        source,
        store,
        account,
        hooks,
        SystemClock() if clock is None else clock,
        instruments,
        base_url=base_url,
        name=arguments.name,
        start=arguments.start,
        interval=arguments.interval,
        allowance=arguments.allowance,
        where=arguments.where,
        standby=arguments.standby,
        account_timeout=account_timeout,
        closes_store=made_here,
        extra_requests=extra_requests,
    )


def check(arguments: WatchOptions) -> None:
    """Check the arguments; raise `ConfigurationError` with the name of a wrong one."""
    start, where, name = arguments.start, arguments.where, arguments.name
    if isinstance(start, timedelta):
        if not timedelta(0) <= start <= validation.LONGEST_WINDOW:
            raise ConfigurationError(
                f"start must be from zero to five days, which is all that the service lists, not {start}"
            )
    elif start not in ("now", "backfill"):
        raise ConfigurationError(f"start must be 'now', 'backfill' or a timedelta, not {start!r}")
    if where is not None and not isinstance(where, RequestFilter):
        raise ConfigurationError(f"where must be RequestFilter(...), not {type(where).__name__}")
    check_name(name)
    check_standby(arguments.standby)
    check_interval(arguments.interval)
    if (allowance := _positive(arguments.allowance, "allowance")) > _LONGEST_ALLOWANCE:
        raise ConfigurationError(
            f"allowance must be at most {_LONGEST_ALLOWANCE}: every scan looks back further by it, not {allowance}"
        )
    check_store(arguments.store)


def check_name(name: object) -> None:
    """Check the name of a feed."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"name must be a text that is not empty, not {name!r}")
    check_text(name, "name")


def check_standby(standby: object) -> None:
    """Check the option `standby`."""
    if not isinstance(standby, bool):
        raise ConfigurationError(f"standby must be True or False, not {standby!r}")


def check_interval(interval: timedelta) -> None:
    """Check the time between two scans."""
    if _positive(interval, "interval") < LEAST_INTERVAL:
        raise ConfigurationError(f"interval must be at least one second, to spare the service, not {interval}")
    if interval > _LONGEST_INTERVAL:
        raise ConfigurationError(f"interval must be at most {_LONGEST_INTERVAL}, not {interval}")


def check_store(store: object) -> None:
    """Check the store of a feed."""
    if store is None or isinstance(store, str | os.PathLike):
        return
    if not all(hasattr(store, name) for name in ("open", "close", "inline")):
        raise ConfigurationError(
            "store must be a path, the URL of a database, a store of freight_exchange.store, or None, not"
            f" {type(store).__name__}"
        )


def check_text(text: str, name: str) -> None:
    """Check that a text can be stored as UTF-8; raise `ConfigurationError` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name} holds half a character (a lone surrogate), which cannot be kept: {text!r}"
        ) from None


def make_store(store: Store | str | os.PathLike[str] | None) -> tuple[Store, bool]:
    """Return the store, and whether it was made here, and is to be closed by its user."""
    if is_database(store):
        from freight_exchange.store import PostgresStore

        return PostgresStore(store), True
    if store is None or isinstance(store, str | os.PathLike):
        # Imported here: a program that never watches needs no sqlite3.
        from freight_exchange.store import MemoryStore, SQLiteStore

        return (MemoryStore() if store is None else SQLiteStore(store)), True
    return store, False


def shared_store(given: Store | str | os.PathLike[str] | None) -> Store | str | os.PathLike[str]:
    """Return a store for one session after another, such as a database's, which remembers what it has seen of it.

    A path stays one: each session opens the file, and leaves it to other processes in between.
    """
    return make_store(given)[0] if given is None or is_database(given) else given


def _positive(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    return value
