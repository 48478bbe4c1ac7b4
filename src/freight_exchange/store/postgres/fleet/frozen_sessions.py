"""End of database sessions whose process was frozen, or lost its network, in the middle of a message.

The server waits for the rest of the message without limit, and the session keeps its locks. Until it ends, no other
replica can take over the term or the work of that replica.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from freight_exchange.store.postgres.errors import NotPermittedError
from freight_exchange.store.postgres.session import APPLICATION

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["end_frozen"]

_logger = logging.getLogger("freight_exchange.bot")

_SILENCE: Final = 15.0
"""Seconds of silence inside a transaction that prove a frozen process: the statements of others end after twelve."""
# Ends only transactions of replicas, which lock or write rows. A command that only reads does neither. A copy of a file
# into a database, which takes longer, locks whole tables.
_END: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND usename = session_user AND starts_with(application_name, %(application)s)
        AND wait_event IN ('ClientRead', 'ClientWrite')
        AND state_change < clock_timestamp() - make_interval(secs => %(silence)s)
        AND (
            SELECT bool_or(mode IN ('RowShareLock', 'RowExclusiveLock')) AND NOT bool_or(mode = 'ExclusiveLock')
            FROM pg_catalog.pg_locks JOIN pg_catalog.pg_class ON pg_class.oid = relation
            WHERE pg_locks.pid = pg_stat_activity.pid AND relnamespace = to_regnamespace('freight_exchange')
        )
"""
_warned: Final = set[str]()
"""Databases in which this user has no right to end sessions."""


def end_frozen(connection: DatabaseConnection) -> None:
    """End the sessions of this user that hold locks of rows, and whose process has been silent for `_SILENCE`.

    Log it once if this user has no right to.
    """
    ended: list[object] = []
    with connection.transaction():
        # An outer transaction goes on: neither the role nor an error may remain. What was ended stays ended.
        connection.execute("SAVEPOINT end_frozen")
        try:
            # The server knows a session by its login. A role that the login has taken may not end it.
            connection.execute("SET LOCAL ROLE NONE")
            ended = connection.rows(_END, {"application": APPLICATION, "silence": _SILENCE})
        except NotPermittedError as error:
            if connection.address not in _warned:
                _warned.add(connection.address)
                _logger.warning(
                    "cannot end the connections of frozen processes to %s: %s; they keep their locks",
                    connection.address,
                    error,
                )
        connection.execute("ROLLBACK TO SAVEPOINT end_frozen")
    if ended:
        _logger.warning(
            "ended %d connections to %s that kept locks: their processes are frozen or cut off",
            len(ended),
            connection.address,
        )
