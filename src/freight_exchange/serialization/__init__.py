"""Conversion of records to JSON-ready dictionaries and JSON text, and back.

`converter` has the rules of each type, `kinds` the names of classes in the key `object`, and `pydantic` the schemas for
pydantic and FastAPI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast, overload

from freight_exchange.base import Serializable, ValidationError
from freight_exchange.serialization import converter

__all__ = ["from_dict", "from_json", "to_dict", "to_json"]

S = TypeVar("S", bound=Serializable)


def to_dict(record: Serializable) -> dict[str, Any]:
    """Convert a record, draft, page, event, status, quote or comparison to a dictionary that `json.dumps` accepts.

    The key `object` names the class, in nested records too: `rate_request`, `bid`, `request_event`. The other keys are
    the fields, by their Python names. Decimals are exact strings; times are ISO 8601, with an offset if the time has a
    zone; enum members are their words; durations are seconds. In `extra` and `Unreadable.raw`, which have no types, a
    decimal is `{"$numberDecimal": "1.50"}`.

    Raises:
        ValidationError: The value is not of one of these classes.
    """
    return converter.unstructure(record)


def to_json(record: Serializable) -> str:
    """Convert a record to JSON text, as `to_dict` describes.

    Raises:
        ValidationError: The value is not of a class that `to_dict` converts.
    """
    return json.dumps(to_dict(record))


@overload
def from_dict(data: Mapping[str, Any]) -> Serializable: ...
@overload
def from_dict(data: Mapping[str, Any], kind: type[S]) -> S: ...
def from_dict(data: Mapping[str, Any], kind: type[Serializable] | None = None) -> Serializable:
    """Convert a dictionary of `to_dict` back: `from_dict(to_dict(record)) == record`.

    Unknown keys are ignored, and missing optional fields have their defaults.

    Args:
        data: The dictionary. Times may be `datetime` objects and decimals `Decimal` objects already.
        kind: The class; by default the class that the key `object` names.

    Raises:
        ValidationError: A value is invalid, or `object` names no class, or a class other than `kind`; `field` is the
            path of the value.
    """
    return converter.structure(data, kind)


@overload
def from_json(text: str | bytes) -> Serializable: ...
@overload
def from_json(text: str | bytes, kind: type[S]) -> S: ...
def from_json(text: str | bytes, kind: type[Serializable] | None = None) -> Serializable:
    """Convert JSON text of `to_json` back, as `from_dict` does.

    Raises:
        ValidationError: The text is not JSON, or `from_dict` refuses it.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValidationError(f"text must be JSON: {error}", field="text") from None
    return converter.structure(cast("Mapping[str, Any]", data), kind)
