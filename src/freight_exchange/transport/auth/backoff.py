"""Backoff of logins: decides when the next login may be tried. No I/O except for the loop's clock."""

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
from freight_exchange.transport.rules.retry_after import MAX_HONOURED, format_seconds
from freight_exchange.transport.rules.status_errors import UNTIL_CHANGED

if TYPE_CHECKING:
    from freight_exchange.transport.secrets import Secret

__all__ = ["LoginBackoff"]

_EARLY_REFRESH_INTERVAL = 5.0
"""Seconds between a failed early refresh and the next one; the old token is still valid."""

_FIRST_FETCHES = 10
"""First calls after a rejection, which all fetch the credentials, so that a secret changed by hand works at once."""

_FETCH_INTERVAL = 5.0
"""Seconds between two later fetches, so that a rejected client does not query a secret manager in every call."""

FIRST_HOLD: Final = 30.0
"""First pause in seconds after a refused login, for an account that has logged in before; doubled each time."""

MAX_HOLD: Final = 600.0
"""Longest of these pauses, in seconds."""

REJECTIONS: Final = 3
"""Refusals in a row that name the credentials, after which an account that has logged in before stays rejected."""

_CREDENTIAL_WORDS: Final = re.compile(r"pass ?word|user ?name", re.IGNORECASE)
"""Words with which the service rejects a login (service document, 7): the user name or password is invalid.

The `{"message": "Forbidden"}` of a gateway has neither.
"""


@attrs.frozen
class _Refusal:
    """Last refused login.

    Attributes:
        credentials: The credentials of the login.
        error: Its error, which later calls receive.
        until: Time on the loop's clock of the next try of these credentials; infinite once they count as rejected.
        times: Number of refusals of these credentials in a row.
        explicit_times: Number of the last refusals in a row that named the credentials as the reason.
    """

    credentials: tuple[str, Secret]
    error: FreightExchangeError
    until: float = math.inf
    times: int = 1
    explicit_times: int = 0


class LoginBackoff:
    """Rules for the next login, from the outcome of those so far.

    - Rejected credentials are not tried again. To see whether they have changed, each of the first ten calls fetches
      them, and then one call every five seconds. All other calls receive the rejection again.
    - A single refusal may come from a gateway, like any reply without a token, such as a page of HTML. For an account
      that has logged in before it is not a rejection yet. Logins pause for 30 seconds, then for twice as long each
      time, up to ten minutes. Calls receive an `AuthenticationError` with the remaining seconds. Three refusals in a
      row that name the user name or password count as a rejection. 429 and 5xx are not refusals.
    - After a login with status 429 and a `Retry-After` beyond its deadline, no other login is sent until that time has
      passed. Calls receive that error, with the remaining seconds.
    - A failed early refresh is repeated after five seconds. Until then the old token is used.
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
        """Raise the refusal of these credentials, if it is still in force."""
        if self._refusal is None:
            return
        if self._refusal.credentials == credentials:
            if (now := anyio.current_time()) < self._refusal.until:
                raise _held_error(self._refusal, now)
            return
        # New credentials may fail for another reason: later calls must not receive the error of the old ones.
        self._fetches = 0

    def login_failed(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        """Record a failed login; return the error to raise for it."""
        if isinstance(error, AuthenticationError) or (
            credentials[0] in self._proven_accounts and _may_come_from_gateway(error)
        ):
            return self._refuse(credentials, error)
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            self._throttled = error
            self._throttled_until = anyio.current_time() + min(error.retry_after, MAX_HONOURED)
        return error

    def _refuse(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        # Without a status the error is from the caller's own middleware, and a pause would not help.
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
            # From here on, further tries are single ones, which do not lock the account, until a login succeeds.
            self._proven_accounts.discard(credentials[0])
            self._refusal = _Refusal(credentials, error)
            return error
        now = anyio.current_time()
        hold = min(MAX_HOLD, FIRST_HOLD * 2.0 ** min(previous.times, 30))
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
    # Callers must not retry it, as all of them would do so at the same moment.
    throttled.settled = True
    return throttled
