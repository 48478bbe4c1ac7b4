"""Backoff of logins: when the next one may be tried. Pure, but for the clock."""

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
from freight_exchange.transport.retry_after import LONGEST_HONOURED, spoken
from freight_exchange.transport.status_errors import UNTIL_CHANGED

if TYPE_CHECKING:
    from freight_exchange.transport.secrets import Secret

__all__ = ["LoginBackoff"]

_BETWEEN_EARLY_RENEWALS = 5.0
"""Seconds after an early renewal failed in which no other is tried while the old token still serves."""

_QUESTIONS = 10
"""Calls after a rejection that each ask for the credentials, so that a secret rotated by hand acts at once."""

_BETWEEN_QUESTIONS = 5.0
"""Seconds between two of the later ones: a secret manager is not to be asked by every call of a client that is out."""

FIRST_HOLD: Final = 30.0
"""Seconds until the next login after one was refused to an account that has logged in before; doubled each time."""

LONGEST_HOLD: Final = 600.0
"""Seconds: the longest such pause."""

REJECTIONS: Final = 3
"""Rejections in a row, in the service's own words, after which such an account counts as rejected for good."""

_OWN_WORDS: Final = re.compile(r"pass ?word|user ?name", re.IGNORECASE)
"""The service's own words for a rejected login (service document, 7): that the user name or password is invalid. A
gateway's `{"message": "Forbidden"}` speaks of neither."""


@attrs.frozen
class _Refusal:
    """The last login that was refused.

    Attributes:
        credentials: What it was tried with.
        error: What it ended in, and what later calls get.
        until: When the same credentials may be tried again, by the loop's clock; infinite once they count as rejected.
        times: Refusals of these credentials in a row.
        own_words: How many of them in a row, up to the last, were in the service's own words.
    """

    credentials: tuple[str, Secret]
    error: FreightExchangeError
    until: float = math.inf
    times: int = 1
    own_words: int = 0


class LoginBackoff:
    """Rules for the next login, from the outcome of those so far.

    - Rejected credentials are not tried again. To find out whether they have changed, the credentials are asked for:
      by each of the first ten calls, and then once in five seconds. In between, calls get the rejection itself.
    - An account that has logged in before is not given up for one refusal, which may be a gateway's. Neither is it for
      any other reply without a token, such as a page of HTML; 429 and 5xx are what they are. Logins are held for 30
      seconds, then for twice as long each time, up to ten minutes. Calls get an `AuthenticationError` with the seconds
      that are left. Three refusals in a row that speak of the user name or password count as a rejection.
    - A login that was answered 429 with a `Retry-After`, and that could not wait it out, holds back every other until
      that time has passed; meanwhile the answer is that error, with the seconds that are left.
    - An early renewal that failed is not repeated for five seconds: the old token still serves.
    """

    __slots__ = ("_early", "_proven", "_questions", "_quiet_until", "_refusal", "_throttled", "_throttled_until")

    def __init__(self) -> None:
        self._early = -math.inf
        self._throttled: RateLimitedError | None = None
        self._throttled_until = -math.inf
        self._refusal: _Refusal | None = None
        self._proven = set[str]()
        self._questions = 0
        self._quiet_until = -math.inf

    def check(self) -> None:
        """Raise what holds a login back, before the credentials are asked for."""
        now = anyio.current_time()
        if self._throttled is not None and now < self._throttled_until:
            raise _remaining(self._throttled, self._throttled_until - now)
        if self._refusal is None or now >= self._refusal.until:
            return
        if self._questions >= _QUESTIONS and now < self._quiet_until:
            raise _refused(self._refusal, now)
        self._questions += 1

    def asked(self) -> None:
        """Note that the credentials were asked for: the pause until the next time begins."""
        self._quiet_until = anyio.current_time() + _BETWEEN_QUESTIONS

    def check_credentials(self, credentials: tuple[str, Secret]) -> None:
        """Raise the refusal, if it was of these very credentials and still holds."""
        if self._refusal is None:
            return
        if self._refusal.credentials == credentials:
            if (now := anyio.current_time()) < self._refusal.until:
                raise _refused(self._refusal, now)
            return
        # What is tried now may fail for another reason, and the calls after that must not be told of the old secret.
        self._questions = 0

    def failed(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        """Take in why a login with these credentials gave no token; the error to raise for it."""
        if isinstance(error, AuthenticationError) or (credentials[0] in self._proven and _may_be_a_gateways(error)):
            return self._refuse(credentials, error)
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            self._throttled = error
            self._throttled_until = anyio.current_time() + min(error.retry_after, LONGEST_HONOURED)
        return error

    def _refuse(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        # Without a status no service said so: the caller's own middleware gave up, and a hold mends nothing.
        if credentials[0] not in self._proven or error.status is None:
            if isinstance(error, LoginRejectedError):
                self._refusal = _Refusal(credentials, error)
                self._questions = 0
            return error
        before = self._refusal
        if before is None or before.credentials != credentials:
            before = _Refusal(credentials, error, times=0)
        own_words = before.own_words + 1 if _in_own_words(error) else 0
        self._questions = 0
        if own_words >= REJECTIONS:
            # Until a login succeeds again: where one more try is allowed, it is one, and does not lock the account.
            self._proven.discard(credentials[0])
            self._refusal = _Refusal(credentials, error)
            return error
        now = anyio.current_time()
        hold = min(LONGEST_HOLD, FIRST_HOLD * 2.0 ** min(before.times, 30))
        self._refusal = _Refusal(credentials, error, now + hold, before.times + 1, own_words)
        return _refused(self._refusal, now)

    def succeeded(self, account: str) -> None:
        """Note that a login gave a token, which ends what held the next one back."""
        self._refusal = self._throttled = None
        self._proven.add(account)

    def adopted(self, account: str) -> None:
        """Note that another process has logged in to the account."""
        self._proven.add(account)

    def forget_rejection(self) -> None:
        self._refusal = None

    def early_renewal_may_begin(self) -> bool:
        return anyio.current_time() >= self._early

    def renewal_begins(self) -> None:
        self._early = math.inf

    def renewal_ended(self, *, well: bool) -> None:
        self._early = -math.inf if well else anyio.current_time() + _BETWEEN_EARLY_RENEWALS


def _may_be_a_gateways(error: FreightExchangeError) -> bool:
    """Return whether a reply without a token came, of which neither an outage nor a limit of rate is the reason."""
    return isinstance(error, DecodeError | APIStatusError) and not isinstance(error, RateLimitedError | ServerError)


def _in_own_words(error: FreightExchangeError) -> bool:
    if not isinstance(error, LoginRejectedError) or not isinstance(error.body, dict):
        return False
    return any(isinstance(text, str) and _OWN_WORDS.search(text) for text in error.body.values())


def _refused(refusal: _Refusal, now: float) -> FreightExchangeError:
    """The error for a call that cannot log in because of the refusal."""
    if refusal.until == math.inf:
        return copy_error(refusal.error)
    seconds = refusal.until - now
    held = AuthenticationError()
    held.__dict__.update(refusal.error.__dict__, path="login")
    why = refusal.error.message.removesuffix(UNTIL_CHANGED)
    if isinstance(refusal.error, DecodeError) and refusal.error.path != "$":
        why = f"{why} at {refusal.error.path}"
    held.args = (
        f"{why}; this account has logged in before, so this may pass, or be a gateway's doing: the next login is tried"
        f" in {spoken(seconds)}",
    )
    held.retry_after = seconds
    held.settled = True
    return held


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
