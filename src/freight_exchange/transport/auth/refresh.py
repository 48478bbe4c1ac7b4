"""One login for everybody: a token for each request, renewed by the clock and on refusal.

The login runs in a job of the client. Whoever needs its outcome waits for the job and gets a copy of it, good or bad;
whoever leaves meanwhile does not stop it.
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
from freight_exchange.transport.status_errors import unauthorized

if TYPE_CHECKING:
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.background import BackgroundTask, BackgroundTasks
    from freight_exchange.transport.message import Next, Request, Response
    from freight_exchange.transport.secrets import Secret

__all__ = ["Credentials", "LoginCall", "TokenRefresh"]

_logger = logging.getLogger("freight_exchange.auth")

Reason = Literal["first", "clock", "refused"]
Credentials = Callable[[], Awaitable[tuple[str, "Secret"]]]
"""Gives the email and the password to log in with now. Asked before each login; after a rejection see `Holdback`."""
LoginCall = Callable[[str, "Secret"], Awaitable[Grant]]
"""Logs in, or finds the token of another process that did."""


class TokenRefresh:
    """Attaches a token to every request; on refusal renews it once and replays the request once.

    The token of another process may have been refused long since: a replay with one may be followed by another.
    """

    def __init__(
        self,
        tasks: BackgroundTasks,
        hooks: Hooks,
        credentials: Credentials,
        login: LoginCall,
        *,
        refused: Callable[[Secret], None] = lambda _: None,
        patience: float = 60.0,
    ) -> None:
        """`refused` is told the tokens that the service refused; `patience` is how many seconds the credentials may
        take to be given."""
        self._refused = refused
        self._patience = patience
        self._tasks = tasks
        self._hooks = hooks
        self._credentials = credentials
        self._login = login
        self._session: AccessToken | None = None
        self._generation = 0
        self._task: BackgroundTask[AccessToken] | None = None
        self._holdback = LoginBackoff()

    async def __call__(self, request: Request, call_next: Next) -> Response:
        session = await self.session()
        response = await call_next(request.with_token(session.token))
        replays = 0
        while unauthorized(response):
            self._refused(session.token)
            if not request.replayable:
                self._replace(session)
                break
            if replays >= (2 if session.adopted else 1):
                break
            # The refusal proves that nothing happened, also to a deadline that passes during the login.
            request.progress.reset()
            renewed = await self._after_refusal(session)
            if renewed is None:
                break
            session = renewed
            response = await call_next(request.with_token(session.token))
            replays += 1
        return response

    async def session(self) -> AccessToken:
        """A token that is good by the clock: the one at hand, or else a new one."""
        session = self._session
        if session is None:
            return await self._renewed("first")
        if session.ageing():
            if session.expired():
                return await self._renewed("clock")
            if self._task is None and self._holdback.early_renewal_may_begin():
                self._start("clock")
        return session

    def reset(self) -> None:
        """Forget that the credentials were rejected: the next call may log in with them again."""
        self._holdback.forget_rejection()

    def _replace(self, refused: AccessToken) -> None:
        """Renew for the calls to come: the one that was refused ends in doubt, and they must not for ever."""
        if self._session is refused and self._task is None and not refused.refused_again():
            self._start("refused")

    async def _after_refusal(self, refused: AccessToken) -> AccessToken | None:
        """A token to replay with, or `None` if a replay would be refused as well."""
        current = self._session
        if current is not None and current.generation > refused.generation:
            return current
        if self._task is None and refused.refused_again():
            return None
        return await self._renewed("refused")

    async def _renewed(self, reason: Reason) -> AccessToken:
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
        raise failure

    def _start(self, reason: Reason) -> BackgroundTask[AccessToken]:
        task = self._tasks.start(lambda: self._renew(reason))
        # Under an eager task factory it may have ended within `start`, and would stand here for ever.
        self._task = None if task.is_finished else task
        return task

    async def _renew(self, reason: Reason) -> AccessToken:
        self._holdback.renewal_begins()
        try:
            self._holdback.check()
            credentials = await self._ask()
            self._holdback.check_credentials(credentials)
            session = await self._log_in(reason, credentials)
        finally:
            self._holdback.renewal_ended(well=self._session is not None and not self._session.ageing())
            self._task = None
        return session

    async def _ask(self) -> tuple[str, Secret]:
        """The credentials, from whoever gives them; a secret manager may hang."""
        with anyio.move_on_after(self._patience):
            try:
                return await self._credentials()
            except FreightExchangeError as error:
                # Of a call that the provider made, and settled there: nothing of it is to be tried again here.
                error.settled = True
                raise
            finally:
                self._holdback.asked()
        raise DeadlineExceededError(f"no credentials were given within {self._patience:g} s")

    async def _log_in(self, reason: Reason, credentials: tuple[str, Secret]) -> AccessToken:
        started = clock.now()
        try:
            grant = await self._login(*credentials)
        except FreightExchangeError as error:
            failure = self._holdback.failed(credentials, error)
            _logger.warning("login failed (%s): %s", reason, failure)
            await self._tell(0, reason, started, failure)
            if failure is error:
                raise
        else:
            return await self._logged_in(reason, credentials[0], grant, started)
        raise failure

    async def _logged_in(self, reason: Reason, account: str, grant: Grant, started: clock.Reading) -> AccessToken:
        self._generation += 1
        session = AccessToken.begin(self._generation, grant, obtained=started, after_refusal=reason == "refused")
        self._session = session
        if session.adopted:
            self._holdback.adopted(account)
            _logger.debug("took another process's login (%s), token number %d", reason, session.generation)
            return session
        self._holdback.succeeded(account)
        _logger.debug("logged in (%s), token number %d", reason, session.generation)
        await self._tell(session.generation, reason, started, None)
        return session

    async def _tell(
        self, generation: int, reason: Reason, started: clock.Reading, error: FreightExchangeError | None
    ) -> None:
        if not self._hooks:
            return
        # The token is there, or the rejection known: a hook that hangs must not hold up everybody's login.
        with anyio.move_on_after(self._patience):
            await self._hooks.emit(Login(generation=generation, reason=reason, elapsed=started.elapsed(), error=error))
