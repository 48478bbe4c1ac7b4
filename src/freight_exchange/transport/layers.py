"""Layers of a call, and the transport that composes and owns them."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.lowlevel
import attrs

from freight_exchange import wire
from freight_exchange.base import NO_HEADERS
from freight_exchange.errors import ConfigurationError, DeadlineExceededError, FreightExchangeError
from freight_exchange.options import DEFAULT_DEADLINE
from freight_exchange.platform import clock
from freight_exchange.transport.call import Call, Describe, Request, RequestKind, Response, Send
from freight_exchange.transport.limits import Brake, Slots
from freight_exchange.transport.network import CallersClient, Connections, Network
from freight_exchange.transport.redact import Redactor, Secret, filter_logs, reply_headers
from freight_exchange.transport.retry import Deadline, Retry, outcome
from freight_exchange.transport.token import Grant, Token

if TYPE_CHECKING:
    from freight_exchange.config import Config
    from freight_exchange.errors import Reconciler
    from freight_exchange.instruments import Hooks
    from freight_exchange.models import User, Write
    from freight_exchange.transport.call import Middleware

T = TypeVar("T")
_logger = logging.getLogger("freight_exchange.transport")

_CLOSE_TIMEOUT = 5.0
_LAST_RECORD_TIMEOUT = 1.0


class Transport:
    """Transport of a client: sends each call through the layers, outermost first.

    `Deadline` ends the call in time; `Retry` repeats what is safe to repeat; `outcome` makes a reply a result, or a
    masked error; the user's middleware; `Token` attaches the token; `Report` tells log and hooks; `Brake` and `Slots`
    limit what is sent; `Network` sends it. Before `open`, `backend` may replace httpcore's, for exchanges in memory.
    """

    def __init__(self, options: Config) -> None:
        self._options = options
        # One login serves all views, whose deadlines may differ.
        self._login_options = attrs.evolve(options, deadline=max(options.deadline, DEFAULT_DEADLINE))
        self.redactor = Redactor()
        self.user: User | None = None
        self.backend: Any = None
        self._loop: object = None
        self._is_closed = False

    @property
    def was_opened(self) -> bool:
        return self._loop is not None

    async def open(self) -> None:
        """Make the layers; nothing is sent yet."""
        if self._loop is not None:
            raise ConfigurationError(
                f"this client is {'closed: make a new one' if self._is_closed else 'open already'}"
            )
        self._loop = anyio.lowlevel.current_token()
        options = self._options
        filter_logs()
        self._connections: Connections | CallersClient
        if options.http_client is None:
            self._connections = Connections(options, self.backend)
            # A proxy may repeat its password in its answer, which httpcore logs.
            for secret in self._connections.secrets:
                self.redactor.add(secret)
        else:
            self._connections = CallersClient(options.http_client)
        if options.token_store is None:
            self._token = Token(options.hooks, options.credentials, self._log_in)
        else:
            # Imported here: most programs share no login.
            from freight_exchange.transport.token_file import SharedLogin

            # Half of the time limit is for waiting, and the other half for a login of this process.
            seconds = self._login_options.deadline / 2
            shared = SharedLogin(options.token_store, options.base_url, self._log_in, self._adopt, seconds)
            self._token = Token(options.hooks, options.credentials, shared, shared.refuse)
        self._deadline = Deadline()
        retry = Retry(options.hooks, options.retries.budget)
        above = [self._deadline, retry, outcome, *map(_guarded, options.middleware)]
        report, brake = Report(options.hooks), Brake()
        reads = Slots(options.max_connections, "connections", "max_connections")
        writes = Slots(options.max_writes, "slots for writes", "max_writes")
        network = Network(options.base_url, self._connections)
        # The reply to a login delays logins only, in `Token`. Writes share the pool of a caller's client with reads.
        below = {
            RequestKind.LOGIN: [report, reads],
            RequestKind.READ: [self._token, report, brake, reads],
            RequestKind.WRITE: [self._token, report, brake, writes, *([reads] if options.http_client else [])],
        }
        self._chains = {kind: _chain([*above, *layers], network) for kind, layers in below.items()}

    def _check_open(self) -> None:
        if self._loop is None:
            raise ConfigurationError(
                "this client was not entered yet: use it within `async with FreightExchange(...) as exchange:`"
            )
        if self._is_closed:
            raise ConfigurationError("this client is closed: make a new one")
        if anyio.lowlevel.current_token() != self._loop:
            raise ConfigurationError(
                "this client was entered on another event loop: enter one client for each loop that uses it"
            )

    async def call(
        self,
        kind: RequestKind,
        method: str,
        path: str,
        read: Callable[[Response, Describe], T],
        limits: Config,
        *,
        content: bytes | None = None,
        params: tuple[tuple[str, str], ...] = (),
        write: Write | None = None,
        exchange: Reconciler | None = None,
        started: float | None = None,
    ) -> T:
        """Send a request until it succeeds, its retries are used up or its deadline, from `started` on, has passed."""
        self._check_open()
        call = Call(
            kind=kind,
            method=method,
            path=path,
            read=read,
            limits=limits,
            started=anyio.current_time() if started is None else started,
            write=write,
            reconciler=exchange,
            redactor=self.redactor,
        )
        request = Request(
            method=method, path=path, kind=kind, content=content, params=params, call_id=call.call_id, write=write
        )
        # The body of a login contains the password, which a traceback with locals would show.
        del content
        if not limits.hooks.parts:
            return cast("T", await self._chains[kind](call, request))
        from freight_exchange.hooks import CallInfo

        info = CallInfo(base_url=limits.base_url, method=method, path=path, call_id=call.call_id, write=write)
        with limits.hooks.span(info):
            return cast("T", await self._chains[kind](call, request))

    async def log_in(self, deadline: float) -> None:
        self._check_open()
        began = anyio.current_time()
        with anyio.move_on_after(deadline):
            await self._token.obtain()
            return
        message, elapsed = f"the deadline of {deadline:g} s passed before the login ended", anyio.current_time() - began
        raise DeadlineExceededError(message, method="POST", path="login", elapsed=elapsed, settled=True)

    def reset_login(self) -> None:
        """Allow a login with credentials that the service rejected before."""
        if self._loop is not None:
            self._token.reset()

    async def aclose(self) -> None:
        """Cancel running calls and close the SDK's own connections, even if the caller is cancelled."""
        if self._loop is None or self._is_closed:
            self._loop, self._is_closed = self._loop or object(), True
            return
        self._check_open()
        self._is_closed = True
        await self._deadline.aclose(_CLOSE_TIMEOUT)
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._connections.aclose()

    async def _log_in(self, email: str, password: Secret) -> Grant:
        """Obtain a token (service document, 4.1)."""
        self.redactor.add(password)

        def read(response: Response, _: Describe) -> Grant:
            login = wire.decode_login(wire.parse(response.content), wall=clock.wall_time())
            token = Secret(login.token)
            self.redactor.add_token(token)
            self.user = _masked(login.user, self.redactor.value)
            return Grant(token=token, lifetime=login.lifetime, user=self.user)

        return await self.call(
            RequestKind.LOGIN,
            "POST",
            "login",
            read,
            self._login_options,
            # Not a variable, as a traceback with locals would show the password.
            content=wire.encode_credentials(email, password.reveal()),
        )

    def _adopt(self, grant: Grant, password: Secret) -> None:
        """Use the login of another process, whose secrets a reply may repeat."""
        self.redactor.add(password)
        self.redactor.add_token(grant.token)
        self.user = grant.user


def _masked(user: User, mask: Callable[[object], Any]) -> User:
    """Mask what may repeat the token or the password: the avatar's URL and unknown fields."""

    def masked(extra: Mapping[str, object]) -> dict[str, object]:
        return {str(mask(key)): mask(value) for key, value in extra.items()}

    company = user.company and attrs.evolve(user.company, extra=masked(user.company.extra))
    return attrs.evolve(user, image_url=mask(user.image_url), extra=masked(user.extra), company=company)


class Report:
    """Middleware that reports each attempt to log and hooks, after its connection is free again."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    async def __call__(self, call: Call, request: Request, call_next: Send) -> Response:
        began = anyio.current_time()
        try:
            response = await call_next(call, request)
        except FreightExchangeError as error:
            await self._report(call, began, error)
            raise
        except anyio.get_cancelled_exc_class():
            if call.in_doubt:
                with anyio.move_on_after(_LAST_RECORD_TIMEOUT, shield=True):
                    await self._report(call, began)
            raise
        call.reply = response
        await self._report(call, began, response)
        return response

    async def _report(self, call: Call, began: float, end: Response | FreightExchangeError | None = None) -> None:
        """Report an attempt by its reply, its error, or neither if its caller was cancelled."""
        if not (self._hooks or end is None or _logger.isEnabledFor(logging.DEBUG)):
            return
        # Imported here: most programs have no hooks.
        from freight_exchange.hooks import Attempt

        headers = NO_HEADERS
        if isinstance(end, Response):
            headers = reply_headers(end.headers, call.redactor, login=call.kind is RequestKind.LOGIN)
            # Hooks may outlast the deadline: the reply came in time.
            call.scope.deadline = math.inf
        attempt = Attempt(
            method=call.method,
            path=call.path,
            number=call.sends if call.handed else 0,
            status=getattr(end, "status", None),
            elapsed=anyio.current_time() - began,
            error=end if isinstance(end, FreightExchangeError) else None,
            abandoned=end is None,
            may_have_taken_effect=call.in_doubt,
            write=call.write,
            call_id=call.call_id,
            headers=headers,
        )
        if end is None:
            message = "a write whose caller was cancelled may have taken effect: %s; await exchange.reconcile(write)"
            _logger.warning(message, attempt)
        else:
            _logger.debug("%s", attempt)
        try:
            await self._hooks.emit(attempt)
        finally:
            call.scope.deadline = call.ends_at


def _guarded(layer: Middleware) -> Callable[..., Awaitable[Response]]:
    """Make a user's middleware a layer. What it changes of a request does not change the call."""
    name = str(getattr(layer, "__qualname__", type(layer).__qualname__))

    async def guarded(call: Call, request: Request, call_next: Send) -> Response:
        answer: object = layer(request, partial(call_next, call))
        response = await answer if isinstance(answer, Awaitable) else answer
        if not isinstance(response, Response):
            raise ConfigurationError(
                f"the middleware {name} must be async and return a Response, not {type(response).__name__}"
            )
        return response

    return guarded


def _chain(layers: Sequence[Any], send: Any) -> Any:
    for layer in reversed(layers):
        send = partial(layer, call_next=send)
    return send
