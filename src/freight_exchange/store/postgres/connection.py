"""A connection to a database, which reconnects after a loss and limits the wait for each reply."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import conninfo

from freight_exchange.errors import ConfigurationError, StoreAwayError, StoreError
from freight_exchange.store.postgres import session
from freight_exchange.store.postgres.errors import connect_error, translate_errors

__all__ = ["DatabaseConnection", "describe_address"]

Parameters = Sequence[object] | Mapping[str, object] | None
"""Values of the placeholders of a statement; without any, the statement has no placeholders."""

_OLDEST_SERVER: Final = 13
_ENCODING: Final = "UTF8"
"""Another one cannot hold every text, such as the error of a handler."""
_CONNECT_TIMEOUT: Final = 5
_REPLY_TIMEOUT: Final = 10.0
"""Seconds without a reply after which the connection is cut. TCP itself notices a stalled proxy late or never."""
_PARTS: Final = 6
"""Waits that a whole reply may take. The server ends its statement after little more than one: the rest has left it
before. A reply that comes byte by byte would never end."""
_IDLE: Final = 1.0
"""Seconds after which a connection may have been cut since its last use."""
_KEEPALIVE: Final[Mapping[str, Any]] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""The kernel asks after 10 seconds of silence whether the server is there, so that no router forgets the connection.
After an outage it knows as soon as the server that the connection is lost."""
_STARTED: Final = "SELECT pg_postmaster_start_time()::text"
_NO_NAME: Final = re.compile("@|=|://")
"""Parts of an address, which no name of a database has."""


class DatabaseConnection:
    """A connection, used by one thread at a time, and opened by the first call.

    Args:
        address: The database, as a connection string of libpq.
        patience: Seconds to wait for a reply; default 10, for the short statements of a replica.

    Attributes:
        address: Description of it for messages, without the password.
        count: Number of connections that were opened so far.
    """

    def __init__(self, address: str, *, patience: float | None = None) -> None:
        self._conninfo = address
        self._patience = _REPLY_TIMEOUT if patience is None else patience
        self.address: Final = describe_address(address)
        self._keepalive = {name: value for name, value in _KEEPALIVE.items() if name not in (_parts(address) or ())}
        self._connection: _Connection | None = None
        self._depth = 0
        self._started: str | None = None
        self._used_at = 0.0
        self.count = 0

    def execute(self, query: str, parameters: Parameters = None) -> psycopg.Cursor[Any]:
        """Run a statement, in the open transaction or in one of its own."""
        connection = self._open()
        # To the server, a client that stops in the middle of a first message is idle, and is ended. In the middle of a
        # further one it is not, and the values of a statement that is not prepared are such a one.
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
        """Presence of an open transaction."""
        return self._depth > 0

    @contextmanager
    def transaction(self, *, is_limited: bool = True) -> Iterator[None]:
        """Commit what is written inside, or none of it if anything raises. Inner ones join the outer one.

        Args:
            is_limited: Whether the server undoes it if this process is silent for seconds, or takes minutes.
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
        """Wait for notifications, at most so long, and return those that came."""
        # A check would take those that are there already, and the wait does not see them.
        connection = self._open(may_replace=False)
        with translate_errors(self.address):
            return [*connection.notifies(timeout=seconds, stop_after=1)]

    def close(self) -> None:
        """Close the connection. A later call opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def is_open(self) -> bool:
        """Possession of a connection that works, as far as known."""
        return self._connection is not None and not self._connection.closed

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
            try:
                self._check_server(opened)
                with translate_errors(self.address):
                    session.set_defaults(opened, patience=self._patience)
                self._check_start(opened, is_cut=is_cut)
            except StoreError:
                opened.close()
                raise
            self._connection = opened
            self.count += 1
        self._used_at = time.monotonic()
        return self._connection

    def _was_cut(self) -> bool:
        """Return whether the connection was cut while it was idle, as by a proxy: nothing is lost with it."""
        if self._connection is None or self._connection.closed:
            return False
        try:
            # The first call may read a farewell, and the second the end.
            for _ in range(2):
                self._connection.pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return self._connection.closed

    def _check_start(self, connection: _Connection, *, is_cut: bool) -> None:
        """Note when the server started. One that has started since may have lost commits: those who join look for that.

        Raises:
            StoreAwayError: It has, and the connection takes the place of one that was cut.
        """
        with translate_errors(self.address):
            (started,) = connection.execute(_STARTED).fetchone() or ("",)
        before, self._started = self._started, str(started)
        if is_cut and self._started != before:
            raise StoreAwayError(f"{self.address} was away: it has started anew")

    def _connect(self) -> _Connection | StoreError:
        """Return a new connection, or the error. That of the library holds the password, so nothing leads to it."""
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
            return connect_error(error, self.address)
        opened.patience = self._patience
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
    """A connection on which no wait for a part of a reply is longer than its patience in seconds.

    A whole reply takes six times as long at most.
    """

    patience = _REPLY_TIMEOUT

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_limited(gen, self), *args, **options)


def _limited(gen: Generator[Any, Any, Any], connection: _Connection) -> Generator[Any, Any, Any]:
    began = time.monotonic()
    until, longest = began + connection.patience, _PARTS * connection.patience
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if now > began + longest:
                connection.pgconn.finish()
                raise psycopg.OperationalError(f"no complete reply within {longest:g} s")
            if ready:
                until = now + connection.patience
            elif now > until:
                connection.pgconn.finish()
                raise psycopg.OperationalError(f"no reply for {connection.patience:g} s")
            wanted = gen.send(ready)
    except StopIteration as stop:
        return stop.value


def describe_address(address: str) -> str:
    """Describe a database for messages, without the password.

    Raises:
        ConfigurationError: It is no address of a database.
    """
    parts = _parts(address)
    if parts is None:
        # No part of it is shown, nor the message of the library, which has parts of it.
        raise ConfigurationError(
            "the address of the database cannot be read: write postgresql://USER@HOST:PORT/DATABASE, with special"
            " characters percent-encoded"
        )
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port", "")).split(",")
    # One port may be that of several hosts.
    places = zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False)
    place = ",".join(f"{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}" for host, port in places)
    user = f"{parts['user']}@" if "user" in parts else ""
    return f"the database postgresql://{user}{place}/{parts.get('dbname', '')}"


def _parts(address: str) -> dict[str, Any] | None:
    """Return the parts of an address, or `None` if they cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(address)
    except (psycopg.Error, UnicodeError):
        return None
    # A password with characters that are not encoded ends up in the host, the port or the name of the database. So does
    # a whole address that was given as the name. One whose colon is encoded ends up in the user.
    ports = str(parts.get("port", "")).split(",")
    is_sound = "@" not in str(parts.get("host", "")) and all(port.isdecimal() or not port for port in ports)
    is_sound = is_sound and ":" not in str(parts.get("user", ""))
    return parts if is_sound and not _NO_NAME.search(str(parts.get("dbname", ""))) else None
