"""Parts of a client that its feeds use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs

from freight_exchange.hooks import NO_INSTRUMENTS, Hooks, Instruments
from freight_exchange.platform.clock import Clock, SystemClock

__all__ = ["ClientParts"]


def _no_requests() -> int:
    return 0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientParts:
    """Parts of a client that its feeds use.

    Attributes:
        base_url: Address of the service.
        account: Returns the account's email.
        account_timeout: Time limit of one call of `account`, in seconds.
        clock: Clock of the machine.
        hooks: Receive scans and failures.
        instruments: Run around each scan, and receive the numbers of delivered events.
        extra_requests: Returns how many requests successful calls needed in addition to their first one. Each call
            returns the number since the call before.
    """

    base_url: str
    account: Callable[[], Awaitable[str]]
    account_timeout: float
    clock: Clock = attrs.field(factory=SystemClock)
    hooks: Hooks = attrs.field(factory=partial(Hooks, ()))
    instruments: Instruments = NO_INSTRUMENTS
    extra_requests: Callable[[], int] = _no_requests
