"""Validation of parameters: the first invalid one causes a 400, as at a real server."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

from freight_sandbox.records import Number

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\Z", re.ASCII)
_TEXT = re.compile(r"\s*\S")
INCOTERM = re.compile(r"[A-Z]{3}\Z")
# With a larger exponent the server might write a billion digits.
_MAX_EXPONENT = 30


class Refusal(Exception):
    """Refusal of a call. `field` is the invalid parameter; `key` replaces the key of the sentence in the reply."""

    def __init__(self, status: int, sentence: str, field: str = "", *, key: str = "") -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.field, self.key = status, sentence, field, key


class Fields:
    """Parameters of a call. Each reader takes a name and raises `Refusal` if the value is invalid.

    `ids` is the JSON type that identifiers in the body must have: `int`, `str` or `any`.
    """

    __slots__ = ("_ids", "_query", "_values")

    def __init__(self, values: Mapping[str, Any], query: Mapping[str, str], ids: str = "any") -> None:
        self._values, self._query, self._ids = values, query, ids

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

    def text(self, name: str, form: re.Pattern[str] = _TEXT, what: str = "a text") -> str:
        value = self.required(name)
        if not isinstance(value, str) or not form.match(value):
            raise Refusal(400, f"The field {name} must be {what}.", name)
        return value

    def optional_text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise Refusal(400, f"The field {name} must be a text.", name)
        return value

    def word(self, name: str, words: Collection[str], default: str | None = None) -> str:
        value = self.text(name) if default is None or name in self else default
        if value not in words:
            raise Refusal(400, f"The field {name} must be one of {', '.join(sorted(words))}.", name)
        return value

    def date(self, name: str) -> str:
        what = "a date-time, YYYY-MM-DD HH:mm:ss"
        with suppress(ValueError):
            dt.datetime.fromisoformat(value := self.text(name, _DATE, what))
            return value
        raise Refusal(400, f"The field {name} must be {what}.", name)

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
        value = {} if self.get(name) in (None, []) else self.get(name)
        read = {fee: read_number(sent) for fee, sent in value.items()} if isinstance(value, dict) else {"": None}
        amounts = {fee: amount for fee, amount in read.items() if amount is not None and fee.strip()}
        if len(amounts) < len(read):
            raise Refusal(400, f"The field {name} must map names to numbers.", name)
        return amounts


def read_number(value: object) -> Number | None:
    """Read a number or a numeric text; `None` for everything else, booleans and huge numbers included."""
    if isinstance(value, str) and _NUMBER.match(value):
        value = Decimal(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() and abs(value.adjusted()) <= _MAX_EXPONENT else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 10**_MAX_EXPONENT else None
