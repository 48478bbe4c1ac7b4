"""Checks of arguments before anything is sent.

Each check takes a value and the name of its field or argument. It returns the value in the form in which it is used,
or raises a `ValidationError` that names the field.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Clamped, Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded, Subnormal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from freight_exchange.base import FrozenMapping, ValidationError
from freight_exchange.words import Word

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Number: TypeAlias = Decimal | int | float | str
"""Types of an amount or a measure. A float is read as its `repr`, of 15 digits at most: more are a rounding error."""

MAX_WINDOW: Final = timedelta(days=5)
"""The maximum of `secondsSinceUpdate` (service document, 8)."""

MAX_EXPONENT: Final = 30
MAX_DIGITS: Final = 60
NUMERAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
"""A number as text, as forms and the service write it."""

# With traps this context refuses inexact numbers, as quickly as `Decimal` itself. So `1e999` never becomes a number
# that needs a gigabyte to print.
BOUNDED: Final = Context(
    prec=MAX_DIGITS,
    Emax=MAX_EXPONENT,
    Emin=-MAX_EXPONENT,
    traps=[Clamped, Inexact, InvalidOperation, Overflow, Rounded, Subnormal],
)

Choice = TypeVar("Choice", bound=Word)
T = TypeVar("T")


def named(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Give the converters of a draft or filter, which are checks, the names of their fields."""

    def checked(field: attrs.Attribute[Any]) -> attrs.Attribute[Any]:
        check: Any = field.converter
        return field.evolve(converter=attrs.Converter(lambda value: check(value, field.name))) if check else field

    return [checked(field) for field in fields]


def _wrong(field: str, wanted: str, value: object) -> ValidationError:
    return ValidationError(f"{field} must be {wanted}, not {describe(value)}", field=field.partition("[")[0])


# Numbers


def amount(value: Number, field: str = "") -> Decimal:
    checked = number(value, field)
    if checked <= 0:
        raise _wrong(field, "greater than zero", value)
    return checked


def number(value: object, field: str) -> Decimal:
    # `repr` of a float has the digits that the author wrote: 1840.1, and not 1840.0999...
    exact: object = float.__repr__(value) if isinstance(value, float) else value
    if isinstance(exact, str):
        exact = Decimal(exact.strip()) if NUMERAL.fullmatch(exact.strip()) else None
    if not isinstance(exact, Decimal | int) or isinstance(exact, bool) or not Decimal(exact).is_finite():
        raise _wrong(field, "a number such as 1840.50", value)
    if isinstance(value, float) and float(rounded := f"{value:.15g}") != value:
        # More digits than a float holds exactly: 0.1 + 0.2 would be sent as 0.30000000000000004.
        problem = f"{field} is the float {value!r}, which has a rounding error: round it, for example to {rounded}"
        raise ValidationError(f"{problem}, or give a Decimal", field=field.partition("[")[0])
    try:
        return BOUNDED.create_decimal(exact)
    except ArithmeticError:
        raise ValidationError(f"{field} is out of range: {describe(value)}", field=field.partition("[")[0]) from None


def rates(value: object, field: str = "rates") -> Mapping[str, Decimal]:
    """Return itemised fees by name. A fee may be zero, or negative for a discount."""
    if not isinstance(value, Mapping):
        raise ValidationError(f"{field} must map fee names to amounts, not {describe(value)}", field=field)
    fees: dict[str, Decimal] = {}
    for name, fee in value.items():
        if not isinstance(name, str) or not name.strip():
            raise ValidationError(f"{field} needs a name for each fee, not {describe(name)}", field=field)
        fees[text(name, field)] = number(fee, f"{field}[{name!r}]")
    return FrozenMapping(fees)


def identifier(value: int, field: str = "") -> int:
    """Return the index of a record or a count, a positive `int`. Text is refused: it is usually a reference code."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise _wrong(field, "a positive integer", value)
    return int(value)


def boolean(value: bool, field: str = "") -> bool:
    if isinstance(value, int) and value in {0, 1}:
        return bool(value)
    raise _wrong(field, "True or False", value)


def window_seconds(since: timedelta | None = None, field: str = "since") -> int:
    """Return seconds since the last update, rounded up; by default five days, the maximum of the service."""
    since = MAX_WINDOW if since is None else since
    if not isinstance(since, timedelta):
        raise _wrong(field, "a timedelta", since)
    if since <= timedelta(0):
        raise ValidationError(f"{field} must be longer than zero, not {since}", field=field)
    if since > MAX_WINDOW:
        raise ValidationError(f"{field} must be at most five days, which is all that the service lists", field=field)
    return -(-since // timedelta(seconds=1))


# Text


def text(value: str, field: str = "", *, allow_empty: bool = False) -> str:
    """Return text that can be sent as UTF-8 and is not blank, unless that is allowed."""
    if not isinstance(value, str):
        raise _wrong(field, "text", value)
    if not allow_empty and not value.strip():
        raise ValidationError(f"{field} must not be empty", field=field)
    try:
        value.encode()
    except UnicodeEncodeError:
        message = f"{field} holds half a character (a lone surrogate), which cannot be sent"
        raise ValidationError(message, field=field) from None
    return str(value)


def notes(value: str | None, field: str = "") -> str | None:
    return None if value is None else text(value, field, allow_empty=True)


def member(choices: type[Choice], value: object, field: str) -> Choice:
    """Return a member of an enum, given itself or by its word in any case."""
    # A member of another enum is refused: it may have the same word with another meaning.
    if isinstance(value, choices) or (isinstance(value, str) and not isinstance(value, Word)):
        with contextlib.suppress(ValueError):
            return choices(value)
    raise _wrong(field, f"one of {', '.join(repr(choice.value) for choice in choices)}", value)


def incoterm(value: str, field: str = "") -> str:
    """Return three ASCII letters in upper case. Unknown Incoterms are accepted, since new ones are published."""
    return _three_letters(value, field, "FOB")


def currency_code(value: object, field: str) -> str:
    """Return three ASCII letters in upper case."""
    return _three_letters(value, field, "USD")


def _three_letters(value: object, field: str, example: str) -> str:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha():
        return value.upper()
    raise _wrong(field, f"three letters such as {example}", value)


# Times


def naive_datetime(value: datetime, field: str = "") -> datetime:
    """Return a `datetime` without a zone, as the service compares and stores it."""
    time = _datetime(value, field)
    if time.tzinfo is not None:
        raise ValidationError(f"{field} must have no zone: give the wall time, without tzinfo", field=field)
    return time


def zoned_datetime(value: object, zone: ZoneInfo, field: str) -> datetime:
    """Return the time in the zone: a naive value is the zone's wall time, an aware one is converted.

    An ambiguous wall time is the earlier one; the later one is refused, since the service's times have no offset.
    A time that a clock change skips is kept, as the service accepts it.
    """
    time = _datetime(value, field)
    if time.tzinfo is None:
        return time.replace(tzinfo=zone, fold=0)
    try:
        zoned = time.astimezone(zone)
        is_repeated = zoned.astimezone(UTC) > zoned.replace(fold=0).astimezone(UTC)
    except OverflowError:
        raise ValidationError(f"{field} is beyond the calendar in the route's zone", field=field) from None
    if is_repeated:
        problem = f"{field} is in an hour that a clock change repeats, and would be read as an hour earlier"
        raise ValidationError(problem, field=field)
    return zoned


def timezone(value: str, field: str = "timezone") -> ZoneInfo:
    zone = find_zone(text(value, field))
    if zone is None:
        raise _wrong(field, "the name of a known time zone such as 'Asia/Hong_Kong'", value)
    return zone


# Cached, since the search for a missing zone reads the file system, and would do so for each record of a listing.
@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo | None:
    """Return the zone with this name, or `None` if this system has none."""
    # Imported here, as only routes need it.
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # OSError for a folder ("Asia"), ValueError for a path outside of the zones' folder.
        return None


def _datetime(value: object, field: str) -> datetime:
    # pandas' NaT is a `datetime` too, and equals nothing, not even itself.
    if not isinstance(value, datetime) or value != value:
        raise _wrong(field, "a datetime", value)
    # A subclass, as pandas' Timestamp, may have more digits than a second has.
    time = value.time().replace(tzinfo=value.tzinfo, fold=value.fold)
    return datetime.combine(date(value.year, value.month, value.day), time)


def describe(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**30:
        # Python cannot write integers of thousands of digits.
        return "a huge integer"
    if not isinstance(value, (Decimal, int, float, str, type(None))):
        return f"a {type(value).__name__}"
    description = str(value) if isinstance(value, Decimal) else repr(value)
    return description if len(description) <= 60 else f"{description[:57]}..."
