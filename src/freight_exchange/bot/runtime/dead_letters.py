"""Dead letters of a bot that runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from freight_exchange.bot.ops.status import DeadLetter
from freight_exchange.errors import ConfigurationError
from freight_exchange.store.work import NO_LIMIT

if TYPE_CHECKING:
    from freight_exchange.bot.runtime.session.components import Components

__all__ = ["read_dead_letters", "replay_dead_letter"]


async def read_dead_letters(components: Components) -> Sequence[DeadLetter]:
    """Return the deliveries that were given up, the oldest first."""
    found = await components.unit_of_work.read(lambda store: store.deliveries(state="dead", limit=NO_LIMIT))
    return [DeadLetter.from_delivery(dead) for dead in found]


async def replay_dead_letter(components: Components, handlers: Collection[str], event: int, handler: str) -> bool:
    """Deliver a dead letter again, with new attempts, and return whether there was one.

    Raises:
        ConfigurationError: The bot does not have its handler any more, and the letter stays.
    """
    if handler not in handlers:
        letters = await read_dead_letters(components)
        if any((letter.event, letter.handler) == (event, handler) for letter in letters):
            raise ConfigurationError(
                f"this bot has no handler {handler!r} any more: the dead letter stays until one has that id again"
            )
        return False
    now = components.unit_of_work.time()
    found = await components.unit_of_work.write("settle", lambda store: store.replay(event, handler, at=now))
    components.dispatcher.wake()
    return found
