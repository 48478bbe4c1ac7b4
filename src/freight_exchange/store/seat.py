"""Protocols of a bot's store, which serves a fleet: replicas of one bot, each with a `Seat`.

One of them at a time has the term, under which events are written; all of them claim deliveries and write effects.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import attrs

from freight_exchange.store.protocol import Binding, Store
from freight_exchange.store.work import Delivery, Effect, Work, WorkStore

__all__ = ["Adoption", "BotStore", "Seat"]


@attrs.frozen(kw_only=True)
class Adoption:
    """Unfinished work of replicas that have ended. It belongs to the adopting replica from now on.

    Attributes:
        deliveries: Deliveries that are claimed.
        effects: Effects in `OPEN_STATES`.
        wait: Seconds for which the effects may still begin or arrive: absence is no proof before. They count from the
            adoption, by the clock of the adopting replica.
    """

    deliveries: Sequence[Delivery] = ()
    effects: Sequence[Effect] = ()
    wait: float = 0.0


class Seat(Protocol):
    """The place of one replica in the fleet of a bot.

    A replica of a shared store must renew its lease. After its end another replica adopts its work, and all later
    writes of this one fail.
    """

    @property
    def work(self) -> Work:
        """The deliveries and effects, written as this replica."""
        ...

    @property
    def lease(self) -> float | None:
        """Seconds for which `beat` renews the lease, or `None` where a lock holds it, which needs no renewal."""
        ...

    @property
    def holder(self) -> str:
        """The replica that last had the term, in words."""
        ...

    @property
    def is_restored(self) -> bool:
        """Loss of commits by the database since a process has seen it, such as by a restored backup, until `trust`."""
        ...

    def trust(self) -> None:
        """Record that the offers that the database may have forgotten were looked for."""
        ...

    def state(self) -> str | None:
        """Return the feed's state as it was last committed, by any replica."""
        ...

    def take_term(self) -> WorkStore | None:
        """Take the term if no living replica has it or is newer. Its `release` gives it back, and keeps the seat."""
        ...

    def has_newer(self) -> bool:
        """Return whether a replica of a newer version of the bot lives, which the term is for.

        A version is newer, or the handlers are, if its first replica joined later.
        """
        ...

    def has_twin(self) -> bool:
        """Return whether another replica of this version of the bot lives."""
        ...

    def acknowledge(self, kind: str, *, at: float) -> int:
        """Acknowledge all events of a kind, also beside the replica that has the term, and return their number."""
        ...

    def adopt(self) -> Adoption:
        """Take over the unfinished work of replicas that have ended."""
        ...

    def beat(self) -> bool:
        """Renew the lease.

        Returns:
            Whether another replica has ended without leaving, so that there is work to adopt.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a notification that a delivery may be due or the term free; return whether there was one."""
        ...

    def leave(self) -> None:
        """Give the seat back. Never raises; the store itself stays open."""
        ...


class BotStore(Store, Protocol):
    """A keeper of feed states, deliveries and effects, which serves a fleet of bots."""

    def open(self, binding: Binding, *, lease: float) -> WorkStore:
        """Take the lease of a feed, as `Store.open` does."""
        ...

    def join(self, binding: Binding, *, handlers: Collection[str], version: str, lease: float) -> Seat:
        """Take a seat for a replica of a bot.

        Args:
            binding: The service, account and name of the bot.
            handlers: The ids of its handlers.
            version: The version of the replica.
            lease: The seconds of a lease, where the store itself has no setting for them.

        Raises:
            HeldError: The store serves one process at a time, and another one has it.
            StoreError: As `Store.open`.
        """
        ...
