"""Token: one login for all calls of a client, before the token expires and after a refusal."""

from __future__ import annotations

import copy
import logging
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

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
from freight_exchange.platform import clock
from freight_exchange.transport.call import RequestKind
from freight_exchange.transport.retry import MAX_HONOURED, format_seconds, is_unauthorized

if TYPE_CHECKING:
    from freight_exchange.instruments import Hooks
    from freight_exchange.models import User
    from freight_exchange.transport.call import Call, Request, Response, Send
    from freight_exchange.transport.redact import Secret

_logger = logging.getLogger("freight_exchange.auth")

Reason = Literal["first", "clock", "refused"]
Credentials = Callable[[], Awaitable[tuple[str, "Secret"]]]
LoginCall = Callable[[str, "Secret"], Awaitable["Grant"]]

_LEEWAY, _LEEWAY_SHARE = 300.0, 0.1
_REPLACEMENT_AGE: Final = 30.0
"""Age in seconds up to which a token that replaced a refused one is not replaced again."""
_EARLY_INTERVAL: Final = 5.0
"""Seconds between a failed early login and the next one; the old token is still valid."""
_FIRST_HOLD, _LONGEST_HOLD = 30.0, 600.0
"""Pauses in seconds after a refused login of an account that has logged in before; each doubles the last one."""
_MAX_REJECTIONS: Final = 3
"""Refusals in a row that name the credentials, after which an account that has logged in before stays rejected."""
_CREDENTIAL_WORDS: Final = r"(?i)pass ?word|user ?name"
_FETCH_INTERVAL = 5.0
"""Seconds between fetches of rejected credentials: not every call of a rejected client asks a secret manager."""


def leeway_of(lifetime: float) -> float:
    """Return how many seconds before its end a token is replaced at the earliest."""
    return min(_LEEWAY, _LEEWAY_SHARE * lifetime)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Grant:
    """Result of a login at the time `obtained`, of this process or, if it `is_adopted`, of another one."""

    token: Secret
    lifetime: float | None
    user: User | None = None
    obtained: clock.Reading = attrs.field(factory=clock.now)
    is_adopted: bool = False
    _share: float = attrs.field(init=False, factory=lambda: random.uniform(0.8, 1.0))

    def is_expired(self, *, early: bool = False) -> bool:
        """Return whether the token has expired, or with `early`, whether it is time to replace it."""
        if self.lifetime is None or self.lifetime <= 0:
            return False
        return self.obtained.elapsed() >= self.lifetime - (self._share * leeway_of(self.lifetime) if early else 0.0)


@attrs.define(eq=False, repr=False)
class Token:
    """Middleware that attaches the token; after a refusal it logs in once and replays the request once.

    The first caller that needs a token logs in, under a lock. The callers that wait for it receive its token or its
    error. If it is cancelled, the next one logs in.

    An account whose first login is rejected is not tried again until its credentials change. One that has logged in
    before may meet a gateway, so it is tried again after 30 seconds, and then after twice as long each time, up to ten
    minutes. Until then calls receive an `AuthenticationError` with the remaining seconds. Three refusals in a row that
    name the user name or password count as a rejection.
    """

    _hooks: Hooks
    _credentials: Credentials
    _log_in: LoginCall
    _on_refused: Callable[[Secret], None] = lambda _: None

    _lock: anyio.Lock = attrs.field(init=False, factory=anyio.Lock)
    _grant: Grant | None = None
    _generation: int = 0
    _replaced_refused: clock.Reading | None = None
    _tries: int = 0
    _failure: FreightExchangeError | None = None
    _next_early: float = 0.0
    _proven: set[str] = attrs.field(init=False, factory=set)
    # Credentials and error of the last refusal. Without credentials, it holds any login.
    _rejected: tuple[str, Secret] | None = None
    _refusal: FreightExchangeError | None = None
    _held_until: float = 0.0
    _hold: float = 0.0
    _next_fetch: float = 0.0
    _rejections: int = 0

    async def __call__(self, call: Call, request: Request, call_next: Send) -> Response:
        generation, grant = await self._current()
        while True:
            call.token = grant.token
            response = await call_next(call, request)
            if not is_unauthorized(response):
                return response
            self._on_refused(grant.token)
            if call.kind is RequestKind.WRITE and not call.limits.retries.trust_refusals:
                # The outcome of the write is unknown: it is not replayed, and later calls have a new token.
                if self._generation == generation:
                    self._grant = None
                return response
            since = self._replaced_refused
            is_new = self._generation == generation and since is not None and since.elapsed() < _REPLACEMENT_AGE
            # A token that has just replaced a refused one would be refused in the replay too.
            if is_new or call.replays == (2 if grant.is_adopted else 1):
                return response
            # The refusal proves that the attempt had no effect, even if the deadline passes during the login.
            call.reset()
            generation, grant = await self._current(generation)
            call.replays += 1

    async def obtain(self) -> None:
        await self._current()

    def reset(self) -> None:
        """Allow another login with rejected credentials."""
        self._rejected, self._held_until = None, 0.0

    async def _current(self, refused: int = 0) -> tuple[int, Grant]:
        grant = self._grant
        if grant is not None and self._generation > refused:
            if not grant.is_expired(early=True):
                return self._generation, grant
            if not grant.is_expired():
                # The old token is still valid: one caller replaces it, the others use it.
                if anyio.current_time() >= self._next_early and not self._lock.locked():
                    self._next_early = anyio.current_time() + _EARLY_INTERVAL
                    # Logged. The old token is used until it expires.
                    with suppress(FreightExchangeError):
                        await self._renew(self._generation, "clock")
                return self._generation, self._grant or grant
        reason: Reason = "refused" if refused else "first" if self._grant is None else "clock"
        await self._renew(refused or self._generation, reason)
        assert self._grant is not None
        return self._generation, self._grant

    async def _renew(self, old: int, reason: Reason) -> None:
        """Log in, unless another caller has done so meanwhile; raise the error of a login that it has tried."""
        tries = self._tries
        async with self._lock:
            if self._generation > old and self._grant is not None:
                return
            if self._tries > tries and self._failure is not None:
                # A copy: one that is raised in many tasks collects all their tracebacks.
                raise copy.copy(self._failure)
            self._tries += 1
            try:
                self._grant = await self._logged_in(reason)
            except FreightExchangeError as error:
                error.settled = True
                self._failure = error
                raise copy.copy(error) from None
            except BaseException:
                # Cancelled, or a bug in the source of the credentials: the next caller logs in.
                self._tries -= 1
                raise
            self._generation += 1

    async def _logged_in(self, reason: Reason) -> Grant:
        now = anyio.current_time()
        if now < self._held_until and (self._rejected is None or now < self._next_fetch):
            raise self._held()
        credentials = await self._credentials()
        self._next_fetch = anyio.current_time() + _FETCH_INTERVAL
        if credentials == self._rejected and anyio.current_time() < self._held_until:
            raise self._held()
        started = clock.now()
        grant, failure = None, None
        try:
            grant = await self._log_in(*credentials)
        except FreightExchangeError as error:
            failure = self._refused(credentials, error)
            _logger.warning("login failed (reason: %s): %s; the calls that wait for it fail", reason, failure)
        number = 0 if grant is None else self._generation + 1
        if self._hooks and not (grant is not None and grant.is_adopted):
            from freight_exchange.hooks import Login

            await self._hooks.emit(Login(generation=number, reason=reason, elapsed=started.elapsed(), error=failure))
        if grant is None:
            assert failure is not None
            raise failure
        _logger.debug("logged in (%s), token number %d", reason, number)
        self._rejected, self._held_until, self._hold = None, 0.0, 0.0
        self._proven.add(credentials[0])
        # After the login of another process, this one may still log in after a refusal.
        self._replaced_refused = started if reason == "refused" and not grant.is_adopted else None
        return grant if grant.is_adopted else attrs.evolve(grant, obtained=started)

    def _refused(self, credentials: tuple[str, Secret], error: FreightExchangeError) -> FreightExchangeError:
        now = anyio.current_time()
        if isinstance(error, RateLimitedError) and error.retry_after is not None:
            self._rejected, self._refusal = None, error
            self._held_until = now + min(error.retry_after, MAX_HONOURED)
            return error
        is_proven = credentials[0] in self._proven
        # A gateway may answer anything without a token. 429 and 5xx are no refusals.
        if isinstance(error, RateLimitedError | ServerError) or not isinstance(error, DecodeError | APIStatusError):
            return error
        # Without a status, the error is from the caller's own middleware, and a pause would not help.
        if error.status is None or not (is_proven or isinstance(error, LoginRejectedError)):
            return error
        if self._rejected != credentials:
            self._hold, self._rejections = 0.0, 0
        # The `{"message": "Forbidden"}` of a gateway names no credentials.
        is_named = isinstance(error, LoginRejectedError) and re.search(_CREDENTIAL_WORDS, str(error.body))
        self._rejections = self._rejections + 1 if is_named else 0
        if self._rejections >= _MAX_REJECTIONS:
            # From here on, further tries are single ones, which do not lock the account, until a login succeeds.
            self._proven.discard(credentials[0])
            is_proven = False
        self._hold = min(_LONGEST_HOLD, max(_FIRST_HOLD, 2 * self._hold)) if is_proven else float("inf")
        self._rejected, self._refusal, self._held_until = credentials, error, now + self._hold
        return self._held()

    def _held(self) -> FreightExchangeError:
        refusal, seconds = self._refusal, self._held_until - anyio.current_time()
        assert refusal is not None
        error = copy.copy(refusal)
        advice = "no other login is tried until the credentials change, or reset_login() allows it"
        if seconds != float("inf"):
            kind = RateLimitedError if isinstance(refusal, RateLimitedError) else AuthenticationError
            error = kind(**{**vars(refusal), "path": "login", "retry_after": seconds})
            advice = f"the next login is tried in {format_seconds(seconds)}"
        error.args = (f"{refusal.message.partition('; ')[0]}; {advice}",)
        error.settled = True
        return error
