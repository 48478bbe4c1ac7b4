"""Backoff of logins: when the next one may be tried. No I/O but the loop's clock."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    DecodeError,
    FreightExchangeError,
    LoginRejectedError,
    RateLimitedError,
    ServerError,
)
from freight_exchange.errors.hierarchy import copy_error
from freight_exchange.transport.rules.retry_after import LONGEST_HONOURED, format_seconds
from freight_exchange.transport.rules.status_errors import UNTIL_CHANGED

if TYPE_CHECKING:
    from freight_exchange.transport.secrets import Secret

__all__ = ["LoginBackoff"]

_EARLY_REFRESH_INTERVAL = 5.0
"""Seconds after a failed early refresh in which no other is tried: the old token still serves."""

_FIRST_FETCHES = 10
"""Calls after a rejection that each fetch the credentials, so that a secret rotated by hand acts at once."""

_FETCH_INTERVAL = 5.0
"""Seconds between two later fetches: a rejected client must not query a secret manager in every call."""

FIRST_HOLD: Final = 30.0
"""Seconds until the next login after one was refused to an account that has logged in before; doubled each time."""

LONGEST_HOLD: Final = 600.0
"""Seconds: the longest such pause."""

REJECTIONS: Final = 3
"""Consecutive rejections, in the service's own words, after which an account that once logged in stays rejected."""

_CREDENTIAL_WORDS: Final = re.compile(r"pass ?word|user ?name", re.IGNORECASE)
"""The service's own words for a rejected login (service document, 7): that the user name or password is invalid. A
gateway's `{"message": "Forbidden"}` names neither."""


@attrs.frozen
class _Refusal:
    """Last refused login.

    Attributes:
        credentials: The credentials of the login.
        error: Its error, which later calls get.
        until: The loop's time of the next try of these credentials; infinite once they count as rejected.
        times: Refusals of these credentials in a row.
        explicit_times: How many of them in a row, up to the last, named the credentials as the reason.
    """

    credentials: tuple[str, Secret]
    error: FreightExchangeError
    until: float = math.inf
    times: int = 1
    explicit_times: int = 0


class LoginBackoff:
    """Rules for the next login, from the outcome of those so far.

    - Rejected credentials are not tried again. To see whether they have changed, each of the first ten calls fetches
      them, and then one call in five seconds. In between, calls get the rejection itself.
    - An account that has logged in before is not rejected for one refusal, or for another reply without a token, such
      as a page of HTML: both may come from a gateway. Logins pause for 30 seconds, then for twice as long each time, up
      to ten minutes. Calls get an `AuthenticationError` with the remaining seconds. Three refusals in a row that name
      the user name or password count as a rejection. 429 and 5xx are no refusals.
    - A login with status 429 and a `Retry-After` beyond its deadline prevents all others until that time has passed;
      calls get that error, with the remaining seconds.
    - A failed early refresh is not repeated for five seconds: the old token still serves.
    """

    __slots__ = (
        "_fetches",
        "_next_early_refresh",
        "_next_fetch",
        "_proven_accounts",
        "_refusal",
        "_throttled",
        "_throttled_until",
    )

    def __init__(self) -> None:
        self._next_early_refresh = -math.inf
        self._throttled: RateLimitedError | None = None
        self._throttled_until = -math.inf
        self._refusal: _Refusal | None = None
        self._proven_accounts = set[str]()
        self._fetches = 0
        self._next_fetch = -math.inf

    def check(self) -> None:
        """Raise the error that prevents a login, before the credentials are fetched."""
        now = anyio.current_time()
        if self._throttled is not None and now < self._throttled_until:
            raise _throttled_error(self._throttled, self._throttled_until - now)
        if self._refusal is None or now >= self._refusal.until:
            return
        if self._fetches >= _FIRST_FETCHES and now < self._next_fetch:
            raise _held_error(self._refusal, now)
        self._fetches += 1

    def credentials_fetched(self) -> None:
        """Start the pause until the next fetch of credentials."""
        self._next_fetch = anyio.current_time() + _FETCH_INTERVAL

    def check_credentials(self, credentials: tuple[str, Secret]) -> None:
        """Raise the refusal of these very credentials, if it still holds."""
        if self._refusal is None:
            return
        if self._refusal.credentials == credentials:
            if (now := anyio.current_time()) < self._refusal.until:
                raise _held_error(self._refusal, now)
            return
        # These may fail for another reason, and later calls must not get the error of the old ones.
        self._fetches = 0

    def login_failed(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        """Record a failed login; return the error to raise for it."""
        if isinstance(error, AuthenticationError) or (
            credentials[0] in self._proven_accounts and _may_come_from_gateway(error)
        ):
            return self._refuse(credentials, error)
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            self._throttled = error
            self._throttled_until = anyio.current_time() + min(error.retry_after, LONGEST_HONOURED)
        return error

    def _refuse(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        # Without a status no service refused: the caller's own middleware gave up, and a pause would not help.
        if credentials[0] not in self._proven_accounts or error.status is None:
            if isinstance(error, LoginRejectedError):
                self._refusal = _Refusal(credentials, error)
                self._fetches = 0
            return error
        previous = self._refusal
        if previous is None or previous.credentials != credentials:
            previous = _Refusal(credentials, error, times=0)
        explicit_times = previous.explicit_times + 1 if _names_credentials(error) else 0
        self._fetches = 0
        if explicit_times >= REJECTIONS:
            # Until a login succeeds again, one more allowed try is just one, which does not lock the account.
            self._proven_accounts.discard(credentials[0])
            self._refusal = _Refusal(credentials, error)
            return error
        now = anyio.current_time()
        hold = min(LONGEST_HOLD, FIRST_HOLD * 2.0 ** min(previous.times, 30))
        self._refusal = _Refusal(credentials, error, now + hold, previous.times + 1, explicit_times)
        return _held_error(self._refusal, now)

    def login_succeeded(self, account: str) -> None:
        """Record a successful login, which ends all pauses."""
        self._refusal = self._throttled = None
        self._proven_accounts.add(account)

    def login_adopted(self, account: str) -> None:
        """Record that another process has logged in to the account."""
        self._proven_accounts.add(account)

    def forget_refusal(self) -> None:
        self._refusal = None

    def may_refresh_early(self) -> bool:
        return anyio.current_time() >= self._next_early_refresh

    def refresh_started(self) -> None:
        self._next_early_refresh = math.inf

    def refresh_finished(self, *, succeeded: bool) -> None:
        self._next_early_refresh = -math.inf if succeeded else anyio.current_time() + _EARLY_REFRESH_INTERVAL


def _may_come_from_gateway(error: FreightExchangeError) -> bool:
    """Return whether the reply without a token is neither an outage nor a rate limit."""
    return isinstance(error, DecodeError | APIStatusError) and not isinstance(error, RateLimitedError | ServerError)


def _names_credentials(error: FreightExchangeError) -> bool:
    if not isinstance(error, LoginRejectedError) or not isinstance(error.body, dict):
        return False
    return any(isinstance(text, str) and _CREDENTIAL_WORDS.search(text) for text in error.body.values())


def _held_error(refusal: _Refusal, now: float) -> FreightExchangeError:
    """Make the error for a call that the refusal keeps from logging in."""
    if refusal.until == math.inf:
        return copy_error(refusal.error)
    seconds = refusal.until - now
    held = AuthenticationError()
    held.__dict__.update(refusal.error.__dict__, path="login")
    why = refusal.error.message.removesuffix(UNTIL_CHANGED)
    if isinstance(refusal.error, DecodeError) and refusal.error.path != "$":
        why = f"{why} at {refusal.error.path}"
    held.args = (
        f"{why}; this account has logged in before, so this may be temporary, or come from a gateway: the next"
        f" login is tried in {format_seconds(seconds)}",
    )
    held.retry_after = seconds
    held.settled = True
    return held


def _throttled_error(error: RateLimitedError, seconds: float) -> RateLimitedError:
    throttled = RateLimitedError(
        f"the service asked for fewer logins, and to wait {format_seconds(seconds)} more",
        retry_after=seconds,
        method=error.method,
        path=error.path,
        status=error.status,
        body=error.body,
    )
    # Not to be retried above: all calls would try at the same moment.
    throttled.settled = True
    return throttled
