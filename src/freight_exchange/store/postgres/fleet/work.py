"""The deliveries and effects of one bot in a database, written as one replica."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from freight_exchange.errors import StoreError
from freight_exchange.store.postgres.fleet import work_sql
from freight_exchange.store.rows import read_delivery, read_effect
from freight_exchange.store.work import NO_LIMIT, Delivery, DeliveryState, Effect

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection
    from freight_exchange.store.postgres.fleet.replica import Replica

__all__ = ["PostgresWork"]


class PostgresWork:
    """Deliveries and effects. Each write locks the replica's row, so that none is committed after a take-over.

    Args:
        connection: The connection, used by one thread.
        replica: The replica that writes.
    """

    def __init__(self, connection: DatabaseConnection, replica: Replica) -> None:
        self._connection = connection
        self._replica = replica
        self._is_released = False

    def claim(self, *, now: float, limit: int, handlers: Collection[str] | None = None) -> Sequence[Delivery]:
        connection = self._read()
        values = self._values(now=now, limit=max(0, limit), handlers=_array(handlers), **self._replica.own)
        rows = connection.rows(work_sql.CLAIM, values)
        if not rows:
            self._replica.check(connection)
        claimed = [read_delivery(row) for row in rows]
        return sorted(claimed, key=_claim_order)

    def settle(
        self,
        event: int,
        handler: str,
        *,
        state: Literal["ready", "done", "dead"],
        not_before: float = 0,
        error: str | None = None,
        refund_attempt: bool = False,
        also_done: Sequence[int] = (),
        at: float,
    ) -> bool:
        with self._write() as connection:
            values = self._values(
                event=event, handler=handler, state=state, not_before=not_before, error=error, refund=refund_attempt,
                owner=self._replica.id,
            )  # fmt: skip
            row = connection.row(work_sql.SETTLE, values)
            if row is None:
                return False
            (index,) = row
            if index is None:
                connection.execute(work_sql.LOCK_EVENT, {"event": event})
            elif state == "ready":
                self._put_off_later(connection, index, event, handler, not_before)
            events = [event]
            if also_done:
                values = self._values(events=[*also_done], handler=handler)
                events += [later for (later,) in connection.rows(work_sql.FINISH_READY, values)]
            connection.execute(work_sql.SETTLE_EVENTS, self._values(events=events, at=at))
        return True

    def next_due(self, *, handlers: Collection[str] | None = None) -> float | None:
        (first,) = self._read().row(work_sql.NEXT_DUE, self._values(handlers=_array(handlers)))
        return None if first is None else float(first)

    def count_overdue(
        self, *, now: float, limit: int = NO_LIMIT, handlers: Collection[str] | None = None
    ) -> tuple[int, float | None]:
        values = self._values(now=now, limit=limit, handlers=_array(handlers))
        count, since = self._read().row(work_sql.COUNT_OVERDUE, values)
        return count, since

    def count_ready_by_handler(self, *, limit: int = NO_LIMIT) -> Mapping[str, int]:
        return dict(self._read().rows(work_sql.COUNT_READY, self._values(limit=limit)))

    def deliveries(self, *, state: DeliveryState, index: int | None = None, limit: int = 1000) -> Sequence[Delivery]:
        query = work_sql.IN_STATE if index is None else work_sql.OF_REQUEST
        rows = self._read().rows(query, self._values(state=state, index=index, limit=max(0, limit)))
        return [read_delivery(row) for row in rows]

    def has_delivery(self, handler: str, kind: str) -> bool:
        return bool(self._read().row(work_sql.HAS_DELIVERY, self._values(handler=handler, kind=kind))[0])

    def later_deliveries(self, event: int, handler: str) -> Sequence[Delivery]:
        rows = self._read().rows(work_sql.LATER, self._values(event=event, handler=handler))
        return [read_delivery(row) for row in rows]

    def replay(self, event: int, handler: str, *, at: float) -> bool:
        with self._write() as connection:
            row = connection.row(work_sql.REPLAY, self._values(event=event, handler=handler, at=at))
            if row is None:
                return False
            if row[0] is not None:
                self._put_off_later(connection, row[0], event, handler, at)
            connection.execute(work_sql.TOUCH, {"events": [event], "at": at})
            self._replica.notify(connection)
        return True

    def effect(self, key: str) -> Effect | None:
        row = self._read().row(f"{work_sql.EFFECT} AND key = %(key)s", self._values(key=key))
        return None if row is None else read_effect(row)

    def put_effect(self, effect: Effect, *, expected_state: str | None, expected_at: float | None = None) -> bool:
        values = self._values(
            key=effect.key, state=effect.state, payload=effect.payload, at=effect.at, owner=self._replica.id,
            expected_state=expected_state, expected_at=expected_at,
        )  # fmt: skip
        query = work_sql.ADD_EFFECT if expected_state is None else work_sql.UPDATE_EFFECT
        with self._write() as connection:
            return connection.execute(query, values).rowcount == 1

    def amend_effect(self, effect: Effect, *, replaces: Callable[[Effect], bool]) -> bool:
        connection = self._read()
        with connection.transaction():
            query = f"{work_sql.EFFECT} AND key = %(key)s FOR NO KEY UPDATE"
            row = connection.row(query, self._values(key=effect.key))
            if row is None or not replaces(read_effect(row)):
                return False
            values = self._values(key=effect.key, state=effect.state, payload=effect.payload, at=effect.at)
            connection.execute(work_sql.AMEND_EFFECT, values)
        return True

    def effects(self, *states: str) -> Sequence[Effect]:
        condition = "AND state = ANY(%(states)s)" if states else ""
        rows = self._read().rows(f"{work_sql.EFFECT} {condition} ORDER BY at, key", self._values(states=[*states]))
        return [read_effect(row) for row in rows]

    def effects_under(self, prefix: str) -> Sequence[Effect]:
        query = f"{work_sql.EFFECT} AND {work_sql.IS_UNDER} ORDER BY key"
        return [read_effect(row) for row in self._read().rows(query, self._values(prefix=prefix))]

    def used_prefixes(self, prefixes: Collection[str], *, states: Collection[str]) -> Collection[str]:
        values = self._values(prefixes=[*prefixes], states=[*states])
        return {prefix for (prefix,) in self._read().rows(work_sql.USED_PREFIXES, values)}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._write():
            yield

    def _put_off_later(
        self, connection: DatabaseConnection, index: int, event: int, handler: str, not_before: float
    ) -> None:
        values = self._values(index=index, event=event, handler=handler, not_before=not_before)
        connection.execute(work_sql.PUT_OFF_LATER, values)

    @contextmanager
    def _write(self) -> Iterator[DatabaseConnection]:
        """Begin a transaction with the fence, or join the one that is open."""
        connection = self._read()
        is_outer = not connection.in_transaction
        with connection.transaction():
            if is_outer:
                self._fence(connection)
            yield connection

    def _fence(self, connection: DatabaseConnection) -> None:
        self._replica.fence(connection)

    def _read(self) -> DatabaseConnection:
        if self._is_released:
            raise StoreError(f"the feed {self._replica.binding.feed!r} was released, or its store closed")
        return self._connection

    def _values(self, **values: object) -> dict[str, object]:
        return {"binding": self._replica.binding_id, **values}


def _claim_order(delivery: Delivery) -> tuple[Any, ...]:
    """Return the sort key of a delivery in the result of `claim`."""
    return delivery.not_before, delivery.index is not None, delivery.index or 0, delivery.event, delivery.handler


def _array(handlers: Collection[str] | None) -> list[str] | None:
    return None if handlers is None else [*handlers]
