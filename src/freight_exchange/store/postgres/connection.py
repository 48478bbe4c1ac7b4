"""A connection to a database, which reconnects after a loss and limits the wait for each reply."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.postgres import session
from freight_exchange.store.postgres.address import describe_address, read_address
from freight_exchange.store.postgres.errors import connect_error, translate_errors

__all__ = ["DatabaseConnection"]

Parameters = Sequence[object] | Mapping[str, object] | None
"""Values of the placeholders of a statement; `None` if it has no placeholders."""

_OLDEST_SERVER: Final = 13
_ENCODING: Final = "UTF8"
"""Other encodings cannot store every text, for example the error of a handler."""
_CONNECT_TIMEOUT: Final = 5
_REPLY_TIMEOUT: Final = 10.0
"""Seconds without a reply after which the connection is closed. TCP itself notices a stalled proxy late or never."""
_WHOLE_REPLY: Final = 6
"""Limit of a whole reply, in reply timeouts: a reply that comes byte by byte would never end. The server ends the
statement after little more than one timeout, so the other ones are for the transfer."""
_IDLE: Final = 1.0
"""Seconds without use after which a connection is tested before its next use, because it may have been cut."""
_KEEPALIVE: Final[Mapping[str, Any]] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""The kernel probes the server after 10 seconds of silence, so that no router forgets the connection. After an outage
it detects the loss of the connection as soon as the server does."""
_STARTED: Final = "SELECT pg_postmaster_start_time()::text"


class DatabaseConnection:
    """A connection, used by one thread at a time, and opened by the first call.

    Args:
        address: The database, as a connection string of libpq.
        reply_timeout: Seconds to wait for a reply; default 10, for the short statements of a replica.

    Attributes:
        address: Description of the database for messages, without the password.
        count: Number of connections that were opened so far.
    """

    def __init__(self, address: str, *, reply_timeout: float | None = None) -> None:
        self._conninfo = address
        self._reply_timeout = _REPLY_TIMEOUT if reply_timeout is None else reply_timeout
        self.address: Final = describe_address(address)
        given = read_address(address) or ()
        self._keepalive = {name: value for name, value in _KEEPALIVE.items() if name not in given}
        self._connection: _Connection | None = None
        self._last: _Connection | None = None
        self._depth = 0
        self._started: str | None = None
        self._used_at = 0.0
        self.count = 0

    def execute(self, query: str, parameters: Parameters = None) -> psycopg.Cursor[Any]:
        """Run a statement, in the open transaction or in a separate one."""
        connection = self._open()
        # A client may freeze in the middle of a message. In the first message of a statement, the server takes it for
        # idle and ends its transaction; in a later message it does not. Without `prepare`, values come in a later one.
        prepare = True if self._depth and parameters else None
        with translate_errors(self.address):
            # Composed of constants alone, which the type checker does not see.
            return connection.execute(query, parameters, prepare=prepare)  # pyright: ignore[reportArgumentType]

    def row(self, query: str, parameters: Parameters = None) -> Any:
        """Run a statement and return its first row, or `None`."""
        return self.execute(query, parameters).fetchone()

    def rows(self, query: str, parameters: Parameters = None) -> list[Any]:
        """Run a statement and return its rows."""
        return self.execute(query, parameters).fetchall()

    @property
    def in_transaction(self) -> bool:
        """`True` while a transaction is open."""
        return self._depth > 0

    @contextmanager
    def transaction(self, *, is_limited: bool = True) -> Iterator[None]:
        """Commit what is written inside, or none of it if anything raises. Nested transactions join the outer one.

        Args:
            is_limited: Whether the server rolls it back if this process is silent for seconds or it takes minutes.
        """
        if self._depth:
            yield
            return
        connection = self._open()
        self._depth += 1
        try:
            with translate_errors(self.address):
                query = session.begin(connection.info.server_version, is_limited=is_limited)
                connection.execute(query, prepare=False)  # pyright: ignore[reportArgumentType, reportCallIssue]
            yield
            with translate_errors(self.address):
                connection.execute("COMMIT")
        except BaseException:
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                self.close()
            raise
        finally:
            self._depth -= 1

    def notifications(self, seconds: float) -> list[psycopg.Notify]:
        """Wait up to this many seconds for a notification, and return those that have come."""
        # The test of the connection would consume notifications that are there already, and the wait would miss them.
        connection = self._open(may_replace=False)
        with translate_errors(self.address):
            return [*connection.notifies(timeout=seconds, stop_after=1)]

    def open(self) -> None:
        """Open the connection, unless that is done."""
        self._open()

    def close(self) -> None:
        """Close the connection. A later call opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def is_open(self) -> bool:
        """`True` if there is a connection that is not known to be lost."""
        return self._connection is not None and not self._connection.closed

    @property
    def has_stalled(self) -> bool:
        """`True` if the last connection was given up because no reply came, or none could be made in time."""
        return self._last is not None and self._last.has_stalled

    def _open(self, *, may_replace: bool = True) -> _Connection:
        is_cut = may_replace and not self._depth and time.monotonic() - self._used_at > _IDLE and self._was_cut()
        if is_cut:
            self.close()
        if self._connection is None or self._connection.closed:
            if self._depth:
                raise StoreError(f"the transaction on {self.address} was cut off")
            opened = self._connect()
            if isinstance(opened, StoreError):
                raise opened
            self._last = opened
            try:
                self._check_server(opened)
                with translate_errors(self.address):
                    session.set_defaults(opened, reply_timeout=self._reply_timeout)
                self._check_start(opened, is_cut=is_cut)
            except StoreError:
                opened.close()
                raise
            self._connection = opened
            self.count += 1
        self._used_at = time.monotonic()
        return self._connection

    def _was_cut(self) -> bool:
        """Return whether the connection was cut while it was idle, for example by a proxy. Nothing is lost by that."""
        if self._connection is None or self._connection.closed:
            return False
        try:
            # The first call may read a last message of the server, and the second one the end of the stream.
            for _ in range(2):
                self._connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return self._connection.closed

    def _check_start(self, connection: _Connection, *, is_cut: bool) -> None:
        """Record the start time of the server: after a restart it may lack commits.

        Raises:
            StoreAwayError: The server has restarted, and this connection replaces one that was cut. The replica must
                join again, which checks for lost commits.
        """
        with translate_errors(self.address):
            (started,) = connection.execute(_STARTED).fetchone() or ("",)
        before, self._started = self._started, str(started)
        if is_cut and self._started != before:
            raise StoreAwayError(f"{self.address} was away: it has restarted")

    def _connect(self) -> _Connection | StoreError:
        """Return a new connection or the error. The library's error has the password, so it must not be chained."""
        try:
            opened = _Connection.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT,
                application_name=session.APPLICATION,
                client_encoding="utf8",
                **self._keepalive,
            )
        except psycopg.Error as error:
            if self._last is not None and isinstance(error, psycopg.errors.ConnectionTimeout):
                self._last.has_stalled = True
            return connect_error(error, self.address)
        opened.reply_timeout = self._reply_timeout
        return opened

    def _check_server(self, connection: _Connection) -> None:
        major = connection.info.server_version // 10_000
        if major < _OLDEST_SERVER:
            raise StoreError(
                f"{self.address} is PostgreSQL {major}, which is too old: it needs {_OLDEST_SERVER} or newer"
            )
        if (encoding := connection.info.parameter_status("server_encoding")) != _ENCODING:
            raise StoreError(
                f"{self.address} has the encoding {encoding}: create one with the encoding {_ENCODING}, as any"
                " text may be stored"
            )


class _Connection(psycopg.Connection[Any]):
    """A connection that limits the wait for each part of a reply, and for a whole reply.

    Attributes:
        reply_timeout: Seconds for a part. A whole reply may take six times as long.
        has_stalled: Whether it was given up because no reply came.
    """

    reply_timeout = _REPLY_TIMEOUT
    has_stalled = False

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_limited(gen, self), *args, **options)

    def give_up(self, reason: str) -> psycopg.OperationalError:
        """Close the connection, as no reply came in time, and return the error."""
        self.has_stalled = True
        self.pgconn.finish()
        return psycopg.OperationalError(reason)


def _limited(gen: Generator[Any, Any, Any], connection: _Connection) -> Generator[Any, Any, Any]:
    """Run psycopg's generator of waits within the limits of the connection; close it beyond them."""
    began = time.monotonic()
    until, longest = began + connection.reply_timeout, _WHOLE_REPLY * connection.reply_timeout
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if now > began + longest:
                raise connection.give_up(f"no complete reply within {longest:g} s")
            if ready:
                until = now + connection.reply_timeout
            elif now > until:
                raise connection.give_up(f"no reply for {connection.reply_timeout:g} s")
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value
