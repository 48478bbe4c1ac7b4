"""Service of the document: JSON typed by hand from it, and its comparison."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from freight_exchange import FreightExchange

__all__ = ["ACCOUNT", "HERE", "URL", "client", "is_same_json", "json_shape", "load", "parse"]

HERE: Final = Path(__file__).parent
URL: Final = "http://127.0.0.1:9/root/api"
ACCOUNT: Final[dict[str, Any]] = {"email": "me@co.example", "password": "correct horse"}


def client(**options: Any) -> FreightExchange:
    return FreightExchange(URL, **ACCOUNT, **options)


def load(folder: str, name: str) -> bytes:
    return (HERE / folder / f"{name}.json").read_bytes()


def parse(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def is_same_json(one: Any, other: Any) -> bool:
    """Compare values and JSON types: `4` differs from `"4"`, and `1` from `true`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return bool(one == other)


def json_shape(value: Any) -> Any:
    """Return the keys and JSON types of a value; a collection has the shapes of its records, in any number."""
    if isinstance(value, dict):
        if value and all(key.isdecimal() for key in value):
            return "collection", frozenset(json_shape(record) for record in value.values())
        if value and all(isinstance(amount, int | Decimal) for amount in value.values()) and "index" not in value:
            # The forwarder chooses the names of fees.
            return "fees"
        return frozenset((key, json_shape(item)) for key, item in value.items())
    return type(value).__name__
