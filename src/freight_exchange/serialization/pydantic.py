"""Schemas for pydantic: `TypeAdapter(RateRequest)`, fields of models, and FastAPI's responses and documentation.

pydantic finds them through the base class of all records. This module is imported by pydantic alone.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs
from pydantic_core import core_schema as schemas

from freight_exchange.base import Serializable, ValidationError
from freight_exchange.serialization import converter
from freight_exchange.serialization.kinds import KEY, name_of
from freight_exchange.words import UnknownWord

__all__ = ["core_schema", "json_schema"]

Schema = dict[str, Any]

_SCALARS: Final[dict[object, Schema]] = {
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    Decimal: {"type": "string", "format": "decimal"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    timedelta: {"type": "number", "description": "seconds"},
    type(None): {"type": "null"},
}


def core_schema(cls: Any) -> schemas.CoreSchema:
    """Return the schema that takes a record or its dictionary, and serializes to the dictionary."""
    origin: type[Serializable] = get_origin(cls) or cls

    def validate(value: object) -> Serializable:
        if isinstance(value, origin):
            return value
        if not isinstance(value, Mapping):
            # pydantic reports a `ValueError` as an error of the input.
            raise ValueError(f"must be a {origin.__name__} or its dictionary")  # noqa: TRY004
        try:
            found: Serializable = converter.structure(value, cls)
        except ValidationError as error:
            raise ValueError(str(error)) from None
        return found

    return schemas.no_info_plain_validator_function(
        validate, serialization=schemas.plain_serializer_function_ser_schema(converter.unstructure)
    )


def json_schema(cls: Any) -> Schema:
    """Return the JSON schema of the dictionaries of a class."""
    fields = attrs.fields(attrs.resolve_types(cls))
    return {
        "title": cls.__name__,
        "type": "object",
        "properties": {
            KEY: {"const": name_of(cls)},
            **{field.name: _of_type(field.type) for field in fields if field.init},
        },
        "required": [KEY, *(field.name for field in fields if field.default is attrs.NOTHING)],
    }


def _of_type(kind: Any) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if origin in (Union, types.UnionType):
        return _of_union(arguments)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "prefixItems": [_of_type(argument) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_type(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if isinstance(kind, type) and issubclass(kind, Serializable):
        return json_schema(kind)
    return {}


def _of_union(kinds: tuple[Any, ...]) -> Schema:
    if UnknownWord in kinds:
        words = [member.value for kind in kinds if issubclass(kind, Enum) for member in kind]
        return {"anyOf": [{"type": "string", "examples": words}, *([{"type": "null"}] if type(None) in kinds else [])]}
    return {"anyOf": [_of_type(kind) for kind in kinds]}
