"""The row of a replica: its lease, the fence of its writes, its term, and the end of replicas with lapsed leases."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Self

import attrs

from freight_exchange.errors import FencedError
from freight_exchange.store.lease_holder import Holder
from freight_exchange.store.postgres.fleet import replica_sql
from freight_exchange.store.postgres.fleet.frozen_sessions import end_frozen
from freight_exchange.store.postgres.fleet.lock_log import LockLog
from freight_exchange.store.postgres.history import History, trust
from freight_exchange.store.protocol import ConflictError

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection
    from freight_exchange.store.protocol import Binding

__all__ = ["CHANNEL", "Replica"]

CHANNEL: Final = "freight_exchange"
"""Channel of notifications. Their payload is the binding."""

_UNKNOWN: Final = "another process"


class Replica:
    """A replica. Each join makes a new row with a new id. Its epoch is 0; a higher epoch means that it has ended.

    Attributes:
        binding: The service, account and name of its bot.
        id, binding_id: Ids of its row and of the binding's row.
        version: Its version, which its row has once it is announced.
        lease: Seconds for which a heartbeat renews its lease.
        is_restored: Whether the database may have lost commits, and the bot has not looked for the lost offers yet.
        relation: Filenode of the table with its row; a restored dump changes it.
        binding_relation: Filenode of the table of bindings when it joined.
        started: The start of the server's process at which it joined, in seconds since the epoch.
        renewed: The end of the lease after its last heartbeat.
        holder: The replica that had the term when `take_term` last found it taken, in words.
        holder_id: The id of that replica's row.
        feed_state: The feed's state at that time, as last committed.
    """

    def __init__(
        self,
        binding: Binding,
        id: int,
        binding_id: int,
        lease: float,
        history: History | None = None,
        *,
        version: str = "",
        is_restored: bool = False,
        relation: int = 0,
        binding_relation: int = 0,
        started: float = 0.0,
    ) -> None:
        self.binding = binding
        self.id = id
        self.binding_id = binding_id
        self.lease = lease
        self.version = version
        self.is_restored = is_restored
        self.relation = relation
        self.binding_relation = binding_relation
        self.started = started
        self.renewed = 0.0
        self.holder, self.holder_id = _UNKNOWN, 0
        self.feed_state: str | None = None
        self._history = history or History()
        self._lock_log = LockLog()

    @property
    def own(self) -> dict[str, object]:
        """Values for `WHERE` that find its row, unless it was taken over or restored, or the server has restarted."""
        return {"replica": self.id, "relation": self.relation, "renewed": self.renewed, "started": self.started}

    @classmethod
    def join(
        cls,
        connection: DatabaseConnection,
        binding: Binding,
        history: History,
        *,
        handlers: Collection[str],
        version: str,
        lease: float,
    ) -> Self:
        """Add the row of a new replica, and check by `history` whether the database has lost commits."""
        with connection.transaction():
            values = {**attrs.asdict(binding), "holder": str(Holder.current()), "handlers": sorted(handlers)}
            id, binding_id, relation, started = connection.row(replica_sql.JOIN, {**values, "lease": lease})
            is_restored, cluster, binding_relation = history.check(connection, binding_id)
        history.restart(cluster)
        files = {"relation": relation, "binding_relation": binding_relation, "started": started}
        return cls(binding, id, binding_id, lease, history, version=version, is_restored=is_restored, **files)

    def announce(self, connection: DatabaseConnection) -> None:
        """Write its version into its row, so that replicas of this and other versions take it into account.

        Raises:
            FencedError: The work was taken over.
        """
        if not connection.execute(replica_sql.ANNOUNCE, self._values).rowcount:
            raise self._fenced(connection)

    def fence(self, connection: DatabaseConnection) -> None:
        """Lock the row until the end of the transaction, so that the work is not taken over before.

        Raises:
            FencedError: The work was taken over.
        """
        if connection.row(replica_sql.FENCE, self._values) is None:
            raise self._fenced(connection)

    def check(self, connection: DatabaseConnection) -> None:
        """Check, without a lock, that the work was not taken over.

        Raises:
            FencedError: It was taken over.
        """
        if connection.row(replica_sql.CHECK, self._values) is None:
            raise self._fenced(connection)

    def renew(self, connection: DatabaseConnection) -> float:
        """Renew the lease and return its end, which a rollback undoes.

        Raises:
            FencedError: The work was taken over.
        """
        row = connection.row(replica_sql.HEARTBEAT, self._values)
        if row is None:
            raise self._fenced(connection)
        self._history.flushed, renewed = row
        return float(renewed)

    def heartbeat(self, connection: DatabaseConnection) -> bool:
        """Renew the lease, and return whether other replicas have left work to adopt. Raises as `renew`."""
        self.renewed = self.renew(connection)
        self._history.renewed = (self.id, self.renewed)
        return bool(connection.row(replica_sql.HAS_LEFTOVERS, self._values)[0])

    def trust(self, connection: DatabaseConnection) -> None:
        """Record that the bot has looked for the offers that the database may have lost before this replica joined.

        Raises:
            FencedError: The work was taken over, or commits may have been lost again since.
        """
        with connection.transaction():
            self.fence(connection)
            if not trust(connection, self.binding_id, self.binding_relation):
                raise self._fenced(connection)

    def end_lapsed(self, connection: DatabaseConnection) -> None:
        """End the replicas whose lease is over, in the open transaction."""
        connection.execute(replica_sql.END_LAPSED, self._values)

    def leave(self, connection: DatabaseConnection) -> None:
        """End this replica. Another one adopts its unfinished work."""
        with connection.transaction():
            connection.execute(replica_sql.LEAVE, self._values)
            self.notify(connection)

    def withdraw(self, connection: DatabaseConnection) -> None:
        """Delete this replica, which has written nothing. A standby joins each second, and must not leave rows."""
        connection.execute(replica_sql.WITHDRAW, self._values)

    def notify(self, connection: DatabaseConnection) -> None:
        """Wake the other replicas when the transaction is committed."""
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(self.binding_id)))

    def take_term(self, connection: DatabaseConnection) -> tuple[int, str | None] | None:
        """Take the term if no other living replica has it, be announced, and return its epoch and the feed's state."""
        self.holder, self.holder_id, self.feed_state = _UNKNOWN, 0, None
        is_free = False
        try:
            # Each replica asks at each notification, and a transaction would cost the server a write.
            if (other := connection.row(replica_sql.OTHER_HOLDER, self._values)) is not None:
                self.holder, self.holder_id, self.feed_state = other
                return None
            is_free = True
            with connection.transaction():
                self.fence(connection)
                has_dropped = connection.execute(replica_sql.DROP_TERM, self._values).rowcount == 1
                row = connection.row(replica_sql.TAKE_TERM, self._values)
                if row is not None:
                    self.announce(connection)
                elif has_dropped:
                    self.notify(connection)
        except ConflictError as error:
            # The lease of the replica with the term has lapsed, but it is inside a transaction. That ends soon, unless
            # its process is frozen. Or another program has locked the table, which must not cost the seat.
            self._lock_log.add(connection, self.binding.feed, error, is_free=is_free)
            end_frozen(connection)
            return None
        return None if row is None else (row[0], row[1])

    def has_newer(self, connection: DatabaseConnection) -> bool:
        """Return whether a replica of a newer version of the bot lives: the term is left to it."""
        return bool(connection.row(f"SELECT {replica_sql.HAS_NEWER}", self._values)[0])

    def has_peer(self, connection: DatabaseConnection) -> bool:
        """Return whether another replica of this version of the bot lives."""
        return bool(connection.row(replica_sql.HAS_PEER, self._values)[0])

    def left_out(self, connection: DatabaseConnection) -> tuple[str, ...]:
        """Return the handlers of this replica that the newest version of the bot lacks."""
        row = connection.row(replica_sql.LEFT_OUT, self._values)
        return () if row is None else tuple(row[0])

    def fence_term(self, connection: DatabaseConnection, epoch: int) -> None:
        """Lock the term until the end of the transaction, so that events are numbered in the order of commits.

        Raises:
            FencedError: Another replica has it.
        """
        if connection.row(replica_sql.FENCE_TERM, {**self._values, "epoch": epoch}) is None:
            holder = self._last_holder(connection)
            raise FencedError(
                f"{holder} has taken over the feed {self.binding.feed!r} in {connection.address}:"
                " this process writes nothing more into it"
            )

    def resign(self, connection: DatabaseConnection, epoch: int) -> None:
        """Give the term back."""
        with connection.transaction():
            if connection.execute(replica_sql.RESIGN, {**self._values, "epoch": epoch}).rowcount:
                self.notify(connection)

    def forget_ended(self, connection: DatabaseConnection) -> None:
        """Delete the rows of replicas that have ended long ago, in the open transaction."""
        connection.execute(replica_sql.FORGET, self._values)

    @property
    def _values(self) -> dict[str, object]:
        return {**self.own, "binding": self.binding_id, "lease": self.lease, "version": self.version}

    def _last_holder(self, connection: DatabaseConnection) -> str:
        """Return the replica that last took the term, in words."""
        row = connection.row(replica_sql.LAST_HOLDER, self._values)
        return _UNKNOWN if row is None else str(row[0])

    def _fenced(self, connection: DatabaseConnection) -> FencedError:
        return FencedError(
            f"the lease of this process in {connection.address} is over: another one has taken over its work, the"
            " server has restarted, or a backup was restored; this process writes nothing more under this lease"
        )
