"""Schema of a database: numbered migrations, and recognition of newer or foreign schemas.

A migration keeps all that the version before it reads and writes: it only adds columns with defaults, tables and
indexes. So replicas of two neighbouring versions can share a database during a rolling deploy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from freight_exchange.errors import StoreAwayError, StoreError

if TYPE_CHECKING:
    from freight_exchange.store.postgres.connection import DatabaseConnection

__all__ = ["VERSION", "pending", "prepare", "read_version"]

_LOCK: Final = 0x46_58_53_54
"""The advisory lock under which migrations run: FXST, as in the files of SQLite."""

# The rows of queues change often: free space on each page takes their new versions, and vacuum runs after a fixed
# number of changes, not after a share of the table.
_QUEUE: Final = """
    WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0)
"""

_TABLES: Final = (
    """
    CREATE TABLE freight_exchange.binding (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        base_url text NOT NULL,
        account text NOT NULL,
        name text NOT NULL,
        state text,
        term_epoch bigint NOT NULL DEFAULT 0,
        term_replica bigint,
        UNIQUE (base_url, account, name)
    )
    """,
    # The epoch is a key column: a take-over, which changes it, waits for `FOR KEY SHARE`, and a heartbeat does not.
    f"""
    CREATE TABLE freight_exchange.replica (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        epoch bigint NOT NULL DEFAULT 0,
        binding bigint NOT NULL REFERENCES freight_exchange.binding,
        holder text NOT NULL,
        version text NOT NULL,
        handlers text[] NOT NULL,
        lease_until timestamptz NOT NULL,
        has_left boolean NOT NULL DEFAULT false,
        UNIQUE (id, epoch)
    ) {_QUEUE}
    """,
    "CREATE INDEX replica_living ON freight_exchange.replica (binding) WHERE NOT has_left",
    """
    CREATE TABLE freight_exchange.seen (
        binding bigint NOT NULL,
        "index" bigint NOT NULL,
        digest bytea NOT NULL,
        record bytea,
        version bigint NOT NULL,
        first double precision NOT NULL,
        last double precision NOT NULL,
        scan bigint NOT NULL,
        updated_after double precision NOT NULL,
        missing bigint NOT NULL,
        PRIMARY KEY (binding, "index")
    ) WITH (fillfactor = 70)
    """,
    """CREATE INDEX seen_live ON freight_exchange.seen (binding, updated_after, "index")
        WHERE record IS NOT NULL AND digest <> ''""",
    "CREATE INDEX seen_kept ON freight_exchange.seen (binding, last) WHERE record IS NOT NULL",
    f"""
    CREATE TABLE freight_exchange.event (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        binding bigint NOT NULL,
        key text COLLATE "C" NOT NULL,
        "index" bigint,
        kind text COLLATE "C" NOT NULL,
        payload bytea NOT NULL,
        is_acknowledged boolean NOT NULL DEFAULT false,
        is_filtered boolean NOT NULL DEFAULT false,
        is_owed boolean NOT NULL DEFAULT false,
        at double precision NOT NULL,
        UNIQUE (binding, key)
    ) {_QUEUE}
    """,
    'CREATE INDEX event_about ON freight_exchange.event (binding, "index", id) WHERE "index" IS NOT NULL',
    "CREATE INDEX event_pending ON freight_exchange.event (binding, id) WHERE NOT is_acknowledged",
    "CREATE INDEX event_done ON freight_exchange.event (binding, at, id) WHERE is_acknowledged AND NOT is_owed",
    f"""
    CREATE TABLE freight_exchange.delivery (
        binding bigint NOT NULL,
        event bigint NOT NULL,
        handler text COLLATE "C" NOT NULL,
        "index" bigint,
        state text NOT NULL CHECK (state IN ('ready', 'claimed', 'done', 'dead')),
        attempts integer NOT NULL,
        not_before double precision NOT NULL,
        error text,
        owner bigint,
        PRIMARY KEY (binding, event, handler)
    ) {_QUEUE}
    """,
    """CREATE INDEX delivery_due ON freight_exchange.delivery (binding, not_before, "index" NULLS FIRST, event, handler)
        WHERE state = 'ready'""",
    """CREATE INDEX delivery_queue ON freight_exchange.delivery (binding, "index", handler, event)
        WHERE state = 'ready' AND "index" IS NOT NULL""",
    """CREATE UNIQUE INDEX delivery_claimed ON freight_exchange.delivery (binding, "index")
        WHERE state = 'claimed' AND "index" IS NOT NULL""",
    """CREATE INDEX delivery_owned ON freight_exchange.delivery (binding, event, handler) WHERE state = 'claimed'""",
    "CREATE INDEX delivery_dead ON freight_exchange.delivery (binding, event, handler) WHERE state = 'dead'",
    f"""
    CREATE TABLE freight_exchange.effect (
        binding bigint NOT NULL,
        key text COLLATE "C" NOT NULL,
        state text NOT NULL,
        payload bytea NOT NULL,
        at double precision NOT NULL,
        owner bigint,
        PRIMARY KEY (binding, key)
    ) {_QUEUE}
    """,
    "CREATE INDEX effect_state ON freight_exchange.effect (binding, state)",
    # One open offer a request. A second one would break the promise of the ledger, so the database refuses it as well.
    """CREATE UNIQUE INDEX effect_open ON freight_exchange.effect (binding, split_part(key, ':', 2))
        WHERE state IN ('sending', 'unknown') AND key LIKE 'offer:%'""",
)

_HISTORY: Final = (
    """ALTER TABLE freight_exchange.binding ADD COLUMN cluster text,
        ADD COLUMN is_restored boolean NOT NULL DEFAULT false""",
)

_RELATION: Final = ("ALTER TABLE freight_exchange.binding ADD COLUMN relation oid",)

# Replicas of the version before still read `delivery_due`; a later version may drop it. Two columns of the new index
# are expressions. Otherwise the planner would, without statistics, use it for other look-ups that compare these
# columns, and read the whole index.
_QUEUES: Final = (
    """CREATE INDEX delivery_waiting
        ON freight_exchange.delivery (binding, (handler || ''), not_before, ("index" + 0) NULLS FIRST, event)
        WHERE state = 'ready'""",
)

_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (_TABLES, _HISTORY, _RELATION, _QUEUES)
"""The statements that make each version from the one before it, the first from an empty schema."""

_VERSIONS_AHEAD: Final = 1
"""Number of versions by which the schema may be newer than this program, as during a rolling deploy."""

_TABLE_NAMES: Final = """
    SELECT pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'freight_exchange'
"""

VERSION: Final = len(_MIGRATIONS)


def read_version(connection: DatabaseConnection, *, is_known: bool = False) -> int:
    """Return the version of the schema; 0 where there is none yet.

    Args:
        is_known: Whether this process has used it: what is missing is then being restored.

    Raises:
        StoreError: The schema belongs to another program, or to a newer version.
    """
    # Read from the tables of the catalog: its functions may see only the state at the start of the transaction.
    names = {name for (name,) in connection.rows(_TABLE_NAMES)}
    if "migration" not in names:
        if names and not is_known:
            raise StoreError(
                f"the schema freight_exchange in {connection.address} belongs to another program: give another database"
            )
        return 0
    (version,) = connection.row("SELECT coalesce(max(version), 0) FROM freight_exchange.migration")
    if version > VERSION + _VERSIONS_AHEAD:
        raise StoreError(
            f"{connection.address} was migrated by a newer version of this package (schema {version}, this one reads"
            f" up to {VERSION + _VERSIONS_AHEAD}): upgrade the package, or give another database"
        )
    return int(version)


def pending(version: int) -> range:
    """Return the numbers of the migrations that are still to be applied."""
    return range(version + 1, VERSION + 1)


def prepare(connection: DatabaseConnection, *, is_known: bool = False) -> None:
    """Create or migrate the schema.

    Args:
        is_known: Whether this process has used it. It is not created then: a dump that is being restored creates it.

    Raises:
        StoreAwayError: It is known, and not there.
        StoreError: The schema belongs to another program or a newer version, or this user may not create it.
    """
    version = read_version(connection, is_known=is_known)
    if version >= VERSION:
        return
    if version == 0 and is_known:
        raise StoreAwayError(
            f"{connection.address} has no tables of this store at present: restore a backup, or start this process"
            " again to create them"
        )
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Another process may have migrated while this one waited for the lock.
        version = read_version(connection)
        if version == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS freight_exchange")
            connection.execute(
                "CREATE TABLE freight_exchange.migration (version integer PRIMARY KEY,"
                " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
            )
        for number in pending(version):
            for statement in _MIGRATIONS[number - 1]:
                connection.execute(statement)
            connection.execute("INSERT INTO freight_exchange.migration (version) VALUES (%s)", (number,))
