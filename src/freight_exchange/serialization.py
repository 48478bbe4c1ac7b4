"""Records as JSON-ready dictionaries and JSON text, and back; and as types of pydantic and FastAPI.

pydantic finds its schemas through the base class of all records. It is imported when it asks for one.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, overload

import attrs
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from freight_exchange.base import Serializable, ValidationError
from freight_exchange.validation import NUMERAL, find_zone
from freight_exchange.words import UnknownWord, Word

S = TypeVar("S", bound=Serializable)

_KEY: Final = "object"
"""Key with the name of the class; no field has this name."""

_MODULES: Final = ("freight_exchange", "freight_exchange.quotes", "freight_exchange.tariff")
"""Modules that have the classes, imported with the first record of a class."""


def to_dict(record: Serializable) -> dict[str, Any]:
    """Convert a record, draft, page, event, status, quote or comparison to a dictionary that `json.dumps` accepts.

    The key `object` names the class, in nested records too: `rate_request`, `bid`, `request_event`. The other keys are
    the fields, by their Python names. Decimals are exact strings; times are ISO 8601, with an offset if the time has a
    zone; enum members are their words; durations are seconds. In `extra` and `Unreadable.raw`, which have no types, a
    decimal is `{"$numberDecimal": "1.50"}`. Another value is a `ValidationError`.
    """
    _name_of(type(record))
    converted: dict[str, Any] = _CONVERTER.unstructure(record)
    return converted


def to_json(record: Serializable) -> str:
    """Convert a record to JSON text, as `to_dict` describes."""
    return json.dumps(to_dict(record))


@overload
def from_dict(data: Mapping[str, Any]) -> Serializable: ...
@overload
def from_dict(data: Mapping[str, Any], kind: type[S]) -> S: ...
def from_dict(data: Mapping[str, Any], kind: type[Serializable] = Serializable) -> Serializable:
    """Convert a dictionary of `to_dict` back: `from_dict(to_dict(record)) == record`.

    Unknown keys are ignored, and missing optional fields have their defaults.

    Args:
        data: The dictionary. Times may be `datetime` objects and decimals `Decimal` objects already.
        kind: The class; by default the class that the key `object` names.

    Raises:
        ValidationError: A value is invalid, or `object` names no class, or a class other than `kind`; `field` is the
            path of the value.
    """
    if kind is not Serializable:
        _name_of(kind)
    try:
        return _CONVERTER.structure(data, kind)
    except BaseValidationError as error:
        problem = transform_error(
            error, format_exception=lambda one, _: "is missing" if isinstance(one, KeyError) else str(one)
        )[0]
    reason, _, path = problem.rpartition(" @ ")
    field = path.removeprefix("$").removeprefix(".") or _KEY
    raise ValidationError(f"{field}: {reason}", field=field)


@overload
def from_json(text: str | bytes) -> Serializable: ...
@overload
def from_json(text: str | bytes, kind: type[S]) -> S: ...
def from_json(text: str | bytes, kind: type[Serializable] = Serializable) -> Serializable:
    """Convert JSON text of `to_json` back, as `from_dict` does; a text that is not JSON is a `ValidationError`."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValidationError(f"text must be JSON: {error}", field="text") from None
    return from_dict(data, kind)


def _name_of(cls: type) -> str:
    if not issubclass(cls, Serializable):
        raise ValidationError(f"record must be a record of this package, not {cls.__name__}", field="record")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


# The converter: a hook for each type

_CONVERTER: Final = Converter(unstruct_collection_overrides={tuple: list})
_UNIONS: Final = (Union, types.UnionType)
_UNTYPED: Final = (object, Mapping[str, object])


def _tagged(data: object, _: object = None, *, expected: str | None = None) -> Any:
    """Check the key `object` of a dictionary; without an `expected` name, structure the class that it names."""
    if not isinstance(data, Mapping):
        raise ValidationError(f"a record must be a dictionary, not {type(data).__name__}", field=_KEY)
    name = data.get(_KEY, expected)
    if expected is not None:
        if name != expected:
            raise ValidationError(f"{_KEY} must be {expected!r}, not {name!r}", field=_KEY)
        return data
    class_name = "".join(map(str.capitalize, str(name).split("_")))
    for module in _MODULES:
        cls = getattr(import_module(module), class_name, None)
        if isinstance(cls, type) and issubclass(cls, Serializable):
            return _CONVERTER.structure(data, cls)
    raise ValidationError(f"{_KEY} must name a record, such as 'rate_request', not {name!r}", field=_KEY)


@_CONVERTER.register_unstructure_hook_factory(attrs.has)
def _unstructure_record(cls: type[Serializable]) -> Callable[[Any], dict[str, Any]]:
    origin = get_origin(cls) or cls
    name, fields = _name_of(origin), make_dict_unstructure_fn(origin, _CONVERTER)
    return lambda record: {_KEY: name, **fields(record)}


@_CONVERTER.register_structure_hook_factory(attrs.has)
def _structure_record(cls: type[Serializable]) -> Callable[[Any, object], Serializable]:
    origin: Any = get_origin(cls) or cls
    name = _name_of(origin)
    # A generic class without its argument contains records of any kind.
    specific: Any = cls[Serializable] if getattr(cls, "__parameters__", ()) else cls  # type: ignore[index]  # generic
    build: Callable[[Any, Any], Serializable] = make_dict_structure_fn(specific, _CONVERTER)
    prepare = _in_zone if "timezone" in attrs.fields_dict(origin) else dict
    return lambda data, _: build(prepare(_tagged(data, expected=name)), cls)


def _in_zone(route: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the times of a route, which have offsets, to the route's zone."""
    name = route.get("timezone")
    zone = find_zone(name) if isinstance(name, str) else None
    times = {}
    for key in ("cy_cutoff", "cfs_cutoff", "departure"):
        if zone is not None and route.get(key) is not None and (time := _time(route[key])).tzinfo is not None:
            # By wall time, since `astimezone` would move a time that a clock change skips.
            readings = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
            times[key] = next((one for one in readings if one.utcoffset() == time.utcoffset()), time)
    return {**route, **times}


def _time(value: object, _: object = None) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be a time in ISO 8601, not {value!r}")  # noqa: TRY004 - one error for a wrong value
    return datetime.fromisoformat(value)


def _decimal(value: object, _: object = None) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not NUMERAL.fullmatch(str(value)):
        raise ValueError(f"must be an exact number as text, not {value!r}")
    return Decimal(value)


def _exactly(cls: Any, value: object, _: object = None) -> Any:
    if not isinstance(value, cls) or (cls is int and isinstance(value, bool)):
        raise ValueError(f"must be {cls.__name__}, not {value!r}")
    return value


@_CONVERTER.register_structure_hook_factory(lambda kind: UnknownWord in get_args(kind))
def _structure_word(kind: Any) -> Callable[[object, object], Word | UnknownWord | None]:
    members: type[Word] = next(part for part in get_args(kind) if issubclass(part, Word))

    def word(value: object, _: object) -> Word | UnknownWord | None:
        if value is None:
            return None
        return next((member for member in members if member == value), None) or UnknownWord(_exactly(str, value))

    return word


# Values without a type are the unknown fields of a record, which keep their exact numbers. As in MongoDB's Extended
# JSON, a decimal is an object with this key. An object that has only this key is wrapped once more.
_DECIMAL: Final = "$numberDecimal"


def _encode_untyped(value: object) -> object:
    if isinstance(value, Decimal):
        return {_DECIMAL: str(value)}
    if isinstance(value, Mapping):
        encoded = {key: _encode_untyped(item) for key, item in value.items()}
        return {_DECIMAL: encoded} if encoded.keys() == {_DECIMAL} else encoded
    return [_encode_untyped(item) for item in value] if isinstance(value, (list, tuple)) else value


def _decode_untyped(value: object, _: object = None) -> object:
    if isinstance(value, Mapping):
        if value.keys() == {_DECIMAL}:
            wrapped = value[_DECIMAL]
            if isinstance(wrapped, str):
                return Decimal(wrapped)
            value = wrapped if isinstance(wrapped, Mapping) else value
        return {key: _decode_untyped(item) for key, item in value.items()}
    return [_decode_untyped(item) for item in value] if isinstance(value, (list, tuple)) else value


for _scalar in (bool, int, str):
    _CONVERTER.register_structure_hook(_scalar, partial(_exactly, _scalar))
_CONVERTER.register_structure_hook(Decimal, _decimal)
_CONVERTER.register_structure_hook(datetime, _time)
_CONVERTER.register_structure_hook(timedelta, lambda seconds, _: timedelta(seconds=seconds))
_CONVERTER.register_structure_hook_func(lambda kind: kind in _UNTYPED, _decode_untyped)
_CONVERTER.register_structure_hook_func(lambda kind: kind is Serializable, _tagged)
for _kind, _write in ((Decimal, str), (datetime, datetime.isoformat), (timedelta, timedelta.total_seconds)):
    _CONVERTER.register_unstructure_hook(_kind, _write)
for _word in (Word, UnknownWord):
    _CONVERTER.register_unstructure_hook(_word, str)
_CONVERTER.register_unstructure_hook_func(lambda kind: kind in _UNTYPED, _encode_untyped)


# pydantic

_SCALARS: Final[dict[object, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    datetime: {"type": "string", "format": "date-time"},
    Decimal: {"type": "string", "format": "decimal"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    timedelta: {"type": "number", "description": "seconds"},
    UnknownWord: {"type": "string"},
    type(None): {"type": "null"},
}


def pydantic_schema(cls: Any) -> Any:
    """Return pydantic's schema that takes a record or its dictionary, and serializes to the dictionary."""
    from pydantic_core import core_schema

    origin: type[Serializable] = get_origin(cls) or cls

    def validate(value: Any) -> Any:
        # A `ValidationError` is a `ValueError`, which pydantic reports as an error of the input.
        return value if isinstance(value, origin) else from_dict(value, cls)

    return core_schema.no_info_plain_validator_function(
        validate, serialization=core_schema.plain_serializer_function_ser_schema(to_dict)
    )


def json_schema(cls: Any) -> dict[str, Any]:
    """Return the JSON schema of the dictionaries of a class."""
    fields = attrs.fields(attrs.resolve_types(cls))
    return {
        "title": cls.__name__,
        "type": "object",
        "properties": {
            _KEY: {"const": _name_of(cls)},
            **{field.name: _schema_of(field.type) for field in fields if field.init},
        },
        "required": [_KEY, *(field.name for field in fields if field.default is attrs.NOTHING)],
    }


def _schema_of(kind: Any) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if origin in _UNIONS:
        return {"anyOf": [_schema_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "prefixItems": [_schema_of(argument) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if isinstance(kind, type) and issubclass(kind, Serializable):
        return json_schema(kind)
    return {}
