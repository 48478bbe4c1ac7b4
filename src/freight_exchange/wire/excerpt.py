"""Excerpts of JSON values for errors: bounded, and without the values under the keys of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from freight_exchange.wire import fields

__all__ = ["CUT", "LONGEST", "MASK", "excerpt", "is_secret"]

MASK: Final = "***"
CUT: Final = "..."
LONGEST: Final = 8_192
"""Maximum number of bytes or characters of a reply in an error. Only these are parsed and masked."""
_DEEPEST: Final = 8


def excerpt(value: object) -> object:
    """Copy the beginning of a JSON value: `LONGEST` characters and 8 levels, with `MASK` under the keys of secrets.

    Strings are not cut, as a cut before the masking of secrets might leave half a secret.
    """
    return _Excerpt().take(value, 0)


def is_secret(key: str) -> bool:
    """Return whether a key is that of a password or token."""
    folded = key.casefold()
    return any(word in folded for word in fields.SECRETS)


class _Excerpt:
    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = LONGEST

    def take(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            self._left -= len(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth > _DEEPEST:
            return CUT
        if isinstance(value, Mapping):
            taken: dict[str, object] = {}
            for key, item in value.items():
                if not self._has_room(len(key)):
                    taken[CUT] = CUT
                    break
                taken[key] = MASK if is_secret(key) else self.take(item, depth + 1)
            return taken
        items: list[object] = []
        for item in value:
            if not self._has_room(1):
                items.append(CUT)
                break
            items.append(self.take(item, depth + 1))
        return items

    def _has_room(self, characters: int) -> bool:
        """Reserve the characters of one more item if any room is left."""
        if self._left <= 0:
            return False
        self._left -= characters + 1
        return True
