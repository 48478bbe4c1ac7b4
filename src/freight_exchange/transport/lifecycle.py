"""What an entered client holds: its loop, its jobs, its HTTP clients, and the way of a call through all of it."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import attrs

from freight_exchange import wire
from freight_exchange.errors import ConfigurationError, DeadlineExceededError
from freight_exchange.transport.auth.refresh import Credentials, TokenRefresh
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.call import CallExecutor
from freight_exchange.transport.chain import call_chain
from freight_exchange.transport.http import adapter, own_pools
from freight_exchange.transport.middleware.limiter import Limiter
from freight_exchange.transport.middleware.retry import RetryBudget
from freight_exchange.transport.middleware.throttle import Throttle
from freight_exchange.transport.secrets import Secret

if TYPE_CHECKING:
    import ssl

    from freight_exchange.hooks import Hooks
    from freight_exchange.models import User
    from freight_exchange.transport.auth.cached_login import CachedLogin
    from freight_exchange.transport.auth.refresh import LoginCall
    from freight_exchange.transport.auth.shared import SharedLogin
    from freight_exchange.transport.auth.token import Grant
    from freight_exchange.transport.auth.token_store import TokenFile
    from freight_exchange.transport.message import Middleware
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Connection", "Engine", "LogIn", "Settings"]

LogIn = Callable[[CallExecutor, str, "Secret"], Awaitable["Grant"]]
"""Logs in through a caller that attaches no token."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Settings:
    """What a connection is made from."""

    base_url: str
    credentials: Credentials
    log_in: LogIn
    redactor: Redactor
    hooks: Hooks
    retry_tokens: int
    max_connections: int
    max_writes: int
    middleware: tuple[Middleware, ...]
    proxy: Secret | None
    """The proxy's URL, which may hold a password."""
    keepalive: float
    """Seconds that an idle connection for reads is kept."""
    verify: bool | ssl.SSLContext
    http_client: Any
    token_store: TokenFile | None
    welcome: Callable[[User], None]
    """Is given the user of a login that another process made."""
    login_timeout: float
    """Seconds that a login may take at most."""


class Engine(NamedTuple):
    """The parts of an open connection that a call needs."""

    tasks: BackgroundTasks
    renewal: TokenRefresh
    caller: CallExecutor

    async def log_in(self, deadline: float) -> None:
        """Have a token, by logging in if there is none."""
        began = anyio.current_time()
        with anyio.move_on_after(deadline) as scope:
            await self.renewal.access_token()
        if scope.cancelled_caught:
            error = DeadlineExceededError(
                f"the deadline of {deadline:g} s has passed before the login ended",
                method="POST",
                path="login",
                elapsed=anyio.current_time() - began,
            )
            error.settled = True
            raise error


_CLOSING = 5.0
"""Seconds that closing is waited for; it takes milliseconds, and goes on without whoever waits."""


class _State(enum.Enum):
    NEW = "was not entered yet: use it within `async with FreightExchange(...) as exchange:`"
    OPEN = "is open already"
    CLOSED = "is closed: make a new one"


class Connection:
    """A client's connection to the service, shared by all of its views."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = _State.NEW
        self._engine: Engine | None = None
        self._own: tuple[Any, ...] = ()

    @property
    def opened(self) -> bool:
        """Whether it was opened, whatever has become of it since."""
        return self._state is not _State.NEW

    @property
    def engine(self) -> Engine:
        """The open engine; `ConfigurationError` if there is none, or it is another loop's."""
        engine = self._engine
        if engine is None:
            raise ConfigurationError(f"this client {self._state.value}")
        engine.tasks.check_loop()
        return engine

    def reset_login(self) -> None:
        if self._engine is not None:
            self._engine.renewal.reset()

    async def open(self) -> None:
        if self._state is not _State.NEW:
            raise ConfigurationError(f"this client {self._state.value}")
        settings = self._settings
        tasks = BackgroundTasks()
        if settings.http_client is None:
            if settings.proxy is not None:
                # A proxy may repeat its password in what it answers, and httpcore logs that.
                for secret in own_pools.proxy_secrets(settings.proxy):
                    settings.redactor.learn(secret)
            pools = self._own = own_pools.own_pools(
                base_url=settings.base_url,
                proxy=settings.proxy,
                verify=settings.verify,
                keepalive=settings.keepalive,
            )
            network = own_pools.own_network(settings.base_url, pools, settings.proxy)
        else:
            send = adapter.through(settings.http_client)
            network = adapter.Network(settings.base_url, send, send, adapter.library_of(settings.http_client))
        limiter = Limiter(
            tasks,
            settings.hooks,
            settings.redactor,
            reads=settings.max_connections,
            writes=settings.max_writes,
            shared=settings.http_client is not None,
        )
        layers = partial(
            call_chain,
            network,
            budget=RetryBudget(settings.retry_tokens),
            hooks=settings.hooks,
            redactor=settings.redactor,
            user=settings.middleware,
            throttle=Throttle(),
            limiter=limiter,
        )
        anonymous = CallExecutor(layers(token=None), settings.redactor)

        async def log_in(email: str, password: Secret) -> Grant:
            return await settings.log_in(anonymous, email, password)

        if settings.token_store is None:
            renewal = TokenRefresh(tasks, settings.hooks, settings.credentials, log_in)
        else:
            shared = _shared(settings.token_store, settings, log_in)
            renewal = TokenRefresh(tasks, settings.hooks, settings.credentials, shared, on_refused=shared.refuse)
        caller = CallExecutor(layers(token=renewal), settings.redactor)
        self._engine = Engine(tasks, renewal, caller)
        self._state = _State.OPEN

    async def aclose(self) -> None:
        """End what is under way and close the SDK's own connections. Once begun it goes on, whoever is cancelled."""
        if self._engine is not None:
            self._engine.tasks.check_loop()
        engine, self._engine, self._state = self._engine, None, _State.CLOSED
        if engine is not None:
            closing = engine.tasks.close(self._close)
            with anyio.move_on_after(_CLOSING, shield=True):
                await closing.wait()

    async def _close(self) -> None:
        for transport in self._own:
            await transport.aclose()


def _shared(store: TokenFile, settings: Settings, log_in: LoginCall) -> SharedLogin:
    # Most programs share nothing, and need not import what does.
    from freight_exchange.transport.auth.shared import SharedLogin

    def adopt(login: CachedLogin, password: Secret) -> None:
        # As if it had been sent from here: a reply may repeat it, of another process's login.
        settings.redactor.learn(password)
        settings.redactor.learn_token(login.token)
        settings.welcome(wire.user(login.user))

    # Half of a login's time to wait for another process's, and the other half for one's own.
    return SharedLogin(store, settings.base_url, log_in, adopt=adopt, lock_timeout=settings.login_timeout / 2)
