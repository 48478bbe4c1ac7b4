"""The entries of the offer ledger in the bot's store: how they are found, and the one place that writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from freight_exchange.bot.entry import UNSETTLED, Entry, is_entry, key_of, place_of
from freight_exchange.errors import StoreError
from freight_exchange.store.work import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.bot.desk import Desk
    from freight_exchange.bot.entry import State
    from freight_exchange.store.work import WorkStore

__all__ = ["Entries"]

_BIDS_KNOWN: Final = "own bids"


class Entries:
    """What a bot has offered, as it is written down.

    Args:
        desk: Where that is.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._revised: dict[int, set[int]] = {}
        """The revisions other than the first offer, which hardly any request has."""

    async def open(self) -> Sequence[Entry]:
        """Find what earlier runs have made; the entries that are not settled are given."""

        def read(store: WorkStore) -> tuple[list[str], list[Entry]]:
            kept = [effect for effect in store.effects() if is_entry(effect)]
            return [effect.key for effect in kept], [Entry.of(effect) for effect in kept if effect.state in UNSETTLED]

        keys, unsettled = await self._desk.read(read)
        for key in keys:
            self._note_revision(*place_of(key))
        return unsettled

    async def on(self, request: int) -> tuple[Entry, ...]:
        """Those on the request, by revision."""
        keys = [key_of(request, revision) for revision in (0, *sorted(self._revised.get(request, ())))]

        def read(store: WorkStore) -> tuple[Entry, ...]:
            found = (store.effect(key) for key in keys)
            return tuple(Entry.of(effect) for effect in found if effect is not None)

        return await self._desk.read(read)

    async def made_on(self) -> frozenset[int]:
        """The requests on which the service has an offer of this bot's, or may have one."""

        def read(store: WorkStore) -> frozenset[int]:
            made = store.effects("confirmed", *UNSETTLED)
            return frozenset(place_of(effect.key)[0] for effect in made if is_entry(effect))

        return await self._desk.read(read)

    async def begin(self, entry: Entry, *, was: State | None) -> None:
        """Write an offer down that is to be sent: in place of one that was not, if there `was` one."""
        self._note_revision(entry.request, entry.revision)
        await self._put("intent", entry, was=was)

    async def advance(self, entry: Entry, state: State, *, step: str | None = None, **facts: Any) -> Entry:
        """Note that the entry has come to this state."""
        further = attrs.evolve(entry, state=state, at=self._desk.time(), **facts)
        await self._put(step or state, further, was=entry.state)
        return further

    async def remark(self, entry: Entry, **facts: Any) -> None:
        """Note something of an entry whose state stays."""
        await self._put(entry.state, attrs.evolve(entry, **facts), was=entry.state)

    async def bids_are_known(self) -> bool:
        """Whether a run with this store has found out which own bids stood before it."""
        return await self._desk.read(lambda store: store.effect(_BIDS_KNOWN)) is not None

    async def note_bids_known(self) -> None:
        """Note that this run has."""
        mark = Effect(key=_BIDS_KNOWN, state="known", payload=b"", at=self._desk.time())
        await self._desk.write("known", lambda store: store.put_effect(mark, was=None))

    def _note_revision(self, request: int, revision: int) -> None:
        if revision > 0:
            self._revised.setdefault(request, set()).add(revision)

    async def _put(self, step: str, entry: Entry, *, was: str | None) -> None:
        if not await self._desk.write(step, lambda store: store.put_effect(entry.effect(), was=was)):
            raise StoreError(f"{entry} is not {was or 'new'} any more: somebody else writes to this bot's store")
