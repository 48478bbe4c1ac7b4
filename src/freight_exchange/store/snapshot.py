"""Protocol of a snapshot: the stored state of one feed or bot, read while others write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from freight_exchange.store.protocol import Binding, StoredEvent, TrackedRequest
from freight_exchange.store.work import Delivery, DeliveryState, Effect

__all__ = ["Snapshot"]


class Snapshot(Protocol):
    """State of one feed or bot at one moment."""

    @property
    def binding(self) -> Binding:
        """The service, account and name that it belongs to."""
        ...

    @property
    def state(self) -> str | None:
        """The feed's state, or `None` before its first commit."""
        ...

    @property
    def holder(self) -> str | None:
        """Description of the process that scans, as far as known; `None` if there is none."""
        ...

    @property
    def replicas(self) -> Sequence[str]:
        """Descriptions of the living processes that have a seat; empty for a file, where `holder` is the only one."""
        ...

    @property
    def is_restored(self) -> bool:
        """`True` if the database may have lost commits, and the bot has not looked for the lost offers yet."""
        ...

    def count_unacknowledged(self) -> int:
        """Count the events that are not acknowledged."""
        ...

    def count_deliveries(self) -> Mapping[str, int]:
        """Count the deliveries in each state that has any."""
        ...

    def deliveries(self, *, state: DeliveryState, limit: int = 1000) -> Sequence[Delivery]:
        """Return the first deliveries in this state."""
        ...

    def effects(self, *states: str) -> Sequence[Effect]:
        """Return the effects in these states, or all."""
        ...

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        """Return the effects whose keys begin with this text, by key."""
        ...

    def count_effects(self, prefix: str) -> Mapping[str, int]:
        """Count the effects whose keys begin with this text, in each state that has any."""
        ...

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        """Return the unacknowledged events of this kind."""
        ...

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        """Return the stored state of one request, and its events."""
        ...

    def deliveries_of(self, index: int) -> Sequence[tuple[str, str, DeliveryState, str | None]]:
        """Return kind, handler, state and last error of each delivery about a request, by event and handler."""
        ...
