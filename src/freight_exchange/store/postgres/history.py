"""Recognition of a database that has lost commits, by comparison with its state that a process has seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["FILE", "FLUSHED", "LEASE", "STARTED", "History", "trust"]

FLUSHED: Final = "pg_current_wal_flush_lsn()"
"""SQL: the position in the write-ahead log up to which commits survive a crash."""
FILE: Final = "pg_relation_filenode(tableoid)"
"""SQL: the file of a row's table. A table that was made anew or emptied has another file, so every restored dump gives
it another one, even a dump of the data alone. `VACUUM FULL` does so, too."""
LEASE: Final = "extract(epoch FROM lease_until)::float8"
"""SQL: the end of a replica's lease. Only the replica itself moves it, always to a later time unless a clock is set
back."""
STARTED: Final = "extract(epoch FROM pg_postmaster_start_time())::float8"
"""SQL: the start of the server's process. A pooler may keep connections while another server takes the place of it."""
# Another cluster has another identifier. A cluster that was promoted, or recovered to an earlier time, has another
# timeline: the first digits of the names of its log files.
_CLUSTER: Final = (
    "(SELECT system_identifier FROM pg_control_system())::text || '/'"
    " || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)"
)
_CHECK: Final = f"""
    UPDATE freight_exchange.binding
    SET cluster = {_CLUSTER}, relation = {FILE},
        is_restored = is_restored
            OR coalesce(relation <> {FILE}, false)
            OR coalesce(cluster <> {_CLUSTER}, false)
            OR coalesce(%(cluster)s::text <> {_CLUSTER}, false)
            OR coalesce(%(flushed)s::pg_lsn > {FLUSHED}, false)
            OR %(replica)s::bigint IS NOT NULL AND NOT EXISTS (
                SELECT FROM freight_exchange.replica WHERE id = %(replica)s AND {LEASE} >= %(renewed)s
            )
    WHERE id = %(binding)s
    RETURNING is_restored, cluster, relation
"""
_TRUST: Final = f"""
    UPDATE freight_exchange.binding SET is_restored = false WHERE id = %(binding)s AND {FILE} = %(relation)s
"""


class History:
    """The state of a database that this process has last seen.

    Attributes:
        flushed: Position in its write-ahead log up to which commits survived a crash; `None` if unknown.
        renewed: The id of the replica that last renewed its lease, and the end of that lease.
    """

    def __init__(self) -> None:
        self.flushed: str | None = None
        self.renewed: tuple[int | None, float] = (None, 0.0)
        self._cluster: str | None = None

    @property
    def is_known(self) -> bool:
        """`True` if this process has used the database before."""
        return self._cluster is not None

    def check(self, connection: DatabaseConnection, binding: int) -> tuple[bool, str, int]:
        """Return whether the database may have lost commits since it was last seen, and its present state.

        The first stays `True` until `trust`. The present cluster is for `restart`, and the present file of the table of
        bindings for `trust`. If an earlier copy of the database's files is put back, only processes that ran before can
        recognise it.
        """
        replica, renewed = self.renewed
        seen = {"cluster": self._cluster, "flushed": self.flushed, "replica": replica, "renewed": renewed}
        is_restored, cluster, relation = connection.row(_CHECK, {"binding": binding, **seen})
        return bool(is_restored), str(cluster), int(relation)

    def restart(self, cluster: str) -> None:
        """Forget the earlier database and record this cluster, after the result of `check` is committed."""
        self._cluster, self.flushed, self.renewed = cluster, None, (None, 0.0)


def trust(connection: DatabaseConnection, binding: int, relation: int) -> bool:
    """Record that the bot has looked for the offers that the database may have lost.

    Returns:
        False if the table of bindings has another file than in `check`: it was restored again since.
    """
    return connection.execute(_TRUST, {"binding": binding, "relation": relation}).rowcount == 1
