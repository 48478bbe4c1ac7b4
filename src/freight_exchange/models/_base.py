"""What every record shares: a read-only home for unknown fields, a short repr, exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, ClassVar, Final, TypeVar

import attrs

Value = TypeVar("Value", covariant=True)

# The ambient context rounds to 28 digits: a volume of four long factors would silently lose its last ones.
EXACT: Final = Context(prec=1000)


class FrozenMapping(Mapping[str, Value]):
    """A mapping that never changes. Unlike a mapping proxy it pickles, copies and hashes; so do records."""

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
        if isinstance(other, Mapping):
            return self._items == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        # The values need not be hashable; equal mappings have equal keys, which is all that a hash must keep.
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


def frozen(items: Mapping[str, object]) -> Mapping[str, object]:
    """The same items, read-only all the way down: objects as read-only mappings, lists as tuples."""
    if not items:
        return NOTHING
    if isinstance(items, FrozenMapping):
        return items
    return FrozenMapping({key: _frozen(value) for key, value in items.items()})


def frozen_rates(rates: Mapping[str, Decimal] | None) -> Mapping[str, Decimal] | None:
    """The same fees, read-only."""
    return rates if rates is None or isinstance(rates, FrozenMapping) else FrozenMapping(rates)


def _frozen(value: object) -> object:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        return frozen(value)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return value


class Frozen:
    """A frozen attrs class that compares, hashes and prints by its fields; those that are `None` or have `repr=False`
    are not printed.

    What attrs would write for each class, all of them inherit: half of what importing them would cost.
    """

    # Here and not in each class: a class that adds it beside fields of its own cannot change places with a twin,
    # which is how the decoder builds records.
    __slots__ = ("__weakref__",)

    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (field.name for field in attrs.fields(type(self)))
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, field.name) for field in attrs.fields(type(self)))))

    def __repr__(self) -> str:
        fields = {field.name: getattr(self, field.name) for field in attrs.fields(type(self)) if field.repr}
        said = ", ".join(f"{name}={value!r}" for name, value in fields.items() if value not in (None, NOTHING))
        return f"{type(self).__name__}({said})"


class Record(Frozen):
    """What the service returns. Fields it left out are `None`."""

    __slots__ = ()
