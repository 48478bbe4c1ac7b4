"""A store in a PostgreSQL database, which the replicas of a bot share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from freight_exchange.errors import ConfigurationError, HeldError, StoreError
from freight_exchange.platform.clock import wall_time
from freight_exchange.store.database_url import DatabaseAddress
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.fleet.frozen_sessions import end_frozen
from freight_exchange.store.postgres.fleet.replica import Replica
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.fleet.term import LeasedTerm, PostgresTerm
from freight_exchange.store.postgres.history import History
from freight_exchange.store.protocol import Binding, ConflictError, HeldHereError

__all__ = ["PostgresStore"]

_logger = logging.getLogger("freight_exchange.bot")

_CLOCK_TOLERANCE: Final = 60.0
_CONFLICT_RETRIES: Final = 4
_MIN_LEASE: Final = timedelta(seconds=1)
_MAX_LEASE: Final = timedelta(hours=1)


class PostgresStore:
    """Feed states in a PostgreSQL database, in its schema `freight_exchange`; needs the extra `postgres`.

    A bot can run on many machines with one database. Each process is a replica, which runs handlers; one of them scans.
    When the lease of a replica is over, the others take over its work. As in libpq, the password may also come from
    `PGPASSWORD`, `.pgpass` or a service file; no message shows it. The first use creates or migrates the schema.
    """

    def __init__(self, address: str, *, lease: timedelta = timedelta(seconds=15)) -> None:
        """
        Args:
            address: The database, as a URL or a connection string of libpq.
            lease: How long a replica that no longer answers keeps its work, from a second to an hour.

        Raises:
            ConfigurationError: The address cannot be read, or the lease is too short or too long.
        """
        address = DatabaseAddress(address)
        if not isinstance(lease, timedelta) or not _MIN_LEASE <= lease <= _MAX_LEASE:
            raise ConfigurationError(f"lease must be a timedelta from a second to an hour, not {lease!r}")
        self.inline: Final = False
        self._connect: Final = partial(DatabaseConnection, address)
        self.address: Final = self._connect().address
        self._lease: Final = lease.total_seconds()
        self._histories: Final[dict[Binding, History]] = {}
        self._access: Final = threading.Lock()
        self._seats: Final[dict[int, PostgresSeat | PostgresTerm]] = {}
        self._is_closed = self._has_warned = False

    def __repr__(self) -> str:
        # A traceback with locals also shows a store whose constructor has failed.
        return f"<PostgresStore of {getattr(self, 'address', 'no database')}>"

    def open(self, binding: Binding, *, lease: float) -> PostgresTerm:
        connection, replica = self._join(binding, handlers=(), version="", lease=lease)

        def leave() -> None:
            with self._access:
                self._seats.pop(replica.id, None)
            with suppress(StoreError):
                replica.leave(connection)
            connection.close()

        try:
            term = self._take_term(binding, connection, replica, leave)
        except BaseException:
            with suppress(StoreError):
                replica.withdraw(connection)
            connection.close()
            raise
        self._seats[replica.id] = term
        return term

    def _take_term(
        self, binding: Binding, connection: DatabaseConnection, replica: Replica, on_release: Callable[[], None]
    ) -> PostgresTerm:
        epoch_and_state = replica.take_term(connection)
        if epoch_and_state is not None:
            return LeasedTerm(connection, replica, *epoch_and_state, on_release=on_release)
        if replica.holder_id in self._seats:
            raise HeldHereError.for_feed(binding.feed)
        raise HeldError(
            f"the feed {binding.feed!r} in {self.address} is held by {replica.holder}: stop that one, or wait",
            holder=replica.holder,
        )

    def join(self, binding: Binding, *, handlers: Collection[str], version: str, lease: float) -> PostgresSeat:
        # A command has no version. It runs in one thread, and the server may have few connections free.
        others = (self._connect(), self._connect()) if version else ()
        try:
            # Before the row is inserted: a server with too few connections gets no new row and term at each try.
            for one in others:
                one.open()
            connection, replica = self._join(binding, handlers=handlers, version=version, lease=self._lease)
        except BaseException:
            for one in others:
                one.close()
            raise
        seat = PostgresSeat(connection, *(others or (connection, connection)), replica, self._forget)
        self._seats[replica.id] = seat
        return seat

    def close(self) -> None:
        with self._access:
            self._is_closed = True
            seats = [*self._seats.values()]
        for seat in seats:
            if isinstance(seat, PostgresSeat):
                seat.leave()
            else:
                seat.release()

    def _join(
        self, binding: Binding, *, handlers: Collection[str], version: str, lease: float
    ) -> tuple[DatabaseConnection, Replica]:
        if self._is_closed:
            raise StoreError(f"the store {self.address} is closed: make another object for it")
        connection = self._connect()
        # Each bot has its own history, because each one looks for its lost offers.
        history = self._histories.setdefault(binding, History())

        def join() -> Replica:
            schema.prepare(connection, is_known=history.is_known)
            return Replica.join(connection, binding, history, handlers=handlers, version=version, lease=lease)

        try:
            replica = _retry_conflicts(join, connection)
            self._check_clock(connection)
        except BaseException:
            connection.close()
            raise
        return connection, replica

    def _check_clock(self, connection: DatabaseConnection) -> None:
        """Warn once if the wall clock of this machine differs from the database's."""
        (server_time,) = connection.row("SELECT extract(epoch FROM clock_timestamp())::float8")
        ahead = wall_time() - server_time
        if abs(ahead) > _CLOCK_TOLERANCE and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "the clock of this machine is %.0f s %s that of %s: retries may come early or late; use NTP",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
                self.address,
            )

    def _forget(self, seat: PostgresSeat) -> None:
        with self._access:
            self._seats.pop(seat.replica.id, None)


def _retry_conflicts(join: Callable[[], Replica], connection: DatabaseConnection) -> Replica:
    """Call `join`, and repeat it if another process holds a lock, for example in a long commit or a migration."""
    for _ in range(_CONFLICT_RETRIES):
        with suppress(ConflictError):
            return join()
        end_frozen(connection)
    return join()
