"""Repository of the offer ledger: find offers in the bot's store, and write them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from freight_exchange.bot.offers.record import PLACED, UNSETTLED, OfferRecord, offer_prefix
from freight_exchange.bot.outcomes import IN_DOUBT
from freight_exchange.bot.writes.record_versions import put_version
from freight_exchange.errors import StoreError
from freight_exchange.store.work import NO_LIMIT, Effect

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from freight_exchange.bot.offers.record import State
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.store.work import Delivery, DeliveryState, Work

__all__ = ["ChangedElsewhereError", "OfferRepository", "changed_elsewhere_error", "redeliver"]

_BIDS_READ: Final = "own bids"
_BATCH: Final = 1000
"""Look-ups in one reading of the store: some hundredths of a second."""

WaitingOffers = Mapping[tuple[int, str], set[int]]
"""Revisions that a delivery asked for while an offer on its request was in doubt, by event and handler."""


class ChangedElsewhereError(StoreError):
    """A person or another replica has changed the state of an offer or an answer in the store."""


class OfferRepository:
    """Offers of a bot in its store.

    Args:
        unit_of_work: The store.
        handlers: Ids of the bot's handlers.
    """

    def __init__(self, unit_of_work: UnitOfWork, handlers: Collection[str] = ()) -> None:
        self._unit_of_work = unit_of_work
        self._handlers = handlers
        self._waiting: dict[int, dict[tuple[int, str], set[int]]] = {}
        """Offers that deliveries wait for, by request. Not stored: unknown after a restart."""

    async def find(self, request: int) -> tuple[OfferRecord, ...]:
        """Return the offers on a request, by revision."""

        def read(store: Work) -> Sequence[Effect]:
            return store.effects_under(offer_prefix(request))

        records = map(OfferRecord.from_effect, await self._unit_of_work.read(read))
        return tuple(sorted(records, key=lambda record: record.revision))

    async def find_requests_with_offers(self, requests: Collection[int]) -> frozenset[int]:
        """Return those of the requests on which the service has an offer of this bot, or may have one."""
        found = set[int]()
        prefixes = {offer_prefix(request): request for request in requests}
        wanted = [*prefixes]
        # In batches, so that deliveries can be claimed in between.
        for start in range(0, len(wanted), _BATCH):
            used = await self._find_used(wanted[start : start + _BATCH])
            found.update(prefixes[prefix] for prefix in used)
        return frozenset(found)

    async def has_offers(self) -> bool:
        """Return whether the service has any offer of this bot, or may have one."""
        return bool(await self._find_used([offer_prefix()]))

    async def add_intent(self, record: OfferRecord, *, replaces: OfferRecord | None) -> None:
        """Record an offer that is to be sent, in place of the version that was read, if any."""
        await self._put("intent", record, replaces=replaces)

    async def advance(
        self, record: OfferRecord, state: State, *, step: str | None = None, **changes: Any
    ) -> OfferRecord:
        """Record a new state of an offer, and return the new record."""
        changed = attrs.evolve(record, state=state, at=self._unit_of_work.time(), **changes)
        await self.replace(record, changed, step=step)
        return changed

    async def replace(self, record: OfferRecord, changed: OfferRecord, *, step: str | None = None) -> None:
        """Record a new version of an offer in place of the version that was read."""
        await self._put(step or changed.state, changed, replaces=record)
        if changed.state not in UNSETTLED:
            self._waiting.pop(record.request, None)

    async def record_late(self, record: OfferRecord, answered: OfferRecord) -> bool:
        """Record the reply to an offer that was taken over while it was being sent.

        Args:
            record: The offer in the state `sending`, whose time is that of the send.
            answered: The offer with the reply.

        Returns:
            Whether it was recorded. It is not if another result is known, or the offer was sent again.
        """

        def is_open(effect: Effect) -> bool:
            stored = OfferRecord.from_effect(effect)
            # A replica that takes an offer over counts it as in doubt since the send.
            is_same_send = stored.state in UNSETTLED and stored.in_doubt_since == record.at
            return is_same_send or stored.state == "intent"

        return await self._unit_of_work.write(
            answered.state, lambda store: store.amend_effect(answered.to_effect(), replaces=is_open)
        )

    async def find_one(self, request: int, key: str) -> OfferRecord | None:
        """Return an offer on a request as the store has it now, or `None`."""
        return next((record for record in await self.find(request) if record.key == key), None)

    async def return_to_handler(self, record: OfferRecord, **changes: Any) -> bool | None:
        """Record that an offer was not taken, and have its handler send it again.

        Returns:
            The result of `redeliver`.
        """
        changed = attrs.evolve(record, state="intent", at=self._unit_of_work.time(), **changes)
        waiting = self._waiting.pop(record.request, {})

        def write(store: Work) -> bool | None:
            with store.transaction():
                is_sent_again = redeliver(store, changed, at=changed.at, handlers=self._handlers, waiting=waiting)
                if not put_version(store, changed, replaces=record):
                    raise changed_elsewhere_error(record)
            return is_sent_again

        return await self._unit_of_work.write("resolved", write)

    def add_waiting(self, draft: OfferRecord) -> None:
        """Keep in memory that a delivery waits for the end of a doubt, and which offer it will make then."""
        if draft.event is not None:
            waiting = self._waiting.setdefault(draft.request, {})
            waiting.setdefault((draft.event, draft.handler), set()).add(draft.revision)

    async def update(self, record: OfferRecord, **changes: Any) -> None:
        """Record changes of other fields than the state and its time."""
        await self._put(record.state, attrs.evolve(record, **changes), replaces=record)

    async def has_read_bids(self) -> bool:
        """Return whether a run with this store has read the account's bids from before it."""
        return await self._unit_of_work.read(lambda store: store.effect(_BIDS_READ)) is not None

    async def mark_bids_read(self) -> None:
        """Record that this run has read the account's bids."""
        mark = Effect(key=_BIDS_READ, state="known", payload=b"", at=self._unit_of_work.time())
        await self._unit_of_work.write("known", lambda store: store.put_effect(mark, expected_state=None))

    async def _find_used(self, prefixes: Sequence[str]) -> Collection[str]:
        return await self._unit_of_work.read(lambda store: store.used_prefixes(prefixes, states=PLACED))

    async def _put(self, step: str, record: OfferRecord, *, replaces: OfferRecord | None) -> None:
        is_written = await self._unit_of_work.write(step, lambda store: put_version(store, record, replaces=replaces))
        if not is_written:
            raise changed_elsewhere_error(record)


def changed_elsewhere_error(record: object) -> ChangedElsewhereError:
    """Make the error of an offer or an answer that was not written, because the stored version has changed."""
    return ChangedElsewhereError(f"a person or another replica has changed {record} in this bot's store")


def redeliver(
    store: Work,
    record: OfferRecord,
    *,
    at: float,
    handlers: Collection[str] | None = None,
    waiting: WaitingOffers = MappingProxyType({}),
) -> bool | None:
    """Redeliver to the handler of an offer that was not taken.

    Args:
        store: The store.
        record: The offer.
        at: Time on the feed's clock.
        handlers: Ids of the bot's handlers, if known; deliveries of others do not count.
        waiting: Offers that deliveries wait for, if known.

    Returns:
        Whether a delivery sends the offer again: its own, replayed if it was dead, or one that waits to make the same
        offer. `None` if another delivery waits and its offer is not known.
    """

    def find(state: DeliveryState) -> Sequence[Delivery]:
        found = store.deliveries(state=state, index=record.request, limit=NO_LIMIT)
        return [delivery for delivery in found if handlers is None or delivery.handler in handlers]

    dead = [delivery for delivery in find("dead") if _is_made_for(record, delivery)]
    if dead:
        return store.replay(dead[-1].event, dead[-1].handler, at=at)
    alive = [*find("claimed"), *find("ready")]
    if any(_is_made_for(record, delivery) for delivery in alive):
        return True
    others = [waiting.get((other.event, other.handler)) for other in alive if other.error == IN_DOUBT]
    if any(revisions is not None and record.revision in revisions for revisions in others):
        return True
    return None if None in others else False


def _is_made_for(record: OfferRecord, delivery: Delivery) -> bool:
    """Return whether the offer was made for the delivery."""
    is_same = delivery.handler == record.handler and record.event in (None, delivery.event)
    return is_same and delivery.index == record.request
