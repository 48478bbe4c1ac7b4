"""Which function is called for what: handlers, and the routers that they are registered with."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar, cast, overload

import attrs

from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.feed.events import BidSelected, Gap, RequestEvent, Unreadable
from freight_exchange.feed.factory import check_text
from freight_exchange.feed.filter import RequestFilter
from freight_exchange.models.enums import RequestType, UnknownWord
from freight_exchange.options import seconds

if TYPE_CHECKING:
    from freight_exchange.feed.filter import Texts, Types, Where
    from freight_exchange.models import RateRequest
    from freight_exchange.models.validation import Number

__all__ = ["DEFAULT_RETRIES", "DEFAULT_TIMEOUT", "BotEvent", "Handler", "Kind", "Router"]

DEFAULT_RETRIES: Final = 8
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)

BotEvent = RequestEvent | Gap | Unreadable | BidSelected
"""What a handler can be called for."""

Kind = Literal["new", "updated", "withdrawn", "selected", "gap", "unreadable"]

_FROM_START: Final[tuple[Kind, ...]] = ("new", "selected")
_BY_PLACE: Final = inspect.Parameter.POSITIONAL_ONLY

Function = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=Function)


@attrs.frozen(kw_only=True, eq=False)
class Handler:
    """A function, and what it is called for.

    Attributes:
        id: What its deliveries are kept under.
        function: The function.
        wanted: The kinds of events, each with the requests that are wanted.
        retries: How many times it is called again after it failed.
        timeout: Seconds that it may take.
        from_start: Whether it is to hear of the requests that were listed before it was first registered.
        selected_from_start: Whether it is to hear of the own bids that were selected before.
    """

    id: str
    function: Function
    wanted: Mapping[Kind, RequestFilter]
    retries: int
    timeout: float
    from_start: bool
    selected_from_start: bool = False

    def takes(self, kind: str) -> bool:
        """Whether it is called for events of this kind at all."""
        return kind in self.wanted

    def wants(self, event: BotEvent) -> bool:
        """Whether it is called for this event. A filter may call the user's own code, and raise what that raises."""
        wanted = self.wanted.get(event.kind)
        if wanted is None:
            return False
        about = subject(event)
        return not hasattr(about, "origin") or wanted.matches(cast("RateRequest", about))


def subject(event: BotEvent) -> Any:
    """What the event is about, which is a handler's first argument: the request, the bid, or the event itself."""
    match event:
        case RequestEvent():
            return event.request
        case BidSelected():
            return event.bid
        case _:
            return event


class _Bare(Protocol):
    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(
        self,
        *,
        id: str | None = None,
        retries: int = DEFAULT_RETRIES,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
    ) -> Callable[[F], F]: ...


class _Filtered(Protocol):
    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(
        self,
        *,
        origin: Texts | None = None,
        destination: Texts | None = None,
        type: Types | None = None,
        incoterm: Texts | None = None,
        commodity: Texts | None = None,
        hazardous: bool | None = None,
        max_volume: Number | None = None,
        max_weight: Number | None = None,
        need_by: datetime | date | None = None,
        where: Where | None = None,
        id: str | None = None,
        retries: int = DEFAULT_RETRIES,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
        from_start: bool = False,
    ) -> Callable[[F], F]: ...


class Router:
    """Handlers, registered by decorators, which `bot.include(router)` takes into a bot.

    Each decorator is used bare (`@router.on_new`) or with keywords: those of `RequestFilter`, and

    - `id`: what the deliveries of the handler are kept under, for ever; unless told the function's `__qualname__`. Give
      one before the function is renamed.
    - `retries`: how many times it is called again after it failed, 8 unless told; then the delivery is dead, and kept.
    - `timeout`: how long it may take, seconds or a `timedelta`; five minutes unless told.
    - `from_start`, of `on_new` and `on_selected`: whether a handler that is new to a bot's store first hears of every
      request that the bot knows already, or of every own bid that is listed as selected.

    One function may be registered for several kinds of events.
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    @property
    def on_new(self) -> _Filtered:
        """A request appeared: `async def handler(request, ctx)`."""
        return self._on("new")

    @property
    def on_updated(self) -> _Filtered:
        """A request changed: `async def handler(request, ctx)`; `ctx.event` has what it was and what changed.

        Of updates that wait for the handler only the last is handed over, with the changes of all of them.
        """
        return self._on("updated")

    @property
    def on_withdrawn(self) -> _Filtered:
        """A request is gone: `async def handler(request, ctx)`, with the request as it was last seen."""
        return self._on("withdrawn")

    @property
    def on_selected(self) -> _Filtered:
        """The shipper selected an own bid: `async def handler(bid, ctx)`, where the bid has the shipper's contact."""
        return self._on("selected")

    @property
    def on_gap(self) -> _Bare:
        """Nobody watched for longer than the service looks back: `async def handler(gap, ctx)`."""
        return cast("_Bare", self._on("gap"))

    @property
    def on_unreadable(self) -> _Bare:
        """A request is listed and cannot be read: `async def handler(unreadable, ctx)`."""
        return cast("_Bare", self._on("unreadable"))

    def include(self, router: Router) -> None:
        """Take over the handlers that the other router has now.

        Raises:
            ConfigurationError: One of them has the `id` of another handler.
        """
        if not isinstance(router, Router):
            raise ConfigurationError(f"include takes a Router, not a {type(router).__name__}")
        handlers = self._handlers
        for handler in router:
            handlers = _with(handlers, handler)
        self._take(handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def _take(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    def _on(self, kind: Kind) -> _Filtered:
        def register(
            function: Function | None = None,
            /,
            *,
            id: str | None = None,
            retries: int = DEFAULT_RETRIES,
            timeout: timedelta | float = DEFAULT_TIMEOUT,
            from_start: bool = False,
            **fields: Any,
        ) -> Any:
            given = (id, retries, timeout, from_start) != (None, DEFAULT_RETRIES, DEFAULT_TIMEOUT, False)
            if function is not None and (fields or given):
                raise ConfigurationError(f"write @on_{kind}(...) above the function, or on_{kind}(...)(function)")
            _check_fields(kind, fields)
            wanted = RequestFilter(**fields)
            _check_type(wanted.type)
            _check(kind, id=id, retries=retries, from_start=from_start)
            limit = seconds(timeout, "timeout")

            def add(function: F) -> F:
                _check_function(function, kind)
                handler = Handler(
                    id=_identifier(function) if id is None else id,
                    function=function,
                    wanted={kind: wanted},
                    retries=retries,
                    timeout=limit,
                    from_start=from_start and kind == "new",
                    selected_from_start=from_start and kind == "selected",
                )
                _check_id(handler.id)
                self._take(_with(self._handlers, handler))
                return function

            return add if function is None else add(function)

        return cast("_Filtered", register)


def _with(handlers: dict[str, Handler], handler: Handler) -> dict[str, Handler]:
    """The handlers, and this one."""
    known = handlers.get(handler.id)
    if known is None:
        return {**handlers, handler.id: handler}
    # Compared and not identified: a bound method is a new object each time.
    if known.function != handler.function:
        raise ConfigurationError(
            f"two handlers have the id {handler.id!r}, under which what they have done is kept: give one of them "
            "another, with id="
        )
    if again := known.wanted.keys() & handler.wanted.keys():
        raise ConfigurationError(f"the handler {handler.id!r} is registered twice for {', '.join(sorted(again))}")
    if (known.retries, known.timeout) != (handler.retries, handler.timeout):
        raise ConfigurationError(
            f"the handler {handler.id!r} has other retries or another timeout for another event: give it another id "
            "there, with id="
        )
    both = attrs.evolve(
        known,
        wanted={**known.wanted, **handler.wanted},
        from_start=known.from_start or handler.from_start,
        selected_from_start=known.selected_from_start or handler.selected_from_start,
    )
    return {**handlers, handler.id: both}


def _check_fields(kind: Kind, fields: Mapping[str, object]) -> None:
    known = {field.name for field in attrs.fields(RequestFilter)} - {"_wanted"}
    if kind in ("gap", "unreadable"):
        known = set()
    if unknown := fields.keys() - known:
        choices = (*sorted(known), "id", "retries", "timeout", *(["from_start"] if kind in _FROM_START else ()))
        raise ConfigurationError(f"on_{kind} knows no {min(unknown)}=: it has {', '.join(choices)}")


def _check_type(types: str | tuple[str, ...] | None) -> None:
    """A word that is mistyped is not refused by a filter, and would never match."""
    for given in (types,) if isinstance(types, str) else types or ():
        try:
            RequestType(" ".join(given.split()))
        except ValueError:
            if not isinstance(given, UnknownWord):
                raise ValidationError(
                    f"type must be {', '.join(RequestType)}, not {given!r}; if the service has learnt that word since, "
                    f"say UnknownWord({str(given)!r})",
                    field="type",
                ) from None


def _check(kind: Kind, *, id: object, retries: object, from_start: object) -> None:
    if id is not None:
        _check_id(id)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigurationError(f"retries must be a whole number from 0, not {retries!r}")
    if not isinstance(from_start, bool):
        raise ConfigurationError(f"from_start must be True or False, not {from_start!r}")
    if from_start and kind not in _FROM_START:
        raise ConfigurationError(f"on_{kind} knows no from_start: what was listed before is handed over as new")


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id.strip():
        raise ConfigurationError(f"id must be a text that is not empty, not {id!r}")
    check_text(id, "id")


def _identifier(function: Function) -> str:
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        raise ConfigurationError("a handler without a name needs id=, under which its deliveries are kept")
    return name


def _check_function(function: object, kind: Kind) -> None:
    if not callable(function):
        raise ConfigurationError(f"@on_{kind} decorates an async function, not a {type(function).__name__}")
    name = getattr(function, "__qualname__", function)
    call = type(function).__call__
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise ConfigurationError(f"the handler {name!r} must be an async function (request, ctx)")
    try:
        # What it wants beside these two comes from the bot's lifespan, by name.
        signature = inspect.signature(function)
        signature.bind_partial(None, None)
        by_place = [parameter for parameter in signature.parameters.values() if parameter.kind is _BY_PLACE]
        if any(parameter.default is inspect.Parameter.empty for parameter in by_place[2:]):
            raise TypeError
    except TypeError:
        raise ConfigurationError(f"the handler {name!r} must take two arguments: (request, ctx)") from None
