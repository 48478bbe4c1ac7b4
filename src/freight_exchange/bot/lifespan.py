"""Lifespan: open what handlers share, such as a database pool, and close it after them."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio

from freight_exchange.bot.context import Stopping
from freight_exchange.bot.handler import POSITIONAL
from freight_exchange.bot.tasks import failures_in, flatten
from freight_exchange.client import FreightExchange
from freight_exchange.errors import ConfigurationError

_logger = logging.getLogger("freight_exchange.bot")

_CLOSE_GRACE: Final = 1.0

Lifespan = Callable[..., AbstractAsyncContextManager[object] | AsyncIterator[object]]
"""Function of the exchange, or of nothing, that returns an async context manager, or an async generator that yields
once.

It yields the resources that handlers share: a mapping of names to resources, or a single resource."""


@asynccontextmanager
async def no_resources() -> AsyncIterator[Mapping[str, object]]:
    yield {}


async def run_with_lifespan(
    lifespan: Lifespan,
    exchange: FreightExchange,
    work: Callable[[Mapping[str, object]], Awaitable[None]],
    *,
    stop: Stopping,
    drain: float,
) -> None:
    """Open the resources, do the work with them by name, and close them.

    `stop` cancels the opening; later it limits the closing to one second after the drain. What does not close in time
    is a `TimeoutError`. The caller knows the errors of the work: a lifespan may catch them at its `yield`.
    """
    drained_at, is_opening = math.inf, True
    errors: list[BaseException] | None = None
    scope = anyio.CancelScope()

    async def limit() -> None:
        nonlocal drained_at
        await stop.wait()
        drained_at = anyio.current_time() + drain
        if is_opening:
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limit)
        with scope:
            try:
                async with open_lifespan(lifespan, exchange) as resources:
                    is_opening = False
                    try:
                        await work(resources)
                        errors = []
                    except BaseException as error:
                        errors = failures_in(error) or None
                        raise
                    finally:
                        now = anyio.current_time()
                        scope.deadline = max(min(drained_at, now + drain), now) + _CLOSE_GRACE
            except Exception as error:
                # It must not replace the error that ended the bot, or the clean end, which decide the exit status.
                if errors is None:
                    raise
                if any(one not in errors for one in flatten(error)):
                    _logger.exception("error while the lifespan closes")
        tasks.cancel_scope.cancel()
    if scope.cancelled_caught and errors == []:
        raise TimeoutError("the lifespan did not close in time: it is left open")


@asynccontextmanager
async def open_lifespan(lifespan: Lifespan, exchange: FreightExchange) -> AsyncIterator[Mapping[str, object]]:
    """Open the resources for the block, by name; a single one has the name of its type."""
    async with AsyncExitStack() as stack:
        manager = _as_manager(lifespan(exchange) if _takes_exchange(lifespan) else lifespan())
        try:
            resources = await stack.enter_async_context(manager)
        except RuntimeError as error:
            # A generator's context manager has no type of its own for this.
            if str(error) != "generator didn't yield":
                raise
            raise ConfigurationError(
                "lifespan ended without a yield: it must yield the resources that handlers share, and continues "
                "afterwards when the bot ends"
            ) from error
        if resources is None:
            yield {}
        elif isinstance(resources, Mapping):
            yield resources
        else:
            yield {type(resources).__name__: resources}


def _as_manager(result: Any) -> AbstractAsyncContextManager[object]:
    if inspect.isasyncgen(result):
        return asynccontextmanager(lambda: result)()
    if hasattr(result, "__aenter__") and hasattr(result, "__aexit__"):
        manager: AbstractAsyncContextManager[object] = result
        return manager
    if inspect.iscoroutine(result):
        result.close()
    raise ConfigurationError(
        "lifespan must be an async generator function, or return an async context manager, not a "
        f"{type(result).__name__}"
    )


def check_lifespan(lifespan: Lifespan) -> None:
    """Check that a lifespan can be called with the exchange or with nothing."""
    if not callable(lifespan):
        raise ConfigurationError(f"lifespan must be a function, not a {type(lifespan).__name__}")
    try:
        signature = inspect.signature(lifespan)
        signature.bind(*((None,) if _takes_exchange(lifespan) else ()))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"lifespan must be a function of the exchange, or of nothing: {error}") from None


def _takes_exchange(lifespan: Lifespan) -> bool:
    """Return whether it has a required parameter, which can only be the exchange."""
    parameters = inspect.signature(lifespan).parameters.values()
    return any(one.kind in POSITIONAL and one.default is inspect.Parameter.empty for one in parameters)
