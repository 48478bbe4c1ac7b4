"""Router: the decorators that register handlers. Each accepts only functions that take its event.

A handler takes its subject and a context; the parameters after these two come from the bot's lifespan.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any, Concatenate, Final, Protocol, TypedDict, TypeVar, Unpack, cast, overload

import attrs

from freight_exchange.bot.context import Context, OfferContext, RequestContext, SelectedContext
from freight_exchange.bot.handler import FEED_OF, Function, Handler, Kind
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.feed.events import Gap, Unreadable
from freight_exchange.feed.feed import check_text
from freight_exchange.filters import Currencies, Numbers, OfferFilter, OfferWhere, RequestFilter, Texts, Where
from freight_exchange.models import Bid, Offer, RateRequest, RequestType, UnknownWord
from freight_exchange.options import flag, integer, seconds
from freight_exchange.validation import Number

F = TypeVar("F", bound=Function)

_FROM_START_KINDS: Final = ("new", "selected")


class _Options(TypedDict, total=False):
    id: str | None
    retries: int
    timeout: timedelta | float


class _RequestOptions(_Options, total=False):
    origin: Texts | None
    destination: Texts | None
    type: Texts | None
    incoterm: Texts | None
    commodity: Texts | None
    hazardous: bool | None
    max_volume: Number | None
    max_weight: Number | None
    need_by: datetime | date | None
    where: Where | None
    from_start: bool


class _OfferOptions(_Options, total=False):
    request: Numbers | None
    origin: Texts | None
    destination: Texts | None
    commodity: Texts | None
    currency: Currencies | None
    max_amount: Number | None
    where: OfferWhere | None


# Bounds of type variables: a decorated function keeps its own type.
RequestHandler = TypeVar(
    "RequestHandler", bound=Callable[Concatenate[RateRequest, RequestContext, ...], Awaitable[object]]
)
SelectedHandler = TypeVar("SelectedHandler", bound=Callable[Concatenate[Bid, SelectedContext, ...], Awaitable[object]])
OfferHandler = TypeVar("OfferHandler", bound=Callable[Concatenate[Offer, OfferContext, ...], Awaitable[object]])
GapHandler = TypeVar("GapHandler", bound=Callable[Concatenate[Gap, Context, ...], Awaitable[object]])
UnreadableHandler = TypeVar(
    "UnreadableHandler", bound=Callable[Concatenate[Unreadable, Context, ...], Awaitable[object]]
)


class RequestDecorator(Protocol):
    """Type of `on_new`, `on_updated` and `on_withdrawn`."""

    @overload
    def __call__(self, function: RequestHandler, /) -> RequestHandler: ...
    @overload
    def __call__(self, **options: Unpack[_RequestOptions]) -> Callable[[RequestHandler], RequestHandler]: ...


class SelectedDecorator(Protocol):
    """Type of `on_selected`."""

    @overload
    def __call__(self, function: SelectedHandler, /) -> SelectedHandler: ...
    @overload
    def __call__(self, **options: Unpack[_RequestOptions]) -> Callable[[SelectedHandler], SelectedHandler]: ...


class OfferDecorator(Protocol):
    """Type of `on_offer`, `on_offer_changed`, `on_offer_answered` and `on_offer_gone`."""

    @overload
    def __call__(self, function: OfferHandler, /) -> OfferHandler: ...
    @overload
    def __call__(self, **options: Unpack[_OfferOptions]) -> Callable[[OfferHandler], OfferHandler]: ...


class GapDecorator(Protocol):
    """Type of `on_gap`."""

    @overload
    def __call__(self, function: GapHandler, /) -> GapHandler: ...
    @overload
    def __call__(self, **options: Unpack[_Options]) -> Callable[[GapHandler], GapHandler]: ...


class UnreadableDecorator(Protocol):
    """Type of `on_unreadable`."""

    @overload
    def __call__(self, function: UnreadableHandler, /) -> UnreadableHandler: ...
    @overload
    def __call__(self, **options: Unpack[_Options]) -> Callable[[UnreadableHandler], UnreadableHandler]: ...


class Router:
    """Handlers, registered by decorators; `bot.include(router)` adds them to a bot.

    Each decorator is used bare (`@router.on_new`) or with keywords: those of `RequestFilter`, for offers those of
    `OfferFilter`, and

    - `id`: key of the handler's deliveries in the store, default the function's `__qualname__`. Set one before you
      rename the function.
    - `retries`: further calls after a failure, default 8; then the delivery is a dead letter.
    - `timeout`: seconds or a `timedelta` that a call may take, default five minutes.
    - `from_start`, of `on_new` and `on_selected`: whether a handler that is new to a bot's store first gets each
      request that is already in the store, or each bid of this account that is listed as selected.

    One function may be registered for several kinds of events.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    @property
    def on_new(self) -> RequestDecorator:
        """Register for new requests: `async def handler(request, ctx)`."""
        return cast(RequestDecorator, self._on("new"))

    @property
    def on_updated(self) -> RequestDecorator:
        """Register for changed requests: `async def handler(request, ctx)`.

        `ctx.event` has the previous request and the changed fields. Updates that wait for the handler are merged: it
        gets the last one, with the changes of all of them.
        """
        return cast(RequestDecorator, self._on("updated"))

    @property
    def on_withdrawn(self) -> RequestDecorator:
        """Register for requests that are gone: `async def handler(request, ctx)`, with the request as last seen."""
        return cast(RequestDecorator, self._on("withdrawn"))

    @property
    def on_selected(self) -> SelectedDecorator:
        """Register for this account's selected bids: `async def handler(bid, ctx)`, with the shipper's contact."""
        return cast(SelectedDecorator, self._on("selected"))

    @property
    def on_offer(self) -> OfferDecorator:
        """Register for new offers on this account's requests: `async def handler(offer, ctx)`.

        `ctx.event.listing` is the request with all offers on it. The first run delivers every pending offer.
        """
        return cast(OfferDecorator, self._on("offer"))

    @property
    def on_offer_changed(self) -> OfferDecorator:
        """Register for offers with another price, other terms, fees or status: `async def handler(offer, ctx)`."""
        return cast(OfferDecorator, self._on("offer_changed"))

    @property
    def on_offer_answered(self) -> OfferDecorator:
        """Register for answered offers: `async def handler(offer, ctx)`; `ctx.event.answer` is the answer."""
        return cast(OfferDecorator, self._on("offer_answered"))

    @property
    def on_offer_gone(self) -> OfferDecorator:
        """Register for offers that are gone: `async def handler(offer, ctx)`, with the offer as last seen."""
        return cast(OfferDecorator, self._on("offer_gone"))

    @property
    def on_gap(self) -> GapDecorator:
        """Register for gaps, longer than the service looks back: `async def handler(gap, ctx)`."""
        return cast(GapDecorator, self._on("gap"))

    @property
    def on_unreadable(self) -> UnreadableDecorator:
        """Register for listed requests that cannot be read: `async def handler(unreadable, ctx)`."""
        return cast(UnreadableDecorator, self._on("unreadable"))

    def include(self, router: Router) -> None:
        """Add the handlers that another router has now.

        Raises:
            ConfigurationError: One of them has the `id` of another handler.
        """
        if not isinstance(router, Router):
            raise ConfigurationError(f"include takes a Router, not a {type(router).__name__}")
        handlers = self._handlers
        for handler in router:
            handlers = _add(handlers, handler)
        self._set_handlers(handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def _set_handlers(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    def _on(self, kind: Kind) -> Any:
        def register(function: Function | None = None, /, **options: Any) -> Any:
            if function is not None and options:
                raise ConfigurationError(f"write @on_{kind}(...) above the function, or on_{kind}(...)(function)")
            make = _maker(kind, **options)

            def add(function: F) -> F:
                self._set_handlers(_add(self._handlers, make(function)))
                return function

            return add if function is None else add(function)

        return register


def _maker(
    kind: Kind,
    /,
    *,
    id: str | None = None,
    retries: int = 8,
    timeout: timedelta | float = timedelta(minutes=5),
    from_start: bool = False,
    **fields: Any,
) -> Callable[[Function], Handler]:
    """Check the keywords of a decorator, and return what makes a handler of a function."""
    filter_ = _make_filter(kind, fields)
    integer(retries, "retries", least=0)
    if flag(from_start, "from_start") and kind not in _FROM_START_KINDS:
        raise ConfigurationError(f"on_{kind} has no from_start: its first run delivers everything that is listed")
    limit = seconds(timeout, "timeout")
    if id is not None:
        _check_id(id)

    def make(function: Function) -> Handler:
        _check_function(function, kind)
        return Handler(
            id=_default_id(function) if id is None else id,
            function=function,
            filters={kind: filter_},
            retries=retries,
            timeout=limit,
            from_start=frozenset({kind} if from_start else ()),
        )

    return make


def _add(handlers: dict[str, Handler], handler: Handler) -> dict[str, Handler]:
    """Return the handlers with one more. If its function is registered already, that handler gets its events, too."""
    known = handlers.get(handler.id)
    if known is None:
        return {**handlers, handler.id: handler}
    # Compared by value: a bound method is a new object each time.
    if known.function != handler.function:
        raise ConfigurationError(
            f"two handlers have the id {handler.id!r}, the key of their deliveries: give one of them another id="
        )
    if again := known.filters.keys() & handler.filters.keys():
        raise ConfigurationError(f"the handler {handler.id!r} is registered twice for {', '.join(sorted(again))}")
    if (known.retries, known.timeout) != (handler.retries, handler.timeout):
        raise ConfigurationError(
            f"the handler {handler.id!r} has other retries or another timeout for another event: give it another id= "
            "there"
        )
    extended = attrs.evolve(
        known,
        filters={**known.filters, **handler.filters},
        from_start=known.from_start | handler.from_start,
    )
    return {**handlers, handler.id: extended}


def _make_filter(kind: Kind, fields: dict[str, Any]) -> RequestFilter | OfferFilter:
    filter_class = OfferFilter if FEED_OF[kind] == ("offers",) else RequestFilter
    known = set() if kind in ("gap", "unreadable") else {*inspect.signature(filter_class).parameters}
    if unknown := fields.keys() - known:
        choices = (*sorted(known), "id", "retries", "timeout", *(["from_start"] if kind in _FROM_START_KINDS else ()))
        raise ConfigurationError(f"on_{kind} has no {min(unknown)}=: its keywords are {', '.join(choices)}")
    filter_ = filter_class(**fields)
    _check_types(fields.get("type"))
    return filter_


def _check_types(types: str | Iterable[str] | None) -> None:
    """Check the types of a filter. The filter itself takes any word, but a mistyped one would never match."""
    for word in (types,) if isinstance(types, str) else types or ():
        try:
            RequestType(" ".join(word.split()))
        except ValueError:
            if not isinstance(word, UnknownWord):
                raise ValidationError(
                    f"type must be {', '.join(RequestType)}, not {word!r}; for a new word of the service, pass "
                    f"UnknownWord({str(word)!r})",
                    field="type",
                ) from None


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id.strip():
        raise ConfigurationError(f"id must be a text that is not empty, not {id!r}")
    check_text(id, "id")


def _default_id(function: Function) -> str:
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        raise ConfigurationError("a handler without a name needs id=, the key of its deliveries")
    _check_id(name)
    return name


def _check_function(function: object, kind: Kind) -> None:
    if not callable(function):
        raise ConfigurationError(f"@on_{kind} decorates an async function, not a {type(function).__name__}")
    name = getattr(function, "__qualname__", function)
    call = type(function).__call__
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise ConfigurationError(f"the handler {name!r} must be an async function (request, ctx)")
    try:
        # Further parameters are resolved by name, which positional-only ones do not have.
        signature = inspect.signature(function)
        signature.bind_partial(None, None)
        kind_of_unnamed = inspect.Parameter.POSITIONAL_ONLY
        unnamed = [parameter for parameter in signature.parameters.values() if parameter.kind is kind_of_unnamed]
        if any(parameter.default is inspect.Parameter.empty for parameter in unnamed[2:]):
            raise TypeError
    except TypeError:
        raise ConfigurationError(f"the handler {name!r} must take two arguments: (request, ctx)") from None
