"""History of a database as a process has seen it, by which one that has lost commits is recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["FILE", "FLUSHED", "History", "trust"]

FLUSHED: Final = "pg_current_wal_flush_lsn()"
"""The end of what survives a crash."""
FILE: Final = "pg_relation_filenode(tableoid)"
"""The file of the table of a row. A table that was made anew or emptied has another one: so has each that a dump was
restored into, of the data alone too. `VACUUM FULL` also writes another one."""
# Another cluster has another identifier; one that was promoted, or recovered to an earlier time, another timeline, with
# which the names of its files begin.
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
    WHERE id = %(binding)s
    RETURNING is_restored, cluster
"""
_TRUST: Final = "UPDATE freight_exchange.binding SET is_restored = false WHERE id = %(binding)s"


class History:
    """Knowledge of a database that this process has seen.

    Attributes:
        flushed: The end of what survives a crash, when it was last read.
    """

    def __init__(self) -> None:
        self.flushed: str | None = None
        self._cluster: str | None = None

    def check(self, connection: DatabaseConnection, binding: int) -> tuple[bool, str]:
        """Return whether the database may have lost commits since this process, or any other, has seen it.

        It stays so until `trust`. A copy of its files that was made earlier is recognised only by a process that runs.

        Returns:
            That, and the present cluster, for `restart`.
        """
        values = {"binding": binding, "cluster": self._cluster, "flushed": self.flushed}
        is_restored, cluster = connection.row(_CHECK, values)
        return bool(is_restored), str(cluster)

    def restart(self, cluster: str) -> None:
        """Begin anew with the present database, once the result of a check is committed there."""
        self._cluster, self.flushed = cluster, None


def trust(connection: DatabaseConnection, binding: int) -> None:
    """Record that what the database has lost was looked for."""
    connection.execute(_TRUST, {"binding": binding})
