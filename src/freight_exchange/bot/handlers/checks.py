"""Validation of a handler's function and options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from freight_exchange.bot.handlers.handler import OFFER_KINDS
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.feed.options import check_text
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.words import RequestType, UnknownWord

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import Function, Kind

__all__ = ["check_fields", "check_function", "check_id", "check_options", "check_types", "default_id"]

_FROM_START_KINDS: Final[tuple[Kind, ...]] = ("new", "selected")
_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY


def check_fields(kind: Kind, fields: Mapping[str, object]) -> None:
    """Check the names of keywords."""
    filter_ = OfferFilter if kind in OFFER_KINDS.values() else RequestFilter
    known = {*inspect.signature(filter_).parameters}
    if kind in ("gap", "unreadable"):
        known = set()
    if unknown := fields.keys() - known:
        choices = (*sorted(known), "id", "retries", "timeout", *(["from_start"] if kind in _FROM_START_KINDS else ()))
        raise ConfigurationError(f"on_{kind} has no {min(unknown)}=: its keywords are {', '.join(choices)}")


def check_types(types: str | tuple[str, ...] | None) -> None:
    """Check the types of a filter. The filter itself takes any word, but a mistyped one would never match."""
    for word in (types,) if isinstance(types, str) else types or ():
        try:
            RequestType(" ".join(word.split()))
        except ValueError:
            if not isinstance(word, UnknownWord):
                raise ValidationError(
                    f"type must be {', '.join(RequestType)}, not {word!r}; for a new word of the service, pass "
                    f"UnknownWord({str(word)!r})",
                    field="type",
                ) from None


def check_options(kind: Kind, *, id: object, retries: object, from_start: object) -> None:
    """Check the options that are not filters."""
    if id is not None:
        check_id(id)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigurationError(f"retries must be a whole number from 0, not {retries!r}")
    if not isinstance(from_start, bool):
        raise ConfigurationError(f"from_start must be True or False, not {from_start!r}")
    if from_start and kind not in _FROM_START_KINDS:
        raise ConfigurationError(f"on_{kind} has no from_start: its first run delivers everything that is listed")


def check_id(id: object) -> None:
    """Check an id."""
    if not isinstance(id, str) or not id.strip():
        raise ConfigurationError(f"id must be a text that is not empty, not {id!r}")
    check_text(id, "id")


def default_id(function: Function) -> str:
    """Return the id of a handler that was given none."""
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        raise ConfigurationError("a handler without a name needs id=, the key of its deliveries")
    return name


def check_function(function: object, kind: Kind) -> None:
    """Check that a function is async and takes an event and a context."""
    if not callable(function):
        raise ConfigurationError(f"@on_{kind} decorates an async function, not a {type(function).__name__}")
    name = getattr(function, "__qualname__", function)
    call = type(function).__call__
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise ConfigurationError(f"the handler {name!r} must be an async function (request, ctx)")
    try:
        # Further parameters are resolved by name, which positional-only ones do not have.
        signature = inspect.signature(function)
        signature.bind_partial(None, None)
        unnamed = [parameter for parameter in signature.parameters.values() if parameter.kind is _POSITIONAL_ONLY]
        if any(parameter.default is inspect.Parameter.empty for parameter in unnamed[2:]):
            raise TypeError
    except TypeError:
        raise ConfigurationError(f"the handler {name!r} must take two arguments: (request, ctx)") from None
