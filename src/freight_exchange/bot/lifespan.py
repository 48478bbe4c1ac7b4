"""What handlers share, a database pool say: set up once, and handed to them by name or by type."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Union

import anyio

from freight_exchange.bot.cancellation import split
from freight_exchange.bot.outcomes import leaves
from freight_exchange.errors import ConfigurationError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.router import Handler
    from freight_exchange.client import FreightExchange

__all__ = ["Lifespan", "arguments", "check", "nothing", "opened", "using"]

_logger = logging.getLogger("freight_exchange.bot")

_TO_CLOSE: Final = 1.0
_VALUES: Final = ("builtins", "datetime", "decimal")
"""Modules of classes that say nothing of what is wanted: a text may be a currency, and a password."""

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Lifespan = Callable[..., AbstractAsyncContextManager[object] | AsyncIterator[object]]
"""A function, of the exchange or of nothing, that gives an async context manager of what handlers share, or an async
generator that yields it once: a mapping of names to resources, or a single resource."""


@asynccontextmanager
async def nothing() -> AsyncIterator[Mapping[str, object]]:
    """What a bot without a lifespan shares."""
    yield {}


async def using(
    lifespan: Lifespan,
    exchange: FreightExchange,
    work: Callable[[Mapping[str, object]], Awaitable[None]],
    *,
    tasks: TaskGroup,
    stop: anyio.Event,
    drain: float,
) -> None:
    """Open the resources, work with them, and close them.

    Args:
        lifespan: What opens and closes them.
        exchange: The client, for a lifespan that asks for it.
        work: What needs them; it is given them by name, a single one by the name of its type.
        tasks: Where the stop is waited for.
        stop: Ends their opening. What is not closed a second after the drain is left.
        drain: Seconds that the work has after it.

    Raises:
        ConfigurationError: What the lifespan gives cannot be entered.
        TimeoutError: They were not closed in time.
    """
    closed_by, opening = math.inf, True
    failure: BaseException | None = None
    lifetime = anyio.CancelScope()

    async def wait() -> None:
        nonlocal closed_by
        await stop.wait()
        closed_by = anyio.current_time() + drain
        if opening:
            lifetime.cancel()

    tasks.start_soon(wait)
    with lifetime:
        try:
            async with opened(lifespan, exchange) as shared:
                opening = False
                try:
                    await work(shared)
                except BaseException as error:
                    failure = error
                    raise
                finally:
                    ended = anyio.current_time()
                    lifetime.deadline = max(min(closed_by, ended + drain), ended) + _TO_CLOSE
        except BaseException as error:
            if failure is None or not _is_another(error, failure):
                raise
            # It must not stand for what ended the bot, which says whether another start may help.
            _logger.exception("what lifespan gives does not close well")
    # A lifespan that handles what comes out of its `yield` has not undone what ended the bot.
    if failure is not None and split(failure)[1]:
        raise failure
    if lifetime.cancelled_caught and not opening:
        raise failure or TimeoutError("what lifespan gives does not close: it is left as it is")


def _is_another(error: BaseException, failure: BaseException) -> bool:
    """Whether it is an error of its own, and not that failure on its way out, nor what is to end the task."""
    if not split(failure)[1] or not all(isinstance(leaf, Exception) for leaf in leaves(error)):
        return False
    known = [id(leaf) for leaf in leaves(failure)]
    return not all(id(leaf) in known for leaf in leaves(error))


@asynccontextmanager
async def opened(lifespan: Lifespan, exchange: FreightExchange) -> AsyncIterator[Mapping[str, object]]:
    """The resources, by name, for as long as they are open.

    Raises:
        ConfigurationError: What the lifespan gives cannot be entered.
    """
    async with AsyncExitStack() as stack:
        made = _entered(lifespan(exchange) if _asks(lifespan) else lifespan())
        try:
            given = await stack.enter_async_context(made)
        except RuntimeError as error:
            # A generator's context manager has no other word for it.
            if str(error) != "generator didn't yield":
                raise
            raise ConfigurationError(
                "lifespan has ended without a yield: what handlers share is what it yields, and it goes on after that "
                "when the bot ends"
            ) from error
        if given is None:
            yield {}
        elif isinstance(given, Mapping):
            yield given
        else:
            yield {type(given).__name__: given}


def _entered(made: Any) -> AbstractAsyncContextManager[object]:
    if inspect.isasyncgen(made):
        return asynccontextmanager(lambda: made)()
    if hasattr(made, "__aenter__") and hasattr(made, "__aexit__"):
        entered: AbstractAsyncContextManager[object] = made
        return entered
    if inspect.iscoroutine(made):
        made.close()
    raise ConfigurationError(
        f"lifespan must be an async generator function, or give an async context manager, not a {type(made).__name__}"
    )


def check(lifespan: Lifespan) -> None:
    """`ConfigurationError` unless it can be called with the exchange, or with nothing."""
    try:
        signature = inspect.signature(lifespan)
        signature.bind(*((None,) if _asks(lifespan) else ()))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"lifespan must be a function of the exchange, or of nothing: {error}") from None


def _asks(lifespan: Lifespan) -> bool:
    """Whether it has a parameter that only the exchange can be for."""
    parameters = inspect.signature(lifespan).parameters.values()
    return any(one.kind in _POSITIONAL and one.default is inspect.Parameter.empty for one in parameters)


def arguments(handlers: Iterable[Handler], resources: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]:
    """What each handler is given beside its event and its context, by the handler's id.

    Raises:
        ConfigurationError: A handler wants something that is not there.
    """
    return {handler.id: _arguments_of(handler, resources) for handler in handlers}


def _arguments_of(handler: Handler, resources: Mapping[str, object]) -> Mapping[str, object]:
    wanted = _wanted_of(handler.function)
    if not wanted:
        return {}
    given: dict[str, object] = {}
    for name, parameter in wanted.items():
        if name in resources:
            given[name] = resources[name]
            continue
        kinds = _classes(_hint(parameter.annotation, handler.function))
        needed = parameter.default is inspect.Parameter.empty
        # What can be done without must be meant exactly.
        fits = _is_one if needed else _is_exactly_one
        fitting = [resource for resource in resources.values() if fits(resource, kinds)]
        if len(fitting) == 1:
            given[name] = fitting[0]
        elif needed:
            there = ", ".join(map(str, resources)) or "nothing"
            how = "fits more than one" if fitting else "is none"
            raise ConfigurationError(
                f"the handler {handler.id!r} wants {name!r}, which {how} of what lifespan gives: {there}"
            )
    return given


def _wanted_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """The function's parameters that can be given by name, without those that the event and the context go to."""
    parameters = inspect.signature(function).parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    named = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    by_name = [parameter for parameter in positional[2:] if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY]
    return {parameter.name: parameter for parameter in (*by_name, *named)}


def _hint(annotation: Any, function: Any) -> Any:
    """What an annotation means; `None` for one that is there for type checkers alone: names have to do."""
    if isinstance(annotation, str):
        while isinstance(function, functools.partial):
            function = function.func
        plain = inspect.unwrap(function if hasattr(function, "__code__") else type(function).__call__)
        if inspect.ismethod(function):
            plain = inspect.unwrap(function.__func__)
        try:
            annotation = eval(annotation, plain.__globals__)
        except Exception:  # noqa: BLE001 - an annotation may be any expression, and need not mean anything here
            return None
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation


def _is_one(resource: object, kinds: tuple[type, ...]) -> bool:
    for kind in kinds:
        try:
            if isinstance(resource, kind):
                return True
        except TypeError:
            # A protocol or a typed dictionary: no object can be asked whether it is one.
            continue
    return False


def _is_exactly_one(resource: object, kinds: tuple[type, ...]) -> bool:
    return type(resource) in kinds


def _classes(hint: Any) -> tuple[type, ...]:
    """The classes that an annotation stands for, of those that say what is wanted."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return tuple(kind for choice in typing.get_args(hint) for kind in _classes(choice))
    hint = typing.get_origin(hint) or hint
    return (hint,) if isinstance(hint, type) and hint is not Any and hint.__module__ not in _VALUES else ()
