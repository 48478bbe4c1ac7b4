"""Texts as a terminal shows them, and JSON that commands none."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["escaped_json", "fitted", "width"]

_MAYBE_UNFIT: Final = re.compile(r"[^ -~]")
_ZERO_WIDTH: Final = frozenset({"Mn", "Me"})
_WIDE: Final = frozenset("WF")


def escaped_json(text: str, *, ascii_only: bool) -> str:
    """JSON, with what could command a terminal escaped as JSON does; outside of its strings there is none of it."""

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character.isprintable() and not ascii_only:
            return character
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    return _MAYBE_UNFIT.sub(escape, text)


def width(text: str) -> int:
    """The columns that a terminal gives to a text that is clean."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def fitted(text: str, columns: int, *, right: bool = False) -> str:
    """The text, padded to so many columns."""
    padding = " " * (columns - width(text))
    return padding + text if right else text + padding


def _columns(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
