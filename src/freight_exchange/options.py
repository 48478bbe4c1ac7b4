"""Frozen option values: timeouts, retry policy, and choices that the service document leaves open. No I/O."""

from __future__ import annotations

import math
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args, get_type_hints

import attrs

from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError
from freight_exchange.validation import describe

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Addresses", "CarrierField", "CurrencyField", "GetParameters", "IndexType", "RetryPolicy", "Seconds", "Start",
    "Timeouts",
]  # fmt: skip

Seconds = float | int | timedelta
"""A duration: seconds as a number, or a `timedelta`."""

Start = Literal["now", "backfill"] | timedelta
"""Events of the first scan: none, all requests listed, or those updated within this time."""

DEFAULT_DEADLINE: Final = 60.0
"""In seconds."""
DEFAULT_INTERVAL: Final = timedelta(seconds=30)
DEFAULT_ALLOWANCE: Final = timedelta(seconds=60)

GetParameters = Literal["body", "query"]
CurrencyField = Literal["currencyIndex", "currencyId", "both"]
CarrierField = Literal["carrier", "carrierId", "both"]
IndexType = Literal["integer", "string"]


class Addresses(TypedDict, total=False):
    """Addresses of operations for which the service document has several (4.3 and 4.6 to 4.10).

    `offers.get` at `quote/offer` is a GET, at `quote/getoffers` a POST, for networks that drop the bodies of GETs.
    """

    publish: Literal["quote/submitrequest", "quote/request", "request"]
    approve: Literal["quote/approveoffer", "quote/offer"]
    submit: Literal["quote/submitoffer", "quote/bid", "quote/request"]
    get_offer: Literal["quote/offer", "quote/getoffers"]


ADDRESSES: Final = {operation: get_args(known) for operation, known in get_type_hints(Addresses).items()}
"""Addresses of each operation with several; the first is the default."""


# Checks of arguments. Each returns the value that counts, or raises `ConfigurationError` with the name.


def seconds(value: Seconds, name: str) -> float:
    """Return a duration in seconds; raise `ConfigurationError` if it is not positive and finite."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigurationError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    # Compared and not converted, as an integer can be too large for a float.
    if not 0 < number <= sys.float_info.max:
        raise ConfigurationError(f"{name} must be more than 0 seconds and finite, not {describe(number)}")
    return float(number)


def integer(value: object, name: str, *, least: int = 1, most: float = math.inf) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        described = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise ConfigurationError(f"{name} must be an integer {described}, not {value!r}")
    return value


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}")
    return value


def _to_seconds(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _valid(check: Callable[[Any, str], object]) -> Callable[[object, attrs.Attribute[Any], Any], object]:
    return lambda instance, attribute, value: check(value, f"{type(instance).__name__}.{attribute.name}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Timeouts(Serializable):
    """Network timeouts of each attempt, in seconds or as a `timedelta`.

    Attributes:
        connect: For a connection, including name look-up and TLS handshake.
        read: For the next bytes of a reply.
        write: For sending the next bytes of the request.
    """

    connect: float = attrs.field(default=5.0, converter=_to_seconds, validator=_valid(seconds))
    read: float = attrs.field(default=30.0, converter=_to_seconds, validator=_valid(seconds))
    write: float = attrs.field(default=10.0, converter=_to_seconds, validator=_valid(seconds))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RetryPolicy(Serializable):
    """Retry policy for calls that are safe to repeat.

    Attributes:
        attempts: Maximum number of attempts; 1 switches retries off.
        base: Upper limit, in seconds, of the first random backoff after a transient failure; it doubles each time.
        cap: Longest backoff in seconds.
        budget: Tokens that all calls of a client share: a retry takes 14 (5 after a status 429), a success returns 1.
            Without tokens, calls are not retried, so that retries do not make an outage worse.
        trust_refusals: Whether a reply of 401 or 429 proves that a write was not carried out. With `False`, such a
            write raises `OutcomeUnknownError`, and is not replayed after a new login.
    """

    attempts: int = attrs.field(default=3, validator=_valid(integer))
    base: float = attrs.field(default=0.05, converter=_to_seconds, validator=_valid(seconds))
    cap: float = attrs.field(default=20.0, converter=_to_seconds, validator=_valid(seconds))
    budget: int = attrs.field(default=500, validator=_valid(partial(integer, least=0)))
    trust_refusals: bool = attrs.field(default=True, validator=_valid(flag))
