"""Structure hooks of wire records, registered with a cattrs converter.

The decoder calls the hooks directly, for speed. Snapshots and nested records go through the converter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Generic, NamedTuple, TypeVar

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from freight_exchange.models._base import Record
from freight_exchange.wire.scalars import Misfit, UnreadableRecordError, kind

__all__: list[str] = []

T = TypeVar("T", bound=Record)

Raw = dict[str, object]
Extra = dict[str, object]
Flaws = list[UnreadableRecordError]
Hook = Callable[[Any, object], Any]
Parts = Callable[[Raw, Extra, Flaws | None], dict[str, object]]

CONVERTER: Final = Converter()


class Field(NamedTuple):
    """A scalar field of a record.

    Attributes:
        name: Name of the attribute.
        hook: Structure hook that reads the value. It raises `Misfit` for a value to keep in `extra`, and `ValueError`
            with the reason for a value that makes the record unreadable.
        keys: Keys under which the value may be, the most usual first.
        required: Whether a record without the value is unreadable.
    """

    name: str
    hook: Hook
    keys: tuple[str, ...]
    required: bool = False

    def value_in(self, raw: Raw) -> object:
        """Return the value under the first of the keys that has one."""
        for key in self.keys:
            value = raw.get(key)
            if value is not None:
                return value
        return None

    def breaks(self, raw: Raw) -> bool:
        """Return whether the value of this field makes the record unreadable."""
        value = self.value_in(raw)
        if value is None:
            return self.required
        if isinstance(value, (dict, list)):
            return True
        try:
            return self.hook(value, None) is None and self.required
        except Misfit:
            return False
        except ValueError:
            return True


class RecordShape(Generic[T]):
    """Structure and unstructure hooks of one class of records.

    Args:
        model: The class.
        fields: Its scalar fields.
        parts: Structures the nested records, and moves unreadable optional ones to `extra`.
        complete: Sets fields of the record that depend on others.
        also: Keys that `parts` reads, which are therefore not unknown.
        forgiving: Whether an unreadable field becomes `None`, with its value in `extra`, instead of breaking the
            record.
    """

    def __init__(
        self,
        model: type[T],
        fields: tuple[Field, ...],
        *,
        parts: Parts | None = None,
        complete: Callable[[T], T] | None = None,
        also: tuple[str, ...] = (),
        forgiving: bool = False,
    ) -> None:
        self.fields = fields
        self._model = model
        self._parts = parts
        self._complete = complete
        self._forgiving = forgiving
        self._known = frozenset(also).union(*(field.keys for field in fields))
        self._keys = tuple((field.name, field.keys) for field in fields)
        self._by_name = {field.name: field for field in fields}
        self._required = tuple(field for field in fields if field.required)

    def structure(self, raw: object, _: object = None, *, flaws: Flaws | None = None) -> T:
        """Structure a record.

        Args:
            raw: The wire record.
            flaws: Receives unreadable nested parts, which the record then lacks. Without it they break the record.

        Raises:
            UnreadableRecordError: A required part of the record cannot be read.
        """
        if not isinstance(raw, dict):
            raise UnreadableRecordError("", f"{kind(raw)} where a record is expected")
        values: dict[str, Any] = {}
        for name, keys in self._keys:
            for key in keys:
                value = raw.get(key)
                if value is not None:
                    values[name] = value
                    break
        for field in self._required:
            if field.name not in values:
                raise UnreadableRecordError(field.keys[0], "missing", field.name)
        unknown = raw.keys() - self._known
        extra = {key: raw[key] for key in sorted(unknown)} if unknown else {}
        if self._parts is not None:
            values |= self._parts(raw, extra, flaws)
        try:
            record = self._build(values, extra)
        except ClassValidationError as error:
            for name, reason in _failures(error):
                self._set_aside(name, reason, raw, values, extra)
            record = self._build(values, extra)
        return record if self._complete is None else self._complete(record)

    def field(self, name: str) -> Field:
        """Return the scalar field of that name."""
        return self._by_name[name]

    def unstructure(self, record: T) -> dict[str, object]:
        """Return the scalar fields under their most usual keys, and the unknown fields."""
        return {**self._unstructure_fields(record), **record.extra}  # type: ignore[attr-defined]  # every registered class has it

    def _build(self, values: dict[str, Any], extra: Extra) -> T:
        if extra:
            values["extra"] = extra
        return self._construct(values, self._model)

    def _set_aside(self, name: str, reason: Exception, raw: Raw, values: dict[str, Any], extra: Extra) -> None:
        """Move an unsuitable value of a field to `extra`, or raise `UnreadableRecordError`."""
        field = self._by_name[name]
        key = next(key for key in field.keys if raw.get(key) is not None)
        nested = isinstance(values[name], (dict, list))
        if not self._forgiving and (nested or field.required or not isinstance(reason, Misfit)):
            why = f"{kind(values[name])} where one value is expected" if nested else str(reason)
            raise UnreadableRecordError(key, why, name) from None
        extra[key] = values.pop(name)

    @cached_property
    def _construct(self) -> Callable[[dict[str, Any], type[T]], T]:
        # Nested records are structured already.
        hooks: Any = {field.name: override(struct_hook=_keep) for field in attrs.fields(self._model)}
        for field in self.fields:
            hooks[field.name] = override(struct_hook=_required(field.hook) if field.required else field.hook)
        return make_dict_structure_fn(self._model, CONVERTER, **hooks)

    @cached_property
    def _unstructure_fields(self) -> Callable[[T], dict[str, object]]:
        rules: Any = {field.name: override(omit=True) for field in attrs.fields(self._model)}
        for field in self.fields:
            rename = field.keys[0]
            rules[field.name] = override(rename=rename, omit_if_default=not field.required, unstruct_hook=_unchanged)
        return make_dict_unstructure_fn(self._model, CONVERTER, **rules)


def _keep(value: object, _: object) -> object:
    return value


def _unchanged(value: object) -> object:
    # `json` writes numbers, words and times.
    return value


def _required(hook: Hook) -> Hook:
    def read(value: object, type: object) -> object:
        found = hook(value, type)
        if found is None:
            raise ValueError("missing")
        return found

    return read


def _failures(error: ClassValidationError) -> list[tuple[str, Exception]]:
    """Return the fields that could not be read, and why."""
    return [
        (next(note.name for note in reason.__notes__ if isinstance(note, AttributeValidationNote)), reason)
        for reason in error.exceptions
        if isinstance(reason, Exception)
    ]


def register(model: type[T], shape: RecordShape[T]) -> RecordShape[T]:
    """Register the hooks of the shape for its class."""
    _SHAPES[model] = shape
    return shape


_SHAPES: Final[dict[type[Record], RecordShape[Any]]] = {}


# Hook factories, because the registration of a hook itself resolves the annotations of the class at import.
@CONVERTER.register_structure_hook_factory(lambda model: model in _SHAPES)
def _structure_hook(model: type[Record]) -> Callable[[object, object], Any]:
    return _SHAPES[model].structure


@CONVERTER.register_unstructure_hook_factory(lambda model: model in _SHAPES)
def _unstructure_hook(model: type[Record]) -> Callable[[Any], dict[str, object]]:
    return _SHAPES[model].unstructure
