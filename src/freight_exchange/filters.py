"""Filters of rate requests, and of offers on the shipper's own requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from operator import attrgetter, eq, le
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar, cast

import attrs

from freight_exchange import validation
from freight_exchange.base import EXACT, ConciseRepr, ValidationError
from freight_exchange.models import Currency, Listing, Offer, RateRequest
from freight_exchange.platform.text import fold
from freight_exchange.validation import Number
from freight_exchange.words import RequestType, Word, kilograms_per

T = TypeVar("T")

# One value, or a set or sequence of alternatives. A type is a member or its word, a currency an index or a code.
Texts: TypeAlias = str | AbstractSet[str] | Sequence[str]
Types: TypeAlias = RequestType | str | AbstractSet[RequestType | str] | Sequence[RequestType | str]
Numbers: TypeAlias = int | AbstractSet[int] | Sequence[int]
Currencies: TypeAlias = int | str | AbstractSet[int | str] | Sequence[int | str]
# Predicates of the caller
Where: TypeAlias = Callable[[RateRequest], bool]
OfferWhere: TypeAlias = Callable[[Offer, Listing], bool]


def _is_collection(value: object) -> TypeGuard[AbstractSet[Any] | Sequence[Any]]:
    # Text is a sequence of its characters, and bytes one of numbers.
    return isinstance(value, (AbstractSet, Sequence)) and not isinstance(value, (str, bytes, bytearray))


def _texts(value: Texts | None, field: str = "") -> str | tuple[str, ...] | None:
    """Copy a collection; a set sorted, so that its repr is the same in every process."""
    if isinstance(value, AbstractSet):
        return tuple(sorted(value, key=str))
    return tuple(value) if value is not None and _is_collection(value) else cast("str | None", value)


def _hazardous(value: bool | None, field: str = "") -> bool | None:
    return None if value is None else validation.boolean(value, field)


def _max_amount(value: Number | None, field: str = "") -> Decimal | None:
    return None if value is None else validation.amount(value, field)


def _set_of(check: Callable[[Any, str], T], value: object, field: str) -> frozenset[T] | None:
    """Check a value or several, or none."""
    if value is None:
        return None
    choices = value if _is_collection(value) else (value,)
    if not choices:
        raise ValidationError(f"{field} must not be empty: nothing would ever pass", field=field)
    return frozenset(check(choice, field) for choice in choices)


def _requests(value: Numbers | None, field: str = "") -> frozenset[int] | None:
    return _set_of(validation.identifier, value, field)


def _currencies(value: Currencies | None, field: str = "") -> frozenset[int | str] | None:
    return _set_of(_currency, value, field)


def _where(where: Where | None, field: str = "") -> Where | None:
    _check_plain(where, field)
    return where


def _offer_where(where: OfferWhere | None, field: str = "") -> OfferWhere | None:
    _check_plain(where, field)
    return where


def _check_plain(where: object, field: str) -> None:
    if where is not None and not callable(where):
        raise ValidationError(f"where must be a function, not a {type(where).__name__}", field=field)
    for function in (where, type(where).__call__) if callable(where) else ():
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise _async_where()


def _async_where() -> ValidationError:
    return ValidationError("where must be a plain function, not an async one: nothing awaits its answer", field="where")


def _as_boolean(answer: object) -> bool:
    """Return the result of a predicate as a boolean; raise `ValidationError` if the result must be awaited."""
    # A lambda may return the coroutine of an async function, which would be true for every request.
    if hasattr(answer, "__await__") or hasattr(answer, "__aiter__"):
        if inspect.iscoroutine(answer):
            answer.close()
        raise _async_where()
    return bool(answer)


def _currency(value: int | str, field: str) -> int | str:
    if not isinstance(value, str):
        return validation.identifier(value, field)
    if (code := validation.three_letters(value)) is None:
        raise ValidationError(f"{field} must be an index or a code such as USD, not {value!r}", field=field)
    return code


def _any_of(check: Callable[[Any, str], str]) -> Callable[[object, str], frozenset[str] | None]:
    return partial(_set_of, lambda value, field: fold(check(value, field)))


def _type_word(value: str, field: str) -> str:
    if isinstance(value, Word) and not isinstance(value, RequestType):
        # Compared as text, it would exclude every request.
        raise ValidationError(f"{field} must be a RequestType or its word, not {value!r}", field=field)
    return validation.text(value, field)


def _last_moment(need_by: datetime, field: str) -> datetime:
    if isinstance(need_by, date) and not isinstance(need_by, datetime):
        return datetime.combine(need_by, time.max)
    if isinstance(need_by, datetime) and need_by.tzinfo is not None:
        problem = "need_by is compared with need_date, which has no zone: give the wall time, without tzinfo"
        raise ValidationError(problem, field=field)
    return validation.naive_datetime(need_by, field)


def _is_among(text: str, accepted: AbstractSet[str]) -> bool:
    folded = fold(text)
    return not folded or folded in accepted


def _kilograms(request: RateRequest) -> Decimal | None:
    factor = kilograms_per(request.mass_unit)
    return None if request.weight is None or factor is None else EXACT.multiply(request.weight, factor)


_RULES: Final[dict[str, tuple[Callable[[Any, str], Any], Callable[[RateRequest], Any], Callable[[Any, Any], bool]]]] = {
    "origin": (_any_of(validation.text), attrgetter("origin"), _is_among),
    "destination": (_any_of(validation.text), attrgetter("destination"), _is_among),
    "type": (_any_of(_type_word), attrgetter("type"), _is_among),
    "incoterm": (_any_of(validation.incoterm), attrgetter("incoterm"), _is_among),
    "commodity": (_any_of(validation.text), attrgetter("commodity"), _is_among),
    "hazardous": (validation.boolean, attrgetter("hazardous"), eq),
    "max_volume": (validation.amount, attrgetter("volume"), le),
    "max_weight": (validation.amount, _kilograms, le),
    "need_by": (_last_moment, attrgetter("need_date"), le),
}
"""Check of each field's argument, reader of the request, and comparison."""


def _prepared(filter_: RequestFilter) -> tuple[tuple[str, object], ...]:
    """Return the checked fields of a filter, in the form in which they are compared."""
    given = {name: value for name in _RULES if (value := getattr(filter_, name)) is not None}
    return tuple((name, _RULES[name][0](value, name)) for name, value in given.items())


@attrs.frozen(kw_only=True, eq=False, repr=False, field_transformer=validation.named)
class RequestFilter(ConciseRepr):
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

    origin: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    destination: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    type: RequestType | str | tuple[RequestType | str, ...] | None = attrs.field(
        default=None, eq=False, converter=_texts
    )
    incoterm: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    commodity: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    hazardous: bool | None = attrs.field(default=None, eq=False, converter=_hazardous)
    max_volume: Number | None = attrs.field(default=None, eq=False)
    max_weight: Number | None = attrs.field(default=None, eq=False)
    need_by: datetime | date | None = attrs.field(default=None, eq=False)
    where: Where | None = attrs.field(default=None, hash=False, converter=_where)
    # Prepared once, since a feed matches every record of every page.
    _wanted: tuple[tuple[str, object], ...] = attrs.field(
        init=False, repr=False, default=attrs.Factory(_prepared, takes_self=True)
    )

    def matches(self, request: RateRequest) -> bool:
        """Return whether the request passes."""
        return self.excluded_by(request) is None

    def excluded_by(self, request: RateRequest) -> str | None:
        """Return the first field, in the order above, that excludes the request; `None` if it passes.

        Raises:
            ValidationError: `where` turned out to be async.
        """
        for field, wanted in self._wanted:
            _, read, passes = _RULES[field]
            value = read(request)
            if value is not None and not passes(value, wanted):
                return field
        return "where" if self.where is not None and not _as_boolean(self.where(request)) else None


@attrs.frozen(kw_only=True, eq=False, repr=False, field_transformer=validation.named)
class OfferFilter(ConciseRepr):
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

    request: frozenset[int] | None = attrs.field(default=None, converter=_requests)
    origin: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    destination: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    commodity: str | tuple[str, ...] | None = attrs.field(default=None, eq=False, converter=_texts)
    currency: frozenset[int | str] | None = attrs.field(default=None, converter=_currencies)
    max_amount: Decimal | None = attrs.field(default=None, converter=_max_amount)
    where: OfferWhere | None = attrs.field(default=None, hash=False, converter=_offer_where)
    _freight: RequestFilter = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(
            lambda self: RequestFilter(origin=self.origin, destination=self.destination, commodity=self.commodity),
            takes_self=True,
        ),
    )
    _indexes: dict[str, int] = attrs.field(init=False, repr=False, eq=False, factory=dict)

    def __attrs_post_init__(self) -> None:
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
        return [one for one in self.currency or () if isinstance(one, str) and one not in self._indexes]

    def matches(self, offer: Offer, listing: Listing) -> bool:
        """Return whether the offer passes.

        Raises:
            ValidationError: `where` turned out to be async, or `load_codes` was not called for the codes of `currency`.
        """
        if self.request is not None and listing.index not in self.request:
            return False
        if self.currency is not None and offer.currency is not None:
            if unknown := self.unknown_codes:
                problem = f"the index of {unknown[0]} is not known: load_codes() looks it up"
                raise ValidationError(problem, field="currency")
            if offer.currency not in {self._indexes[one] if isinstance(one, str) else one for one in self.currency}:
                return False
        if self.max_amount is not None and offer.amount is not None and offer.amount > self.max_amount:
            return False
        if not self._freight.matches(cast("RateRequest", listing)):
            return False
        return self.where is None or _as_boolean(self.where(offer, listing))
