"""Differences between states of a request. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Final

import attrs

from freight_exchange.base import EXACT
from freight_exchange.models import RateRequest
from freight_exchange.words import UnknownWord

__all__ = ["DIGEST", "FIELDS", "differences", "digest", "present"]

DIGEST: Final = 8
"""Bytes of a digest."""

FIELDS: Final = tuple(field.name for field in attrs.fields(RateRequest) if field.name != "extra")
"""The fields of a request that the service's document names."""

_PLAIN: Final = frozenset({str, int, bool, type(None)})

_values = attrgetter(*FIELDS, "extra")


def digest(request: RateRequest) -> bytes:
    """Return a short digest of a request. It does not depend on how the service writes numbers and words."""
    fields = [value if value.__class__ in _PLAIN else _canonical(value) for value in _values(request)]
    # `repr` is the fastest text that differs for unequal values.
    return hashlib.blake2b(repr(fields).encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


def present(request: RateRequest) -> frozenset[str]:
    """Return the names of the fields that the request has."""
    return frozenset((*(name for name in FIELDS if getattr(request, name) is not None), *request.extra))


def differences(previous: RateRequest, request: RateRequest) -> tuple[str, ...]:
    """Return the names of the fields that differ: in the document's order, and then the undocumented ones."""
    fields = (name for name in FIELDS if getattr(previous, name) != getattr(request, name))
    unknown = sorted(
        key
        for key in previous.extra.keys() | request.extra.keys()
        if previous.extra.get(key, ...) != request.extra.get(key, ...)
    )
    return (*fields, *unknown)


def _canonical(value: object) -> object:
    """Return a form of the value that is the same for all equal values."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal | int):
        number = Decimal(value)
        return str(number.normalize(EXACT) if number.is_finite() else number)
    if isinstance(value, UnknownWord):
        return str(value).casefold()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    raise TypeError(f"no field of a request holds a {type(value).__name__}")
