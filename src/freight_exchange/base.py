"""Bases of all values and errors: read-only mappings, serializable classes, and the root of the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, Final, Self, TypeVar

Value = TypeVar("Value", covariant=True)

EXACT: Final = Context(prec=1000)
"""Arithmetic without rounding. The default context rounds to 28 digits, and a volume of four factors may have more."""

REQUEST_ID_HEADERS: Final = (
    "x-request-id", "x-correlation-id", "request-id", "x-amzn-requestid", "x-amzn-trace-id", "x-ms-request-id",
    "x-cloud-trace-context", "x-trace-id", "cf-ray",
)  # fmt: skip
"""Headers in which services and gateways identify a request, the most specific first."""


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

    def __hash__(self) -> int:
        # Without the values, as these need not be hashable.
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, Value]]]:
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


class ReplyHeaders(FrozenMapping[str]):
    """Read-only, case-insensitive headers of a reply.

    They are ids of the request, `content-type`, `date`, `server`, `via`, `retry-after` and those of rate limits, with
    200 characters of each value. Secrets in values are masked.
    """

    __slots__ = ()

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        super().__init__({name.lower(): value for name, value in (items or {}).items()})

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    @property
    def request_id(self) -> str | None:
        """Id of the request by the service or a gateway, or `None`."""
        return next((value for name in REQUEST_ID_HEADERS if (value := self._items.get(name))), None)


NO_HEADERS: Final = ReplyHeaders()


@cache
def _values_of(cls: type[Any], *, hashed: bool = False) -> Callable[[object], tuple[object, ...]]:
    """Return the function from an object to its class and the fields that count for equality, or for its hash."""
    names = [field.name for field in cls.__attrs_attrs__ if field.eq and not (hashed and field.hash is False)]
    return attrgetter("__class__", *names)


class ConciseRepr:
    """Base of attrs classes with `eq=False, repr=False`: equal if their fields are, printed without empty fields.

    attrs would compile these methods for each class anew, which takes a fifth of the import.
    """

    __slots__ = ()

    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        kind: Any = type(self)
        values = _values_of(kind)
        return values(self) == values(other)

    def __hash__(self) -> int:
        kind: Any = type(self)
        return hash(_values_of(kind, hashed=True)(self))

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in self.__attrs_attrs__ if field.repr}
        # A set is printed in another order by each process.
        values = {name: sorted(one, key=str) if isinstance(one, frozenset) else one for name, one in values.items()}
        text = ", ".join(f"{name}={value!r}" for name, value in values.items() if value not in (None, NOTHING))
        return f"{type(self).__name__}({text})"


class Serializable(ConciseRepr):
    """Base of classes that `freight_exchange.to_dict` converts, that pydantic validates and FastAPI returns."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        # Imported by name, as the converter is above this module.
        return import_module("freight_exchange.serialization").pydantic_schema(source)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return import_module("freight_exchange.serialization").json_schema(cls)


class FreightExchangeError(Exception):
    """Base class of all errors of this package.

    Errors consist of plain values: they pickle, copy and print as one sentence, and contain no secret.

    Attributes:
        message: One sentence: the problem and, if possible, what to do.
        method: The HTTP method of the call, or `None` if no call was made.
        path: The path of the call relative to the API root, e.g. `quote/submitoffer`.
        status: The HTTP status of the last reply, or `None` without one.
        attempts: Number of times that the request was handed to the network: 0 if the call ended before that, during
            the login or the wait for a free connection.
        elapsed: Seconds from the start of the call to the error, including waits and logins.
        body: The body of the last reply, as JSON or else as text, with secrets masked. For more than 8 KB: the first
            8 KB as text.
        headers: The headers of the last reply, case-insensitive, without cookies and secrets.
        call_id: The client's id of the call, which hook records and log lines have too. It is not sent.
        may_have_taken_effect: Whether the service may have carried the call out. Only writes have effects.
    """

    may_have_taken_effect: ClassVar[bool] = False

    method: str | None = None
    headers: ReplyHeaders = NO_HEADERS
    call_id: str | None = None

    settled: bool = False
    """`True` after the call has ended with this error: callers must not repeat the call for it."""

    path: str | None = None
    status: int | None = None
    attempts: int = 0
    elapsed: float | None = None
    body: object = None

    def __init__(self, message: str = "", **attributes: Any) -> None:
        super().__init__(message)
        self.__dict__.update(attributes)

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    @property
    def request_id(self) -> str | None:
        """Id of the request by the service or a gateway, from the headers of the reply, or `None`."""
        return self.headers.request_id

    @property
    def call_path(self) -> str | None:
        """The path of the call; a `DecodeError` has it in another attribute than `path`."""
        return self.path

    def __str__(self) -> str:
        call = f" [{self._describe_call()}]" if self.method else ""
        return f"{self.message}{call}"

    def _describe_call(self) -> str:
        facts = [f"{self.method} {self.call_path}"]
        if self.status is not None:
            facts.append(f"status {self.status}")
        if self.attempts > 1:
            facts.append(f"{self.attempts} attempts")
        if self.elapsed is not None:
            facts.append(f"{self.elapsed:.2f} s")
        if self.request_id is not None:
            facts.append(f"request id {self.request_id}")
        return ", ".join(facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ValidationError(FreightExchangeError, ValueError):
    """An argument is invalid. It is raised before anything is sent.

    Attributes:
        field: Name of the invalid argument or draft field, in this package's spelling.
    """

    field: str = ""
