"""The seat of a replica in a database, with three connections for three threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres import feed_sql
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet import work_sql
from freight_exchange.store.postgres.fleet.frozen_sessions import end_frozen
from freight_exchange.store.postgres.fleet.replica import CHANNEL, Replica
from freight_exchange.store.postgres.fleet.term import PostgresTerm
from freight_exchange.store.postgres.fleet.work import PostgresWork
from freight_exchange.store.rows import read_delivery, read_effect
from freight_exchange.store.seat import Adoption
from freight_exchange.store.work import SEND_WINDOW
from freight_exchange.transport.network import SEND_TIMEOUT

__all__ = ["PostgresSeat"]

_ADOPTION_WAIT: Final = 1.01 * (SEND_WINDOW + SEND_TIMEOUT)
"""Seconds after an adoption for which the former owner may begin to send, and its kernel may continue to. The factor
allows for clocks whose speeds differ by up to a hundredth."""


class PostgresSeat:
    """The seat of a replica.

    It has three connections: one for `work`, one for the term, and one for `heartbeat` and `wait`. So no heartbeat
    waits for a claim. The seat of a command, which runs in one thread, has a single connection for all.

    Args:
        term_connection, work_connection, heartbeat_connection: Its connections.
        replica: The replica.
        on_leave: Called when it has left.
    """

    def __init__(
        self,
        term_connection: DatabaseConnection,
        work_connection: DatabaseConnection,
        heartbeat_connection: DatabaseConnection,
        replica: Replica,
        on_leave: Callable[[PostgresSeat], None],
    ) -> None:
        self.replica: Final = replica
        self._term_connection = term_connection
        self._work_connection = work_connection
        self._heartbeat_connection = heartbeat_connection
        self._on_leave = on_leave
        self._listens_on = 0
        self.work: Final = PostgresWork(self._work_connection, replica)

    @property
    def lease(self) -> float:
        return self.replica.lease

    @property
    def holder(self) -> str:
        return self.replica.holder

    @property
    def feed_state(self) -> str | None:
        return self.replica.feed_state

    @property
    def is_restored(self) -> bool:
        return self.replica.is_restored

    def trust(self) -> None:
        self.replica.trust(self._work_connection)

    def announce(self) -> None:
        self.replica.announce(self._work_connection)

    def take_term(self) -> PostgresTerm | None:
        connection = self._term_connection
        taken = self.replica.take_term(connection)
        if taken is None:
            return None
        return PostgresTerm(connection, self.replica, *taken, on_release=lambda: None)

    def left_out(self) -> tuple[str, ...]:
        return self.replica.left_out(self._term_connection)

    def has_newer(self) -> bool:
        return self.replica.has_newer(self._work_connection)

    def has_peer(self) -> bool:
        return self.replica.has_peer(self._work_connection)

    def acknowledge(self, kind: str, *, at: float) -> int:
        connection = self._work_connection
        values = {"binding": self.replica.binding_id, "kind": kind, "at": at}
        with connection.transaction():
            self.replica.fence(connection)
            return connection.execute(feed_sql.ACKNOWLEDGE_KIND, values).rowcount

    def adopt(self) -> Adoption:
        connection = self._work_connection
        values = {"binding": self.replica.binding_id, "owner": self.replica.id}
        end_frozen(connection)
        with connection.transaction():
            self.replica.fence(connection)
            self.replica.end_lapsed(connection)
            effects = [read_effect(row) for row in connection.rows(work_sql.ADOPT_EFFECTS, values)]
            claimed = {*connection.rows(work_sql.ADOPT_DELIVERIES, values)}
            rows = connection.rows(f"{work_sql.DELIVERY} AND delivery.state = 'claimed'", values)
        deliveries = [one for one in map(read_delivery, rows) if (one.event, one.handler) in claimed]
        return Adoption(deliveries=deliveries, effects=effects, wait=_ADOPTION_WAIT)

    def heartbeat(self) -> bool:
        return self.replica.heartbeat(self._heartbeat_connection)

    def wait(self, seconds: float) -> bool:
        connection = self._heartbeat_connection
        if not connection.is_open or self._listens_on != connection.count:
            connection.execute(f"LISTEN {CHANNEL}")
            self._listens_on = connection.count
        return any(one.payload == str(self.replica.binding_id) for one in connection.notifications(seconds))

    def leave(self) -> None:
        connections = (self._work_connection, self._term_connection, self._heartbeat_connection)
        # The first call may find that its connection was cut, and the second one that the server has none free.
        for connection in (self._work_connection, self._work_connection, self._term_connection):
            with suppress(StoreError):
                self.replica.leave(connection)
                break
            if connection.has_stalled:
                # Each call of a database that does not answer takes ten seconds. The lease ends without it.
                break
        for connection in connections:
            connection.close()
        self._on_leave(self)
