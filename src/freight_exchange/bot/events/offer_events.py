"""Offer events: turn the events of the feed of offers into events and deliveries of the bot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from freight_exchange.bot.answers.record import AnswerRecord, answer_key
from freight_exchange.bot.delivery.routing import matches
from freight_exchange.bot.handlers.handler import kind_of
from freight_exchange.feed.events import Unreadable, number_of
from freight_exchange.offer_feed.events import OfferEvent
from freight_exchange.offer_feed.serialization import pack
from freight_exchange.store.protocol import NewEvent

if TYPE_CHECKING:
    from freight_exchange.bot.handlers.handler import Handler, Kind
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.offer_feed.events import OfferFeedEvent
    from freight_exchange.offer_feed.feed import OfferFeed
    from freight_exchange.store.work import WorkStore

__all__ = ["OfferEvents"]

_logger = logging.getLogger("freight_exchange.bot")


class OfferEvents:
    """Routing of offer events into deliveries.

    Each event is added to the bot's store under a unique key, with its deliveries, before the feed acknowledges it: a
    crash in between adds nothing twice.

    Args:
        feed: The feed of offers, not entered yet.
        unit_of_work: Stores the events.
        handlers: Handlers of the bot.
        metrics: Counts events.
        wake: Called when a delivery may be due.
    """

    def __init__(
        self,
        feed: OfferFeed,
        unit_of_work: UnitOfWork,
        handlers: Iterable[Handler],
        metrics: Metrics,
        wake: Callable[[], None],
    ) -> None:
        self._feed = feed
        self._unit_of_work = unit_of_work
        self._handlers = tuple(handlers)
        self._metrics = metrics
        self._wake = wake

    async def run(self) -> None:
        """Turn the feed's events into deliveries until cancelled."""
        async with self._feed:
            async for batch in self._feed.batches():
                await self._record(batch)

    async def _record(self, batch: Sequence[OfferFeedEvent]) -> None:
        for event in batch:
            if isinstance(event, Unreadable):
                _logger.error(
                    "own request %s, or an offer on it, cannot be read: %s; it is delivered as unreadable",
                    event.index,
                    event.error,
                )
        now = self._unit_of_work.time()

        def write(store: WorkStore) -> dict[str, int]:
            added: dict[str, int] = {}
            with store.transaction():
                for event in batch:
                    marked = _with_author(store, event)
                    kind = kind_of(marked)
                    if store.add_event(_stored(event, kind, pack(marked)), at=now):
                        added[kind] = added.get(kind, 0) + 1
                        self._enqueue(store, marked, kind, now)
            return added

        self._metrics.events.update(await self._unit_of_work.write("deliver", write))
        self._wake()

    def _enqueue(self, store: WorkStore, event: OfferFeedEvent, kind: Kind, now: float) -> None:
        """Enqueue the deliveries of the event that was added last."""
        number = store.pending_of_kind(kind)[-1].id
        store.enqueue({number: [handler.id for handler in self._handlers if matches(handler, event)]}, at=now)


def _with_author(store: WorkStore, event: OfferFeedEvent) -> OfferFeedEvent:
    """Add the handler that gave the answer to an event, if the ledger has the answer."""
    if not isinstance(event, OfferEvent) or event.answer is None:
        return event
    effect = store.effect(answer_key(event.request, None if event.answer == "approved" else event.offer.id))
    record = None if effect is None else AnswerRecord.from_effect(effect)
    is_ours = record is not None and record.offer == event.offer.id and record.state != "intent"
    return attrs.evolve(event, answered_by=record.handler) if record is not None and is_ours else event


def _stored(event: OfferFeedEvent, kind: str, payload: bytes) -> NewEvent:
    index = event.request if isinstance(event, OfferEvent) else event.index
    return NewEvent(key=f"offers:{number_of(event)}", index=index, kind=kind, payload=payload)
