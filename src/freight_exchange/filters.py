"""Filters of rate requests, and of offers on the shipper's own requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from operator import contains, eq, ge
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import attrs

from freight_exchange import validation
from freight_exchange.base import EXACT, ConciseRepr, ValidationError
from freight_exchange.models import Currency, Listing, Offer, RateRequest, Shipment
from freight_exchange.platform.text import fold
from freight_exchange.validation import Number
from freight_exchange.words import RequestType, Word, kilograms_per

T = TypeVar("T")

# One value, or a set or sequence of alternatives. A currency is an index or a code.
Texts: TypeAlias = str | AbstractSet[str] | Sequence[str]
Numbers: TypeAlias = int | AbstractSet[int] | Sequence[int]
Currencies: TypeAlias = int | str | AbstractSet[int | str] | Sequence[int | str]
# Predicates of the caller
Where: TypeAlias = Callable[[RateRequest], bool]
OfferWhere: TypeAlias = Callable[[Offer, Listing], bool]


class _Rule(NamedTuple):
    """Check of an argument, reader of a request and its offer, and comparison of the argument with what is read.

    A field without a reader is compared by the filter itself.
    """

    check: Callable[[Any, str], Any]
    read: Callable[[Any, Any], Any] | None = None
    passes: Callable[[Any, Any], bool] = eq


def _any_of(check: Callable[[Any, str], T], value: object, field: str) -> frozenset[T]:
    """Check one value or several."""
    # Text is a sequence of its characters, and bytes one of numbers.
    is_one = not isinstance(value, (AbstractSet, Sequence)) or isinstance(value, (str, bytes, bytearray))
    choices: Any = (value,) if is_one else value
    if not choices:
        raise ValidationError(f"{field} must not be empty: nothing would ever pass", field=field)
    return frozenset(check(choice, field) for choice in choices)


def _has_text(accepted: AbstractSet[str], text: str) -> bool:
    folded = fold(text)
    return not folded or folded in accepted


def _type_word(value: str, field: str) -> str:
    if isinstance(value, Word) and not isinstance(value, RequestType):
        # Compared as text, it would exclude every request.
        raise ValidationError(f"{field} must be a RequestType or its word, not {value!r}", field=field)
    return validation.text(value, field)


def _currency(value: int | str, field: str) -> int | str:
    return validation.currency_code(value, field) if isinstance(value, str) else validation.identifier(value, field)


def _last_moment(need_by: datetime | date, field: str) -> datetime:
    if isinstance(need_by, date) and not isinstance(need_by, datetime):
        return datetime.combine(need_by, time.max)
    return validation.naive_datetime(need_by, field)


def _kilograms(request: Shipment, _: object) -> Decimal | None:
    factor = kilograms_per(request.mass_unit)
    return None if request.weight is None or factor is None else EXACT.multiply(request.weight, factor)


def _plain_function(where: T, field: str) -> T:
    if not callable(where):
        raise ValidationError(f"{field} must be a function, not a {type(where).__name__}", field=field)
    for function in (where, type(where).__call__):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise _async_where()
    return where


def _async_where() -> ValidationError:
    return ValidationError("where must be a plain function, not an async one: nothing awaits its answer", field="where")


def _is_true(answer: object) -> bool:
    """Return the result of a predicate as a boolean; raise `ValidationError` if the result must be awaited."""
    # A lambda may return the coroutine of an async function, which would be true for every request.
    if hasattr(answer, "__await__") or hasattr(answer, "__aiter__"):
        if inspect.iscoroutine(answer):
            answer.close()
        raise _async_where()
    return bool(answer)


def _text(check: Callable[[Any, str], str], read: Callable[[Any, Any], str | None]) -> _Rule:
    return _Rule(partial(_any_of, lambda value, field: fold(check(value, field))), read, _has_text)


_RULES: Final = {
    "request": _Rule(partial(_any_of, validation.identifier), lambda request, _: request.index, contains),
    "origin": _text(validation.text, lambda request, _: request.origin),
    "destination": _text(validation.text, lambda request, _: request.destination),
    "type": _text(_type_word, lambda request, _: request.type),
    "incoterm": _text(validation.incoterm, lambda request, _: request.incoterm),
    "commodity": _text(validation.text, lambda request, _: request.commodity),
    "hazardous": _Rule(validation.boolean, lambda request, _: request.hazardous),
    "max_volume": _Rule(validation.amount, lambda request, _: request.volume, ge),
    "max_weight": _Rule(validation.amount, _kilograms, ge),
    "need_by": _Rule(_last_moment, lambda request, _: request.need_date, ge),
    "max_amount": _Rule(validation.amount, lambda _, offer: offer.amount, ge),
    "currency": _Rule(partial(_any_of, _currency)),
    "where": _Rule(_plain_function),
}


class _Filter(ConciseRepr):
    """Base of filters. Fields are kept in the form in which they are compared, as a feed matches every record."""

    __slots__ = ()

    where: Callable[..., bool] | None
    _wanted: tuple[tuple[str, Any], ...]

    def __attrs_post_init__(self) -> None:
        names = [field.name for field in self.__attrs_attrs__ if field.init and getattr(self, field.name) is not None]
        for name in names:
            object.__setattr__(self, name, _RULES[name].check(getattr(self, name), name))
        wanted = tuple((name, getattr(self, name)) for name in names if _RULES[name].read is not None)
        object.__setattr__(self, "_wanted", wanted)

    def _excluded_by(self, request: Shipment, offer: Offer | None = None) -> str | None:
        for name, wanted in self._wanted:
            _, read, passes = _RULES[name]
            value = None if read is None else read(request, offer)
            if value is not None and not passes(wanted, value):
                return name
        arguments = (request,) if offer is None else (offer, request)
        return "where" if self.where is not None and not _is_true(self.where(*arguments)) else None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestFilter(_Filter):
    """Filter of rate requests, which must pass every field given. All requests pass `RequestFilter()`.

    A missing field never excludes a request: a request without an Incoterm passes `incoterm="FOB"`. Blank text counts
    as missing. Text is compared without regard to case. A run of white space counts as one space, and white space
    around the text is ignored. The fields are those of the rate request (service document, Rate request).

    Filters with the same effect are equal, such as `origin="hong kong"` and `origin=["Hong Kong"]`.

    Args:
        origin, destination: A port or city as requests spell it, or several alternatives.
        type: A `RequestType` or its word, or several. A word that is not in the document is compared as text: the
            service may add new ones.
        incoterm: Three letters in any case, or several.
        commodity: The full name of the goods, or several.
        hazardous: `True` for dangerous goods only, `False` for all others.
        max_volume: Largest cubic metres of all packaging units together (`RateRequest.volume`).
        max_weight: Largest kilograms, compared with `RateRequest.weight` after conversion from its `mass_unit`. The
            document does not specify whether that is the weight of one unit or of all.
        need_by: The latest required arrival, inclusive, naive as `need_date` is. A `date` includes the whole day.
        where: A predicate of your own, a plain function of the request. It is called last; its errors are not caught.

    Raises:
        ValidationError: A value is invalid, or a collection is empty, which would exclude all requests; `field`
            names it.
    """

    origin: Texts | None = None
    destination: Texts | None = None
    type: Texts | None = None
    incoterm: Texts | None = None
    commodity: Texts | None = None
    hazardous: bool | None = None
    max_volume: Number | None = None
    max_weight: Number | None = None
    need_by: datetime | date | None = None
    where: Where | None = attrs.field(default=None, hash=False)
    _wanted: tuple[tuple[str, Any], ...] = attrs.field(init=False, repr=False, eq=False, default=())

    def matches(self, request: RateRequest) -> bool:
        """Return whether the request passes."""
        return self.excluded_by(request) is None

    def excluded_by(self, request: RateRequest) -> str | None:
        """Return the first field, in the order above, that excludes the request; `None` if it passes.

        Raises:
            ValidationError: `where` turned out to be async.
        """
        return self._excluded_by(request)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OfferFilter(_Filter):
    """Filter of offers, which must pass every field given. All offers pass `OfferFilter()`.

    A missing field never excludes an offer, as in `RequestFilter`.

    Args:
        request: The index of one of your requests, or several.
        origin, destination, commodity: As in `RequestFilter`.
        currency: The offer's currency, or several, by index or three-letter code. Offers have only the index: a feed
            and a bot look codes up in the service's list, elsewhere call
            `await filter.load_codes(exchange.currencies.by_code)` first.
        max_amount: The highest accepted amount of the offer, in its own currency; requires `currency`.
        where: A predicate of your own, a plain function of the offer and its request. It is called last; its errors are
            not caught.

    Raises:
        ValidationError: A value is invalid, or a collection is empty; `field` names it.
    """

    request: Numbers | None = None
    origin: Texts | None = None
    destination: Texts | None = None
    commodity: Texts | None = None
    currency: Currencies | None = None
    max_amount: Number | None = None
    where: OfferWhere | None = attrs.field(default=None, hash=False)
    _wanted: tuple[tuple[str, Any], ...] = attrs.field(init=False, repr=False, eq=False, default=())
    _indexes: dict[object, int] = attrs.field(init=False, repr=False, eq=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.max_amount is not None and self.currency is None:
            raise ValidationError("max_amount needs currency: offers come in several", field="max_amount")

    async def load_codes(self, by_code: Callable[[str], Awaitable[Currency]]) -> None:
        """Look up the codes of `currency` in the service's list; a second call does nothing.

        Raises:
            ValidationError: The service has no such code, or several currencies with it.
        """
        for code in self.unknown_codes:
            self._indexes[code] = (await by_code(code)).index

    @property
    def unknown_codes(self) -> list[str]:
        """Codes of `currency` that `load_codes` has not looked up yet."""
        currencies: Any = self.currency or ()
        return [one for one in currencies if isinstance(one, str) and one not in self._indexes]

    def matches(self, offer: Offer, listing: Listing) -> bool:
        """Return whether the offer passes.

        Raises:
            ValidationError: `where` turned out to be async, or `load_codes` was not called for the codes of `currency`.
        """
        if unknown := self.unknown_codes:
            raise ValidationError(f"the index of {unknown[0]} is not known: load_codes() looks it up", field="currency")
        currencies: Any = self.currency
        accepted = {self._indexes.get(one, one) for one in currencies or ()} | {None}
        return (currencies is None or offer.currency in accepted) and self._excluded_by(listing, offer) is None
