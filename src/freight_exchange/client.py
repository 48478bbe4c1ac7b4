"""Client of the exchange: its options, its lifecycle and its views."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self

import attrs

from freight_exchange import environment, settings
from freight_exchange.calls import Calls
from freight_exchange.composition import (
    SharedState,
    ViewOptions,
    option,
)
from freight_exchange.errors import ConfigurationError
from freight_exchange.hooks import Hook, Hooks, Instrumentation, Instruments
from freight_exchange.models import User
from freight_exchange.options import (
    DEFAULT_DEADLINE,
    DEFAULT_KEEPALIVE,
    DEFAULT_MAX_CONNECTIONS,
    DEFAULT_MAX_WRITES,
    Addresses,
    CarrierField,
    CurrencyField,
    GetParameters,
    IndexType,
    RetryPolicy,
    Seconds,
    Timeouts,
    seconds,
)
from freight_exchange.paging import DEFAULT_PAGE_SIZE
from freight_exchange.transport.call import Limits, Middleware
from freight_exchange.transport.network import HttpClient, library_of
from freight_exchange.transport.redact import Secret
from freight_exchange.transport.token_file import TokenFile

__all__ = ["FreightExchange"]


class FreightExchange(Calls):
    """A client of the freight exchange, for asyncio and trio.

    Use it as an async context manager; the first call logs in by itself. One client serves any number of tasks of one
    event loop.

        async with FreightExchange("https://host/api", email="me@co.example", password="...") as exchange:
            async for request in exchange.requests.search():
                print(request.ref_id, request.origin, "->", request.destination, request.volume)

    Args:
        base_url: The API root, which ends in `api`; default `FREIGHT_EXCHANGE_URL`.
        email: The account; default `FREIGHT_EXCHANGE_EMAIL`.
        password: Its password; default `FREIGHT_EXCHANGE_PASSWORD`.
        credentials: An async callable that returns `(email, password)`, instead of these two arguments. Its errors are
            raised by the call that needed them. A `TransportError` is transient for a feed and a bot; any other error
            ends them.
        token_store: A `TokenFile` or its path: a file in which the processes of one user share a login, also after a
            restart.
        timeouts: Time limits of the network in each attempt.
        deadline: Time limit of a call with all its attempts, waits and a login: seconds or a `timedelta`, default 60
            seconds.
        retries: Attempts and pauses of calls that are safe to repeat.
        max_connections: Requests in flight, 1 to 100, default 20; further callers queue. The SDK's own connections for
            writes are not counted; those of `http_client` are.
        max_writes: Writes in flight, 1 to 100, default 4; further writes queue. A write that has less time left than
            recent writes took is not sent, and raises `DeadlineExceededError`. With `http_client`, writes share the
            connections of reads, and take at most this many of `max_connections`.
        keepalive: Time that the SDK's own idle connections for reads are kept: seconds or a `timedelta`, default 120
            seconds. A feed with a longer `interval` connects anew for each poll.
        page_size: Largest number of rows in a page of a listing, default 100. A page of more than the documented 10
            or 20 rows is requested only after a full one. It also limits the pages of reconciliation and of a bot. A
            feed chooses its own page size.
        get_parameters: Place of the parameters of a GET: in a JSON `body`, as documented, or in the `query`, for
            middleboxes that drop such bodies; default `FREIGHT_EXCHANGE_GET_PARAMETERS`, or `body`.
        addresses: The documented address that `publish`, `approve`, `submit` and `get_offer` (`offers.get`) use;
            default `FREIGHT_EXCHANGE_ADDRESSES`, such as `publish=quote/request,submit=quote/bid`.
        currency_field: The field for an offer's currency (service document, 4.10); default
            `FREIGHT_EXCHANGE_CURRENCY_FIELD`, or `currencyIndex`.
        carrier_field: The field for a route's carrier (service document, 4.5); default
            `FREIGHT_EXCHANGE_CARRIER_FIELD`, or `carrier`.
        index_type: The JSON type of `index` in look-ups (service document, 4): `integer`, as in its table, or `string`,
            as in its samples.
        missing_list_is_empty: `True` if every 404 to a listing means that it is empty. By default the body must confirm
            it, since a bare 404 may mean a wrong `base_url`.
        strict: `True` if one unreadable record fails its whole listing.
        proxy: The URL of a proxy.
        verify: `True`, or an `ssl.SSLContext` with other certificates.
        trust_env: `True` to read the proxy and certificates from `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`,
            `SSL_CERT_FILE` and `SSL_CERT_DIR`, unless arguments set them; default `FREIGHT_EXCHANGE_TRUST_ENV`, or
            `False`.
        http_client: An `httpx.AsyncClient` or `httpx2.AsyncClient` to send with; it stays open. Its transport, mounts,
            proxies, certificates, pool limits and event hooks are used; its `headers`, `cookies`, `params`, `auth`,
            `timeout`, `base_url` and redirects are not: `middleware` can add headers.
        middleware: Async callables `(request, call_next) -> response` around every attempt.
        hooks: Callables, sync or async, that receive the records of `freight_exchange.hooks`.
        instrumentation: Spans around calls, scans and handlers: `freight_exchange.otel.OpenTelemetry()`.

    Raises:
        ConfigurationError: An argument is invalid, or is missing.
    """

    # Needed by `repr`: a traceback with locals may show a client whose construction failed.
    _base_url = "without base_url"

    def __init__(
        self,
        base_url: str | None = None,
        *,
        email: str | None = None,
        password: str | None = None,
        credentials: settings.CredentialsProvider | None = None,
        token_store: TokenFile | str | os.PathLike[str] | None = None,
        timeouts: Timeouts | None = None,
        deadline: Seconds = DEFAULT_DEADLINE,
        retries: RetryPolicy | None = None,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        max_writes: int = DEFAULT_MAX_WRITES,
        keepalive: Seconds = DEFAULT_KEEPALIVE,
        page_size: int = DEFAULT_PAGE_SIZE,
        get_parameters: GetParameters | None = None,
        addresses: Addresses | None = None,
        currency_field: CurrencyField | None = None,
        carrier_field: CarrierField | None = None,
        index_type: IndexType = "integer",
        missing_list_is_empty: bool = False,
        strict: bool = False,
        proxy: str | None = None,
        verify: Literal[True] | ssl.SSLContext = True,
        trust_env: bool | None = None,
        http_client: HttpClient | None = None,
        middleware: Sequence[Middleware] = (),
        hooks: Sequence[Hook] = (),
        instrumentation: Instrumentation | None = None,
    ) -> None:
        # Hidden first, since a traceback from the lines below would show these arguments.
        secret = None if password is None else Secret(password)
        root = None if base_url is None else Secret(base_url)
        proxy_url = None if proxy is None else Secret(proxy)
        password = base_url = proxy = None
        checked = None if instrumentation is None else option(instrumentation, Instrumentation, "instrumentation")
        instruments = Instruments() if checked is None else Instruments((checked,))
        records = Hooks(settings.callables(hooks, "hooks"))
        options = ViewOptions(
            conventions=environment.conventions(
                get_parameters=get_parameters,
                addresses=addresses,  # type: ignore[arg-type]  # a TypedDict is not a Mapping[str, str]
                currency_field=currency_field,
                carrier_field=carrier_field,
                index_type=index_type,
                missing_list_is_empty=missing_list_is_empty,
            ),
            limits=Limits(
                deadline=seconds(deadline, "deadline"),
                timeouts=option(timeouts, Timeouts, "timeouts"),
                retries=option(retries, RetryPolicy, "retries"),
                instruments=instruments,
            ),
            hooks=records.with_hook(instruments.record) if instruments else records,
            page_size=settings.page_size(page_size),
            strict=settings.flag(strict, "strict"),
        )
        if http_client is not None:
            library_of(http_client)
            if proxy_url is not None or verify is not True or trust_env:
                raise ConfigurationError(
                    "with http_client, proxy, verify and trust_env are its own: give them to that client"
                )
        self._base_url = settings.base_url(None if root is None else root.reveal())
        if http_client is None and environment.trust_env(trust_env):
            proxy_url = proxy_url or environment.proxy(self._base_url)
            verify = environment.certificates() or True if verify is True else verify
        network: dict[str, Any] = {
            "max_connections": settings.connections(max_connections, "max_connections"),
            "max_writes": settings.connections(max_writes, "max_writes"),
            "middleware": settings.callables(middleware, "middleware"),
            "proxy": settings.proxy(proxy_url),
            "keepalive": seconds(keepalive, "keepalive"),
            "verify": settings.verification(verify),
            "http_client": http_client,
            "token_store": settings.token_file(token_store),
        }
        super().__init__(
            SharedState(self._base_url, settings.credentials(email, secret, credentials), options, **network), options
        )
        self._is_view = False

    def __repr__(self) -> str:
        return f"<FreightExchange {self._base_url}>"

    async def __aenter__(self) -> Self:
        if not self._is_view:
            await self._shared.connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the calls in flight and close the SDK's own connections. Closing a view closes nothing."""
        if not self._is_view:
            await self._shared.connection.aclose()

    @property
    def entered(self) -> bool:
        """`True` once the client was entered, so that its owner closes it; always `True` for a view."""
        return self._is_view or self._shared.connection.was_opened

    def with_options(
        self,
        *,
        deadline: Seconds | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        page_size: int | None = None,
        strict: bool | None = None,
    ) -> FreightExchange:
        """Return a view of this client with other options, on the same connections and token.

        Args:
            deadline: Time limit of a call with all its attempts, waits and a login: seconds or a `timedelta`.
            timeouts: Time limits of the network in each attempt.
            retries: Attempts and pauses of calls that are safe to repeat; the budget is still the client's.
            page_size: Largest number of rows in a page of a listing.
            strict: `True` if one unreadable record fails its whole listing.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        now = self._options
        return self._view(
            attrs.evolve(
                now,
                limits=attrs.evolve(
                    now.limits,
                    deadline=now.limits.deadline if deadline is None else seconds(deadline, "deadline"),
                    timeouts=option(now.limits.timeouts if timeouts is None else timeouts, Timeouts, "timeouts"),
                    retries=option(now.limits.retries if retries is None else retries, RetryPolicy, "retries"),
                ),
                page_size=now.page_size if page_size is None else settings.page_size(page_size),
                strict=now.strict if strict is None else settings.flag(strict, "strict"),
            )
        )

    def _with_hook(self, hook: Hook) -> FreightExchange:
        """Return a view of this client with one more hook."""
        return self._view(attrs.evolve(self._options, hooks=self._options.hooks.with_hook(hook)))

    def _instrumented(self, part: Instrumentation) -> FreightExchange:
        """Return a view of this client with one more instrumentation."""
        return self._limited(instruments=self._options.limits.instruments.and_also(part))

    def _limited(self, **changes: Any) -> FreightExchange:
        """Return a view of this client with other `Limits`."""
        return self._view(attrs.evolve(self._options, limits=attrs.evolve(self._options.limits, **changes)))

    def _view(self, options: ViewOptions) -> FreightExchange:
        view = object.__new__(type(self))
        Calls.__init__(view, self._shared, options)
        view._base_url = self._base_url
        view._is_view = True
        return view

    @property
    def user(self) -> User | None:
        """The user of the last login, or `None` before the first."""
        return self._shared.connection.user

    async def login(self) -> User:
        """Log in if there is no token, and return the user (service document, 4.1).

        Optional: the first call logs in by itself.

        Raises:
            LoginRejectedError: The service rejected the email or password.
            NotFoundError: There is nothing at that address: base_url may be wrong.
            DeadlineExceededError: The deadline has passed before the login ended.
            TransportError: No usable reply came.
        """
        await self._shared.connection.log_in(self._options.limits.deadline)
        user = self._shared.connection.user
        assert user is not None
        return user

    def reset_login(self) -> None:
        """Allow a login with credentials that the service rejected before."""
        self._shared.connection.reset_login()

    async def _account(self) -> str:
        return await self._shared.account()
