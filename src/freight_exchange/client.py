"""Client of the exchange: its options, resources and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import attrs

from freight_exchange import settings, wire
from freight_exchange.composition import (
    DEFAULT_DEADLINE,
    DEFAULT_KEEPALIVE,
    DEFAULT_MAX_CONNECTIONS,
    DEFAULT_MAX_WRITES,
    SharedState,
    log_in_user,
    login_deadline,
    option,
)
from freight_exchange.endpoints.bids import Bids
from freight_exchange.endpoints.carriers import Carriers
from freight_exchange.endpoints.conventions import Conventions
from freight_exchange.endpoints.currencies import Currencies
from freight_exchange.endpoints.offers import Offers
from freight_exchange.endpoints.requests import Requests
from freight_exchange.endpoints.routes import Routes
from freight_exchange.endpoints.service import Service
from freight_exchange.endpoints.updated_requests import UpdatedRequests
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.hooks import Hook, Hooks
from freight_exchange.models import RawWrite, Reconciliation, User, Write
from freight_exchange.options import (
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
from freight_exchange.transport.call import Limits
from freight_exchange.transport.http.adapter import library_of
from freight_exchange.transport.lifecycle import Connection, Settings
from freight_exchange.transport.message import Middleware, RequestKind
from freight_exchange.transport.secrets import Redactor, Secret

if TYPE_CHECKING:
    import os
    import ssl
    from types import TracebackType

    from freight_exchange.endpoints.reconcile.reconcile import Readers
    from freight_exchange.feed.feed import Feed
    from freight_exchange.feed.filter import RequestFilter
    from freight_exchange.feed.journal import Start
    from freight_exchange.models import Bid
    from freight_exchange.store import Store
    from freight_exchange.transport.auth.token_store import TokenFile
    from freight_exchange.transport.http.adapter import HttpClient

__all__ = ["FreightExchange"]


class FreightExchange:
    """A client of the freight exchange, for asyncio and trio.

    Use it as an async context manager; the first call logs in by itself. One client serves any number of tasks of one
    event loop.

        async with FreightExchange("https://host/api", email="me@co.example", password="...") as exchange:
            async for request in exchange.requests.search():
                print(request.ref_id, request.origin, "->", request.destination, request.volume)

    Args:
        base_url: The API root, which ends in `api`; `FREIGHT_EXCHANGE_URL` unless given.
        email: The account; `FREIGHT_EXCHANGE_EMAIL` unless given.
        password: Its password; `FREIGHT_EXCHANGE_PASSWORD` unless given.
        credentials: An async callable that gives `(email, password)`, in place of the two. What it raises is raised by
            the call that needed them. A feed and a bot live through a `TransportError` of its as through any trouble
            that passes; any other error ends them.
        token_store: A `TokenFile`, or the path of one: a file through which the processes of one user share a login,
            and go on with it after a restart.
        timeouts: How long each attempt may wait for the network.
        deadline: How long a call may take, attempts, waits and login included: seconds or a `timedelta`; 60 seconds
            unless told.
        retries: How calls that are safe to repeat are repeated.
        max_connections: Requests under way at a time, 1 to 100, default 20; further callers queue. The SDK's own
            connections for writes are not counted; those of `http_client` are.
        max_writes: Writes under way at a time, 1 to 100, default 4; further writes queue. One that would leave with
            less time than recent writes took raises `DeadlineExceededError` unsent. With `http_client`, writes use the
            same connections as reads, and this many of `max_connections` at most.
        keepalive: How long the SDK's own connections for reads are kept while idle, unless the server closes them:
            seconds or a `timedelta`, default 120 seconds. A feed with a longer `interval` connects anew for each poll.
        page_size: Rows to ask for in a page of a listing, default 100; less where the service refuses that. It bounds
            what reconciliation and a bot ask for as well. A feed asks for pages of its own size.
        get_parameters: Where a GET carries its parameters: in a JSON `body`, as documented, or in the `query`, for
            middleboxes that drop such bodies.
        addresses: The documented address that `publish`, `approve`, `submit` and `get_offer` (`offers.get`) use.
        currency_field: What an offer calls its currency (service document, 4.10).
        carrier_field: What a route calls its carrier (service document, 4.5).
        index_type: The JSON type of `index` in look-ups (service document, 4): `integer`, as its table has it, or
            `string`, as its samples have it.
        missing_list_is_empty: Whether every 404 to a listing means that it is empty. By default the body has to say so,
            since a bare 404 may mean a wrong `base_url`.
        strict: Whether one record that cannot be read fails its whole listing.
        proxy: The URL of a proxy; none is taken from the environment.
        verify: `True`, or an `ssl.SSLContext` with other certificates.
        http_client: An `httpx.AsyncClient` or `httpx2.AsyncClient` to send with; it is never closed here. Its
            transport, mounts, proxies, certificates, pool limits and event hooks are used; its `headers`, `cookies`,
            `params`, `auth`, `timeout`, `base_url` and redirects are not: `middleware` can add headers.
        middleware: Async callables `(request, call_next) -> response` around every attempt.
        hooks: Callables, sync or async, that are given the records of `freight_exchange.hooks`.

    Raises:
        ConfigurationError: An argument cannot be right, or is missing.
    """

    # A traceback that shows locals asks for the `repr` of a client whose construction failed.
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
        get_parameters: GetParameters = "body",
        addresses: Addresses | None = None,
        currency_field: CurrencyField = "currencyIndex",
        carrier_field: CarrierField = "carrier",
        index_type: IndexType = "integer",
        missing_list_is_empty: bool = False,
        strict: bool = False,
        proxy: str | None = None,
        verify: bool | ssl.SSLContext = True,
        http_client: HttpClient | None = None,
        middleware: Sequence[Middleware] = (),
        hooks: Sequence[Hook] = (),
    ) -> None:
        # First of all: a traceback of what follows would show these arguments.
        secret = None if password is None else Secret(password)
        root = None if base_url is None else Secret(base_url)
        by_way_of = None if proxy is None else Secret(proxy)
        password = base_url = proxy = None
        self._conventions = Conventions(
            get_parameters=settings.choice(get_parameters, GetParameters, "get_parameters"),
            addresses=settings.addresses(addresses),  # type: ignore[arg-type]  # a TypedDict is no Mapping[str, str]
            currency_field=settings.choice(currency_field, CurrencyField, "currency_field"),
            carrier_field=settings.choice(carrier_field, CarrierField, "carrier_field"),
            index_type=settings.choice(index_type, IndexType, "index_type"),
            missing_list_is_empty=settings.flag(missing_list_is_empty, "missing_list_is_empty"),
        )
        self._limits = Limits(
            deadline=seconds(deadline, "deadline"),
            timeouts=option(timeouts, Timeouts, "timeouts"),
            retries=option(retries, RetryPolicy, "retries"),
        )
        self._page_size = settings.page_size(page_size)
        self._strict = settings.flag(strict, "strict")
        self._hooks = Hooks(settings.callables(hooks, "hooks"))
        if http_client is not None:
            library_of(http_client)
            if by_way_of is not None or verify is not True:
                raise ConfigurationError("with http_client, proxy and verify are its own: give them to that client")
        self._base_url = settings.base_url(None if root is None else root.reveal())
        self._shared = SharedState(settings.credentials(email, secret, credentials))
        self._is_view = False
        redactor = Redactor()
        self._shared.connection = Connection(
            Settings(
                base_url=self._base_url,
                credentials=self._shared.credentials,
                log_in=partial(log_in_user, limits=self._limits, shared=self._shared),
                redactor=redactor,
                hooks=self._hooks,
                retry_tokens=self._limits.retries.budget,
                max_connections=settings.connections(max_connections, "max_connections"),
                max_writes=settings.connections(max_writes, "max_writes"),
                middleware=settings.callables(middleware, "middleware"),
                proxy=settings.proxy(by_way_of),
                keepalive=seconds(keepalive, "keepalive"),
                verify=settings.verification(verify),
                http_client=http_client,
                token_store=settings.token_file(token_store),
                welcome=self._shared.welcome,
                login_timeout=login_deadline(self._limits),
            )
        )

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
        """End what is under way and close the SDK's own connections. Closing a view closes nothing."""
        if not self._is_view:
            await self._shared.connection.aclose()

    def with_options(
        self,
        *,
        deadline: Seconds | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        page_size: int | None = None,
        strict: bool | None = None,
    ) -> FreightExchange:
        """A view of this client with other options, on the same connections and token. What is left out stays.

        Args:
            deadline: How long a call may take, attempts, waits and login included: seconds or a `timedelta`.
            timeouts: How long each attempt may wait for the network.
            retries: How calls that are safe to repeat are repeated; the budget stays the client's.
            page_size: Rows to ask for in a page of a listing.
            strict: Whether one record that cannot be read fails its whole listing.

        Raises:
            ConfigurationError: An argument cannot be right.
        """
        view = object.__new__(type(self))
        view._base_url = self._base_url
        view._conventions = self._conventions
        view._hooks = self._hooks
        view._shared = self._shared
        view._is_view = True
        view._page_size = self._page_size if page_size is None else settings.page_size(page_size)
        view._strict = self._strict if strict is None else settings.flag(strict, "strict")
        view._limits = Limits(
            deadline=self._limits.deadline if deadline is None else seconds(deadline, "deadline"),
            timeouts=option(self._limits.timeouts if timeouts is None else timeouts, Timeouts, "timeouts"),
            retries=option(self._limits.retries if retries is None else retries, RetryPolicy, "retries"),
        )
        return view

    def _heard_by(self, hook: Hook) -> FreightExchange:
        """A view of this client that tells one hook more."""
        view = self.with_options()
        view._hooks = self._hooks.with_hook(hook)
        return view

    @property
    def entered(self) -> bool:
        """Whether it was entered, and therefore is somebody's to close. A view is never entered by itself."""
        return self._is_view or self._shared.connection.was_opened

    @property
    def user(self) -> User | None:
        """The user of the last login, or `None` before the first."""
        return self._shared.user

    async def login(self) -> User:
        """Log in, unless a token is at hand; the user (service document, 4.1).

        Optional: the first call logs in by itself.

        Raises:
            LoginRejectedError: The service rejected the email or password.
            NotFoundError: There is nothing at that address: base_url may be wrong.
            DeadlineExceededError: The deadline has passed before the login ended.
            TransportError: No usable reply came.
        """
        deadline = self._limits.deadline
        await self._shared.connection.engine.log_in(deadline)
        user = self._shared.user
        assert user is not None
        return user

    def reset_login(self) -> None:
        """Allow a login with credentials that the service rejected before."""
        self._shared.connection.reset_login()

    def watch(
        self,
        *,
        store: Store | str | os.PathLike[str] | None = None,
        start: Start = "now",
        interval: timedelta = timedelta(seconds=30),
        allowance: timedelta = timedelta(seconds=60),
        where: RequestFilter | None = None,
        name: str = "requests",
        standby: bool = False,
    ) -> Feed:
        """A feed of requests as they appear, change and are withdrawn (service document, 4.4).

            async with exchange.watch(store="bot.db") as feed:
                async for event in feed:
                    print(event.kind, event)

        Args:
            store: Where the feed keeps what it knows: the path of an SQLite file, or a store of
                `freight_exchange.store`; `None` keeps it in memory, for as long as the process lives. One feed at a
                time opens a path: those that share a file share one `SQLiteStore` object, and differ in `name`.
            start: What the first scan hands out, in a store that is new: `now` nothing, `backfill` all that the service
                lists (five days), a `timedelta` what was updated within it. Later runs go on where the last one ended.
            interval: From one scan to the next, give or take a tenth; from one second to a day.
            allowance: How long the service may take to show an update; more, where updates are found late.
            where: What is handed out. Everything is tracked all the same.
            name: Tells apart feeds that share a store.
            standby: Whether to wait where another process holds the feed, instead of raising `HeldError`.

        Raises:
            ConfigurationError: An argument cannot be right.
        """
        from freight_exchange.feed import factory

        return factory.feed(
            # A feed has retries of its own, of pages: those of its calls would multiply with them.
            UpdatedRequests(
                self._service_of(
                    attrs.evolve(self._limits, retries=attrs.evolve(self._limits.retries, attempts=1)), strict=False
                )
            ),
            factory.WatchOptions(
                store=store,
                start=start,
                interval=interval,
                allowance=allowance,
                where=where,
                name=name,
                standby=standby,
            ),
            account=self._account,
            hooks=self._hooks,
            clock=self._shared.clock,
            base_url=self._base_url,
            patience=self._limits.deadline,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: object = None,
        repeatable: bool = False,
    ) -> Any:
        """Call anything that the service has: the decoded JSON, or `None` for an empty reply.

        Args:
            method: The HTTP method.
            path: Relative to the API root.
            params: For the query string.
            body: Anything that JSON can hold; numbers may be `Decimal`.
            repeatable: Whether sending it twice does no harm; GET and HEAD never do. Anything else is a write:
                sent at most once, or else `OutcomeUnknownError`.

        Raises:
            ValidationError: The path, the parameters or the body cannot be sent, `offset` stands without
                `rowsperpage`, or `repeatable` is no `bool`.
            OutcomeUnknownError: It is a write, and may or may not have been carried out.
            DecodeError: The reply to a read is no JSON.
        """
        verb = settings.method(method)
        relative = settings.path(path)
        pairs = settings.parameters(params)
        wire.check_paired(params)
        wire.check_paired(body)
        if not isinstance(repeatable, bool):
            raise ValidationError(f"repeatable must be True or False, not {repeatable!r}", field="repeatable")
        reads = repeatable or verb in ("GET", "HEAD")
        return await self._service.raw(
            RequestKind.READ if reads else RequestKind.WRITE,
            verb,
            relative,
            params=pairs,
            content=None if body is None else wire.dump(body),
            write=None if reads else RawWrite(verb, relative),
        )

    async def reconcile(
        self, write: Write, *, settle: timedelta = timedelta(seconds=30), baseline: Sequence[object] | None = None
    ) -> Reconciliation:
        """Find out whether a write happened; what `OutcomeUnknownError.reconcile()` calls.

        It reads the listings that would show the write (service document, 4.4 to 4.7 and 4.9) and sends nothing again.

        Args:
            write: The `write` of an `OutcomeUnknownError`.
            settle: How long the service may take to show a write.
            baseline: The records of the same listing from before the send, where the caller kept them, read with
                `sweep=True`.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ValidationError: An argument cannot be right.
            LoginRejectedError: The service rejected the email or password.
        """
        if not isinstance(write, Write):
            raise ValidationError(
                f"write must be an OutcomeUnknownError's write, not {type(write).__name__}", field="write"
            )
        # Doubt is rare, and most processes never need to import what resolves it.
        from freight_exchange.endpoints.reconcile import reconcile

        deadline = max(self._limits.deadline, DEFAULT_DEADLINE)
        return await reconcile.reconcile(
            self.with_options(deadline=deadline, strict=True)._readers(),
            self.with_options(deadline=deadline, strict=False)._readers(),
            write,
            settle=settle,
            baseline=baseline,
        )

    async def _own_bids(self) -> list[Bid]:
        """The own bids, by a reading that begins now or later and that other callers may share."""
        return await self._readers().own_bids(None)

    def _has_seen_bid_on(self, request: int) -> bool:
        """True once a reading of the own bids, for a reconciliation or a baseline, has shown one on the request."""
        return request in self._shared.bids

    def _readers(self) -> Readers:
        from freight_exchange.endpoints.reconcile import reconcile

        return reconcile.Readers(
            bids=self.bids,
            offers=self.offers,
            routes=self.routes,
            shared=self._shared.readings,
            seen=self._shared.bids,
            strict=self._strict,
        )

    @cached_property
    def requests(self) -> Requests:
        """Rate requests."""
        return Requests(self._service)

    @cached_property
    def offers(self) -> Offers:
        """Offers on the shipper's own requests."""
        return Offers(self._service, self._shared.offers)

    @cached_property
    def bids(self) -> Bids:
        """The forwarder's own offers."""
        return Bids(self._service, self.currencies)

    @cached_property
    def routes(self) -> Routes:
        """Routes."""
        return Routes(self._service, self._shared.routes)

    @cached_property
    def carriers(self) -> Carriers:
        """Carriers."""
        return Carriers(self._service)

    @cached_property
    def currencies(self) -> Currencies:
        """Currencies."""
        return Currencies(self._service, self._shared.currencies)

    async def _account(self) -> str:
        email, _ = await self._shared.credentials()
        return email

    @cached_property
    def _service(self) -> Service:
        return self._service_of(self._limits, strict=self._strict)

    def _service_of(self, limits: Limits, *, strict: bool) -> Service:
        return Service(
            connection=self._shared.connection,
            limits=limits,
            conventions=self._conventions,
            hooks=self._hooks,
            sizes=self._shared.sizes,
            page_size=self._page_size,
            strict=strict,
            reconciler=self,
        )
