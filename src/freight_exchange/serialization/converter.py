"""The cattrs converter between records and JSON-ready dictionaries."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from freight_exchange import validation
from freight_exchange.base import Serializable, ValidationError
from freight_exchange.serialization import raw
from freight_exchange.serialization.kinds import KEY, class_of, name_of
from freight_exchange.words import UnknownWord, Word

__all__ = ["structure", "unstructure"]

S = TypeVar("S", bound=Serializable)

_CONVERTER: Final = Converter(unstruct_collection_overrides={tuple: list})
_UNTYPED: Final = (object, Mapping[str, object])
_UNIONS: Final = (Union, types.UnionType)


def unstructure(record: Serializable) -> dict[str, Any]:
    """Convert a record to a dictionary; raise `ValidationError` for another object."""
    name_of(type(record))
    converted: dict[str, Any] = _CONVERTER.unstructure(record)
    return converted


def structure(data: Mapping[str, Any], cls: type[S] | None = None) -> S:
    """Convert a dictionary to a record of the class, by default of the class that the dictionary names.

    Raises:
        ValidationError: A value is invalid.
    """
    if cls is not None:
        name_of(cls)
    try:
        return _structure_tagged(data) if cls is None else _CONVERTER.structure(data, cls)
    except BaseValidationError as error:
        problem = transform_error(error, format_exception=_describe)[0]
    reason, _, path = problem.rpartition(" @ ")
    field = path.removeprefix("$").removeprefix(".")
    raise ValidationError(f"{field or KEY}: {reason}", field=field or KEY)


def _describe(error: BaseException, _: type | None) -> str:
    return "is missing" if isinstance(error, KeyError) else str(error)


def _structure_tagged(data: object, _: object = None) -> Any:
    return _CONVERTER.structure(data, class_of(_mapping(data).get(KEY)))


def _mapping(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValidationError(f"a record must be a dictionary, not {type(data).__name__}", field=KEY)
    return data


@_CONVERTER.register_unstructure_hook_factory(attrs.has)
def _unstructure_record(cls: type[Serializable]) -> Callable[[Any], dict[str, Any]]:
    name = name_of(get_origin(cls) or cls)
    fields = make_dict_unstructure_fn(get_origin(cls) or cls, _CONVERTER)
    return lambda record: {KEY: name, **fields(record)}


@_CONVERTER.register_structure_hook_factory(attrs.has)
def _structure_record(cls: type[Serializable]) -> Callable[[Any, object], Serializable]:
    origin: Any = get_origin(cls) or cls
    name = name_of(origin)
    # A generic class without its argument contains records of any kind.
    parameters = getattr(cls, "__parameters__", ())
    specific: Any = cls[Serializable] if parameters else cls  # type: ignore[index]  # generic, as it has parameters
    build = make_dict_structure_fn(specific, _CONVERTER)
    zoned = "timezone" in {field.name for field in attrs.fields(origin)}

    def structure_fields(data: object, _: object = None) -> Serializable:
        mapping = _mapping(data)
        if mapping.get(KEY, name) != name:
            raise ValidationError(f"{KEY} must be {name!r}, not {mapping[KEY]!r}", field=KEY)
        built: Serializable = build(_in_zone(mapping) if zoned else mapping, cls)
        return built

    return structure_fields


def _in_zone(route: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert the times of a route, which have offsets, to the route's zone."""
    name = route.get("timezone")
    zone = validation.find_zone(name) if isinstance(name, str) else None
    if zone is None:
        return route
    times = {}
    for key in ("cy_cutoff", "cfs_cutoff", "departure"):
        time = _time(route[key]) if route.get(key) is not None else None
        if time is not None and time.tzinfo is not None:
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
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not validation.NUMERAL.fullmatch(str(value)):
        raise ValueError(f"must be an exact number as text, not {value!r}")
    return Decimal(value)


def _exactly(cls: type) -> Callable[[object, object], object]:
    def check(value: object, _: object = None) -> object:
        if not isinstance(value, cls) or (cls is int and isinstance(value, bool)):
            raise ValueError(f"must be {cls.__name__}, not {value!r}")
        return value

    return check


def _is_word(kind: Any) -> bool:
    return get_origin(kind) in _UNIONS and UnknownWord in get_args(kind)


@_CONVERTER.register_structure_hook_factory(_is_word)
def _structure_word(kind: Any) -> Callable[[object, object], Word | UnknownWord | None]:
    members: type[Word] = next(part for part in get_args(kind) if issubclass(part, Word))

    def word(value: object, _: object = None) -> Word | UnknownWord | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise ValueError(f"must be a word, not {value!r}")  # noqa: TRY004 - one error for a wrong value
        return next((member for member in members if member == value), None) or UnknownWord(value)

    return word


for _scalar in (bool, int, str):
    _CONVERTER.register_structure_hook(_scalar, _exactly(_scalar))
_CONVERTER.register_structure_hook(Decimal, _decimal)
_CONVERTER.register_structure_hook(datetime, _time)
_CONVERTER.register_structure_hook(timedelta, lambda seconds, _: timedelta(seconds=seconds))
_CONVERTER.register_structure_hook_func(lambda kind: kind in _UNTYPED, lambda value, _: raw.decode(value))
_CONVERTER.register_structure_hook_func(lambda kind: kind is Serializable, _structure_tagged)
_CONVERTER.register_unstructure_hook(Decimal, str)
_CONVERTER.register_unstructure_hook(datetime, datetime.isoformat)
_CONVERTER.register_unstructure_hook(timedelta, timedelta.total_seconds)
_CONVERTER.register_unstructure_hook(Word, str)
_CONVERTER.register_unstructure_hook(UnknownWord, str)
_CONVERTER.register_unstructure_hook_func(lambda kind: kind in _UNTYPED, raw.encode)
