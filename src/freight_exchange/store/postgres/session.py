"""Settings of a database session, and time limits for the locks of its transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

__all__ = ["APPLICATION", "begin", "set_defaults"]

APPLICATION: Final = "freight-exchange"
"""Name by which the server knows the sessions of this package."""

_ISOLATION: Final = "read committed"
_IDLE: Final = "5s"
"""Silence of a client after which the server rolls its transaction back: a frozen client must not keep locks."""
_MARGIN: Final = 2.0
"""Seconds from the client's reply timeout until the server ends the statement, whose reply nothing reads any more."""
_LOCK_WAIT: Final = "5s"
_LONGEST: Final = "5min"
"""Limit of a whole transaction. The longest ones report thousands of selected offers to a new handler."""
_HAS_TRANSACTION_TIMEOUT: Final = 170_000
"""Oldest version of a server that can limit whole transactions."""

_DEFAULTS: Final = {
    # Rows that a policy hides would count as absent, for example the offers that were made: reading them must fail.
    "row_security": "off",
    # A connection is idle between two scans.
    "idle_session_timeout": "0",
    # While a statement waits for a lock, the server does not notice that its connection was cut.
    "lock_timeout": "5000",
    "transaction_timeout": "0",
    # The session of a machine that is lost ends within 25 seconds, and its locks with it; by default it takes hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25000",
    # Other settings change values: backslashes of bytes are doubled, times lose their last digits.
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "extra_float_digits": "1",
    # A heartbeat that a crash of the server undoes looks like a database that has lost commits.
    "synchronous_commit": "on",
}
"""Settings on which the statements rely. The defaults of a role or a database may differ. Old servers lack some."""
# The view of all settings needs a temporary file where the memory of a statement is small, which may be forbidden.
_READ_DEFAULTS: Final = "SELECT name, current_setting(name, true) FROM unnest(%s::text[]) AS name"


def set_defaults(connection: psycopg.Connection[Any], *, reply_timeout: float) -> None:
    """Change the settings of the session that differ from `_DEFAULTS`.

    Args:
        connection: The session.
        reply_timeout: Seconds for which the client waits for a reply.
    """
    # Composed of constants alone, which the type checker does not see. The first statement is for those that follow: no
    # query is possible within a shorter limit, nor on a standby at the level `serializable`. The fences rely on the
    # level: a statement sees all that was committed before it, and waits for locks.
    first = (
        f"SET statement_timeout = {(reply_timeout + _MARGIN) * 1000:.0f};"
        f" SET default_transaction_isolation = '{_ISOLATION}'"
    )
    connection.execute(first, prepare=False)  # pyright: ignore[reportArgumentType, reportCallIssue]
    found = connection.execute(_READ_DEFAULTS, [[*_DEFAULTS]]).fetchall()
    changes = [f"SET {name} = '{_DEFAULTS[name]}'" for name, now in found if now not in (None, _DEFAULTS[name])]
    if changes:
        connection.execute("; ".join(changes), prepare=False)  # pyright: ignore[reportArgumentType, reportCallIssue]


def begin(server_version: int, *, is_limited: bool) -> str:
    """Return the statements that begin a transaction.

    Args:
        server_version: The version of the server, as a number of libpq.
        is_limited: Whether the server rolls the transaction back if its client is silent or it takes too long.
    """
    statements = [
        f"BEGIN ISOLATION LEVEL {_ISOLATION}",
        f"SET LOCAL idle_in_transaction_session_timeout = '{_IDLE if is_limited else 0}'",
        f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'",
        # What is committed must survive a crash of the server, even where its administrator has chosen otherwise, and a
        # pooler leads the transaction to another session.
        "SET LOCAL synchronous_commit = on",
    ]
    if is_limited and server_version >= _HAS_TRANSACTION_TIMEOUT:
        statements.append(f"SET LOCAL transaction_timeout = '{_LONGEST}'")
    return "; ".join(statements)
