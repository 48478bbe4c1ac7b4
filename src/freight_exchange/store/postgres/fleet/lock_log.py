"""Log of locks of other sessions that keep every replica from taking the right to scan."""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from psycopg import errors

from freight_exchange.store.postgres.errors import NotPermittedError

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection
    from freight_exchange.store.protocol import ConflictError

__all__ = ["LockLog"]

_logger = logging.getLogger("freight_exchange.bot")

_INTERVAL: Final = 60.0
# Replicas that wait for the lock have a later transaction. That of another user is not shown.
_OWNER: Final = """
    SELECT pid, application_name FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity USING (pid)
    WHERE locktype = 'relation' AND relation = to_regclass('freight_exchange.binding') AND mode <> 'AccessShareLock'
        AND datname = current_database() AND granted AND pid <> pg_backend_pid()
    ORDER BY xact_start NULLS FIRST LIMIT 1
"""


class LockLog:
    """Log of locks of other sessions. It warns once a minute."""

    def __init__(self) -> None:
        self._quiet_until = -math.inf

    def add(self, connection: DatabaseConnection, feed: str, error: ConflictError, *, is_free: bool) -> None:
        """Log that the term could not be taken, if that is because of a lock.

        Args:
            connection: The connection, outside of a transaction.
            feed: The name of the bot.
            error: The error of the attempt.
            is_free: Whether no living replica has the term.
        """
        if not isinstance(error.__cause__, errors.LockNotAvailable) or time.monotonic() < self._quiet_until:
            return
        self._quiet_until = time.monotonic() + _INTERVAL
        _logger.warning(
            "the right to scan for the bot %r in %s %s %s has locked its table or row: no replica scans until that"
            " session ends its transaction",
            feed,
            connection.address,
            "is free, but" if is_free else "cannot be read:",
            _describe_owner(connection),
        )


def _describe_owner(connection: DatabaseConnection) -> str:
    """Describe the session with the lock, if the user may see it and it still has the lock."""
    owner = None
    with suppress(NotPermittedError):
        owner = connection.row(_OWNER)
    if owner is None:
        return "another session"
    pid, application = owner
    return f"another session (pid {pid}{f', application {application!r}' if application else ''})"
