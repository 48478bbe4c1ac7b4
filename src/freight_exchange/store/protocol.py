"""What the state of a feed asks of whatever keeps it: two small protocols, and the values that pass between.

A driver is synchronous: each method is one transaction, which is either there whole after a crash or not at all. The
feed calls it in a worker thread, one call at a time, or in the loop itself where the driver says that it is `inline`.
A driver understands nothing of what it keeps: states, records and payloads are bytes and text of the feed's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

import attrs

from freight_exchange.errors import HeldError

__all__ = [
    "Absence", "Binding", "Commit", "FeedStore", "Found", "HeldHereError", "NewEvent", "Seen", "Store", "StoredEvent"
]  # fmt: skip


class HeldHereError(HeldError):
    """This very process holds the feed: a wait for it may be one for itself, without end."""

    @classmethod
    def of(cls, feed: str) -> Self:
        """The feed of that name is open in the same store object."""
        return cls(
            f"the feed {feed!r} is open already in this process: give each feed of a program its own name",
            holder="this process",
        )


@attrs.frozen
class Binding:
    """What the state of a feed belongs to. Opened for another, a store would hide what is new there.

    Attributes:
        base_url: The service's API root.
        account: The email of the account.
        feed: The feed's name.
    """

    base_url: str
    account: str
    feed: str


@attrs.frozen(kw_only=True)
class Seen:
    """The last that is known of one request. Times are seconds on the feed's own clock, which only goes forward.

    Attributes:
        index: The request's identifier.
        digest: The digest of its last state, or of each in which a page showed it; empty once it was withdrawn.
        record: The last state itself, or `None` in a tombstone. Of what `prune` made one, the numbers below `first`
            are 0.
        version: How many states of it there were, from 1.
        first: When it was first seen.
        last: When it was last seen.
        scan: The number of the scan that last saw it.
        updated_after: Its last update is proven to be no older than this.
        missing: How many complete scans in a row have lacked it, though their window held its last update.
    """

    index: int
    digest: bytes
    record: bytes | None
    version: int
    first: float
    last: float
    scan: int
    updated_after: float
    missing: int = 0


@attrs.frozen(kw_only=True)
class NewEvent:
    """An event to keep until it is acknowledged.

    Attributes:
        key: What makes it the same event: a second one with this key is not kept.
        index: The request that it is about, where it is about one.
        kind: The word by which events are told apart.
        payload: What it says.
    """

    key: str
    index: int | None
    kind: str
    payload: bytes


@attrs.frozen(kw_only=True)
class StoredEvent:
    """An event as it is kept.

    Attributes:
        id: Its number; a later event of the feed has a higher one.
        index, kind, payload: As it was given. The payload is empty once the event was acknowledged, and every
            delivery of it is done.
        acknowledged: Whether it was.
        passed_over: Whether it was acknowledged without being handed out.
    """

    id: int
    index: int | None
    kind: str
    payload: bytes
    acknowledged: bool
    passed_over: bool = False


@attrs.frozen(kw_only=True)
class Absence:
    """Asks for the requests that a scan did not see: neither tombstones nor withdrawn, last seen by an earlier scan
    than `scan`, and updated no earlier than `updated_after`. They come by that time, and then by their index."""

    scan: int
    updated_after: float


@attrs.frozen
class Found:
    """What a commit is decided on.

    Attributes:
        seen: What is known of the requests asked for, by index.
        absent: The requests that the `Absence` asked for, if any was given.
    """

    seen: Mapping[int, Seen]
    absent: Sequence[Seen] = ()


@attrs.frozen(kw_only=True)
class Commit:
    """What is written, all of it or nothing.

    Attributes:
        seen: Put in place of what was known of these requests.
        events: Added, in this order, except those whose key is there already.
        state: Put in place of the feed's state, unless `None`.
        at: The time on the feed's clock: the events whose key was there already count as proposed again now.
    """

    seen: Sequence[Seen] = ()
    events: Sequence[NewEvent] = ()
    state: str | None = None
    at: float = 0.0


class FeedStore(Protocol):
    """The state of one feed, held under a lease. Every write carries the lease's epoch: whoever lost the lease writes
    nothing more.

    Every method raises `StoreError` when it cannot do its work; nothing was written then.
    """

    @property
    def state(self) -> str | None:
        """The feed's state as it was last committed when the lease began; `None` before the first commit."""
        ...

    @property
    def unacknowledged(self) -> int:
        """How many events wait to be acknowledged, now."""
        ...

    def commit(
        self, decide: Callable[[Found], Commit], *, indexes: Sequence[int] = (), absence: Absence | None = None
    ) -> int:
        """Read what is known, have `decide` say what to write, and write it, in one transaction.

        Returns:
            How many events were added.
        """
        ...

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        """The first `limit` events not acknowledged yet with a number above `after`, in the order of their numbers."""
        ...

    def of_kind(self, kind: str) -> Sequence[StoredEvent]:
        """All events of this kind that are not acknowledged yet, in the order of their numbers."""
        ...

    def acknowledge(self, ids: Sequence[int], *, at: float, passed_over: Sequence[int] = ()) -> None:
        """Note that these were handled, at this time on the feed's clock, and drop their payloads. What is unknown or
        acknowledged already is no error, and stays as it is.

        Args:
            ids: Those that were handed out.
            at: The time on the feed's clock.
            passed_over: Those that were not, for the feed's filter left them out.
        """
        ...

    def history(self, index: int) -> tuple[Seen | None, Sequence[StoredEvent]]:
        """What is known of one request, and its events, acknowledged ones included while they are kept."""
        ...

    def prune(self, *, before: float) -> bool | None:
        """Turn what was last seen before that time into tombstones (index, digest, version and `first` stay, for ever),
        and drop the acknowledged events that were neither proposed nor acknowledged nor settled since, together with
        their deliveries; an event of which one is not done stays. Where much is due, one call may do a part of it, and
        the next ones the rest.

        Returns:
            Whether more is due, and the next call is to come soon. `None`, like `False`, says that nothing is.
        """
        ...

    def release(self) -> None:
        """Give the lease back. Never raises; the store itself stays open."""
        ...


class Store(Protocol):
    """Keeps the state of feeds."""

    @property
    def inline(self) -> bool:
        """Whether its calls are as quick as the loop itself; else they are made in a worker thread."""
        ...

    def open(self, binding: Binding, *, lease: float) -> FeedStore:
        """Take the lease of a feed, for `lease` seconds from every commit on.

        Raises:
            HeldError: Somebody else holds it, and the error says who; a `HeldHereError` where that is known to be this
                process itself.
            StoreError: The store cannot be used: it is damaged, foreign, of a newer version, full, or bound to another
                service or account.
        """
        ...

    def close(self) -> None:
        """Close what is open. Never raises; closing twice is no error."""
        ...
