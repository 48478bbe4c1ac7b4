"""Values without a type: the unknown fields of a record, which keep their exact numbers.

A decimal becomes `{"$numberDecimal": "1.50"}`, as in MongoDB's Extended JSON. An object that has only this key is
wrapped once more, so that it does not become a decimal later.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

__all__ = ["decode", "encode"]

_DECIMAL: Final = "$numberDecimal"


def encode(value: object) -> object:
    """Convert JSON with decimals to JSON without."""
    if isinstance(value, Decimal):
        return {_DECIMAL: str(value)}
    if isinstance(value, Mapping):
        encoded = {key: encode(item) for key, item in value.items()}
        return {_DECIMAL: encoded} if encoded.keys() == {_DECIMAL} else encoded
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(value: object) -> object:
    """Convert what `encode` returned back; tuples come back as lists."""
    if isinstance(value, Mapping):
        if value.keys() == {_DECIMAL}:
            wrapped = value[_DECIMAL]
            if isinstance(wrapped, str):
                return Decimal(wrapped)
            value = wrapped if isinstance(wrapped, Mapping) else value
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [decode(item) for item in value]
    return value
