"""Validation of parameters: the first invalid one causes a 400, as at a real server."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from freight_sandbox.records import Number

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\Z", re.ASCII)
_INCOTERM = re.compile(r"[A-Z]{3}\Z")
# With a larger exponent the server might write a billion digits.
_MAX_EXPONENT = 30


class Refusal(Exception):
    """Refusal of a call. `field` is the invalid parameter; `key` replaces the key of the sentence in the reply."""

    def __init__(self, status: int, sentence: str, field: str = "", *, key: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.field = field
        self.key = key


class Fields:
    """Parameters of a call. Each reader takes a name and raises `Refusal` if the value is invalid.

    `ids` is the JSON type that identifiers in the body must have: `int`, `str` or `any`.
    """

    __slots__ = ("_ids", "_query", "_values")

    def __init__(self, values: Mapping[str, Any], query: Mapping[str, str], ids: str = "any") -> None:
        self._values = values
        self._query = query
        self._ids = ids

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> Any:
        """Return the raw value from the body, or else from the query."""
        value = self._values.get(name)
        return self._query.get(name) if value is None else value

    def merged(self) -> Mapping[str, Any]:
        return {**self._query, **self._values}

    def required(self, name: str) -> Any:
        value = self.get(name)
        if value is None or value == "":
            raise Refusal(400, f"The field {name} is required.", name)
        return value

    def text(self, name: str) -> str:
        value = self.required(name)
        if not isinstance(value, str) or not value.strip():
            raise Refusal(400, f"The field {name} must be a text.", name)
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise Refusal(400, f"The field {name} must be a text.", name)
        return value

    def word(self, name: str, words: Collection[str]) -> str:
        value = self.text(name)
        if value not in words:
            raise Refusal(400, f"The field {name} must be one of {', '.join(sorted(words))}.", name)
        return value

    def optional_word(self, name: str, words: Collection[str], default: str) -> str:
        return self.word(name, words) if name in self else default

    def incoterm(self, name: str) -> str:
        value = self.text(name)
        if not _INCOTERM.match(value):
            raise Refusal(400, f"The field {name} must be a 3-letter Incoterm.", name)
        return value

    def date(self, name: str) -> str:
        value = self.text(name)
        try:
            if not _DATE.match(value):
                raise ValueError
            dt.datetime.fromisoformat(value)
        except ValueError:
            raise Refusal(400, f"The field {name} must be a date-time, YYYY-MM-DD HH:mm:ss.", name) from None
        return value

    def integer(self, name: str, *, least: int | None = None, most: int | None = None) -> int:
        value = self.required(name)
        if isinstance(value, str) and _INTEGER.match(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 10**18:
            raise Refusal(400, f"The field {name} must be an integer.", name)
        if (least is not None and value < least) or (most is not None and value > most):
            raise Refusal(400, f"The field {name} is out of range.", name)
        return value

    def identifier(self, name: str) -> int:
        """Read the index of a record. A query string has only text, so its JSON type does not count."""
        wanted = {"int": int, "str": str}.get(self._ids)
        if wanted is not None and name in self._values and not isinstance(self.required(name), wanted):
            raise Refusal(400, f"The field {name} has the wrong type.", name)
        return self.integer(name, least=1)

    def number(self, name: str) -> Number:
        """Read a number above zero."""
        value = read_number(self.required(name))
        if value is None or value <= 0:
            raise Refusal(400, f"The field {name} must be a number above zero.", name)
        return value

    def amounts(self, name: str) -> Mapping[str, Number]:
        """Read a map from names to numbers. An empty list counts as an empty map, as in PHP."""
        value = self.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise Refusal(400, f"The field {name} must be an object.", name)
        amounts: dict[str, Number] = {}
        for fee, sent in value.items():
            amount = read_number(sent)
            if amount is None or not fee.strip():
                raise Refusal(400, f"The field {name} must map names to numbers.", name)
            amounts[fee] = amount
        return amounts


def read_number(value: object) -> Number | None:
    """Read a number or a numeric text; `None` for everything else, booleans and huge numbers included."""
    if isinstance(value, str) and _NUMBER.match(value):
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if isinstance(value, int):
        return value if abs(value) < 10**_MAX_EXPONENT else None
    return value if value.is_finite() and abs(value.adjusted()) <= _MAX_EXPONENT else None
