"""Handler: a function, the events that it is called for, and its further arguments from the lifespan."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, Union, cast

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.events import BidSelected, Gap, OfferEvent, RequestEvent, Unreadable
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.models import Currency

BotEvent = RequestEvent | Gap | Unreadable | BidSelected | OfferEvent
"""Event that a handler can be called for."""

Kind = Literal[
    "new", "updated", "withdrawn", "selected", "gap", "unreadable",
    "offer", "offer_changed", "offer_answered", "offer_gone",
]  # fmt: skip
"""Kind of an event."""

FEED_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("new", "updated", "withdrawn", "gap"), ("requests",)),
    **dict.fromkeys(("offer", "offer_changed", "offer_answered", "offer_gone"), ("offers",)),
    "selected": ("selected",),
    "unreadable": ("requests", "offers"),
}
"""Feeds that have events of a kind."""

Function = Callable[..., Awaitable[object]]

_VALUE_MODULES: Final = ("builtins", "datetime", "decimal")
"""Modules of classes that do not identify a resource: a text may be a currency or a password."""

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@attrs.frozen(kw_only=True, eq=False)
class Handler:
    """A function and the events that it is called for.

    Attributes:
        id: Key of its deliveries in the store.
        function: The function.
        filters: A filter of requests or offers for each kind of event.
        retries: Further calls after a failure, before the delivery is dead.
        timeout: Seconds that a call may take.
        from_start: Kinds for which it also gets what is older than its first registration.
    """

    id: str
    function: Function
    filters: Mapping[Kind, RequestFilter | OfferFilter]
    retries: int
    timeout: float
    from_start: frozenset[Kind]

    def handles(self, kind: str) -> bool:
        """Return whether the handler is called for events of a kind."""
        return kind in self.filters

    async def load_codes(self, by_code: Callable[[str], Awaitable[Currency]]) -> None:
        """Look up the codes of currencies by which the handler's filters select."""
        for one in self.filters.values():
            if isinstance(one, OfferFilter):
                await one.load_codes(by_code)

    def matches(self, event: BotEvent) -> bool:
        """Return whether the handler is called for an event. Raises the errors of its `where=` function."""
        filter_ = self.filters.get(kind_of(event))
        if filter_ is None:
            return False
        if isinstance(filter_, OfferFilter):
            return isinstance(event, OfferEvent) and filter_.matches(event.offer, event.listing)
        if isinstance(event, (Gap, Unreadable)):
            # Gaps and unreadable requests have no fields to filter by.
            return True
        return filter_.matches(subject(event))


@attrs.frozen(kw_only=True)
class Delivery:
    """Event for one handler, as this replica has claimed it, with the error of the last attempt.

    `merged` are later updates that are merged into it.
    """

    event_id: int
    handler: int
    name: str
    kind: str
    subject: int | None
    attempts: int
    error: str | None
    event: BotEvent
    merged: tuple[int, ...] = ()

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {
            "event": self.kind,
            "number": self.event_id,
            "handler": self.name,
            "request": self.subject,
            "attempt": self.attempts,
        }


def kind_of(event: BotEvent) -> Kind:
    if not isinstance(event, OfferEvent):
        return event.kind
    return "offer" if event.kind == "new" else cast(Kind, f"offer_{event.kind}")


def subject(event: BotEvent) -> Any:
    """Return the first argument of a handler: the request, the bid, the offer, or the event itself."""
    match event:
        case RequestEvent():
            return event.request
        case BidSelected():
            return event.bid
        case OfferEvent():
            return event.offer
        case _:
            return event


def resolve_arguments(handler: Handler, resources: Mapping[str, object]) -> Mapping[str, object]:
    """Resolve a handler's arguments after its event and its context, by name or by type."""
    arguments: dict[str, object] = {}
    for name, parameter in _injected_parameters(handler.function).items():
        if name in resources:
            arguments[name] = resources[name]
            continue
        kinds = _identifying_classes(_evaluate(parameter.annotation, handler.function))
        is_required = parameter.default is inspect.Parameter.empty
        # A parameter with a default could match a subclass by accident.
        candidates = [
            one for one in resources.values() if (_is_instance(one, kinds) if is_required else type(one) in kinds)
        ]
        if len(candidates) == 1:
            arguments[name] = candidates[0]
        elif is_required:
            available = ", ".join(map(str, resources)) or "nothing"
            fit = "matches several" if candidates else "is none"
            raise ConfigurationError(
                f"the handler {handler.id!r} needs {name!r}, which {fit} of the resources of the lifespan: {available}"
            )
    return arguments


def _injected_parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
    keyword_only = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    named = [parameter for parameter in positional[2:] if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY]
    return {parameter.name: parameter for parameter in (*named, *keyword_only)}


def _evaluate(annotation: Any, function: Any) -> Any:
    """Evaluate an annotation; `None` if that fails, as for names that exist for type checkers only."""
    if isinstance(annotation, str):
        while isinstance(function, functools.partial):
            function = function.func
        plain = inspect.unwrap(function if hasattr(function, "__globals__") else type(function).__call__)
        try:
            annotation = eval(annotation, plain.__globals__)
        except Exception:  # noqa: BLE001 - an annotation may be any expression
            return None
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _is_instance(resource: object, kinds: tuple[type, ...]) -> bool:
    for kind in kinds:
        # Protocols and typed dictionaries do not support `isinstance`.
        with contextlib.suppress(TypeError):
            if isinstance(resource, kind):
                return True
    return False


def _identifying_classes(hint: Any) -> tuple[type, ...]:
    """Return the classes of an annotation that identify a resource."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for choice in typing.get_args(hint) for kind in _identifying_classes(choice))
    hint = typing.get_origin(hint) or hint
    return (hint,) if isinstance(hint, type) and hint is not Any and hint.__module__ not in _VALUE_MODULES else ()
