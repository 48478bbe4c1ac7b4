"""Protocols of a store, and the values that a feed exchanges with it.

A store is synchronous: each method is one transaction, which a crash leaves complete or undone. The feed calls it from
one worker thread, one call at a time, or in the event loop where the store is `inline`. States, records and payloads
are opaque to a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self

import attrs

from freight_exchange.errors import HeldError, StoreError

__all__ = [
    "AbsenceQuery", "Binding", "Commit", "ConflictError", "FeedStore", "HeldHereError", "NewEvent", "ReadSet", "Store",
    "StoreRefusedError", "StoredEvent", "TrackedRequest",
]  # fmt: skip


class ConflictError(StoreError):
    """A write conflicted with a write of another replica. Nothing was written; the call may be repeated at once."""


class StoreRefusedError(StoreError):
    """The database refuses the connection or lacks a right of this user. Nothing was written.

    This may pass, for example while a password is changed everywhere.
    """


class HeldHereError(HeldError):
    """This process itself holds the feed: waiting for it might never end."""

    @classmethod
    def for_feed(cls, feed: str) -> Self:
        """Describe a second `open` of one feed on one store object."""
        return cls(
            f"the feed {feed!r} is open already in this process: give each feed of a program its own name",
            holder="this process",
        )


@attrs.frozen
class Binding:
    """The service, account and name to which the state of a feed belongs.

    A store refuses to open a feed for another service or account: new requests there would look known. A feed that has
    recorded nothing takes the new binding.

    Attributes:
        base_url: The service's API root.
        account: The email of the account.
        feed: The feed's name.
    """

    base_url: str
    account: str
    feed: str


@attrs.frozen(kw_only=True)
class TrackedRequest:
    """The last known state of one request. Times are seconds on the feed's clock, which only moves forward.

    Attributes:
        index: The request's identifier.
        digest: The digest of its last state, or the digests of all states if one page listed several; empty once it was
            withdrawn.
        record: The last state itself, or `None` in a tombstone. In a tombstone, `last_seen` and the attributes after it
            are 0.
        version: How many states of it were seen, from 1.
        first_seen: When it was first seen.
        last_seen: When it was last seen.
        last_scan: The number of the scan that last saw it.
        updated_after: A proven lower bound of the time of its last update.
        missed_scans: How many complete scans in a row lacked it, though their window included its last update.
    """

    index: int
    digest: bytes
    record: bytes | None
    version: int
    first_seen: float
    last_seen: float
    last_scan: int
    updated_after: float
    missed_scans: int = 0


@attrs.frozen(kw_only=True)
class NewEvent:
    """An event to keep until it is acknowledged.

    Attributes:
        key: Its identity: a second event with the same key is not added.
        index: The request that it is about, or `None`.
        kind: Its kind.
        payload: Its content.
    """

    key: str
    index: int | None
    kind: str
    payload: bytes


@attrs.frozen(kw_only=True)
class StoredEvent:
    """An event of the store.

    Attributes:
        id: Its number. Later events of a feed have higher numbers.
        index, kind, payload: As in `NewEvent`. The payload is empty once the event is acknowledged and all of its
            deliveries are done.
        is_acknowledged: It was acknowledged.
        is_filtered: It was acknowledged without being delivered.
    """

    id: int
    index: int | None
    kind: str
    payload: bytes
    is_acknowledged: bool
    is_filtered: bool = False


@attrs.frozen(kw_only=True)
class AbsenceQuery:
    """A query for requests that a scan did not see, in the order of `updated_after` and then of `index`.

    It excludes tombstones and withdrawn requests.

    Attributes:
        scan: Requests last seen by an earlier scan than this one.
        updated_after: Requests updated no earlier than this.
    """

    scan: int
    updated_after: float


@attrs.frozen
class ReadSet:
    """The rows that `FeedStore.commit` has read, for its `decide`.

    Attributes:
        requests: The known requests among `indexes`, by index.
        absent: The result of the `AbsenceQuery`, if there was one.
    """

    requests: Mapping[int, TrackedRequest]
    absent: Sequence[TrackedRequest] = ()


@attrs.frozen(kw_only=True)
class Commit:
    """The rows that a commit writes, all or none.

    Attributes:
        requests: New states of requests.
        events: Events to add in this order, except those whose key exists.
        state: New state of the feed; `None` keeps the old one.
        at: The time on the feed's clock. Events whose key exists count as proposed again at that time.
    """

    requests: Sequence[TrackedRequest] = ()
    events: Sequence[NewEvent] = ()
    state: str | None = None
    at: float = 0.0


class FeedStore(Protocol):
    """The state of one feed, held under a lease.

    Every write carries the lease's epoch, a fencing token: after another process has taken the lease, writes fail.
    Every method raises `StoreError` when it cannot do its work, and has then written nothing.
    """

    @property
    def state(self) -> str | None:
        """The state last committed before the lease began; `None` before the first commit."""
        ...

    @property
    def unacknowledged(self) -> int:
        """The number of events that are not acknowledged."""
        ...

    def commit(
        self,
        decide: Callable[[ReadSet], Commit],
        *,
        indexes: Sequence[int] = (),
        absence: AbsenceQuery | None = None,
    ) -> int:
        """Read rows, call `decide` with them, and write its result, in one transaction.

        Args:
            decide: Receives the rows, and returns the commit.
            indexes: Requests to read.
            absence: Query for absent requests to read.

        Returns:
            The number of events added.
        """
        ...

    def pending(self, *, after: int = 0, limit: int = 100) -> Sequence[StoredEvent]:
        """Return the first `limit` unacknowledged events with numbers above `after`, by number."""
        ...

    def pending_of_kind(self, kind: str) -> Sequence[StoredEvent]:
        """Return all unacknowledged events of this kind, by number."""
        ...

    def acknowledge(self, ids: Sequence[int], *, at: float, filtered: Sequence[int] = ()) -> None:
        """Acknowledge events and drop their payloads. Unknown and acknowledged ones are ignored.

        Args:
            ids: Events that were delivered.
            at: The time on the feed's clock.
            filtered: Events that the feed's filter excluded.
        """
        ...

    def history(self, index: int) -> tuple[TrackedRequest | None, Sequence[StoredEvent]]:
        """Return the stored state of one request, and its events, including acknowledged ones not pruned yet."""
        ...

    def prune(self, *, before: float) -> bool | None:
        """Drop old data: make tombstones of requests last seen before that time, and delete finished events.

        A tombstone keeps its index, digest, version and `first_seen` forever. An event and its deliveries are deleted
        if all deliveries are done, and it was neither proposed nor acknowledged nor settled since that time. One call
        may do only a part of the work.

        Returns:
            `True` if more work is due and the next call should follow soon.
        """
        ...

    def release(self) -> None:
        """Give the lease back. Never raises; the store itself stays open."""
        ...


class Store(Protocol):
    """Storage of the states of feeds."""

    @property
    def inline(self) -> bool:
        """Calls are fast enough for the event loop; the feed makes them there and not in a worker thread."""
        ...

    def open(self, binding: Binding, *, lease: float) -> FeedStore:
        """Take the lease of a feed. Each commit extends it to `lease` seconds from then.

        Raises:
            HeldError: Another holder has it; the error names it. `HeldHereError` if that is this process.
            StoreError: The store is damaged, foreign, of a newer version, full, or bound to another service or account.
        """
        ...

    def close(self) -> None:
        """Release all feeds and close the store. Never raises; a second call does nothing."""
        ...
