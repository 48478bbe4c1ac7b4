"""The entries of the offer ledger in the bot's store: how they are found, and the one place that writes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from freight_exchange.bot.delivery.retry_policy import IN_DOUBT
from freight_exchange.bot.offers.record import UNSETTLED, OfferRecord, is_entry, key_of, place_of
from freight_exchange.errors import StoreError
from freight_exchange.store.work import NO_LIMIT, Effect

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from freight_exchange.bot.offers.record import State
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.store.work import Delivery, DeliveryState, WorkStore

__all__ = ["OfferRepository", "call_again", "unsettled"]

_BIDS_KNOWN: Final = "own bids"

Waiting = Mapping[tuple[int, str], set[int]]
"""By event and handler: the revisions that a delivery has asked for while an offer on its request was in doubt."""


class OfferRepository:
    """What a bot has offered, as it is written down.

    Args:
        unit_of_work: Where that is.
        handlers: The ids of the bot's handlers.
    """

    def __init__(self, unit_of_work: UnitOfWork, handlers: Collection[str] = ()) -> None:
        self._unit_of_work = unit_of_work
        self._handlers = handlers
        self._waiting: dict[int, dict[tuple[int, str], set[int]]] = {}
        """By request: what its deliveries wait to offer. It is not kept: after a restart nobody knows."""
        self._revised: dict[int, set[int]] = {}
        """The revisions other than the first offer, which hardly any request has."""

    async def open(self) -> Sequence[OfferRecord]:
        """Find what earlier runs have made; the entries that are not settled are given."""

        def read(store: WorkStore) -> tuple[list[str], list[OfferRecord]]:
            kept = [effect for effect in store.effects() if is_entry(effect)]
            return [effect.key for effect in kept], [
                OfferRecord.of(effect) for effect in kept if effect.state in UNSETTLED
            ]

        keys, unsettled = await self._unit_of_work.read(read)
        for key in keys:
            self._note_revision(*place_of(key))
        return unsettled

    async def on(self, request: int) -> tuple[OfferRecord, ...]:
        """Those on the request, by revision."""
        keys = [key_of(request, revision) for revision in (0, *sorted(self._revised.get(request, ())))]

        def read(store: WorkStore) -> tuple[OfferRecord, ...]:
            found = (store.effect(key) for key in keys)
            return tuple(OfferRecord.of(effect) for effect in found if effect is not None)

        return await self._unit_of_work.read(read)

    async def made_on(self) -> frozenset[int]:
        """The requests on which the service has an offer of this bot's, or may have one."""

        def read(store: WorkStore) -> frozenset[int]:
            made = store.effects("confirmed", *UNSETTLED)
            return frozenset(place_of(effect.key)[0] for effect in made if is_entry(effect))

        return await self._unit_of_work.read(read)

    async def begin(self, entry: OfferRecord, *, was: State | None) -> None:
        """Write an offer down that is to be sent: in place of one that was not, if there `was` one."""
        self._note_revision(entry.request, entry.revision)
        await self._put("intent", entry, was=was)

    async def advance(self, entry: OfferRecord, state: State, *, step: str | None = None, **facts: Any) -> OfferRecord:
        """Note that the entry has come to this state."""
        further = attrs.evolve(entry, state=state, at=self._unit_of_work.time(), **facts)
        await self._put(step or state, further, was=entry.state)
        if state not in UNSETTLED:
            self._waiting.pop(entry.request, None)
        return further

    async def give_back(self, entry: OfferRecord, **facts: Any) -> bool | None:
        """Note that the service has not taken the offer, and that it is to be sent again.

        Returns:
            Whether anything sends it, as `call_again` says.
        """
        further = attrs.evolve(entry, state="intent", at=self._unit_of_work.time(), **facts)
        waiting = self._waiting.pop(entry.request, {})

        def give_back(store: WorkStore) -> tuple[bool | None, bool]:
            # Before it is noted: if the process ends in between, the next one closes the same doubt once more.
            is_made = call_again(store, further, at=further.at, handlers=self._handlers, waiting=waiting)
            return is_made, store.put_effect(further.effect(), expected_state=entry.state)

        is_made, written = await self._unit_of_work.write("resolved", give_back)
        _check(further, entry.state, written=written)
        return is_made

    def wait(self, asked: OfferRecord) -> None:
        """Note that a delivery waits for the end of a doubt on the request, and what it is to offer then."""
        if asked.event is not None:
            waiting = self._waiting.setdefault(asked.request, {})
            waiting.setdefault((asked.event, asked.handler), set()).add(asked.revision)

    async def remark(self, entry: OfferRecord, **facts: Any) -> None:
        """Note something of an entry whose state stays."""
        await self._put(entry.state, attrs.evolve(entry, **facts), was=entry.state)

    async def bids_are_known(self) -> bool:
        """Whether a run with this store has found out which own bids stood before it."""
        return await self._unit_of_work.read(lambda store: store.effect(_BIDS_KNOWN)) is not None

    async def note_bids_known(self) -> None:
        """Note that this run has."""
        mark = Effect(key=_BIDS_KNOWN, state="known", payload=b"", at=self._unit_of_work.time())
        await self._unit_of_work.write("known", lambda store: store.put_effect(mark, expected_state=None))

    def _note_revision(self, request: int, revision: int) -> None:
        if revision > 0:
            self._revised.setdefault(request, set()).add(revision)

    async def _put(self, step: str, entry: OfferRecord, *, was: str | None) -> None:
        written = await self._unit_of_work.write(
            step, lambda store: store.put_effect(entry.effect(), expected_state=was)
        )
        _check(entry, was, written=written)


def _check(entry: OfferRecord, was: str | None, *, written: bool) -> None:
    if not written:
        raise StoreError(f"{entry} is not {was or 'new'} any more: somebody else writes to this bot's store")


def unsettled(store: WorkStore) -> list[OfferRecord]:
    """Those of which nobody knows whether the service has the offer."""
    return [OfferRecord.of(effect) for effect in store.effects(*UNSETTLED) if is_entry(effect)]


def call_again(
    store: WorkStore,
    entry: OfferRecord,
    *,
    at: float,
    handlers: Collection[str] | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> bool | None:
    """Have the handler called again that asked for an offer which was not taken.

    Args:
        store: Where its delivery is.
        entry: The offer.
        at: When that is, on the feed's clock.
        handlers: The ids of the handlers that there are; none other is called again. Unless given, that is not known.
        waiting: What is known of what deliveries wait to offer.

    Returns:
        Whether anything makes the offer: the delivery that asked for it, which is ready again if it was dead by now, or
        another one that waits to make the same. `None` where another one waits, and it is not known for what.
    """

    def about(state: DeliveryState) -> Sequence[Delivery]:
        found = store.deliveries(state=state, index=entry.request, limit=NO_LIMIT)
        return [delivery for delivery in found if handlers is None or delivery.handler in handlers]

    dead = [delivery for delivery in about("dead") if _asked(delivery, entry)]
    if dead:
        return store.replay(dead[-1].event, dead[-1].handler, at=at)
    alive = [*about("claimed"), *about("ready")]
    if any(_asked(delivery, entry) for delivery in alive):
        return True
    others = [waiting.get((other.event, other.handler)) for other in alive if other.error == IN_DOUBT]
    if any(offers is not None and entry.revision in offers for offers in others):
        return True
    return None if None in others else False


def _asked(delivery: Delivery, entry: OfferRecord) -> bool:
    """Whether it is the delivery whose handler asked for the offer."""
    by = delivery.handler == entry.handler and entry.event in (None, delivery.event)
    return by and delivery.index == entry.request
