"""The one converter: wire records to models, a generated hook for each shape that a class's records come in.

A hook serves records with exactly one set of keys, which is what a page is made of. It is straight-line code
with every name, alias and absent field decided beforehand; whatever is not plain makes it raise, and the
tolerant reading, driven by the same table of fields, takes the record or says what is wrong with it. Hooks
are made at the first record of a shape, so that importing costs nothing.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable
from typing import Any, Final

import attrs
from cattrs import Converter

from freight_exchange.models._base import NOTHING, Record, frozen
from freight_exchange.wire.readers import Field, Unreadable, kind

__all__: list[str] = []

Raw = dict[str, object]
Hook = Callable[..., Any]
Flaws = list[Unreadable]

NOT_PLAIN: Final = (KeyError, TypeError, ValueError, Unreadable)

# A page has a shape or two, and a service that leaves out what is empty a few dozen; one that makes up keys must not
# fill the memory with code.
_MOST_SHAPES: Final = 128
_MOST_KEYS: Final = 64


class Shape:
    """How the records of one class are read off the wire.

    Args:
        model: The class.
        fields: Its scalar fields.
        finish: Sets what is not a scalar or hangs together, on the record while it can still be changed. What it can
            leave out of the record it adds to the flaws, or raises where nobody wants to know of them.
        also: The keys that `finish` reads, which therefore are not unknown.
        forgiving: Whether a field that cannot be read is `None`, with the original in `extra`, and breaks nothing.
    """

    def __init__(
        self,
        model: type[Record],
        fields: tuple[Field, ...],
        finish: Callable[[Any, Raw, Flaws | None], None] | None = None,
        also: tuple[str, ...] = (),
        *,
        forgiving: bool = False,
    ) -> None:
        self._model = model
        self.fields = fields
        self._finish = finish
        self._forgiving = forgiving
        self._known = frozenset(also).union(*(field.keys for field in fields))
        self._unset = tuple(
            field.name
            for field in attrs.fields(model)
            if field.name not in {known.name for known in fields} | {"extra"}
        )
        self._defaults = {
            field.name: field.default for field in attrs.fields(model) if field.default is not attrs.NOTHING
        }
        self._draft = _unfrozen(model)
        self._hooks: dict[frozenset[str], Hook] = {}

    def read(self, raw: object, _: object = None, *, flaws: Flaws | None = None) -> Any:
        """The record.

        Args:
            raw: What came.
            flaws: Takes the parts that could not be read and are left out of the record; without it they break it.

        Raises:
            Unreadable: Something that matters in it cannot be read.
        """
        if isinstance(raw, dict):
            with contextlib.suppress(*NOT_PLAIN):
                return self.hook(raw)(raw, flaws)
            if flaws:
                flaws.clear()
        return self.tolerant(raw, flaws)

    def forget(self) -> None:
        """Drop the generated hooks, as if no record had been read."""
        self._hooks.clear()

    def hook(self, raw: Raw) -> Hook:
        """The hook for records with the keys of this one."""
        keys = frozenset(raw)
        found = self._hooks.get(keys)
        if found is None:
            if len(self._hooks) >= _MOST_SHAPES or len(keys) > _MOST_KEYS:
                return self.tolerant
            found = self._hooks[keys] = self._generated(keys)
        return found

    def tolerant(self, raw: object, flaws: Flaws | None = None) -> Any:
        """The record, read with all the tolerance there is: every alias, every way to write a value.

        Raises:
            Unreadable: Something that matters in it cannot be read.
        """
        if not isinstance(raw, dict):
            raise Unreadable("", f"{kind(raw)} where a record is due")
        draft = object.__new__(self._draft)
        extra = {key: raw[key] for key in sorted(raw.keys() - self._known)}
        for field in self.fields:
            key = field.key_in(raw)
            value = raw.get(key)
            if value is None and not field.required:
                setattr(draft, field.name, None)
                continue
            try:
                read = field.read(key, value, extra)
            except Unreadable:
                if not self._forgiving:
                    raise
                extra[key], read = raw[key], None
            setattr(draft, field.name, read)
        for name in self._unset:
            setattr(draft, name, self._defaults[name])
        draft.extra = frozen(extra)
        if self._finish is not None:
            self._finish(draft, raw, flaws)
        draft.__class__ = self._model
        return draft

    def _generated(self, keys: frozenset[str]) -> Hook:
        names: dict[str, object] = {"new": object.__new__, "Draft": self._draft, "Model": self._model}
        body = [f"if len(raw) != {len(keys)}: raise KeyError", "draft = new(Draft)"]
        for field in self.fields:
            present = [key for key in field.keys if key in keys]
            if len(present) > 1 or (field.required and not present):
                return self.tolerant
            if not present:
                body.append(f"draft.{field.name} = None")
                continue
            names |= field.reader.names
            body += [f"v = raw[{present[0]!r}]", field.reader.quick]
            if field.required:
                body.append("if v is None: raise TypeError")
            body.append(f"draft.{field.name} = v")
        for name in self._unset:
            names[f"default_{name}"] = self._defaults[name]
            body.append(f"draft.{name} = default_{name}")
        names |= {"nothing": NOTHING, "frozen": frozen, "unknown": sorted(keys - self._known)}
        body.append(
            "draft.extra = frozen({key: raw[key] for key in unknown})"
            if keys - self._known
            else "draft.extra = nothing"
        )
        if self._finish is not None:
            names["finish"] = self._finish
            body.append("finish(draft, raw, flaws)")
        body += ["draft.__class__ = Model", "return draft"]
        source = "def hook(raw, flaws=None):\n" + textwrap.indent("\n".join(body), "    ")
        exec(source, names)  # the source is made of this package's own tables, never of a reply
        hook: Hook = names["hook"]  # type: ignore[assignment]  # what the source defines
        return hook


def _unfrozen(model: type[Record]) -> Any:
    """A twin of the class with the same slots, but open.

    A frozen attrs class fills itself through `object.__setattr__`, a call for each field. Filling a twin and
    turning it into the record at the end costs a third, and the record is as frozen as any.
    """
    open_again = {
        "__slots__": model.__dict__["__slots__"],
        # Both, or Python takes the long way round for setting, too.
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    return type(f"_{model.__name__}", model.__bases__, open_again)


CONVERTER: Final = Converter()
_SHAPES: Final[dict[type[Record], Shape]] = {}


def register(model: type[Record], shape: Shape) -> Shape:
    """Make the shape the converter's way to read that class."""
    _SHAPES[model] = shape
    return shape


# A factory: registering a hook itself makes the converter resolve the class's annotations, at import.
@CONVERTER.register_structure_hook_factory(lambda model: model in _SHAPES)
def _reader(model: type[Record]) -> Callable[[object, object], Any]:
    return _SHAPES[model].read
