"""Protocol of a bot's work in a store: deliveries of events to handlers, and effects that happen at most once.

The feed's own store has the deliveries, so that one transaction acknowledges an event and creates its deliveries. The
rules of `protocol` apply here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Literal, Protocol

import attrs

from freight_exchange.store.protocol import FeedStore, NewEvent, TrackedRequest

__all__ = [
    "NO_LIMIT", "OPEN_STATES", "SEND_WINDOW", "Delivery", "DeliveryState", "Effect", "Work", "WorkStore",
]  # fmt: skip

NO_LIMIT: Final = 2**31
"""A `limit` that returns everything."""

OPEN_STATES: Final = ("sending", "unknown")
"""States of an effect whose outcome is open. The replica that wrote such a state must resolve it."""

SEND_WINDOW: Final = 10.0
"""Time limit for the start of an effect, in seconds: it counts from just before the effect is recorded as `sending`."""

DeliveryState = Literal["ready", "claimed", "done", "dead"]
"""In this order: to be claimed; in flight; handled; a dead letter, kept for inspection and replay."""


@attrs.frozen(kw_only=True)
class Delivery:
    """The delivery of one event to one handler.

    Attributes:
        event: The event's number.
        handler: The handler's identifier.
        index: The request that the event is about, or `None`.
        kind, payload: The event's. The payload is empty once every delivery of the event is done.
        attempts: How many times it was claimed, including this time.
        state: Its state.
        not_before: The earliest time of the next claim, on the feed's clock.
        error: The error of the last attempt, or `None`.
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
    """The record of a write to the service that must happen at most once.

    Attributes:
        key: Its identity.
        state: Its progress, as a word that the bot defines.
        payload: Its details, as JSON that the bot defines.
        at: The time of the last change, on the feed's clock.
    """

    key: str
    state: str
    payload: bytes
    at: float


class Work(Protocol):
    """The deliveries and effects of one bot. Each method is one transaction."""

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        """Claim up to `limit` ready deliveries that are due, and count the attempt.

        The order is: due time, then request (deliveries about no request first), then event, then handler name. At most
        one delivery of a request is claimed at a time, for any handler. A handler receives the events of a request in
        order: each one waits until all earlier ones are done or dead, and is due no earlier than they are. Deliveries
        about no request have none of these limits.

        Args:
            now: The time on the feed's clock.
            limit: The most deliveries to claim.
            handlers: Claim for these handlers only. Otherwise deliveries for handlers that no longer exist would fill
                every batch.
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
        refund_attempt: bool = False,
        also_done: Sequence[int] = (),
        at: float,
    ) -> bool:
        """Record the result of a delivery. It changes nothing unless this replica has claimed the delivery.

        Args:
            event, handler: The delivery.
            state: Its new state.
            not_before: The earliest time of the next attempt, on the feed's clock. Later ready deliveries of the same
                handler and request are postponed to it as well, so that claims need not examine them.
            error: The error of the attempt.
            refund_attempt: Do not count the attempt, and keep the earlier error if there is no new one.
            also_done: Later events that the attempt handled too: this handler's ready deliveries of them become done.
            at: The time on the feed's clock.

        Returns:
            Whether this replica had claimed the delivery.
        """
        ...

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        """Return the earliest time, perhaps past, at which `claim` can return something if nothing changes.

        `None` if there is no such time. A delivery does not count while an earlier or a claimed one of its request
        blocks it: a bot that slept until its due time would then claim again and again in vain.
        """
        ...

    def count_overdue(
        self, *, now: float, limit: int = NO_LIMIT, handlers: Collection[str] | None = None
    ) -> tuple[int, float | None]:
        """Return the number of ready deliveries that are due, at most `limit`, and the earliest due time.

        A delivery does not count while an earlier one of its handler and request is not due.
        """
        ...

    def count_ready_by_handler(self, *, limit: int = NO_LIMIT) -> Mapping[str, int]:
        """Count the ready deliveries of each handler that has any, up to `limit` of each."""
        ...

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        """Return the first `limit` deliveries in this state, of one request or of all, by event and handler."""
        ...

    def has_delivery(self, handler: str, kind: str) -> bool:
        """Return whether there is a delivery of an event of this kind to the handler, in any state."""
        ...

    def later_deliveries(self, event: int, handler: str) -> Sequence[Delivery]:
        """Return the ready deliveries to this handler of later events of the same request, by event.

        Empty if the given delivery does not exist or its event is about no request.
        """
        ...

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        """Make a dead delivery ready with its attempts reset; its error is kept.

        Returns:
            Whether there was one.
        """
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Combine the writes inside into one transaction; nested transactions join the outer one."""
        ...

    def effect(self, key: str) -> Effect | None:
        """Return the effect with this key, or `None`."""
        ...

    def put_effect(self, effect: Effect, *, expected_state: str | None, expected_at: float | None = None) -> bool:
        """Write an effect if the stored one is the expected one.

        Args:
            effect: The effect.
            expected_state: State of the stored effect; `None` expects that there is none.
            expected_at: Time of the stored effect; `None` for any. Pass it if the effect may have changed since it was
                read: it can return to an earlier state, which the state alone would not show.

        Returns:
            Whether it was written.
        """
        ...

    def amend_effect(self, effect: Effect, *, replaces: Callable[[Effect], bool]) -> bool:
        """Write the outcome of an effect that this replica began, even after another one has taken over its work.

        The outcome is a fact and no decision, so the write needs no lease.

        Args:
            effect: The effect, with its outcome.
            replaces: Receives the stored effect, which stays locked meanwhile, and returns whether to replace it.

        Returns:
            Whether it was written.
        """
        ...

    def effects(self, *states: str) -> Sequence[Effect]:
        """Return the effects in these states, or all, by time and key. Effects are never pruned."""
        ...

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        """Return the effects whose keys begin with this text, by key."""
        ...

    def used_prefixes(self, prefixes: Collection[str], *, states: Collection[str]) -> Collection[str]:
        """Return those of the prefixes with which the key of an effect in one of these states begins.

        The cost is one look-up for each prefix, and does not depend on the number of effects.
        """
        ...


class WorkStore(FeedStore, Work, Protocol):
    """The state of one feed with its deliveries and effects, under one lease."""

    def enqueue(self, handlers: Mapping[int, Sequence[str]], *, at: float) -> None:
        """Acknowledge events and make a ready delivery for each of their handlers, due from `at`.

        The payload of an event with handlers is kept until its last delivery is done; without handlers it is dropped at
        once. Unknown and acknowledged events are ignored.

        Args:
            handlers: The ids of the handlers, by the number of the event.
            at: The time on the feed's clock.
        """
        ...

    def live_requests(self, *, after: TrackedRequest | None = None, limit: int) -> Sequence[TrackedRequest]:
        """Return the first `limit` requests after `after`, or of all, by `updated_after` and then by `index`.

        Tombstones and withdrawn requests are left out.
        """
        ...

    def add_event(self, event: NewEvent, *, at: float) -> bool:
        """Add an event that no scan produced.

        Returns:
            Whether it was added. If its key exists, the stored event counts as proposed again instead.
        """
        ...
