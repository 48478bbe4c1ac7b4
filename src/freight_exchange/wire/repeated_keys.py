"""Detection of repeated keys in JSON objects, since parsers silently keep only their last value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from freight_exchange.errors import DecodeError

__all__ = ["RepeatedKeys", "Repeats", "count_keys", "find_repeats"]

_MAX_NAMED: Final = 20


class RepeatedKeys(dict[str, object]):
    """A reply in which keys repeat, at any depth.

    Attributes:
        repeated: For each repeated key, whether all its values were kept, as for the numbers of a collection.
    """

    def __init__(self, value: Mapping[str, object], repeated: Mapping[str, bool]) -> None:
        super().__init__(value)
        self.repeated = repeated


def find_repeats(data: object, path: str = "$") -> dict[str, DecodeError]:
    """Return an error to report for each repeated key of a reply; the reply itself is read nevertheless."""
    errors = {}
    for key, whole in data.repeated.items() if isinstance(data, RepeatedKeys) else ():
        read = "all of its records are" if whole else "only its last value is"
        errors[key] = DecodeError(f"the key {key!r} repeats: {read} read", path=path)
    return errors


class Repeats:
    """Hook for `json` that reads a collection whose numbers repeat as a list of all its records.

    Any other repeated key keeps its last value.
    """

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}

    def __call__(self, pairs: list[tuple[str, Any]]) -> object:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        rows = all(key.isascii() and key.isdecimal() and len(key) <= 18 for key in value)
        rows = rows and all(isinstance(item, dict) for _, item in pairs)
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen and len(self.found) < _MAX_NAMED:
                self.found[key] = rows and self.found.get(key, True)
            seen.add(key)
        return [item for _, item in sorted(pairs, key=lambda pair: int(pair[0]))] if rows else value


def count_keys(value: object, containers: int) -> int:
    """Count the keys of all objects in a value with at most `containers` objects and lists.

    The count goes down level by level and stops at the last container, so it does not visit the fields of flat records.
    """
    level = [value] if isinstance(value, (dict, list)) else []
    keys = 0
    while level:
        keys += sum([len(container) for container in level if isinstance(container, dict)])
        containers -= len(level)
        if containers <= 0:
            break
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]
    return keys
