"""Types of the decorators that register handlers: each accepts only functions that take its event.

A handler takes its subject and a `Context`; the parameters after these two come from the bot's lifespan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Concatenate, Final, Protocol, TypeVar, overload

from freight_exchange.bot.handlers.context import Context
from freight_exchange.feed.events import Gap, Unreadable
from freight_exchange.filters import Currencies, Numbers, OfferWhere, Texts, Types, Where
from freight_exchange.models import Bid, Offer, RateRequest
from freight_exchange.validation import Number

__all__ = [
    "DEFAULT_RETRIES",
    "DEFAULT_TIMEOUT",
    "GapDecorator",
    "OfferDecorator",
    "RequestDecorator",
    "SelectedDecorator",
    "UnreadableDecorator",
]

DEFAULT_RETRIES: Final = 8
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)

# Bounds of type variables: a decorated function keeps its own type.
RequestHandler = TypeVar("RequestHandler", bound=Callable[Concatenate[RateRequest, Context, ...], Awaitable[object]])
SelectedHandler = TypeVar("SelectedHandler", bound=Callable[Concatenate[Bid, Context, ...], Awaitable[object]])
OfferHandler = TypeVar("OfferHandler", bound=Callable[Concatenate[Offer, Context, ...], Awaitable[object]])
GapHandler = TypeVar("GapHandler", bound=Callable[Concatenate[Gap, Context, ...], Awaitable[object]])
UnreadableHandler = TypeVar(
    "UnreadableHandler", bound=Callable[Concatenate[Unreadable, Context, ...], Awaitable[object]]
)


class RequestDecorator(Protocol):
    """Type of `on_new`, `on_updated` and `on_withdrawn`."""

    @overload
    def __call__(self, function: RequestHandler, /) -> RequestHandler: ...
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
    ) -> Callable[[RequestHandler], RequestHandler]: ...


class SelectedDecorator(Protocol):
    """Type of `on_selected`."""

    @overload
    def __call__(self, function: SelectedHandler, /) -> SelectedHandler: ...
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
    ) -> Callable[[SelectedHandler], SelectedHandler]: ...


class OfferDecorator(Protocol):
    """Type of `on_offer`, `on_offer_changed`, `on_offer_answered` and `on_offer_gone`."""

    @overload
    def __call__(self, function: OfferHandler, /) -> OfferHandler: ...
    @overload
    def __call__(
        self,
        *,
        request: Numbers | None = None,
        origin: Texts | None = None,
        destination: Texts | None = None,
        commodity: Texts | None = None,
        currency: Currencies | None = None,
        max_amount: Number | None = None,
        where: OfferWhere | None = None,
        id: str | None = None,
        retries: int = DEFAULT_RETRIES,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
    ) -> Callable[[OfferHandler], OfferHandler]: ...


class GapDecorator(Protocol):
    """Type of `on_gap`."""

    @overload
    def __call__(self, function: GapHandler, /) -> GapHandler: ...
    @overload
    def __call__(
        self,
        *,
        id: str | None = None,
        retries: int = DEFAULT_RETRIES,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
    ) -> Callable[[GapHandler], GapHandler]: ...


class UnreadableDecorator(Protocol):
    """Type of `on_unreadable`."""

    @overload
    def __call__(self, function: UnreadableHandler, /) -> UnreadableHandler: ...
    @overload
    def __call__(
        self,
        *,
        id: str | None = None,
        retries: int = DEFAULT_RETRIES,
        timeout: timedelta | float = DEFAULT_TIMEOUT,
    ) -> Callable[[UnreadableHandler], UnreadableHandler]: ...
