"""How one scalar of the wire is read: what is accepted, and the quick test that nothing needs accepting.

A reader comes twice. `quick` is code for the generated hook: it leaves the value in `v`, or raises for
whatever is not plain. `read` is the tolerant function that runs then, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from freight_exchange.models._base import NOTHING
from freight_exchange.models.enums import UnknownWord, Word
from freight_exchange.models.validation import NUMERAL
from freight_exchange.wire.json import EXACT, LARGEST_EXPONENT

__all__: list[str] = []

LARGEST_INTEGER: Final = 2**63
LARGEST_NUMBER: Final = 10 ** (LARGEST_EXPONENT + 1)

_FLAGS: Final = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}


class Misfit(ValueError):
    """A value that its field cannot hold: the field is `None`, and the original is kept beside it."""


class Unreadable(Exception):
    """A value that breaks its record: where in the record, and why.

    Attributes:
        field: The record's own field that it is the value of, or `None` where it lies deeper.
    """

    def __init__(self, path: str, reason: str, field: Field | None = None) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason
        self.field = field

    def under(self, step: str) -> Unreadable:
        return Unreadable(f"{step}.{self.path}" if self.path else step, self.reason)


class Reader(NamedTuple):
    """How one kind of scalar is read.

    Attributes:
        quick: Code that takes the plain value in `v` to what the record holds, or raises.
        read: The tolerant reading; raises `Misfit` for what is kept as it came, and `ValueError`, with the reason,
            for what breaks the record.
        names: What `quick` refers to.
    """

    quick: str
    read: Callable[[object], object]
    names: Mapping[str, object] = NOTHING


def text(value: object) -> str | None:
    """Text; a number or a truth value stands for its own spelling."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise ValueError(f"{kind(value)} where text is due")


def number(value: object) -> Decimal | None:
    """An exact number, from a number or numeric text; empty text says nothing."""
    if isinstance(value, str):
        stripped = value.strip()
        if not stripped:
            return None
        # `Decimal` alone would take underscores, other scripts' digits and infinity.
        if not NUMERAL.fullmatch(stripped):
            raise ValueError(f"{shown(value)} where a number is due")
        try:
            return EXACT.create_decimal(stripped)
        except ArithmeticError:
            raise ValueError("a number beyond any price or measure") from None
    if value is None or isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if -LARGEST_NUMBER < value < LARGEST_NUMBER:
            return Decimal(value)
        raise ValueError("a number beyond any price or measure")
    raise ValueError(f"{kind(value)} where a number is due")


def integer(value: object) -> int | None:
    """A whole number, from anything that `number` reads as one."""
    exact = number(value)
    if exact is None:
        return None
    # Read as a `Decimal` first: `int("1e30")` fails, and `int(1.5)` would lose the half.
    if exact != exact.to_integral_value() or not -LARGEST_INTEGER < exact < LARGEST_INTEGER:
        raise ValueError(f"{shown(str(exact))} where a whole number is due")
    return int(exact)


def quantity(value: object) -> int | None:
    """A count; half a unit, which the document's `number` allows, is no reason to lose a request."""
    exact = number(value)
    if exact is not None and exact != exact.to_integral_value():
        raise Misfit
    return integer(exact)


def flag(value: object) -> bool | None:
    """A truth value, from 0 and 1, their text, or a word in any case; empty text says nothing."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, Decimal)) and value in (0, 1):
        return value == 1
    word = (text(value) or "").strip().casefold()
    if not word:
        return None
    if word not in _FLAGS:
        raise Misfit
    return _FLAGS[word]


def moment(value: object) -> datetime | None:
    """A date-time without a zone, or `None` with nothing said."""
    if value is None:
        return None
    # Digits alone are seconds or milliseconds since 1970, and 1712011530000 would be read as a day of 1712.
    if not isinstance(value, str) or value.strip().isdecimal():
        raise Misfit
    try:
        read = datetime.fromisoformat(value.strip())
    except ValueError:
        raise Misfit from None
    if read.tzinfo is not None:
        # The service's times have no zone; dropping one would move the moment.
        raise Misfit
    return read


class Words(dict[object, Word | UnknownWord | None]):
    """Every spelling of an enum's words that is likely, to be found in one look-up; others are worked out."""

    def __init__(self, members: Iterable[Word]) -> None:
        super().__init__({None: None})
        for member in members:
            word = member.value
            self.update(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()), member))
        self._folded: Final = {member.value.casefold(): member for member in members}

    def __missing__(self, word: object) -> Word | UnknownWord | None:
        # Not stored: what a server may write in a field has no bound.
        if not isinstance(word, str):
            raise TypeError
        return self._folded.get(word.strip().casefold()) or UnknownWord(word) if word else None


def place(key: str) -> int:
    """The place in a collection that a key names, or -1 for one that names none."""
    # Longer ones are no place in a list, and Python refuses to read the longest.
    return int(key) if len(key) <= 18 and key.isascii() and key.isdecimal() else -1


def kind(value: object) -> str:
    """What a value is in JSON's terms; the value itself may be large, or not for every eye."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return {bool: "a truth value", str: "text", type(None): "null"}.get(type(value), "a number")


def shown(value: object) -> str:
    """A scalar, short enough for a sentence."""
    if not isinstance(value, str):
        return kind(value)
    return repr(value if len(value) <= 40 else f"{value[:37]}...")


def _plain_number(value: object) -> Decimal | None:
    # Text that holds a number is the tolerant reading's.
    if isinstance(value, int) and not isinstance(value, bool) and -LARGEST_NUMBER < value < LARGEST_NUMBER:
        return Decimal(value)
    if value is None:
        return None
    raise TypeError


def _plain_integer(value: object) -> int | None:
    # The document itself has identifiers as text.
    if value is None:
        return None
    if isinstance(value, str) and (whole := place(value)) >= 0:
        return whole
    raise TypeError


class Field(NamedTuple):
    """A field of a record: how it is read, and under which keys, the most usual first."""

    name: str
    reader: Reader
    keys: tuple[str, ...]
    required: bool = False

    def key_in(self, raw: Mapping[str, object]) -> str:
        """Return the key that the record has the field under."""
        keys = self.keys
        if len(keys) > 1:
            for key in keys:
                if raw.get(key) is not None:
                    return key
        return keys[0]

    def read(self, key: str, value: object, extra: dict[str, object]) -> object:
        """Read the value; one that does not fit the field is `None`, and the original goes to `extra`.

        Raises:
            Unreadable: It breaks its record.
        """
        fault = None
        if isinstance(value, (dict, list)):
            fault = f"{kind(value)} where one value is due"
        else:
            try:
                read = self.reader.read(value)
            except Misfit:
                extra[key] = value
                return None
            except ValueError as error:
                fault = str(error)
            else:
                if read is not None or not self.required:
                    return read
                fault = "missing"
        raise Unreadable(key, fault, self)

    def breaks(self, raw: Mapping[str, object]) -> bool:
        """Return whether this field alone makes the record unreadable."""
        value = raw.get(self.key_in(raw))
        if isinstance(value, (dict, list)):
            return True
        try:
            return self.reader.read(value) is None and self.required
        except Misfit:
            return False
        except ValueError:
            return True


TEXT: Final = Reader("if v.__class__ is not str and v is not None: raise TypeError", text)
NUMBER: Final = Reader(
    # Most whole numbers are small, and a call for each would take as long as all the rest of it.
    f"if v.__class__ is not Decimal:\n"
    f"    v = Decimal(v) if v.__class__ is int and {-LARGEST_INTEGER} < v < {LARGEST_INTEGER} else plain_number(v)",
    number,
    {"Decimal": Decimal, "plain_number": _plain_number},
)
INTEGER: Final = Reader(
    f"if v.__class__ is not int: v = plain_integer(v)\n"
    f"elif not {-LARGEST_INTEGER} < v < {LARGEST_INTEGER}: raise TypeError",
    integer,
    {"plain_integer": _plain_integer},
)
QUANTITY: Final = INTEGER._replace(read=quantity)
FLAG: Final = Reader("v = flags[v]", flag, {"flags": {0: False, 1: True, None: None}})
MOMENT: Final = Reader(
    "if v is not None:\n"
    "    read = fromisoformat(v)\n"
    "    if read.tzinfo is not None or v[4] != '-': raise TypeError\n"
    "    v = read",
    moment,
    {"fromisoformat": datetime.fromisoformat},
)


def word(members: type[Word]) -> Reader:
    """The reader of an enum's words: the member, or the word as it is where it is unknown."""
    words = Words(members)
    name = f"words_of_{members.__name__}"
    return Reader(f"v = {name}[v]", lambda value: words[text(value)], {name: words})
