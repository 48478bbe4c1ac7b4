"""Filter of rate requests."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeGuard

import attrs

from freight_exchange.models import units, validation
from freight_exchange.models._base import EXACT
from freight_exchange.models.enums import RequestType, Word
from freight_exchange.models.request import RateRequest
from freight_exchange.models.validation import Number
from freight_exchange.platform.errors import ValidationError
from freight_exchange.platform.text import fold

__all__ = ["RequestFilter", "Texts", "Types", "Where", "as_boolean", "plain_function"]

Texts: TypeAlias = str | AbstractSet[str] | Sequence[str]
"""A text, or a set or sequence of alternatives."""

Types: TypeAlias = RequestType | str | AbstractSet[RequestType | str] | Sequence[RequestType | str]
"""A mode of transport, as a member or its word in any case, or a set or sequence of alternatives."""

Where: TypeAlias = Callable[[RateRequest], bool]
"""A predicate by the caller."""


@attrs.frozen(kw_only=True, init=False, eq=False, repr=False)
class RequestFilter:
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

    Each argument is an attribute. Collections become tuples; sets become sorted tuples.

    Raises:
        ValidationError: A value is invalid, or a collection is empty, which would exclude all requests; `field`
            names it.
    """

    origin: str | tuple[str, ...] | None
    destination: str | tuple[str, ...] | None
    type: RequestType | str | tuple[RequestType | str, ...] | None
    incoterm: str | tuple[str, ...] | None
    commodity: str | tuple[str, ...] | None
    hazardous: bool | None
    max_volume: Number | None
    max_weight: Number | None
    need_by: datetime | date | None
    where: Where | None
    _wanted: tuple[tuple[str, object], ...] = attrs.field(init=False)

    def __init__(
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
    ) -> None:
        # Prepared once, since a feed matches every record of every page.
        wanted = {
            "origin": _any_of(origin, "origin", validation.text),
            "destination": _any_of(destination, "destination", validation.text),
            "type": _any_of(type, "type", _type_word),
            "incoterm": _any_of(incoterm, "incoterm", validation.incoterm),
            "commodity": _any_of(commodity, "commodity", validation.text),
            "hazardous": None if hazardous is None else validation.boolean(hazardous, "hazardous"),
            "max_volume": None if max_volume is None else validation.amount(max_volume, "max_volume"),
            "max_weight": None if max_weight is None else validation.amount(max_weight, "max_weight"),
            "need_by": None if need_by is None else _last_moment(need_by),
        }
        validation.set_fields(
            self,
            {
                "origin": _copied(origin),
                "destination": _copied(destination),
                "type": _copied(type),
                "incoterm": _copied(incoterm),
                "commodity": _copied(commodity),
                "hazardous": wanted["hazardous"],
                "max_volume": max_volume,
                "max_weight": max_weight,
                "need_by": need_by,
                "where": None if where is None else plain_function(where),
                "_wanted": tuple((field, value) for field, value in wanted.items() if value is not None),
            },
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
            read, passes = _RULES[field]
            value = read(request)
            if value is not None and not passes(value, wanted):
                return field
        if self.where is not None and not as_boolean(self.where(request)):
            return "where"
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestFilter):
            return NotImplemented
        return self._wanted == other._wanted and self.where == other.where

    def __hash__(self) -> int:
        # Without `where`, which may be an object that is not hashable.
        return hash(self._wanted)

    def __repr__(self) -> str:
        fields = {field: getattr(self, field) for field in (*_RULES, "where")}
        parts = ", ".join(f"{field}={value!r}" for field, value in fields.items() if value is not None)
        return f"RequestFilter({parts})"


def _is_among(text: str, accepted: AbstractSet[str]) -> bool:
    folded = fold(text)
    return not folded or folded in accepted


def _kilograms(request: RateRequest) -> Decimal | None:
    factor = units.kilograms_per(request.mass_unit)
    return None if request.weight is None or factor is None else EXACT.multiply(request.weight, factor)


_RULES: Final[dict[str, tuple[Callable[[RateRequest], Any], Callable[[Any, Any], bool]]]] = {
    "origin": (operator.attrgetter("origin"), _is_among),
    "destination": (operator.attrgetter("destination"), _is_among),
    "type": (operator.attrgetter("type"), _is_among),
    "incoterm": (operator.attrgetter("incoterm"), _is_among),
    "commodity": (operator.attrgetter("commodity"), _is_among),
    "hazardous": (operator.attrgetter("hazardous"), operator.eq),
    "max_volume": (operator.attrgetter("volume"), operator.le),
    "max_weight": (_kilograms, operator.le),
    "need_by": (operator.attrgetter("need_date"), operator.le),
}
"""Reader and comparison of each field."""


def _any_of(value: object, field: str, check: Callable[[object, str], str]) -> frozenset[str] | None:
    if value is None:
        return None
    choices = value if _is_collection(value) else (value,)
    if not choices:
        raise ValidationError(f"{field} must not be empty: no request would ever pass", field=field)
    return frozenset(fold(check(choice, field)) for choice in choices)


def _is_collection(value: object) -> TypeGuard[AbstractSet[object] | Sequence[object]]:
    # Text is a sequence of its characters, and bytes one of numbers.
    return isinstance(value, (AbstractSet, Sequence)) and not isinstance(value, (str, bytes, bytearray))


def _copied(value: object) -> object:
    """Copy a collection; a set sorted, so that its repr is the same in every process."""
    if isinstance(value, AbstractSet):
        return tuple(sorted(value))
    return tuple(value) if _is_collection(value) else value


def _type_word(value: object, field: str) -> str:
    if isinstance(value, Word) and not isinstance(value, RequestType):
        # Compared as text, it would exclude every request.
        raise ValidationError(f"{field} must be a RequestType or its word, not {value!r}", field=field)
    return validation.text(value, field)


def _last_moment(need_by: object) -> datetime:
    if isinstance(need_by, datetime):
        if need_by.tzinfo is not None:
            raise ValidationError(
                "need_by is compared with need_date, which has no zone: give the wall time, without tzinfo",
                field="need_by",
            )
        return need_by
    if isinstance(need_by, date):
        return datetime.combine(need_by, time.max)
    raise ValidationError(f"need_by must be a datetime or a date, not a {type(need_by).__name__}", field="need_by")


def plain_function(where: object) -> object:
    """Return a predicate of the caller; raise `ValidationError` if it is not a function, or async."""
    if not callable(where):
        raise ValidationError(
            f"where must be a function, not a {type(where).__name__}",
            field="where",
        )
    for function in (where, type(where).__call__):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise _async_where()
    return where


def as_boolean(answer: object) -> bool:
    """Return the result of a predicate as a boolean; raise `ValidationError` if the result must be awaited."""
    if answer is True or answer is False:
        return answer
    # A lambda may return the coroutine of an async function, which would be true for every request.
    if inspect.iscoroutine(answer):
        answer.close()
        raise _async_where()
    if inspect.isawaitable(answer) or inspect.isasyncgen(answer):
        raise _async_where()
    return bool(answer)


def _async_where() -> ValidationError:
    return ValidationError("where must be a plain function, not an async one: nothing awaits its answer", field="where")
