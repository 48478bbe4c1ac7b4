"""Reader of quirks from JSON values of the page."""

from __future__ import annotations

import typing
from decimal import Decimal
from typing import Any

import attrs

from freight_sandbox.fields import Refusal
from freight_sandbox.quirks import Profile

__all__ = ["with_quirk"]

_MAX_SECONDS = 60
_MAX_COUNT = 10_000_000


def with_quirk(profile: Profile, name: str, value: object) -> Profile:
    """Return the profile with another value of one quirk.

    Raises:
        Refusal: There is no such quirk, or the quirk has no such value.
    """
    hint = typing.get_type_hints(Profile).get(name)
    if hint is None:
        raise Refusal(404, "There is no such quirk.")
    change: dict[str, Any] = {name: _read(hint, value)}
    return attrs.evolve(profile, **change)


def _read(hint: object, value: object) -> object:
    if hint is float:
        return _seconds(value)
    if hint in (int, int | None):
        return _count(value, optional=hint is not int)
    allowed = (True, False) if hint is bool else typing.get_args(hint)
    # True == 1, so the types are compared too.
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        raise Refusal(400, "This quirk has no such value.")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= _MAX_SECONDS:
        raise Refusal(400, f"Give seconds from 0 to {_MAX_SECONDS}.")
    return float(value)


def _count(value: object, *, optional: bool) -> int | None:
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_COUNT:
        raise Refusal(400, f"Give a whole number from 1 to {_MAX_COUNT:,}.")
    return value
