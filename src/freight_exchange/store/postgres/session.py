"""The settings of a session, and the limits within which its transactions hold locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

__all__ = ["APPLICATION", "begin", "set_defaults"]

APPLICATION: Final = "freight-exchange"
"""Name by which the server knows the sessions of this package."""

_ISOLATION: Final = "read committed"
_IDLE: Final = "5s"
"""Silence of a client after which its transaction is undone: it may be frozen, and must not keep its locks."""
_MARGIN: Final = 2.0
"""Seconds after a client has given up its wait at which the server ends the statement: it would run on for a reply that
nothing reads."""
_LOCK_WAIT: Final = "5s"
_LONGEST: Final = "5min"
"""Limit of a whole transaction. The longest ones report thousands of selected offers to a new handler."""
_LIMITS_TRANSACTIONS: Final = 170_000
"""Oldest version of a server that limits whole transactions."""

_DEFAULTS: Final = {
    # The fences rely on this level: a statement sees what was committed before it, and waits for a lock.
    "default_transaction_isolation": _ISOLATION,
    # Between two scans a connection is idle. Older servers lack some of these limits.
    "idle_session_timeout": "0",
    # A statement that waits for a lock stays in the server when its connection is cut.
    "lock_timeout": "5000",
    "transaction_timeout": "0",
    # The session of a machine that is lost ends within 25 seconds, and its locks with it; by default it takes hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    # Values would be written or read in another form: bytes with doubled backslashes, times without their last digits.
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "extra_float_digits": "1",
}
"""Settings on which the statements rely. A role or a database may have others as its defaults."""
_READ_DEFAULTS: Final = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%s)"


def set_defaults(connection: psycopg.Connection[Any], *, patience: float) -> None:
    """Change the settings that differ from those on which the statements rely.

    Args:
        patience: Seconds for which the client waits for a reply.
    """
    defaults = {**_DEFAULTS, "statement_timeout": f"{(patience + _MARGIN) * 1000:.0f}"}
    found = connection.execute(_READ_DEFAULTS, [[*defaults]]).fetchall()
    changes = [f"SET {name} = '{defaults[name]}'" for name, setting in found if setting != defaults[name]]
    if changes:
        # Composed of constants alone, which the type checker does not see.
        connection.execute("; ".join(changes), prepare=False)  # pyright: ignore[reportArgumentType, reportCallIssue]


def begin(server_version: int, *, is_limited: bool) -> str:
    """Return the statements that begin a transaction.

    Args:
        server_version: The version of the server, as a number of libpq.
        is_limited: Whether the transaction ends when its client is silent, or when it takes too long.
    """
    statements = [
        f"BEGIN ISOLATION LEVEL {_ISOLATION}",
        f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE if is_limited else 0}'",
        f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'",
        # What is committed must survive a crash of the server, even where its administrator has chosen otherwise.
        "SET LOCAL synchronous_commit = on",
    ]
    if is_limited and server_version >= _LIMITS_TRANSACTIONS:
        statements.append(f"SET LOCAL transaction_timeout = '{_LONGEST}'")
    return "; ".join(statements)
