"""What a bot keeps beside the state of its feed: which handler has which event, and what is done to the world once.

It lies in the feed's own store and under the feed's own lease: an event is acknowledged and handed over to its handlers
in one transaction. The rules of `protocol` hold here too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Literal, Protocol

import attrs

from freight_exchange.store.protocol import Binding, FeedStore, NewEvent, Store

__all__ = ["EVERY", "BotStore", "Delivery", "DeliveryState", "Effect", "WorkStore"]

EVERY: Final = 2**31
"""As a `limit`: all there are."""

DeliveryState = Literal["ready", "claimed", "done", "dead"]
"""Ready to be claimed, at a handler, handled, or given up: kept, to be looked at and replayed."""


@attrs.frozen(kw_only=True)
class Delivery:
    """One event for one handler.

    Attributes:
        event: The event's number.
        handler: The handler's identifier.
        index: The request that the event is about, where it is about one.
        kind, payload: The event's. The payload is empty once every delivery of the event is done.
        attempts: How often it was claimed, this time included.
        state: What has become of it.
        not_before: It is not claimed earlier than this, on the feed's clock.
        error: What the last attempt ended by, or `None`.
    """

    event: int
    handler: str
    index: int | None
    kind: str
    payload: bytes
    attempts: int
    state: DeliveryState
    not_before: float
    error: str | None


@attrs.frozen(kw_only=True)
class Effect:
    """Something that is done to the world at most once.

    Attributes:
        key: What makes it the same one.
        state: How far it has come, in a word of the bot's.
        payload: What is known of it, in the bot's own JSON.
        at: When that was so, on the feed's clock.
    """

    key: str
    state: str
    payload: bytes
    at: float


class WorkStore(FeedStore, Protocol):
    """The state of one feed, and the work that its events make. Each method is one transaction under the lease."""

    def deliver(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        """Acknowledge events, by their numbers, and make a ready delivery for each handler of each, due from `at` on.

        The payload of an event that has handlers is kept until its last delivery is done; that of one without is
        dropped at once. An event that is unknown or acknowledged already is no error, and gets no delivery.
        """
        ...

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        """Claim up to `limit` deliveries that are ready and due at `now`, those that have been due the longest first.
        Of those due alike, what is about no request goes first, and then the lowest index, the oldest event, and the
        handlers by name. Where `handlers` are named, nothing else is claimed than what is for one of them: what waits
        for a handler that there is not any more would be in the way of everything newer.

        Of one request there is at most one claimed at a time, whichever the handler, and for one handler its events
        come in order: none before every earlier one is done or dead. Those that are about no request are bound by
        neither. The attempt counts from here on: a handler that kills the process has had it.
        """
        ...

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        forgive: bool = False,
        also: Sequence[int] = (),
        at: float,
    ) -> None:
        """Note what has become of a claimed delivery; one that is not claimed stays as it is.

        Args:
            event, handler: Which one.
            state: What it is now.
            not_before: The earliest time for another attempt, on the feed's clock.
            error: What the attempt ended by.
            forgive: The attempt does not count, nor does it hide what an earlier one ended by.
            also: Later events that the attempt has handled as well: this handler's deliveries of them, if they are
                still ready, are done.
            at: The time on the feed's clock.
        """
        ...

    def reclaim(self) -> int:
        """Make ready again what an earlier holder left claimed; its attempts stay counted.

        Returns:
            How many there were.
        """
        ...

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        """The earliest time from which on `claim` has something to give, if nothing else happens until then; it may
        have passed. `None` where nothing is ready, and where all that is waits for a claimed one of its request.
        `handlers` are as in `claim`.

        What waits for an earlier delivery has no time of its own: a bot that slept until it would not sleep.
        """
        ...

    def overdue(self, *, now: float, handlers: Collection[str] | None = None) -> tuple[int, float | None]:
        """How many deliveries are ready and due at `now`, and since when the first of them is. What stands behind an
        earlier one of its handler and request that is not due is not due either. `handlers` are as in `claim`."""
        ...

    def ready_by_handler(self) -> Mapping[str, int]:
        """How many deliveries are ready, due or not, for each handler that has any."""
        ...

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        """The first `limit` deliveries in this state, by event and handler; of one request, if its index is given."""
        ...

    def behind(self, event: int, handler: str) -> Sequence[Delivery]:
        """The ready deliveries of later events about the same request to the same handler, in the order of events."""
        ...

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        """Make a dead delivery ready again, as if it had never been tried; its error stays to be read.

        Returns:
            Whether there was one.
        """
        ...

    def together(self) -> AbstractContextManager[None]:
        """Make one transaction of what is written within: all of it, or, where anything raises, nothing."""
        ...

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        """Add an event that no scan made.

        Returns:
            Whether it was added: with a key that is there already it is not, and counts as proposed again.
        """
        ...

    def effect(self, key: str) -> Effect | None:
        """The effect with this key, if there is one."""
        ...

    def put_effect(self, effect: Effect, *, was: str | None) -> bool:
        """Write an effect, provided that its state is still `was`, or, for `None`, that there is none yet.

        Returns:
            Whether it was written.
        """
        ...

    def effects(self, *states: str) -> Sequence[Effect]:
        """The effects in any of these states, or all where none is named: the oldest first, and then by key. They are
        kept for ever."""
        ...


class BotStore(Store, Protocol):
    """Keeps the state of feeds, and their work."""

    def open(self, binding: Binding, *, lease: float) -> WorkStore:
        """As `Store.open`."""
        ...
