"""Base classes of all values: read-only mappings, and attrs classes that compare and print by their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from importlib import import_module
from typing import Any, ClassVar, Final, TypeVar

import attrs

Value = TypeVar("Value", covariant=True)

EXACT: Final = Context(prec=1000)
"""Arithmetic without rounding. The default context rounds to 28 digits, and a volume of four factors may have more."""


class FrozenMapping(Mapping[str, Value]):
    """A read-only mapping that, unlike `types.MappingProxyType`, can be pickled, copied and hashed."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._items: Final[dict[str, Value]] = dict(items or {})

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMapping):
            return self._items == other._items
        return self._items == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        # Without the values, as these need not be hashable.
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return repr(self._items)

    def __copy__(self) -> FrozenMapping[Value]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenMapping[Value]:
        return self

    def __reduce__(self) -> tuple[type[FrozenMapping[Value]], tuple[dict[str, Value]]]:
        return type(self), (self._items,)


NOTHING: Final[FrozenMapping[Any]] = FrozenMapping()
"""The empty mapping, which most records have as `extra`."""


def frozen(items: Mapping[str, object]) -> Mapping[str, object]:
    """Make JSON read-only at every level: objects become read-only mappings, lists tuples."""
    if not items:
        return NOTHING
    if isinstance(items, FrozenMapping):
        return items
    return FrozenMapping({key: _frozen_value(value) for key, value in items.items()})


def frozen_rates(rates: Mapping[str, Decimal] | None) -> Mapping[str, Decimal] | None:
    """Make itemised fees read-only."""
    return rates if rates is None or isinstance(rates, FrozenMapping) else FrozenMapping(rates)


def _frozen_value(value: object) -> object:
    if isinstance(value, Mapping):
        return frozen(value)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen_value(item) for item in value)
    return value


class Serializable:
    """Base of classes that `freight_exchange.to_dict` converts, that pydantic validates and FastAPI returns."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return _pydantic().core_schema(source)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return _pydantic().json_schema(cls)


def _pydantic() -> Any:
    # Imported by name, as this module is below the converter, and pydantic need not be installed.
    return import_module("freight_exchange.serialization.pydantic")


class Frozen(Serializable):
    """Base of frozen attrs classes: they compare, hash and print by their fields.

    Fields that are `None`, empty or declared with `repr=False` are not printed. Subclasses turn off the methods that
    attrs would generate (`eq=False, repr=False`), since these would double the time of their import.
    """

    __slots__ = ()

    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (field.name for field in attrs.fields(type(self)))
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field.name) for field in attrs.fields(type(self)))))

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self)) if field.repr}
        text = ", ".join(f"{name}={value!r}" for name, value in values.items() if value not in (None, NOTHING))
        return f"{type(self).__name__}({text})"


class Record(Frozen):
    """Base of records of the service. Missing fields are `None`, and unknown fields are in `extra`."""

    __slots__ = ()
