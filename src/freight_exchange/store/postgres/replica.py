"""The row of a replica: its lease, the fence of its writes, and the take-over of those that have ended."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Self

import attrs

from freight_exchange.errors import FencedError
from freight_exchange.store.holder import Holder
from freight_exchange.store.postgres.frozen import end_frozen
from freight_exchange.store.postgres.history import FLUSHED, History
from freight_exchange.store.protocol import ConflictError

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection
    from freight_exchange.store.protocol import Binding

__all__ = ["CHANNEL", "CHECK", "FENCE_LOCK", "Replica"]

CHANNEL: Final = "freight_exchange"
"""Channel of notifications. Their payload is the binding."""

# A restored dump makes the table anew. It may have the row of a replica that still runs, and its number is given again.
_OWN: Final = "id = %(replica)s AND tableoid = %(relation)s"

CHECK: Final = f"SELECT FROM freight_exchange.replica WHERE {_OWN} AND epoch = 0"
"""Query that finds a replica only if it was not taken over."""

FENCE_LOCK: Final = "FOR KEY SHARE"
"""The lock at its end by which nothing takes the replica over before the end of the transaction."""

_JOIN: Final = """
    WITH bound AS (
        INSERT INTO freight_exchange.binding (base_url, account, name) VALUES (%(base_url)s, %(account)s, %(feed)s)
        ON CONFLICT (base_url, account, name) DO UPDATE SET name = excluded.name
        RETURNING id
    )
    INSERT INTO freight_exchange.replica (binding, holder, version, handlers, lease_until)
    SELECT id, %(holder)s, %(version)s, %(handlers)s, clock_timestamp() + make_interval(secs => %(lease)s) FROM bound
    RETURNING id, binding, tableoid
"""
# Not a key column: the heartbeat waits for no transaction of this replica.
_BEAT: Final = f"""
    UPDATE freight_exchange.replica SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE {_OWN} AND epoch = 0 AND NOT has_left
    RETURNING {FLUSHED}::text
"""
_FENCE: Final = f"{CHECK} {FENCE_LOCK}"
# A replica that is inside a transaction is left for the next time: its lock ends with the transaction.
_END_LAPSED: Final = """
    UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true
    WHERE id IN (
        SELECT id FROM freight_exchange.replica
        WHERE binding = %(binding)s AND id <> %(replica)s AND NOT has_left AND lease_until < clock_timestamp()
        FOR UPDATE SKIP LOCKED
    )
"""
_LEAVE: Final = f"UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true WHERE {_OWN}"
_WITHDRAW: Final = f"DELETE FROM freight_exchange.replica WHERE {_OWN}"
_HAS_LEFTOVERS: Final = """
    SELECT EXISTS (
        SELECT FROM freight_exchange.replica
        WHERE binding = %(binding)s AND id <> %(replica)s AND NOT has_left AND lease_until < clock_timestamp()
    ) OR EXISTS (
        SELECT FROM freight_exchange.delivery JOIN freight_exchange.replica ON replica.id = delivery.owner
        WHERE delivery.binding = %(binding)s AND delivery.state = 'claimed' AND replica.has_left
    ) OR EXISTS (
        SELECT FROM freight_exchange.effect JOIN freight_exchange.replica ON replica.id = effect.owner
        WHERE effect.binding = %(binding)s AND effect.state IN ('sending', 'unknown') AND replica.has_left
    )
"""
# A living replica of another version, or with other handlers, of a kind that joined first after this one's kind did. An
# older replica that is started again during a deploy is of its old kind.
_HAS_NEWER: Final = """
    EXISTS (
        SELECT FROM freight_exchange.replica AS own JOIN freight_exchange.replica AS other
            ON other.binding = own.binding AND (other.version, other.handlers) <> (own.version, own.handlers)
        WHERE own.id = %(replica)s AND own.version <> '' AND other.version <> ''
            AND NOT other.has_left AND other.lease_until >= clock_timestamp()
            AND (
                SELECT min(id) FROM freight_exchange.replica AS first
                WHERE first.binding = own.binding AND (first.version, first.handlers) = (other.version, other.handlers)
            ) > (
                SELECT min(id) FROM freight_exchange.replica AS first
                WHERE first.binding = own.binding AND (first.version, first.handlers) = (own.version, own.handlers)
            )
    )
"""
_HAS_TWIN: Final = """
    SELECT EXISTS (
        SELECT FROM freight_exchange.replica AS own JOIN freight_exchange.replica AS other
            ON other.binding = own.binding AND (other.version, other.handlers) = (own.version, own.handlers)
        WHERE own.id = %(replica)s AND other.id <> own.id
            AND NOT other.has_left AND other.lease_until >= clock_timestamp()
    )
"""
_TAKE_TERM: Final = f"""
    UPDATE freight_exchange.binding SET term_epoch = term_epoch + 1, term_replica = %(replica)s
    WHERE id = %(binding)s AND NOT EXISTS (
        SELECT FROM freight_exchange.replica
        WHERE replica.id = term_replica AND NOT has_left AND lease_until >= clock_timestamp()
    ) AND NOT {_HAS_NEWER}
    RETURNING term_epoch, state
"""
_FREE_TERM: Final = "UPDATE freight_exchange.binding SET term_replica = NULL WHERE id = %(binding)s"
# A term of this replica that it could not give back, for its connection was cut.
_DROP_TERM: Final = f"{_FREE_TERM} AND term_replica = %(replica)s"
_FENCE_TERM: Final = """
    SELECT FROM freight_exchange.binding WHERE id = %(binding)s AND term_epoch = %(epoch)s FOR NO KEY UPDATE
"""
_RESIGN: Final = f"{_FREE_TERM} AND term_epoch = %(epoch)s"
# The first one of its version and handlers shows which version is newer. One that owns nothing has nothing to adopt.
_FORGET: Final = """
    DELETE FROM freight_exchange.replica AS gone
    WHERE binding = %(binding)s AND has_left AND lease_until < clock_timestamp() - interval '1 day'
        AND EXISTS (
            SELECT FROM freight_exchange.replica AS first
            WHERE first.binding = gone.binding AND (first.version, first.handlers) = (gone.version, gone.handlers)
                AND first.id < gone.id
        )
        AND NOT EXISTS (
            SELECT FROM freight_exchange.delivery
            WHERE delivery.binding = gone.binding AND state = 'claimed' AND owner = gone.id
        )
        AND NOT EXISTS (
            SELECT FROM freight_exchange.effect
            WHERE effect.binding = gone.binding AND state IN ('sending', 'unknown') AND owner = gone.id
        )
"""
_HOLDER: Final = """
    SELECT replica.holder, replica.id FROM freight_exchange.binding
    JOIN freight_exchange.replica ON replica.id = term_replica WHERE binding.id = %(binding)s
"""


class Replica:
    """A replica. Its id is new for each process and each time that it joins; its epoch begins at 0 and ends it.

    Attributes:
        binding: What it belongs to.
        id, binding_id: Rows.
        lease: Seconds for which a heartbeat renews its lease.
        is_restored: Whether the database may have lost commits, which nothing has made up for yet.
        relation: The table of its row, which a restored dump makes anew.
    """

    def __init__(
        self,
        binding: Binding,
        id: int,
        binding_id: int,
        lease: float,
        history: History | None = None,
        *,
        is_restored: bool = False,
        relation: int = 0,
    ) -> None:
        self.binding = binding
        self.id = id
        self.binding_id = binding_id
        self.lease = lease
        self.is_restored = is_restored
        self.relation = relation
        self._history = history or History()
        self._values: dict[str, object] = {"replica": id, "relation": relation, "binding": binding_id, "lease": lease}

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
        """Add a replica of a process that has seen this history of the database."""
        with connection.transaction():
            values = {**attrs.asdict(binding), "holder": str(Holder.current()), "version": version, "lease": lease}
            id, binding_id, relation = connection.row(_JOIN, {**values, "handlers": sorted(handlers)})
            is_restored, cluster = history.check(connection, binding_id)
        history.restart(cluster)
        return cls(binding, id, binding_id, lease, history, is_restored=is_restored, relation=relation)

    def fence(self, connection: DatabaseConnection) -> None:
        """Lock the row until the end of the transaction, so that nothing is taken over before.

        Raises:
            FencedError: The work was taken over.
        """
        if connection.row(_FENCE, self._values) is None:
            raise self._fenced(connection)

    def check(self, connection: DatabaseConnection) -> None:
        """Look whether the work was taken over, without a lock.

        Raises:
            FencedError: It was.
        """
        if connection.row(CHECK, self._values) is None:
            raise self._fenced(connection)

    def renew(self, connection: DatabaseConnection) -> None:
        """Renew the lease.

        Raises:
            FencedError: The work was taken over.
        """
        row = connection.row(_BEAT, self._values)
        if row is None:
            raise self._fenced(connection)
        (self._history.flushed,) = row

    def beat(self, connection: DatabaseConnection) -> bool:
        """Renew the lease, and return whether other replicas have left work behind; raise as `renew` does."""
        self.renew(connection)
        return bool(connection.row(_HAS_LEFTOVERS, self._values)[0])

    def end_lapsed(self, connection: DatabaseConnection) -> None:
        """End the replicas whose lease is over, in the open transaction."""
        connection.execute(_END_LAPSED, self._values)

    def leave(self, connection: DatabaseConnection) -> None:
        """End this replica; what it has left unfinished is adopted by another one."""
        with connection.transaction():
            connection.execute(_LEAVE, self._values)
            self.notify(connection)

    def withdraw(self, connection: DatabaseConnection) -> None:
        """Delete this replica, which has written nothing: a standby tries each second."""
        connection.execute(_WITHDRAW, self._values)

    def notify(self, connection: DatabaseConnection) -> None:
        """Wake the other replicas when the transaction is committed."""
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(self.binding_id)))

    def take_term(self, connection: DatabaseConnection) -> tuple[int, str | None] | None:
        """Take the term if no other living replica has it, and return its epoch and the feed's state."""
        try:
            with connection.transaction():
                self.fence(connection)
                has_dropped = connection.execute(_DROP_TERM, self._values).rowcount == 1
                row = connection.row(_TAKE_TERM, self._values)
                if has_dropped and row is None:
                    self.notify(connection)
        except ConflictError:
            # The replica with the term is late, but inside a transaction, which ends soon unless its process is frozen.
            end_frozen(connection)
            return None
        return None if row is None else (row[0], row[1])

    def has_newer(self, connection: DatabaseConnection) -> bool:
        """Return whether a replica of a newer version of the bot lives, which the term is for."""
        return bool(connection.row(f"SELECT {_HAS_NEWER}", self._values)[0])

    def has_twin(self, connection: DatabaseConnection) -> bool:
        """Return whether another replica of this version of the bot lives."""
        return bool(connection.row(_HAS_TWIN, self._values)[0])

    def fence_term(self, connection: DatabaseConnection, epoch: int) -> None:
        """Lock the term until the end of the transaction: events are then numbered in the order of their commits.

        Raises:
            FencedError: Another replica has it.
        """
        if connection.row(_FENCE_TERM, {**self._values, "epoch": epoch}) is None:
            raise FencedError(
                f"{self.holder(connection)[0]} has taken over the feed {self.binding.feed!r} in {connection.address}:"
                " this process writes nothing more into it"
            )

    def resign(self, connection: DatabaseConnection, epoch: int) -> None:
        """Give the term back."""
        with connection.transaction():
            if connection.execute(_RESIGN, {**self._values, "epoch": epoch}).rowcount:
                self.notify(connection)

    def forget_ended(self, connection: DatabaseConnection) -> None:
        """Delete the rows of replicas that have ended long ago, in the open transaction."""
        connection.execute(_FORGET, self._values)

    def holder(self, connection: DatabaseConnection) -> tuple[str, int]:
        """Return the replica with the term, in words, and its id."""
        return connection.row(_HOLDER, self._values) or ("another process", 0)

    def state(self, connection: DatabaseConnection) -> str | None:
        """Return the feed's state, as last committed."""
        (state,) = connection.row("SELECT state FROM freight_exchange.binding WHERE id = %(binding)s", self._values)
        return None if state is None else str(state)

    def _fenced(self, connection: DatabaseConnection) -> FencedError:
        return FencedError(
            f"the lease of this process in {connection.address} was over, and another one has taken over its work, or a"
            " backup was restored: it writes nothing more under this lease"
        )
