"""Dependency injection: resolve a handler's parameters, by name or by type, from the resources of a lifespan."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Union

from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import Handler

__all__ = ["resolve_arguments"]

_VALUE_MODULES: Final = ("builtins", "datetime", "decimal")
"""Modules of classes that do not identify a resource: a text may be a currency or a password."""

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def resolve_arguments(
    handlers: Iterable[Handler], resources: Mapping[str, object]
) -> Mapping[str, Mapping[str, object]]:
    """Resolve the arguments of each handler beside its event and its context, by the handler's id.

    Raises:
        ConfigurationError: A resource that a handler needs is missing or ambiguous.
    """
    return {handler.id: _resolve(handler, resources) for handler in handlers}


def _resolve(handler: Handler, resources: Mapping[str, object]) -> Mapping[str, object]:
    arguments: dict[str, object] = {}
    for name, parameter in _injected_parameters(handler.function).items():
        if name in resources:
            arguments[name] = resources[name]
            continue
        kinds = _identifying_classes(_evaluate(parameter.annotation, handler.function))
        is_required = parameter.default is inspect.Parameter.empty
        # A parameter with a default could match a subclass by accident.
        matches = _is_instance if is_required else _is_exact_instance
        candidates = [resource for resource in resources.values() if matches(resource, kinds)]
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
    """Return the named parameters after the event and the context."""
    parameters = inspect.signature(function).parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    keyword_only = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    named = [parameter for parameter in positional[2:] if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY]
    return {parameter.name: parameter for parameter in (*named, *keyword_only)}


def _evaluate(annotation: Any, function: Any) -> Any:
    """Evaluate an annotation; `None` if that fails, as for names that exist for type checkers only."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, _plain_function(function).__globals__)
        except Exception:  # noqa: BLE001 - an annotation may be any expression
            return None
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _plain_function(function: Any) -> Any:
    """Return the function behind partials, bound methods, callable objects and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.ismethod(function):
        function = function.__func__
    elif not hasattr(function, "__code__"):
        function = type(function).__call__
    return inspect.unwrap(function)


def _is_instance(resource: object, kinds: tuple[type, ...]) -> bool:
    for kind in kinds:
        try:
            if isinstance(resource, kind):
                return True
        except TypeError:
            # Protocols and typed dictionaries do not support `isinstance`.
            continue
    return False


def _is_exact_instance(resource: object, kinds: tuple[type, ...]) -> bool:
    return type(resource) in kinds


def _identifying_classes(hint: Any) -> tuple[type, ...]:
    """Return the classes of an annotation that identify a resource."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for choice in typing.get_args(hint) for kind in _identifying_classes(choice))
    hint = typing.get_origin(hint) or hint
    return (hint,) if isinstance(hint, type) and hint is not Any and hint.__module__ not in _VALUE_MODULES else ()
