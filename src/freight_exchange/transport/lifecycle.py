"""Connection of an entered client: its loop, background tasks, HTTP connections and chains of middleware."""

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
from freight_exchange.transport.chain import compose_call_chain
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
    from freight_exchange.transport.auth.shared_login import SharedLogin
    from freight_exchange.transport.auth.token import Grant
    from freight_exchange.transport.auth.token_store import TokenFile
    from freight_exchange.transport.message import Middleware
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Connection", "Engine", "LogIn", "NetworkOptions", "Settings"]

LogIn = Callable[[CallExecutor, str, "Secret"], Awaitable["Grant"]]
"""Function that logs in through an executor without a token."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NetworkOptions:
    """Options of a connection, as the user of a client chose them."""

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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Settings:
    """All settings of a connection."""

    base_url: str
    network: NetworkOptions
    credentials: Credentials
    log_in: LogIn
    redactor: Redactor
    hooks: Hooks
    retry_tokens: int
    on_login: Callable[[User], None]
    """Receives the user of a login that another process made."""
    login_timeout: float
    """Seconds that a login may take at most."""


class Engine(NamedTuple):
    """Parts of an open connection that a call needs."""

    tasks: BackgroundTasks
    token_refresh: TokenRefresh
    executor: CallExecutor

    async def log_in(self, deadline: float) -> None:
        """Log in, unless there is a token."""
        began = anyio.current_time()
        with anyio.move_on_after(deadline) as scope:
            await self.token_refresh.access_token()
        if scope.cancelled_caught:
            error = DeadlineExceededError(
                f"the deadline of {deadline:g} s passed before the login ended",
                method="POST",
                path="login",
                elapsed=anyio.current_time() - began,
            )
            error.settled = True
            raise error


_CLOSE_TIMEOUT = 5.0
"""Seconds to wait for closing, which takes milliseconds and continues in the background."""


class _State(enum.Enum):
    NEW = "was not entered yet: use it within `async with FreightExchange(...) as exchange:`"
    OPEN = "is open already"
    CLOSED = "is closed: make a new one"


class Connection:
    """Connection of a client to the service, shared by all of its views."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = _State.NEW
        self._engine: Engine | None = None
        self._pools: tuple[Any, ...] = ()
        self.backend: Any = None
        """Network backend of httpcore for the SDK's own connections, before `open`; for exchanges in memory."""

    @property
    def was_opened(self) -> bool:
        """True once it has been opened."""
        return self._state is not _State.NEW

    @property
    def engine(self) -> Engine:
        """The open engine; raises `ConfigurationError` if none is open, or if it belongs to another loop."""
        engine = self._engine
        if engine is None:
            raise ConfigurationError(f"this client {self._state.value}")
        engine.tasks.check_loop()
        return engine

    def reset_login(self) -> None:
        if self._engine is not None:
            self._engine.token_refresh.reset()

    async def open(self) -> None:
        if self._state is not _State.NEW:
            raise ConfigurationError(f"this client {self._state.value}")
        settings, options = self._settings, self._settings.network
        tasks = BackgroundTasks()
        if options.http_client is None:
            if options.proxy is not None:
                # A proxy may repeat its password in its answer, which httpcore logs.
                for secret in own_pools.proxy_secrets(options.proxy):
                    settings.redactor.add(secret)
            pools = self._pools = own_pools.own_pools(
                base_url=settings.base_url,
                proxy=options.proxy,
                verify=options.verify,
                keepalive=options.keepalive,
                backend=self.backend,
            )
            network = own_pools.own_network(settings.base_url, pools, options.proxy)
        else:
            send = adapter.client_sender(options.http_client)
            network = adapter.Network(settings.base_url, send, send, adapter.library_of(options.http_client))
        limiter = Limiter(
            tasks,
            reads=options.max_connections,
            writes=options.max_writes,
            shared=options.http_client is not None,
        )
        layers = partial(
            compose_call_chain,
            network,
            budget=RetryBudget(settings.retry_tokens),
            hooks=settings.hooks,
            redactor=settings.redactor,
            user=options.middleware,
            throttle=Throttle(),
            limiter=limiter,
        )
        anonymous = CallExecutor(layers(token=None), settings.redactor, settings.base_url)

        async def log_in(email: str, password: Secret) -> Grant:
            return await settings.log_in(anonymous, email, password)

        if options.token_store is None:
            token_refresh = TokenRefresh(tasks, settings.hooks, settings.credentials, log_in)
        else:
            shared = _shared(options.token_store, settings, log_in)
            token_refresh = TokenRefresh(tasks, settings.hooks, settings.credentials, shared, on_refused=shared.refuse)
        executor = CallExecutor(layers(token=token_refresh), settings.redactor, settings.base_url)
        self._engine = Engine(tasks, token_refresh, executor)
        self._state = _State.OPEN

    async def aclose(self) -> None:
        """Cancel running calls and close the SDK's own connections, even if the caller is cancelled."""
        if self._engine is not None:
            self._engine.tasks.check_loop()
        engine, self._engine, self._state = self._engine, None, _State.CLOSED
        if engine is not None:
            closing = engine.tasks.close(self._close)
            with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await closing.wait()

    async def _close(self) -> None:
        for transport in self._pools:
            await transport.aclose()


def _shared(store: TokenFile, settings: Settings, log_in: LoginCall) -> SharedLogin:
    # Imported here, as most programs share no login.
    from freight_exchange.transport.auth.shared_login import SharedLogin

    def adopt(login: CachedLogin, password: Secret) -> None:
        # A reply may repeat the secrets of another process.
        settings.redactor.add(password)
        settings.redactor.add_token(login.token)
        settings.on_login(wire.decode_user(login.user))

    # Half of the time limit is for waiting, and the other half for a login of this process.
    return SharedLogin(store, settings.base_url, log_in, adopt=adopt, lock_timeout=settings.login_timeout / 2)
