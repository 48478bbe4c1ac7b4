"""Protocols of a bot's store, which serves a fleet: replicas of one bot, each with a `Seat`.

One replica at a time has the term: the right to scan and to write events. All replicas claim deliveries and write
effects.
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
        wait: Seconds after the adoption, on the clock of the adopting replica, in which an effect may still be sent or
            arrive. Until then, a search of the service that does not find it proves nothing.
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
        """Seconds for which `heartbeat` renews the lease; `None` if a file lock replaces the lease."""
        ...

    @property
    def holder(self) -> str:
        """Description of the replica that had the term when it was last not taken."""
        ...

    @property
    def feed_state(self) -> str | None:
        """State of the feed that this replica had committed by then; `None` if there is none, or it is unknown."""
        ...

    @property
    def is_restored(self) -> bool:
        """`True` if the database may have lost commits, for example by a restored backup, until `trust` is called."""
        ...

    def trust(self) -> None:
        """Record that the bot has looked for the offers that the database may have lost before this seat was taken.

        Raises:
            FencedError: Another replica has taken over, or the database may have lost commits again since.
        """
        ...

    def announce(self) -> None:
        """Make this replica count as one of its version, for `has_newer`, `has_peer` and `left_out`.

        Before that, it may turn out that it can never scan. Call it in the thread of `work`.

        Raises:
            FencedError: Another replica has taken over.
        """
        ...

    def take_term(self) -> WorkStore | None:
        """Take the term, which also announces this replica; return `None` if a living replica has it or is newer.

        `release` of the result gives the term back, and keeps the seat.
        """
        ...

    def left_out(self) -> Sequence[str]:
        """Return the handlers of this replica that the newest version of the bot lacks."""
        ...

    def has_newer(self) -> bool:
        """Return whether an announced replica of a newer version of the bot lives: the term is left to it.

        A version is newer if its first replica joined later. Other handlers make another version.
        """
        ...

    def has_peer(self) -> bool:
        """Return whether this replica is announced, and another one of its version is and lives."""
        ...

    def acknowledge(self, kind: str, *, at: float) -> int:
        """Acknowledge all events of a kind, and return their number. This needs no term."""
        ...

    def adopt(self) -> Adoption:
        """Take over the unfinished work of replicas that have ended."""
        ...

    def heartbeat(self) -> bool:
        """Renew the lease.

        Returns:
            Whether another replica has ended and left work to adopt.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a notification that a delivery may be due or the term free; return whether there was one."""
        ...

    def leave(self) -> None:
        """Give the seat back. Never raises; the store itself stays open."""
        ...


class BotStore(Store, Protocol):
    """Storage of the feed, the deliveries and the effects of bots, for fleets of replicas."""

    def open(self, binding: Binding, *, lease: float) -> WorkStore:
        """Take the lease of a feed, as `Store.open` does."""
        ...

    def join(self, binding: Binding, *, handlers: Collection[str], version: str, lease: float) -> Seat:
        """Take a seat for a replica of a bot.

        Args:
            binding: The service, account and name of the bot.
            handlers: The ids of its handlers.
            version: The version of the replica; empty for a command, which calls the seat in one thread.
            lease: Seconds of a lease, for a store without a setting of its own.

        Raises:
            HeldError: The store serves one process at a time, and another one has it.
            StoreError: As `Store.open`.
        """
        ...
