"""Errors of PostgreSQL as `StoreError`s that advise what to do. No message has the password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.protocol import ConflictError, StoreRefusedError

__all__ = ["NotPermittedError", "connect_error", "translate_errors"]

_CONFLICTS: Final = (
    errors.UniqueViolation, errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable,
)  # fmt: skip
_ABSENT: Final = (
    errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn, errors.InvalidColumnReference,
)  # fmt: skip
"""Errors for a missing part of the schema; the last one is for a missing key."""
_NOT_PREPARED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""Errors after a pooler has switched the connection to a different server session."""
_NUMBERED: Final = {f"{table}_pkey": table for table in ("binding", "replica", "event")}
"""Tables whose rows the database numbers, by the key that refuses a number twice."""
_CUT_OFF: Final = ("25P03", "25P04")
"""Codes of errors by which the server ends a session: its transaction was idle, or took too long."""
_SYSTEM_OBJECT: Final = re.compile(r"\bpg_\w+")
"""The name of a function or a view of PostgreSQL itself."""
_NAME: Final = re.compile(r"""\b(server at|on socket|host|host name|role|user|database):? (["']).*?\2""")
"""Name in a message. It may contain any word, such as `certificate`."""
_REFUSED: Final = (
    (re.compile("password authentication failed|no password supplied"),
     "refused the login: correct the user or the password (PGPASSWORD, .pgpass or a service file)"),
    (re.compile('database ".*" does not exist'), "does not exist: create it, or correct its name"),
    # A connection that prefers encryption was refused both with it and without.
    (re.compile("^(?!.*SSL (encryption|on)).*pg_hba.conf.*, (no encryption|SSL off)"),
     "refused the login with no encryption: give this user access, or set sslmode=require if it permits no other"
     " connection"),
    (re.compile('role ".*" does not exist|pg_hba.conf|authentication failed|permission denied for database|'
                "is not permitted to log in"), "refused the login: give this user access"),
    (re.compile("server does not support SSL"), "does not support SSL: turn ssl on in the server, or correct sslmode"),
    (re.compile("does not match host name"), "has a certificate for another host: correct the host, or sslmode"),
    (re.compile("certificate verify failed|root certificate"),
     "has a certificate that this machine cannot verify: correct sslrootcert, or renew the certificate"),
    (re.compile("certificate|private key|unknown ca"),
     "needs a client certificate, or refused the one it got: correct sslcert and sslkey"),
    (re.compile("no protocols available|protocol version"),
     "has no version of TLS that is permitted here: correct ssl_min_protocol_version and ssl_max_protocol_version"),
    (re.compile(r'FATAL: .*(?:parameter "|startup parameter in options: |-c |--)([\w.]+)("| requires a value|$)'),
     r"refused the setting \1: correct options in its address"),
)  # fmt: skip
_INVALID: Final = (
    # The values are not shown: one may be a part of a password with a character that is not encoded.
    (re.compile(r'invalid integer value ".*" for connection option "(\w+)"'),
     r"has an invalid \1: correct its address"),
    (re.compile(r'invalid "?(\w+)"? value'), r"has an invalid \1: correct its address"),
    (re.compile('definition of service ".*" not found'),
     "names a service that is not defined: correct its address, or add the service"),
)  # fmt: skip


class NotPermittedError(StoreRefusedError):
    """The user has no right to what a statement needs."""


def connect_error(error: psycopg.Error, address: str) -> StoreError:
    """Describe why no connection could be made."""
    text = " ".join(str(error).split())
    nameless = _NAME.sub(r'\1 ""', text)
    for kind, reasons in ((StoreRefusedError, _REFUSED), (StoreError, _INVALID)):
        for pattern, advice in reasons:
            if (found := pattern.search(nameless)) is not None:
                return kind(f"{address} {found.expand(advice)}")
    # libpq adds a question on a separate line.
    reason = text.rpartition("failed: ")[2].partition(" Is the server running")[0]
    # Most other refusals are temporary: no connection is free, or a pooler has no server.
    if "FATAL" in nameless:
        return StoreAwayError(f"{address} refused the connection: {reason}")
    return StoreAwayError(f"{address} cannot be reached: {reason}; check that the server runs, and its host and port")


@contextmanager
def translate_errors(address: str) -> Iterator[None]:
    """Raise a `StoreError` for any error of the database inside."""
    try:
        yield
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege) as error:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            # During a fail-over the address may already lead to the next primary while it is still a standby.
            raise StoreAwayError(
                f"{address} is read-only: give the address of the primary, or set default_transaction_read_only to off"
            ) from error
        line = _first_line(error)
        advice = "CREATE on the database once, or all rights on the schema freight_exchange and its tables"
        if found := _SYSTEM_OBJECT.search(line):
            advice = f"the right to use {found[0]}, which every user has by default"
        elif "row-level security" in line:
            advice = "the attribute BYPASSRLS, or turn the row-level security of this table off"
        raise NotPermittedError(f"{address} does not permit this ({line}): grant this user {advice}") from error
    except _CONFLICTS as error:
        if (table := _NUMBERED.get(error.diag.constraint_name or "")) is not None:
            raise StoreAwayError(
                f"{address} is a copy whose rows were copied, but not their sequences: run SELECT setval("
                f"pg_get_serial_sequence('freight_exchange.{table}', 'id'), max(id)) FROM freight_exchange.{table}"
            ) from error
        raise ConflictError(f"{address}: a write conflicts with another one: {_first_line(error)}") from error
    except _ABSENT as error:
        # While a dump is restored, its tables come one after another, and their keys last.
        raise StoreAwayError(
            f"{address} has no such table at present ({_first_line(error)}): restore a backup if none is being restored"
        ) from error
    except _NOT_PREPARED as error:
        raise StoreError(
            f"{address} is behind a pooler that keeps no prepared statements ({_first_line(error)}): give the address"
            " of the server itself, or a pool in session mode"
        ) from error
    except (psycopg.DataError, errors.ProgramLimitExceeded, UnicodeEncodeError) as error:
        raise StoreError(f"{address} cannot store a value: {_first_line(error)}") from error
    except psycopg.Error as error:
        if isinstance(error, psycopg.OperationalError) or error.sqlstate in _CUT_OFF:
            raise StoreAwayError(f"{address} is away: {_first_line(error)}") from error
        raise StoreError(f"{address} failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
