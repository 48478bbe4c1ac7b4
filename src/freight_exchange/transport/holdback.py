"""When another login may be tried: the one home of every "not before". Pure, but for the clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from freight_exchange.errors import FreightExchangeError, LoginRejectedError, RateLimitedError, twin
from freight_exchange.transport.retry_after import spoken

if TYPE_CHECKING:
    from freight_exchange.transport.redaction import Secret

__all__ = ["Holdback"]

_BETWEEN_EARLY_RENEWALS = 5.0
"""Seconds after an early renewal failed in which no other is tried while the old token still serves."""

_QUESTIONS = 10
"""Calls after a rejection that each ask for the credentials, so that a secret rotated by hand acts at once."""

_BETWEEN_QUESTIONS = 5.0
"""Seconds between two of the later ones: a secret manager is not to be asked by every call of a client that is out."""

_LONGEST_THROTTLE = 3600.0
"""Seconds: a `Retry-After` of years, which may be a mistake, does not end all logins."""


class Holdback:
    """What the logins so far allow of the next.

    - Rejected credentials are not tried again. Whether they have changed is found out by asking for them: by each of
      the first ten calls, and then once in five seconds; in between the rejection itself is the answer.
    - A login that was answered 429 with a `Retry-After`, and that could not wait it out, holds back every other until
      that time has passed; meanwhile the answer is that error, with the seconds that are left.
    - An early renewal that failed is not repeated for five seconds: the old token still serves.
    """

    __slots__ = ("_early", "_questions", "_quiet_until", "_rejected", "_throttled", "_throttled_until")

    def __init__(self) -> None:
        self._early = -math.inf
        self._throttled: RateLimitedError | None = None
        self._throttled_until = -math.inf
        self._rejected: tuple[tuple[str, Secret], LoginRejectedError] | None = None
        self._questions = 0
        self._quiet_until = -math.inf

    def check(self) -> None:
        """Raise what holds a login back, before the credentials are asked for."""
        now = anyio.current_time()
        if self._throttled is not None and now < self._throttled_until:
            raise _remaining(self._throttled, self._throttled_until - now)
        if self._rejected is None:
            return
        if self._questions >= _QUESTIONS and now < self._quiet_until:
            raise twin(self._rejected[1])
        self._questions += 1

    def asked(self) -> None:
        """The credentials were asked for, and given or not: the pause begins after one that took long."""
        self._quiet_until = anyio.current_time() + _BETWEEN_QUESTIONS

    def check_credentials(self, credentials: tuple[str, Secret]) -> None:
        """Raise the rejection, if it was of these very credentials."""
        if self._rejected is None:
            return
        if self._rejected[0] == credentials:
            raise twin(self._rejected[1])
        # What is tried now may fail for another reason, and the calls after that must not be told of the old secret.
        self._questions = 0

    def failed(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> None:
        """Take in why a login with these credentials gave no token."""
        if isinstance(error, LoginRejectedError):
            self._rejected = (credentials, error)
            self._questions = 0
        elif isinstance(error, RateLimitedError) and error.retry_after is not None:
            self._throttled = error
            self._throttled_until = anyio.current_time() + min(error.retry_after, _LONGEST_THROTTLE)

    def succeeded(self) -> None:
        self._rejected = self._throttled = None

    def forget_rejection(self) -> None:
        self._rejected = None

    def early_renewal_may_begin(self) -> bool:
        return anyio.current_time() >= self._early

    def renewal_begins(self) -> None:
        self._early = math.inf

    def renewal_ended(self, *, well: bool) -> None:
        self._early = -math.inf if well else anyio.current_time() + _BETWEEN_EARLY_RENEWALS


def _remaining(error: RateLimitedError, seconds: float) -> RateLimitedError:
    left = RateLimitedError(
        f"the service asked for fewer logins, and to wait {spoken(seconds)} more",
        retry_after=seconds,
        method=error.method,
        path=error.path,
        status=error.status,
        body=error.body,
    )
    # Nothing above may wait and try for it: that would be every call at the same moment.
    left.settled = True
    return left
