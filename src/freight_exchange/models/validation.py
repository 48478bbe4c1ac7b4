"""What can be said about an argument before anything is sent.

Each check takes the value and the name of the field or argument, and returns the value as it will be used, or
raises a `ValidationError` that names the field and says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from freight_exchange.models._base import FrozenMapping
from freight_exchange.models.enums import Word
from freight_exchange.platform.errors import ValidationError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = [
    "LONGEST_WINDOW",
    "NUMERAL",
    "Number",
    "amount",
    "count",
    "flag",
    "identifier",
    "incoterm",
    "known_zone",
    "naive",
    "one_of",
    "page_size",
    "rates",
    "text",
    "timezone",
    "window",
    "zoned",
]

Number: TypeAlias = Decimal | int | float | str
"""What an amount or a measure may be given as; a float is read through its `repr`."""

LONGEST_WINDOW: Final = timedelta(days=5)
"""The most that `secondsSinceUpdate` may say (service document, 8)."""

_LARGEST_EXPONENT: Final = 30
_MOST_DIGITS: Final = 60
NUMERAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
"""A number as text, as forms and the service write it."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

Choice = TypeVar("Choice", bound=Word)


def amount(value: object, field: str) -> Decimal:
    """A positive, finite number as an exact `Decimal`."""
    number = _number(value, field)
    if number <= 0:
        raise ValidationError(f"{field} must be greater than zero, not {_shown(value)}", field=field)
    return number


def rates(value: object, field: str = "rates") -> Mapping[str, Decimal]:
    """Itemised fees by name. A fee may be zero, or negative for a discount."""
    if not isinstance(value, Mapping):
        raise ValidationError(f"{field} must map fee names to amounts, not {_shown(value)}", field=field)
    fees: dict[str, Decimal] = {}
    for name, fee in value.items():
        if not isinstance(name, str) or not name.strip():
            raise ValidationError(f"{field} needs a name for each fee, not {_shown(name)}", field=field)
        fee_name = text(name, field)
        fees[fee_name] = _number(fee, f"{field}[{fee_name!r}]", field)
    return FrozenMapping(fees)


def identifier(value: object, field: str) -> int:
    """The index of a record: a positive `int`. Text is refused, as most often it is a reference code."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValidationError(f"{field} must be a positive integer, not {_shown(value)}", field=field)
    return int(value)


def count(value: object, field: str) -> int:
    """How many: a positive `int`."""
    return identifier(value, field)


def page_size(value: object, field: str = "page_size") -> int:
    """How many records to ask for at once: a positive `int`. The service's own maximum is not documented."""
    return identifier(value, field)


def window(since: timedelta | None = None, field: str = "since") -> int:
    """Seconds since the last update, rounded up; five days unless told, the most that the service allows."""
    if since is None:
        since = LONGEST_WINDOW
    if not isinstance(since, timedelta):
        raise ValidationError(f"{field} must be a timedelta, not {_shown(since)}", field=field)
    if since <= timedelta(0):
        raise ValidationError(f"{field} must be longer than zero, not {since}", field=field)
    if since > LONGEST_WINDOW:
        raise ValidationError(f"{field} must be at most five days, which is all that the service lists", field=field)
    return -(-since // timedelta(seconds=1))


def one_of(value: object, choices: type[Choice], field: str) -> Choice:
    """A member of an enum, given itself or by its word in any case."""
    if isinstance(value, choices):
        return value
    # A member of another enum may spell the same word and mean something else.
    if isinstance(value, str) and not isinstance(value, Word):
        try:
            return choices(value)
        except ValueError:
            pass
    words = ", ".join(repr(member.value) for member in choices)
    raise ValidationError(f"{field} must be one of {words}, not {_shown(value)}", field=field)


def text(value: object, field: str, *, empty: bool = False) -> str:
    """Text that can be sent as UTF-8 and, unless `empty` is allowed, says something."""
    if not isinstance(value, str):
        raise ValidationError(f"{field} must be text, not {_shown(value)}", field=field)
    if not empty and not value.strip():
        raise ValidationError(f"{field} must not be empty", field=field)
    if _SURROGATE.search(value):
        raise ValidationError(f"{field} holds half a character (a lone surrogate), which cannot be sent", field=field)
    return str(value)


def incoterm(value: object, field: str = "incoterm") -> str:
    """Three ASCII letters, in upper case. Which ones there are is not checked: the rules are revised."""
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{3}", value):
        raise ValidationError(f"{field} must be three letters such as 'FOB', not {_shown(value)}", field=field)
    return value.upper()


def flag(value: object, field: str) -> bool:
    """A `bool`; the service's own 0 and 1 are understood."""
    if value is True or value is False:
        return value
    if isinstance(value, int) and value in {0, 1}:
        return bool(value)
    raise ValidationError(f"{field} must be True or False, not {_shown(value)}", field=field)


def naive(value: object, field: str) -> datetime:
    """A `datetime` without a zone, as the service compares and stores it."""
    moment = _moment(value, field)
    if moment.tzinfo is not None:
        raise ValidationError(
            f"{field} has no zone to go to: give the wall time, without tzinfo",
            field=field,
        )
    return moment


def zoned(value: object, zone: ZoneInfo, field: str) -> datetime:
    """The moment in the zone: a naive value is the zone's wall time, an aware one is converted.

    An ambiguous wall time is the first of the two. One that a clock change skips is kept as written: it is
    the service that reads it.
    """
    moment = _moment(value, field)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=zone, fold=0)
    try:
        return moment.astimezone(zone)
    except OverflowError:
        raise ValidationError(f"{field} is beyond the calendar in the route's zone", field=field) from None


def timezone(value: object, field: str = "timezone") -> ZoneInfo:
    """The zone of that name."""
    name = text(value, field)
    zone = known_zone(name)
    if zone is None:
        raise ValidationError(
            f"{field} must be the name of a known time zone such as 'Asia/Hong_Kong', not {_shown(name)}",
            field=field,
        )
    return zone


# Looking for a zone that does not exist searches the file system each time; a listing would pay that per
# record.
@lru_cache(maxsize=1024)
def known_zone(name: str) -> ZoneInfo | None:
    """The zone of that name, or `None` where this system knows none."""
    # Imported when a route is read: no other part of the package needs the zones.
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A folder's name ("Asia") or one that leaves the zones' folder is an OSError or a ValueError.
        return None


def fill(draft: object, values: Mapping[str, object]) -> None:
    """Set the fields of a frozen draft whose `__init__` checked them."""
    for name, value in values.items():
        object.__setattr__(draft, name, value)


def _moment(value: object, field: str) -> datetime:
    if not isinstance(value, datetime):
        raise ValidationError(f"{field} must be a datetime, not {_shown(value)}", field=field)
    return value


def _number(value: object, field: str, named: str | None = None) -> Decimal:
    named = field if named is None else named
    number = _decimal(value)
    if number is None or not number.is_finite():
        raise ValidationError(
            f"{field} must be a finite number (Decimal, int, float or numeric text), not {_shown(value)}",
            field=named,
        )
    exponent = number.as_tuple().exponent
    if (
        number.adjusted() > _LARGEST_EXPONENT
        or (isinstance(exponent, int) and abs(exponent) > _MOST_DIGITS)
        or (number and number.adjusted() < -_LARGEST_EXPONENT)
        or len(number.as_tuple().digits) > _MOST_DIGITS
    ):
        raise ValidationError(f"{field} is beyond any price or measure: {_shown(value)}", field=named)
    return number


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        # The shortest text that reads back as the same float is what its author wrote; 1840.1 is not
        # 1840.0999...
        return Decimal(float.__repr__(value))
    if isinstance(value, (Decimal, int)):
        return Decimal(value)
    if isinstance(value, str) and NUMERAL.fullmatch(value.strip()):
        try:
            return Decimal(value.strip())
        except InvalidOperation:
            return None
    return None


def _shown(value: object) -> str:
    if value is None or isinstance(value, (bool, float, Decimal, str)):
        shown = repr(value)
    elif isinstance(value, int):
        # Python refuses to write integers of thousands of digits.
        shown = repr(value) if abs(value) < 10**30 else "a huge integer"
    else:
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
