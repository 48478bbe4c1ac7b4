"""Snapshots of the bots and feeds in a database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet import replica_sql, work_sql
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.postgres.fleet.term import PostgresTerm
from freight_exchange.store.protocol import Binding
from freight_exchange.store.work import DeliveryState

__all__ = ["PostgresSnapshot", "snapshots"]

_REPLY_TIMEOUT: Final = 60.0
"""Seconds for a statement: it may count a million offers while a person waits."""

_MAX_LEASE: Final = 3 * 86_400.0
"""The longest lease in seconds: that of a watch is three intervals, each at most a day."""

_BINDINGS: Final = f"""
    SELECT binding.id, base_url, account, name, state, is_restored, (
        SELECT holder FROM freight_exchange.replica
        WHERE replica.id = term_replica AND {replica_sql.is_alive()}
    )
    FROM freight_exchange.binding ORDER BY binding.id
"""
_REPLICAS: Final = f"""
    SELECT holder FROM freight_exchange.replica
    WHERE binding = %(binding)s AND {replica_sql.is_alive()} ORDER BY id
"""
_DELIVERIES_OF: Final = """
    SELECT event.kind, delivery.handler, delivery.state, delivery.error
    FROM freight_exchange.event JOIN freight_exchange.delivery
        ON delivery.binding = event.binding AND delivery.event = event.id
    WHERE event.binding = %(binding)s AND event."index" = %(index)s ORDER BY delivery.event, delivery.handler
"""


@contextlib.contextmanager
def snapshots(address: str) -> Iterator[Sequence[PostgresSnapshot]]:
    """Open a snapshot of each bot or feed in a database, all of the same moment.

    Raises:
        StoreError: No schema of this version is there, or it cannot be read.
    """
    connection = DatabaseConnection(address, reply_timeout=_REPLY_TIMEOUT)
    try:
        with connection.transaction(is_limited=False):
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Longer than for a replica: this transaction locks nothing, and is idle while this process decodes rows.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")
            version = schema.read_version(connection)
            if version == 0:
                raise StoreError(f"there is no store in {connection.address}: a bot, or a watch with it, makes it")
            if version < schema.VERSION:
                raise StoreError(
                    f"{connection.address} was last used by an older version: run freight-exchange store migrate"
                )
            yield [PostgresSnapshot(connection, row) for row in connection.rows(_BINDINGS, {"lease": _MAX_LEASE})]
    finally:
        connection.close()


class PostgresSnapshot(PostgresTerm):
    """State of one bot or feed. Its transaction is read-only."""

    def __init__(self, connection: DatabaseConnection, row: tuple[Any, ...]) -> None:
        id, base_url, account, name, state, self.is_restored, self.holder = row
        self.binding = Binding(base_url, account, name)
        super().__init__(connection, Replica(self.binding, 0, id, 0.0), 0, state, on_release=lambda: None)

    @property
    def replicas(self) -> Sequence[str]:
        return [holder for (holder,) in self._connection.rows(_REPLICAS, self._values(lease=_MAX_LEASE))]

    def count_unacknowledged(self) -> int:
        return int(self.unacknowledged)

    def count_deliveries(self) -> Mapping[str, int]:
        query = "SELECT state, count(*) FROM freight_exchange.delivery WHERE binding = %(binding)s GROUP BY state"
        return dict(self._connection.rows(query, self._values()))

    def count_effects(self, prefix: str) -> Mapping[str, int]:
        return dict(self._connection.rows(work_sql.COUNT_EFFECTS, self._values(prefix=prefix)))

    def deliveries_of(self, index: int) -> Sequence[tuple[str, str, DeliveryState, str | None]]:
        return self._connection.rows(_DELIVERIES_OF, self._values(index=index))
