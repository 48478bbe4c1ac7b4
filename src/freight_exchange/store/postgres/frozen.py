"""End of the sessions of processes that are frozen, or whose network is lost, in the middle of a message.

The server waits for the rest for as long as it takes, and the session keeps its locks: no other replica takes the term
meanwhile, nor the work of the replica.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from freight_exchange.store.postgres.session import APPLICATION

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["end_frozen"]

_logger = logging.getLogger("freight_exchange.bot")

_SILENCE: Final = 15.0
"""Seconds for which no living process leaves the server waiting inside a transaction: a statement ends after twelve."""
# Each transaction of a replica locks rows of this table. A copy of a file into a database, which takes longer, and a
# command that reads do not.
_END: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND starts_with(application_name, %(application)s)
        AND wait_event IN ('ClientRead', 'ClientWrite')
        AND state_change < clock_timestamp() - make_interval(secs => %(silence)s)
        AND pid IN (
            SELECT pid FROM pg_catalog.pg_locks
            WHERE relation = to_regclass('freight_exchange.replica') AND mode = 'RowShareLock'
        )
"""


def end_frozen(connection: DatabaseConnection) -> None:
    """End the sessions of this user that keep the locks of a replica, and whose process has long been silent."""
    ended = connection.rows(_END, {"application": APPLICATION, "silence": _SILENCE})
    if ended:
        _logger.warning(
            "%s kept locks for processes that are frozen or cut off: %d of their connections were ended",
            connection.address,
            len(ended),
        )
