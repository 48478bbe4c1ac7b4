"""Token refresh: one login for all calls, before the token expires and after a refusal.

The login runs in a background task of the client. All calls that need a token wait for this task, and receive its token
or its error. A caller that leaves does not stop it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import anyio

from freight_exchange.errors import DeadlineExceededError, FreightExchangeError, TransportError
from freight_exchange.errors.hierarchy import copy_error
from freight_exchange.hooks import Login
from freight_exchange.platform import clock
from freight_exchange.transport.auth.backoff import LoginBackoff
from freight_exchange.transport.auth.token import AccessToken, Grant
from freight_exchange.transport.background import TaskCancelledError
from freight_exchange.transport.rules.status_errors import is_unauthorized

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Secret

__all__ = ["Credentials", "LoginCall", "TokenRefresh"]

_logger = logging.getLogger("freight_exchange.auth")

Reason = Literal["first", "clock", "refused"]
Credentials = Callable[[], Awaitable[tuple[str, "Secret"]]]
"""Source of the email and password, called before each login; after a rejection see `LoginBackoff`."""
LoginCall = Callable[[str, "Secret"], Awaitable[Grant]]
"""Function that logs in, or finds the token of another process."""


class TokenRefresh:
    """Middleware that attaches a token to each request; after a refusal it logs in once and replays the request once.

    A replay may use the token of another process. If the service refused that one before, a second replay follows.
    """

    def __init__(
        self,
        tasks: BackgroundTasks,
        hooks: Hooks,
        credentials: Credentials,
        login: LoginCall,
        *,
        on_refused: Callable[[Secret], None] = lambda _: None,
        timeout: float = 60.0,
    ) -> None:
        """Make the middleware for a client.

        `on_refused` receives the tokens that the service refused. `timeout` bounds, in seconds, how long the
        source of credentials may take, and how long hooks may delay a login.
        """
        self._on_refused = on_refused
        self._timeout = timeout
        self._tasks = tasks
        self._hooks = hooks
        self._credentials = credentials
        self._login = login
        self._access: AccessToken | None = None
        self._generation = 0
        self._task: BackgroundTask[AccessToken] | None = None
        self._backoff = LoginBackoff()

    async def __call__(self, request: Request, call_next: Next) -> Response:
        request.progress.waits_for_login = True
        access = await self.access_token()
        request.progress.waits_for_login = False
        response = await call_next(request.with_token(access.token))
        replays = 0
        while is_unauthorized(response):
            self._on_refused(access.token)
            if not request.replayable:
                self._replace(access)
                break
            if replays >= (2 if access.adopted else 1):
                break
            # The refusal proves that the attempt had no effect, even if the deadline passes during the login.
            request.progress.reset()
            request.progress.waits_for_login = True
            replacement = await self._after_refusal(access)
            request.progress.waits_for_login = False
            if replacement is None:
                break
            access = replacement
            request.progress.replays += 1
            response = await call_next(request.with_token(access.token))
            replays += 1
        return response

    async def access_token(self) -> AccessToken:
        """Return the current token, or a new one if it has expired."""
        access = self._access
        if access is None:
            return await self._refreshed("first")
        if access.is_refresh_due():
            if access.is_expired():
                return await self._refreshed("clock")
            if self._task is None and self._backoff.may_refresh_early():
                self._start("clock")
        return access

    def reset(self) -> None:
        """Allow another login with rejected credentials."""
        self._backoff.forget_refusal()

    def _replace(self, refused: AccessToken) -> None:
        """Refresh the token for later calls. The refused write is not replayed: its outcome is unknown."""
        if self._access is refused and self._task is None and not refused.replaced_refused_token():
            self._start("refused")

    async def _after_refusal(self, refused: AccessToken) -> AccessToken | None:
        """Return a token for a replay, or `None` if the replay would be refused too."""
        current = self._access
        if current is not None and current.generation > refused.generation:
            return current
        if self._task is None and refused.replaced_refused_token():
            return None
        return await self._refreshed("refused")

    async def _refreshed(self, reason: Reason) -> AccessToken:
        task = self._task
        if task is None or task.is_finished:
            task = self._start(reason)
        try:
            return await task.wait()
        except TaskCancelledError:
            failure: FreightExchangeError = TransportError(
                "the client was closed during the login", permanent=True, unsent=True
            )
        except FreightExchangeError as error:
            failure = copy_error(error)
            failure.token_refused = reason == "refused"
        raise failure

    def _start(self, reason: Reason) -> BackgroundTask[AccessToken]:
        task = self._tasks.start(lambda: self._refresh(reason))
        # Under an eager task factory the task may have ended within `start`, and nothing would clear it.
        self._task = None if task.is_finished else task
        return task

    async def _refresh(self, reason: Reason) -> AccessToken:
        self._backoff.refresh_started()
        try:
            self._backoff.check()
            credentials = await self._fetch_credentials()
            self._backoff.check_credentials(credentials)
            access = await self._log_in(reason, credentials)
        finally:
            self._backoff.refresh_finished(succeeded=self._access is not None and not self._access.is_refresh_due())
            self._task = None
        return access

    async def _fetch_credentials(self) -> tuple[str, Secret]:
        """Return the credentials from the user's source, within the time limit."""
        with anyio.move_on_after(self._timeout):
            try:
                return await self._credentials()
            except FreightExchangeError as error:
                # The source may have called the service, and that call has its own retries.
                error.settled = True
                raise
            finally:
                self._backoff.credentials_fetched()
        raise DeadlineExceededError(f"the credentials did not come within {self._timeout:g} s")

    async def _log_in(self, reason: Reason, credentials: tuple[str, Secret]) -> AccessToken:
        started = clock.now()
        try:
            grant = await self._login(*credentials)
        except FreightExchangeError as error:
            failure = self._backoff.login_failed(credentials, error)
            _logger.warning("login failed (reason: %s): %s; the calls that wait for it fail", reason, failure)
            await self._report(0, reason, started, failure)
            if failure is error:
                raise
        else:
            return await self._logged_in(reason, credentials[0], grant, started)
        raise failure

    async def _logged_in(self, reason: Reason, account: str, grant: Grant, started: clock.Reading) -> AccessToken:
        self._generation += 1
        access = AccessToken.from_grant(self._generation, grant, obtained=started, after_refusal=reason == "refused")
        self._access = access
        if access.adopted:
            self._backoff.login_adopted(account)
            _logger.debug("adopted a login of another process (%s), token number %d", reason, access.generation)
            return access
        self._backoff.login_succeeded(account)
        _logger.debug("logged in (%s), token number %d", reason, access.generation)
        await self._report(access.generation, reason, started, None)
        return access

    async def _report(
        self, generation: int, reason: Reason, started: clock.Reading, error: FreightExchangeError | None
    ) -> None:
        if not self._hooks:
            return
        # The outcome is known already: a hook that hangs must not delay all calls.
        with anyio.move_on_after(self._timeout):
            await self._hooks.emit(Login(generation=generation, reason=reason, elapsed=started.elapsed(), error=error))
