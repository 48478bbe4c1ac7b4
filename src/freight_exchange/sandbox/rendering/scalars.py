"""Numbers, dates, words and booleans in the form of a profile."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Number
from freight_exchange.sandbox.rendering.codec import Raw

__all__ = ["Scalars"]

_DATES: dict[str, str | None] = {
    "zero": "0000-00-00 00:00:00",
    "empty": "",
    "nonsense": "next Tuesday",
    "null": None,
}


class Scalars:
    """Writer of single values under one profile."""

    __slots__ = ("_case", "_date_form", "_number_form", "_profile", "_unknown")

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._number_form = profile.number_form
        self._date_form = profile.date_form
        self._case = profile.word_case
        self._unknown = profile.unknown_words

    def identifier(self, index: int) -> int | str:
        return str(index) if self._number_form == "string" else index

    def number(self, value: Number) -> int | Decimal | str | Raw:
        form = self._number_form
        if form == "plain":
            return value
        if form == "string":
            return str(value)
        exact = Decimal(value)
        if form == "exponent":
            return Raw(f"{exact:E}")
        exponent = exact.as_tuple().exponent
        return Raw(f"{exact:.2f}") if isinstance(exponent, int) and exponent > -2 else exact

    def date(self, text: str) -> str | None:
        return text if self._date_form == "plain" else _DATES[self._date_form]

    def word(self, word: str) -> str:
        if self._case == "documented":
            return word
        return word.upper() if self._case == "upper" else word.lower()

    def status(self, word: str, index: int) -> str:
        return self._known("status", word, "Under Review", index)

    def requesttype(self, word: str, index: int) -> str:
        return self._known("requesttype", word, "Rail", index)

    def packaging(self, word: str, index: int) -> str:
        """Write packaging, which is sent in lower case and returned capitalized (service document, Rate request)."""
        return self._known("packaging", word.capitalize(), "Drum", index)

    def _known(self, kind: str, word: str, unknown: str, index: int) -> str:
        return self.word(unknown if self._unknown == kind and index % 2 else word)

    def hazardous(self, value: int) -> int | str | bool:
        match self._profile.hazardous_form:
            case "int":
                return value if self._number_form == "plain" else self.identifier(value)
            case "string":
                return str(value)
            case _:
                return bool(value)

    def enabled(self) -> Any:
        match self._profile.enabled_form:
            case "bool":
                return True
            case "int":
                return 1
            case text:
                return text
