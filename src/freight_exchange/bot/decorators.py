"""Types of the decorators that register handlers: each accepts only functions that take its event.

A handler takes its subject and a context; the parameters after these two come from the bot's lifespan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Concatenate, Final, Protocol, TypedDict, TypeVar, Unpack, overload

from freight_exchange.bot.context import Context, OfferContext, RequestContext, SelectedContext
from freight_exchange.feed.events import Gap, Unreadable
from freight_exchange.filters import Currencies, Numbers, OfferWhere, Texts, Types, Where
from freight_exchange.models import Bid, Offer, RateRequest
from freight_exchange.validation import Number

DEFAULT_RETRIES: Final = 8
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)


class Options(TypedDict, total=False):
    """Keywords of all decorators."""

    id: str | None
    retries: int
    timeout: timedelta | float


class RequestOptions(Options, total=False):
    """Keywords of decorators for requests and bids: those of `RequestFilter`, and `from_start`."""

    origin: Texts | None
    destination: Texts | None
    type: Types | None
    incoterm: Texts | None
    commodity: Texts | None
    hazardous: bool | None
    max_volume: Number | None
    max_weight: Number | None
    need_by: datetime | date | None
    where: Where | None
    from_start: bool


class OfferOptions(Options, total=False):
    """Keywords of decorators for offers: those of `OfferFilter`."""

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
    def __call__(self, **options: Unpack[RequestOptions]) -> Callable[[RequestHandler], RequestHandler]: ...


class SelectedDecorator(Protocol):
    """Type of `on_selected`."""

    @overload
    def __call__(self, function: SelectedHandler, /) -> SelectedHandler: ...
    @overload
    def __call__(self, **options: Unpack[RequestOptions]) -> Callable[[SelectedHandler], SelectedHandler]: ...


class OfferDecorator(Protocol):
    """Type of `on_offer`, `on_offer_changed`, `on_offer_answered` and `on_offer_gone`."""

    @overload
    def __call__(self, function: OfferHandler, /) -> OfferHandler: ...
    @overload
    def __call__(self, **options: Unpack[OfferOptions]) -> Callable[[OfferHandler], OfferHandler]: ...


class GapDecorator(Protocol):
    """Type of `on_gap`."""

    @overload
    def __call__(self, function: GapHandler, /) -> GapHandler: ...
    @overload
    def __call__(self, **options: Unpack[Options]) -> Callable[[GapHandler], GapHandler]: ...


class UnreadableDecorator(Protocol):
    """Type of `on_unreadable`."""

    @overload
    def __call__(self, function: UnreadableHandler, /) -> UnreadableHandler: ...
    @overload
    def __call__(self, **options: Unpack[Options]) -> Callable[[UnreadableHandler], UnreadableHandler]: ...
