"""Frozen option values: timeouts, retry policy, and choices that the service document leaves open. No I/O."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypedDict, get_args

import attrs

from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError

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
"""Time limit of a call with all its attempts, waits and a login, in seconds."""

DEFAULT_MAX_CONNECTIONS: Final = 20
DEFAULT_MAX_WRITES: Final = 4

DEFAULT_KEEPALIVE: Final = 120.0
"""Seconds for which an idle connection is kept; a feed polls every 30 seconds by default."""

DEFAULT_INTERVAL: Final = timedelta(seconds=30)
"""Time between two scans of a feed."""

DEFAULT_ALLOWANCE: Final = timedelta(seconds=60)
"""Time by which a feed looks further back than to its last scan, for updates that the service shows late."""

GetParameters = Literal["body", "query"]
CurrencyField = Literal["currencyIndex", "currencyId", "both"]
CarrierField = Literal["carrier", "carrierId", "both"]
IndexType = Literal["integer", "string"]

PublishAddress = Literal["quote/submitrequest", "quote/request", "request"]
ApproveAddress = Literal["quote/approveoffer", "quote/offer"]
SubmitAddress = Literal["quote/submitoffer", "quote/bid", "quote/request"]
GetOfferAddress = Literal["quote/offer", "quote/getoffers"]


class Addresses(TypedDict, total=False):
    """Addresses of operations for which the service document has several (4.3 and 4.6 to 4.10).

    `offers.get` at `quote/offer` is a GET, at `quote/getoffers` a POST, for networks that drop the bodies of GETs.
    """

    publish: PublishAddress
    approve: ApproveAddress
    submit: SubmitAddress
    get_offer: GetOfferAddress


ADDRESSES: dict[str, tuple[str, ...]] = {
    "publish": get_args(PublishAddress),
    "approve": get_args(ApproveAddress),
    "submit": get_args(SubmitAddress),
    "get_offer": get_args(GetOfferAddress),
}
"""Addresses of each operation with several; the first is the default."""


def seconds(value: Seconds, name: str) -> float:
    """Return a duration in seconds; raise `ConfigurationError` if it is not positive and finite."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigurationError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    # Compared and not converted, as an integer can be too large for a float, or to be written.
    if not 0 < number <= sys.float_info.max:
        written = number if abs(number) < 10**20 or isinstance(number, float) else "an endless integer"
        raise ConfigurationError(f"{name} must be more than 0 seconds and finite, not {written}")
    return float(number)


def _to_seconds(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    seconds(value, f"{type(instance).__name__}.{attribute.name}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Timeouts(Serializable):
    """Network timeouts of each attempt, in seconds or as a `timedelta`.

    Attributes:
        connect: For a connection, including name look-up and TLS handshake.
        read: For the next bytes of a reply.
        write: For sending the next bytes of the request.
    """

    connect: float = attrs.field(default=5.0, converter=_to_seconds, validator=_positive)
    read: float = attrs.field(default=30.0, converter=_to_seconds, validator=_positive)
    write: float = attrs.field(default=10.0, converter=_to_seconds, validator=_positive)


def _at_least(least: int) -> Callable[[object, attrs.Attribute[int], int], None]:
    def check(_: object, attribute: attrs.Attribute[int], value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigurationError(
                f"RetryPolicy.{attribute.name} must be an integer of at least {least}, not {value!r}"
            )

    return check


def _check_bool(_: object, attribute: attrs.Attribute[bool], value: bool) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError(f"RetryPolicy.{attribute.name} must be True or False, not {value!r}")


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

    attempts: int = attrs.field(default=3, validator=_at_least(1))
    base: float = attrs.field(default=0.05, converter=_to_seconds, validator=_positive)
    cap: float = attrs.field(default=20.0, converter=_to_seconds, validator=_positive)
    budget: int = attrs.field(default=500, validator=_at_least(0))
    trust_refusals: bool = attrs.field(default=True, validator=_check_bool)
