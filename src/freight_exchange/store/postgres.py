"""The connection to a PostgreSQL database: it limits the wait for each reply, connects again, and shows no password."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import psycopg
from psycopg import conninfo, errors

from freight_exchange.errors import ConfigurationError, StoreAwayError, StoreError
from freight_exchange.store import schema
from freight_exchange.store.database import Database, in_dialect
from freight_exchange.store.database_url import DatabaseAddress
from freight_exchange.store.errors import ConflictError, StoreRefusedError

_NAMESPACE: Final = "freight_exchange"
_APPLICATION: Final = "freight-exchange"
_MIGRATING: Final = 0x46585354
"""Number of the advisory lock under which the tables are made or migrated."""
_LIMITS_TRANSACTIONS: Final = 170_000
"""The first version of a server that can limit a whole transaction."""
_CONNECT_TIMEOUT: Final = 5
_REPLY_TIMEOUT: Final = 10.0
"""Seconds without a reply after which the connection is closed. TCP itself notices a stalled proxy late or never."""
_WHOLE_REPLY: Final = 60.0
"""Limit of a whole reply: one that comes byte by byte would never end."""
_KEEPALIVE: Final[Mapping[str, Any]] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}

_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED;"
    f" SET LOCAL search_path = {_NAMESPACE};"
    # What is committed must survive a crash of the server, also if the defaults of the role differ.
    " SET LOCAL synchronous_commit = on;"
    # Rows that a policy hides would count as absent: reading them must fail.
    " SET LOCAL row_security = off;"
    # A client that freezes must not keep locks, and a statement whose reply nothing reads any more must end.
    " SET LOCAL idle_in_transaction_session_timeout = '5s';"
    " SET LOCAL lock_timeout = '8s';"
    f" SET LOCAL statement_timeout = '{_REPLY_TIMEOUT + 2:.0f}s'"
)
"""One message that begins a transaction. Its settings are local, so that a pooler may change the session after it."""
_LONGEST: Final = "; SET LOCAL transaction_timeout = '60s'"

_CONFLICTS: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
_CUT_OFF: Final = ("25P03", "25P04")
"""Codes of errors by which the server ends a session: its transaction was idle, or took too long."""

_NAMED: Final = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_UNSOUND: Final = {
    **dict.fromkeys(("host", "hostaddr"), r"@|[;,?&]\s*\w+\s*="),
    "user": r":|[;,?&]\s*\w+\s*=",
    "port": r"[^\d,]",
    "dbname": "@|=|://",
}
"""Text that no part of an address has, unless a part of the password ended up there: unencoded characters of one do so
in the host, the port or the database, as a whole address does in place of the database; one whose colon is encoded in
the user; and one after a separator of other drivers in the part before that."""
_QUOTED: Final = re.compile(r"""\b(server at|on socket|host|host name|role|user|database):? (["']).*?\2""")
"""Name in a message. It may contain any word, such as `certificate`."""
_REFUSED: Final = re.compile(
    "password|authentication|does not exist|pg_hba|permi|SSL|certificate|key|unknown ca|protocol|parameter|option|value"
    "|service"
)
"""Words of refusals that last. Other messages, such as of a server that starts, pass."""


class Postgres(Database):
    """One connection, which is made when it is needed, and made again when it was lost.

    Args:
        address: The database, as a URL or a connection string of libpq.
        is_beside: Do not create or migrate the tables.

    Raises:
        ConfigurationError: The address cannot be read.
    """

    dialect = "postgres"

    def __init__(self, address: DatabaseAddress, *, is_beside: bool = False) -> None:
        super().__init__()
        self._address = address
        self._is_beside = is_beside
        self.place, self._secrets, self._options = _read_address(address)
        self._connection: _Connection | None = None
        self._begin: Any = _BEGIN

    def run(self, sql: str, /, **values: Any) -> psycopg.Cursor[Any]:
        # Composed of constants alone, which the type checkers do not see.
        return self._opened().execute(_postgres(sql), values)

    def many(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> int:
        if not rows:
            return 0
        with self._opened().cursor() as cursor:
            cursor.executemany(_postgres(sql), rows)
            return cursor.rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._begin_transaction()
        connection = self._opened()
        with self._translated():
            try:
                yield
                ended = connection.execute("COMMIT").statusmessage
            except BaseException:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    self.close()
                raise
            if ended != "COMMIT":
                raise StoreError(f"{self.place} rolled a transaction back: a statement in it has failed")

    def tables(self) -> frozenset[str]:
        found = self.run("SELECT tablename FROM pg_tables WHERE schemaname = :name", name=_NAMESPACE)
        return frozenset(name for (name,) in found)

    def open(self) -> None:
        with self.transaction():
            tables = self.tables()
            if not self._is_beside:
                self.run("SELECT pg_advisory_xact_lock(:key)", key=_MIGRATING)
                tables = self.tables()
                if not self.run("SELECT 1 FROM pg_namespace WHERE nspname = :name", name=_NAMESPACE).fetchone():
                    self.run(f"CREATE SCHEMA {_NAMESPACE}")
            schema.prepare(self, tables, is_beside=self._is_beside)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def start_time(self) -> float:
        with self.transaction():
            return float(self.run("SELECT {NOW}").fetchone()[0])  # type: ignore[index]

    def _opened(self) -> _Connection:
        if self._connection is None or self._connection.closed:
            raise StoreAwayError(f"{self.place} was lost")
        return self._connection

    def _begin_transaction(self) -> None:
        """Begin a transaction, on a new connection if there is none, or if it was cut while it was idle."""
        while True:
            is_used = self._connection is not None and not self._connection.closed
            if not is_used:
                self._connect()
            connection = self._opened()
            try:
                with self._translated():
                    connection.execute(self._begin, prepare=False)
            except StoreAwayError:
                self.close()
                if not is_used or connection.has_stalled:
                    raise
            else:
                return

    def _connect(self) -> None:
        self.close()
        failure: StoreError | None = None
        try:
            self._connection = opened = _Connection.connect(
                self._address,
                autocommit=True,
                connect_timeout=_CONNECT_TIMEOUT,
                application_name=_APPLICATION,
                client_encoding="utf8",
                **self._options,
            )
            self._begin = _BEGIN + _LONGEST * (opened.info.server_version >= _LIMITS_TRANSACTIONS)
        except psycopg.Error as error:
            # The library's error has the password, so it must not be chained.
            failure = self._connect_error(error)
        else:
            if opened.info.parameter_status("server_encoding") != "UTF8":
                failure = StoreError(f"{self.place} has not the encoding UTF8: create one that has, to keep any text")
        if failure is not None:
            self.close()
            raise failure

    def _connect_error(self, error: psycopg.Error) -> StoreError:
        text = self._masked(" ".join(str(error).split()))
        reason = _QUOTED.sub(r'\1 ""', text).rpartition("failed: ")[2].partition(" Is the server running")[0]
        if _REFUSED.search(reason):
            advice = "correct its address, and the user, password, rights and TLS options"
            return StoreRefusedError(f"{self.place} refuses the connection: {reason}; {advice}")
        return StoreAwayError(
            f"{self.place} cannot be reached: {reason}; check that the server runs, its host and port"
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise a `StoreError` for any error of the database inside."""
        try:
            yield
        except psycopg.Error as error:
            raise self._store_error(error) from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.place} cannot keep a value that it was given: {error}") from error

    def _store_error(self, error: psycopg.Error) -> StoreError:
        line = self._masked(str(error).partition("\n")[0])
        if isinstance(error, _CONFLICTS):
            return ConflictError(f"{self.place} is held up by locks of other replicas or programs: {line}")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            # During a fail-over the address may lead to the next primary while it is still a standby.
            return StoreAwayError(f"{self.place} is read-only: give the address of the primary")
        if isinstance(error, errors.InsufficientPrivilege):
            return StoreRefusedError(
                f"{self.place} does not permit this ({line}): grant this user CREATE on the database once, or all"
                f" rights on the schema {_NAMESPACE} and its tables"
            )
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.InvalidSchemaName):
            # Tables that are dropped or restored under a running bot. They may come back.
            return StoreAwayError(f"{self.place} lacks its tables ({line}): restore them, or start again")
        if isinstance(error, psycopg.OperationalError) or error.sqlstate in _CUT_OFF:
            return StoreAwayError(f"{self.place} is away: {line}")
        if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
            return StoreError(f"{self.place} cannot keep a value that it was given: {line}")
        return StoreError(f"{self.place} failed: {line}")

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


class _Connection(psycopg.Connection[Any]):
    """A connection that limits the wait for each part of a reply, and for a whole reply."""

    has_stalled = False

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run psycopg's generator of waits within the limits; close the connection beyond them."""
        began = last = time.monotonic()
        problem = ""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if now - began > _WHOLE_REPLY:
                    problem = f"no complete reply within {_WHOLE_REPLY:g} s"
                elif not ready and now - last > _REPLY_TIMEOUT:
                    problem = f"no reply for {_REPLY_TIMEOUT:g} s"
                if problem:
                    self.has_stalled = True
                    self.pgconn.finish()
                    raise psycopg.OperationalError(problem)
                last = now if ready else last
                wanted = gen.send(ready)
        except StopIteration as stop:
            return stop.value


@cache
def _postgres(sql: str) -> Any:
    return _NAMED.sub(r"%(\1)s", in_dialect(sql, "postgres").replace("%", "%%"))


def _read_address(address: str) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Return the description of a database without the password, the password, and the options to add."""
    try:
        parts: dict[str, Any] = conninfo.conninfo_to_dict(address)
    except (psycopg.Error, UnicodeError):
        parts = {"port": "none"}
    if any(re.search(pattern, str(parts.get(name, ""))) for name, pattern in _UNSOUND.items()):
        # Any part of the address may be the password, so this shows none, nor the library's message, which has some.
        raise ConfigurationError(
            "the address of the database cannot be read: write postgresql://USER@HOST:PORT/DATABASE, with special"
            " characters percent-encoded; or, for a file, ./PATH"
        )
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port", "")).split(",")
    # Several hosts may share one port.
    places = zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False)
    place = ",".join(f"{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}" for host, port in places)
    user = f"{parts['user']}@" if "user" in parts else ""
    given = (parts.get("password"), parts.get("sslpassword"), os.environ.get("PGPASSWORD"))
    secrets = tuple(str(secret) for secret in given if secret)
    options = {name: value for name, value in _KEEPALIVE.items() if name not in parts}
    return f"the database postgresql://{user}{place}/{parts.get('dbname', '')}", secrets, options
