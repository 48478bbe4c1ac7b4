"""Structure hooks for the scalars of the wire: they accept all known spellings, and refuse others with a reason.

A hook receives a value that is not null, and its class, which it ignores. It raises `Misfit` for a harmless value that
does not suit the field, and `ValueError` for a value that makes the record unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final

from freight_exchange.models.enums import UnknownWord, Word
from freight_exchange.models.validation import NUMERAL
from freight_exchange.wire.json import EXACT, MAX_EXPONENT

__all__: list[str] = []

MAX_INTEGER: Final = 2**63
MAX_NUMBER: Final = 10 ** (MAX_EXPONENT + 1)

_FLAGS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}


class Misfit(ValueError):
    """A value does not suit its field: the field becomes `None`, and the value goes to `extra`."""


class UnreadableRecordError(Exception):
    """A value makes its record unreadable; the error has its place in the record and the reason.

    Attributes:
        field: The field of the record with this value; `None` for a value in a nested record.
    """

    def __init__(self, path: str, reason: str, field: str | None = None) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.field = field

    def under(self, step: str) -> UnreadableRecordError:
        return UnreadableRecordError(f"{step}.{self.path}" if self.path else step, self.reason)


def text(value: object, _: object = None) -> str:
    """Read text, also from a number or a boolean."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise ValueError(f"{kind(value)} where text is expected")


def number(value: object, _: object = None) -> Decimal | None:
    """Read an exact number, from a number or numeric text; empty text means no value."""
    if value is None or isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if -MAX_NUMBER < value < MAX_NUMBER:
            return Decimal(value)
        raise ValueError("a number out of range")
    if not isinstance(value, str):
        raise ValueError(f"{kind(value)} where a number is expected")  # noqa: TRY004  # a record's error, no caller's
    stripped = value.strip()
    if not stripped:
        return None
    # `Decimal` alone would accept underscores, digits of other scripts, and infinity.
    if not NUMERAL.fullmatch(stripped):
        raise ValueError(f"{format_scalar(value)} where a number is expected")
    try:
        return EXACT.create_decimal(stripped)
    except ArithmeticError:
        raise ValueError("a number out of range") from None


def integer(value: object, _: object = None) -> int | None:
    """Read a whole number, in any spelling that `number` accepts."""
    if type(value) is int and -MAX_INTEGER < value < MAX_INTEGER:
        return value
    exact = number(value)
    if exact is None:
        return None
    # Read as a `Decimal` first, since `int("1e30")` fails and `int(1.5)` loses the half.
    if exact != exact.to_integral_value() or not -MAX_INTEGER < exact < MAX_INTEGER:
        raise ValueError(f"{format_scalar(str(exact))} where a whole number is expected")
    return int(exact)


def quantity(value: object, _: object = None) -> int | None:
    """Read a count. A fraction of a unit, which the document's `number` allows, must not break the request."""
    if type(value) is int:
        return integer(value)
    exact = number(value)
    if exact is not None and exact != exact.to_integral_value():
        raise Misfit
    return integer(exact)


def flag(value: object, _: object = None) -> bool | None:
    """Read a boolean, from 0 and 1, their text, or a word in any case; empty text means no value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, Decimal)) and value in (0, 1):
        return value == 1
    word = text(value).strip().casefold()
    if not word:
        return None
    if word not in _FLAGS:
        raise Misfit
    return _FLAGS[word]


def date_time(value: object, _: object = None) -> datetime:
    """Read a date-time without a zone."""
    # Digits alone are seconds or milliseconds since 1970, but would be read as a date: 1712011530000 as a day of 1712.
    if not isinstance(value, str) or value.strip().isdecimal():
        raise Misfit
    try:
        read = datetime.fromisoformat(value.strip())
    except ValueError:
        raise Misfit from None
    if read.tzinfo is not None:
        # Times of the service have no zone. Without its zone this would be another moment.
        raise Misfit
    return read


class Words(dict[object, Word | UnknownWord | None]):
    """Enum members by the likely spellings of their words; other spellings are computed."""

    def __init__(self, members: Iterable[Word]) -> None:
        super().__init__({None: None})
        for member in members:
            word = member.value
            self.update(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()), member))
        self._folded: Final = {member.value.casefold(): member for member in members}

    def __missing__(self, word: object) -> Word | UnknownWord | None:
        # Not stored, since a server may send any number of words.
        if not isinstance(word, str):
            raise TypeError
        return self._folded.get(word.strip().casefold()) or UnknownWord(word) if word else None


def position_of(key: str) -> int:
    """Return the position in a collection that a key names, or -1 if it names none."""
    # A longer number is not a position, and Python refuses to convert very long ones.
    return int(key) if len(key) <= 18 and key.isascii() and key.isdecimal() else -1


def kind(value: object) -> str:
    """Return the name of a value's JSON type, for messages: the value itself may be large or secret."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return {bool: "a boolean", str: "text", type(None): "null"}.get(type(value), "a number")


def format_scalar(value: object) -> str:
    """Format a scalar, short enough for a sentence."""
    if not isinstance(value, str):
        return kind(value)
    return repr(value if len(value) <= 40 else f"{value[:37]}...")


def word(members: type[Word]) -> Callable[[object, object], Word | UnknownWord | None]:
    """Make the hook of an enum: it returns the member, or an unknown word as received."""
    words = Words(members)

    def hook(value: object, _: object = None) -> Word | UnknownWord | None:
        return words[value if type(value) is str else text(value)]

    return hook
