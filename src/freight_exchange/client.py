"""Client of the exchange: its lifecycle and views, its endpoints, its feeds, raw requests and reconciliation."""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self

import attrs

import freight_exchange
from freight_exchange import store as stores
from freight_exchange import validation, wire
from freight_exchange.config import Config, CredentialsProvider, observers
from freight_exchange.config import credentials as credentials_of
from freight_exchange.endpoints.resources import Bids, Carriers, Currencies, CurrencyCodes, Offers, Requests, Routes
from freight_exchange.endpoints.service import Service
from freight_exchange.errors import DEFAULT_SETTLE, ConfigurationError, ValidationError
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.instruments import Hooks, Instrumentation
from freight_exchange.models import RawWrite, Reconciliation, RecordT_co, User, Write, WriteOf
from freight_exchange.options import (
    DEFAULT_ALLOWANCE,
    DEFAULT_DEADLINE,
    DEFAULT_INTERVAL,
    Addresses,
    CarrierField,
    CurrencyField,
    GetParameters,
    IndexType,
    RetryPolicy,
    Seconds,
    Start,
    Timeouts,
)
from freight_exchange.platform.clock import Clock
from freight_exchange.transport.call import Middleware, RequestKind
from freight_exchange.transport.layers import Transport
from freight_exchange.transport.network import HttpClient
from freight_exchange.transport.redact import Secret

if TYPE_CHECKING:
    from freight_exchange.endpoints.reconcile import SharedReadings
    from freight_exchange.feed.poller import ClientParts
    from freight_exchange.hooks import Hook
else:
    # For `get_type_hints`: the records of hooks are loaded on use.
    Hook = Any


class _Shared:
    """State that a client shares with its views."""

    def __init__(self, options: Config) -> None:
        self.clock: Clock | None = None
        self.codes = CurrencyCodes()
        self.connection = Transport(options)
        self.readings: SharedReadings | None = None


class FreightExchange:
    """A client of the freight exchange, for asyncio and trio.

    Use it as an async context manager; the first call logs in by itself. One client serves any number of tasks of one
    event loop.

        async with FreightExchange("https://host/api", email="me@co.example", password="...") as exchange:
            async for request in exchange.requests.search():
                print(request.ref_id, request.origin, "->", request.destination, request.volume)

    Durations are seconds or a `timedelta`. If `base_url` is missing, `FREIGHT_EXCHANGE_URL` counts, and for the others
    marked with *, the variable of their name, such as `FREIGHT_EXCHANGE_EMAIL`.

    Args:
        base_url: The API root, which ends in `api`.
        email: * The account.
        password: * Its password.
        credentials: An async callable that returns `(email, password)`, instead of these two arguments. The call that
            needs them raises its errors. A feed and a bot end with any of them but a `TransportError`.
        token_store: A `TokenFile` or its path, in which the processes of one user share a login, also after a restart.
        timeouts: Time limits of the network in each attempt.
        deadline: Time limit of a call with all its attempts, waits and a login.
        retries: Attempts and pauses of calls that are safe to repeat.
        max_connections: Requests in flight, 1 to 100; further callers queue. The SDK's own connections for writes are
            not counted; those of `http_client` are.
        max_writes: Writes in flight, 1 to 100; further writes queue. A write that has less than a quarter of its
            deadline left is not sent, and raises `DeadlineExceededError`.
        keepalive: Time that the SDK's own idle connections for reads are kept. It should exceed a feed's `interval`.
        page_size: Largest number of rows in a page of a listing. More than the documented 10 or 20 rows are requested
            only after a full page. A feed chooses its own page size.
        get_parameters: * Place of the parameters of a GET: in a JSON `body`, as documented and by default, or in the
            `query`, for middleboxes that drop such bodies.
        addresses: * The documented address that `publish`, `approve`, `submit` and `get_offer` (`offers.get`) use. As a
            variable: `publish=quote/request,submit=quote/bid`.
        currency_field: * The field for an offer's currency (service document, 4.10), by default `currencyIndex`.
        carrier_field: * The field for a route's carrier (service document, 4.5), by default `carrier`.
        index_type: The JSON type of `index` in look-ups (service document, 4): `integer`, as in its table, or `string`,
            as in its samples.
        missing_list_is_empty: `True` if every 404 to a listing means that it is empty. By default the body must confirm
            it, since a bare 404 may mean a wrong `base_url`.
        strict: `True` if one unreadable record fails its whole listing.
        proxy: The URL of a proxy.
        verify: `True`, or an `ssl.SSLContext` with other certificates.
        trust_env: * `True` to read the proxy and certificates from `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`,
            `SSL_CERT_FILE` and `SSL_CERT_DIR`, unless arguments set them; by default `False`.
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
        credentials: CredentialsProvider | None = None,
        token_store: freight_exchange.TokenFile | str | os.PathLike[str] | None = None,
        timeouts: Timeouts | None = None,
        deadline: Seconds = DEFAULT_DEADLINE,
        retries: RetryPolicy | None = None,
        max_connections: int = 20,
        max_writes: int = 4,
        keepalive: Seconds = 120.0,
        page_size: int = 100,
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
        if http_client is not None and (proxy_url is not None or verify is not True or trust_env):
            raise ConfigurationError("with http_client, proxy, verify and trust_env are its own: give them to it")
        arguments: dict[str, Any] = locals() | {
            "base_url": root,
            "credentials": credentials_of(email, secret, credentials),
            "proxy": proxy_url,
            "hooks": observers(hooks, instrumentation),
        }
        names = arguments.keys() & {field.name for field in attrs.fields(Config)}
        self._options = Config(**{name: arguments[name] for name in names})
        self._base_url = self._options.base_url
        if not self._base_url.endswith("/api"):
            warnings.warn(f"base_url usually ends in /api, and {self._base_url} does not", UserWarning, stacklevel=2)
        self._shared = _Shared(self._options)
        self._is_view = False

    def __repr__(self) -> str:
        return f"<FreightExchange {self._base_url}>"

    async def __aenter__(self) -> Self:
        if not self._is_view:
            await self._shared.connection.open()
        return self

    async def __aexit__(self, *_: object) -> None:
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
        """Return a view of this client with other options, on the same connections, token and budget of retries.

        `FreightExchange` describes them. A view need not be entered.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        return self._view(**given)

    def _view(self, **options: Any) -> FreightExchange:
        view = object.__new__(type(self))
        view._options = attrs.evolve(self._options, **options)
        view._shared, view._base_url, view._is_view = self._shared, self._base_url, True
        return view

    def _instrumented(self, part: Instrumentation) -> FreightExchange:
        observers = self._options.hooks
        return self._view(hooks=Hooks(observers.hooks, (*observers.parts, part)))

    @property
    def user(self) -> User | None:
        """The user of the last login, or `None` before the first."""
        return self._shared.connection.user

    async def login(self) -> User:
        """Log in if there is no token, and return the user (service document, 4.1).

        Raises:
            LoginRejectedError: The service rejected the email or password.
            NotFoundError: There is nothing at that address: base_url may be wrong.
            DeadlineExceededError: The deadline has passed before the login ended.
            TransportError: No usable reply came.
        """
        await self._shared.connection.log_in(self._options.deadline)
        assert self.user is not None
        return self.user

    def reset_login(self) -> None:
        """Allow a login with credentials that the service rejected before."""
        self._shared.connection.reset_login()

    @cached_property
    def requests(self) -> Requests:
        """Rate requests."""
        return Requests(self._service)

    @cached_property
    def offers(self) -> Offers:
        """Offers on the shipper's own requests."""
        return Offers(self._service)

    @cached_property
    def bids(self) -> Bids:
        """The forwarder's own offers."""
        return Bids(self._service, self.currencies)

    @cached_property
    def routes(self) -> Routes:
        """Routes."""
        return Routes(self._service)

    @cached_property
    def carriers(self) -> Carriers:
        """Carriers."""
        return Carriers(self._service)

    @cached_property
    def currencies(self) -> Currencies:
        """Currencies."""
        return Currencies(self._service, self._shared.codes)

    @cached_property
    def _service(self) -> Service:
        return Service(self._shared.connection, self._options, self)

    def watch(
        self,
        *,
        store: stores.Store | str | os.PathLike[str] | None = None,
        start: Start = "now",
        interval: timedelta = DEFAULT_INTERVAL,
        allowance: timedelta = DEFAULT_ALLOWANCE,
        where: RequestFilter | None = None,
        name: str = "requests",
        standby: bool = False,
    ) -> freight_exchange.Feed:
        """Return a feed of requests as they appear, change and are withdrawn (service document, 4.4).

            async with exchange.watch(store="bot.db") as feed:
                async for event in feed:
                    print(event.kind, event)

        Args:
            store: Where the feed keeps its state: the path of an SQLite file, the URL of a PostgreSQL database, or a
                store of `freight_exchange.store`; `None` keeps it in memory. One feed at a time opens a path: feeds
                that share a file share one `Store` object, and differ in `name`.
            start: Requests that the first scan with a new store reports as new: none (`now`), all that the service
                lists, which are those of five days (`backfill`), or those updated within a `timedelta`. Later runs
                ignore `start`.
            interval: Time between scans, varied by a tenth; from one second to a day.
            allowance: Time that the service may take to show an update. Set more if the log reports late updates.
            where: Filter of the events. The feed also tracks the other requests.
            name: Name of the feed, which must differ among feeds that share a store.
            standby: Wait while another process holds the feed, instead of raising `HeldError`.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        from freight_exchange.feed import sources
        from freight_exchange.feed.feed import Feed, WatchOptions
        from freight_exchange.store.database_url import masked

        store = masked(store)  # a traceback would show its password
        options = WatchOptions(
            store=store, start=start, interval=interval, allowance=allowance, where=where, name=name, standby=standby
        )
        service, client = self._feed_parts()
        return Feed(sources.Requests(service), client, options)

    def watch_offers(
        self,
        *,
        store: stores.Store | str | os.PathLike[str] | None = None,
        start: Literal["now", "backfill"] = "backfill",
        interval: timedelta = DEFAULT_INTERVAL,
        where: OfferFilter | None = None,
        name: str = "offers",
        standby: bool = False,
    ) -> freight_exchange.OfferFeed:
        """Return a feed of offers on your own requests: new, changed, answered and gone (service document, 4.7).

            async with exchange.watch_offers(store="tender.db") as feed:
                async for event in feed:
                    print(event.kind, event)

        The arguments are those of `watch`, but each scan reads the whole listing, and `start` reports as new all
        unanswered offers (`backfill`) or none (`now`).

        Raises:
            ConfigurationError: An argument is invalid.
        """
        from freight_exchange.feed import sources
        from freight_exchange.feed.feed import OfferFeed, WatchOffersOptions
        from freight_exchange.store.database_url import masked

        store = masked(store)
        options = WatchOffersOptions(
            store=store, start=start, interval=interval, where=where, name=name, standby=standby
        )
        service, client = self._feed_parts()
        prepare = partial((where or OfferFilter()).load_codes, self.currencies.by_code)
        return OfferFeed(sources.Offers(service, prepare), client, options)

    def _feed_parts(self) -> tuple[Service, ClientParts]:
        """Return what a feed uses. Its calls are not retried, since the feed repeats pages itself."""
        from freight_exchange.feed.poller import ClientParts

        options = self._options
        client = ClientParts(
            base_url=self._base_url,
            account=self._account,
            account_timeout=options.deadline,
            clock=Clock() if self._shared.clock is None else self._shared.clock,
            hooks=options.hooks,
        )
        once = self._view(retries=attrs.evolve(options.retries, attempts=1), strict=False)
        return once._service, client

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: object = None,
        repeatable: bool = False,
    ) -> Any:
        """Call any operation of the service: return the decoded JSON, or `None` for an empty reply.

        Args:
            method: The HTTP method.
            path: Relative to the API root.
            params: Parameters of the query string.
            body: A value that JSON can represent; numbers may be `Decimal`.
            repeatable: `True` if sending the request twice does no harm, as with GET and HEAD. Any other request is a
                write: it is sent at most once, and raises `OutcomeUnknownError` if it may have been carried out.

        Raises:
            ValidationError: The path, the parameters or the body cannot be sent, `offset` comes without `rowsperpage`,
                or `repeatable` is not a `bool`.
            OutcomeUnknownError: The request is a write that may or may not have been carried out.
            DecodeError: The reply to a read is not JSON.
        """
        if not isinstance(method, str) or not method.isalpha() or not method.isascii():
            raise ValidationError(f"method must be an HTTP method such as POST, not {method!r}", field="method")
        verb, relative, pairs = method.upper(), _path(path), _pairs({} if params is None else params)
        wire.check_paired(params)
        wire.check_paired(body)
        if not isinstance(repeatable, bool):
            raise ValidationError(f"repeatable must be True or False, not {repeatable!r}", field="repeatable")
        is_read = repeatable or verb in ("GET", "HEAD")
        return await self._service.raw(
            RequestKind.READ if is_read else RequestKind.WRITE,
            verb,
            relative,
            params=pairs,
            content=None if body is None else wire.dump(body),
            write=None if is_read else RawWrite(verb, relative),
        )

    async def reconcile(
        self,
        write: WriteOf[RecordT_co],
        *,
        settle: timedelta = DEFAULT_SETTLE,
        baseline: Sequence[object] | None = None,
    ) -> Reconciliation[RecordT_co]:
        """Find out whether a write happened, as `OutcomeUnknownError.reconcile()` does.

        It reads the listings that would show the write (service document, 4.4 to 4.7 and 4.9), and sends no write.

        Args:
            write: The `write` of an `OutcomeUnknownError`.
            settle: Time that the service may take to show a write.
            baseline: Records of the same listing, read with `sweep=True` before the write was sent, if the caller has
                them.

        Raises:
            ValidationError: An argument is invalid.
            LoginRejectedError: The service rejected the email or password.
        """
        if not isinstance(write, Write):
            problem = f"write must be an OutcomeUnknownError's write, not {type(write).__name__}"
            raise ValidationError(problem, field="write")
        found: Reconciliation[RecordT_co] = await self._reconcile(write, None, settle=settle, baseline=baseline)
        return found

    async def _reconcile(self, write: Write, readings: SharedReadings | None, **how: Any) -> Any:
        # Imported here: most programs have no doubts.
        from freight_exchange.endpoints.reconcile import SharedReadings, reconcile

        if readings is None:
            readings = self._shared.readings = self._shared.readings or SharedReadings()
        patient = self._view(deadline=max(self._options.deadline, DEFAULT_DEADLINE), strict=False)
        return await reconcile(patient._service, readings, write, **how)

    async def _account(self) -> str:
        email, _ = await self._options.credentials()
        return email


def _path(value: str) -> str:
    """Return the path relative to the API root, without its leading slash; it must not leave the root."""
    relative = value.removeprefix("/") if isinstance(value, str) else ""
    *folders, last = relative.split("/")
    is_plain = relative.isascii() and relative.isprintable() and not set(relative) & set(":?#\\% ")
    if not relative or not is_plain or {"", ".", ".."} & {*folders} or last in (".", ".."):
        raise ValidationError(
            f"path must be a plain path relative to the API root, such as quote/offer, not {value!r};"
            " parameters go in params",
            field="path",
        )
    return relative


def _pairs(params: Mapping[str, str | int]) -> tuple[tuple[str, str], ...]:
    if not isinstance(params, Mapping):
        raise ValidationError(f"params must map names to text or integers, not {type(params).__name__}", field="params")
    text = partial(validation.text, field="params", allow_empty=True)
    # Not `str` of the integer: Python writes none of thousands of digits.
    return tuple(
        (text(name), str(validation.number(value, "params")) if isinstance(value, int) else text(value))
        for name, value in params.items()
    )
