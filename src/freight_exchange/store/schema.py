"""Tables of a store, the same in SQLite and PostgreSQL, and their numbered migrations.

Times are seconds since the epoch, by the store's clock; only `lease_until` is by the database's own. A `subject` is the
index of a request, an `owner` the id of a replica. Every transaction that adds an event first locks its feed's row: the
ids of a feed's events follow its commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from freight_exchange.errors import StoreError

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

FEEDS: Final = ("requests", "offers", "selected")
"""Names of the feeds of a binding."""

OPEN: Final = ("sending", "unknown", "parked")
"""States in which the service may or may not have an effect: being sent; in doubt; in doubt until a person decides.

The others are `confirmed`, `refused` by the service, and `absent`: it certainly has no effect, and may be sent again.
"""

_FIRST: Final = f"""
CREATE TABLE binding (
    id {{ID}}, url text NOT NULL, account text NOT NULL, name text NOT NULL, created {{REAL}} NOT NULL,
    UNIQUE (account, name, url));

CREATE TABLE replica (
    id bigint PRIMARY KEY, binding bigint NOT NULL, holder text NOT NULL, joined {{REAL}} NOT NULL,
    lease {{REAL}} NOT NULL, lease_until {{REAL}} NOT NULL, writes bigint NOT NULL DEFAULT 0) {{QUEUE}};

CREATE TABLE feed (
    id {{ID}}, binding bigint NOT NULL, name text NOT NULL, state text, epoch bigint NOT NULL DEFAULT 0,
    owner bigint, lease_until {{REAL}} NOT NULL DEFAULT 0, UNIQUE (binding, name)) {{QUEUE}};

CREATE TABLE item (
    feed bigint NOT NULL, key text NOT NULL, subject bigint, digest {{BYTES}} NOT NULL, record {{BYTES}},
    version bigint NOT NULL, first_seen {{REAL}} NOT NULL, last_seen {{REAL}} NOT NULL,
    updated_after {{REAL}} NOT NULL, PRIMARY KEY (feed, key));
CREATE INDEX item_live ON item (feed, updated_after) WHERE record IS NOT NULL;
CREATE INDEX item_subject ON item (feed, subject);

CREATE TABLE event (
    id {{ID}}, feed bigint NOT NULL, key text NOT NULL, subject bigint, kind text NOT NULL, payload {{BYTES}} NOT NULL,
    at {{REAL}} NOT NULL, acked boolean NOT NULL DEFAULT false, UNIQUE (feed, key));
CREATE INDEX event_feed ON event (feed, id);
CREATE INDEX event_open ON event (feed, id) WHERE NOT acked;
CREATE INDEX event_subject ON event (subject, feed);

CREATE TABLE handler (
    id {{ID}}, binding bigint NOT NULL, name text NOT NULL, feed bigint NOT NULL, cursor bigint NOT NULL,
    at {{REAL}} NOT NULL DEFAULT 0, UNIQUE (binding, name, feed)) {{QUEUE}};

CREATE TABLE delivery (
    event bigint NOT NULL, handler bigint NOT NULL, subject bigint, state text NOT NULL,
    attempts integer NOT NULL DEFAULT 0, not_before {{REAL}} NOT NULL, error text, owner bigint,
    PRIMARY KEY (event, handler)) {{QUEUE}};
CREATE INDEX delivery_due ON delivery (not_before, event) WHERE state = 'ready';
CREATE INDEX delivery_open ON delivery (handler, subject, event) WHERE state IN ('ready', 'claimed');
CREATE INDEX delivery_claimed ON delivery (owner) WHERE state = 'claimed';
CREATE INDEX delivery_dead ON delivery (event) WHERE state = 'dead';

CREATE TABLE effect (
    id {{ID}}, binding bigint NOT NULL, key text NOT NULL, kind text NOT NULL, subject bigint, state text NOT NULL,
    version bigint NOT NULL DEFAULT 0, revision bigint NOT NULL DEFAULT 0, event bigint, payload {{BYTES}} NOT NULL,
    at {{REAL}} NOT NULL, owner bigint, UNIQUE (binding, key));
CREATE UNIQUE INDEX effect_open ON effect (binding, subject) WHERE state IN {OPEN};
CREATE INDEX effect_subject ON effect (binding, subject);

CREATE TABLE reading (
    binding bigint NOT NULL, name text NOT NULL, began {{REAL}} NOT NULL, payload {{BYTES}} NOT NULL,
    PRIMARY KEY (binding, name));
"""

_META: Final = "CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);"

MIGRATIONS: Final[tuple[str, ...]] = (_META + _FIRST,)
"""Statements that make each version from the one before it, the first from an empty database."""

VERSION: Final = len(MIGRATIONS)


def find_version(db: Database, tables: frozenset[str]) -> int:
    """Return the version of the tables that are there, 0 for none; raise `StoreError` if they are no known store."""
    version = 0
    if "meta" in tables and "replica" in tables:
        row = db.run("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        version = int(row[0]) if row else 0
    elif tables:
        raise StoreError(f"{db.place} has other tables, and is no store of this version: give an empty or another one")
    if version > VERSION:
        raise StoreError(
            f"{db.place} was written by a newer version of this package (schema {version}, this one knows up to"
            f" {VERSION}): upgrade the package, or give another one"
        )
    return version


def prepare(db: Database, tables: frozenset[str], *, is_beside: bool) -> None:
    """Create the tables, or migrate those of an older version, in a transaction; beside their process, only check."""
    version = find_version(db, tables)
    if is_beside and version < VERSION:
        raise StoreError(f"{db.place} has no store of this version yet: a bot, or a watch with a store, makes it")
    for migration in MIGRATIONS[version:]:
        for statement in filter(str.strip, migration.split(";")):
            db.run(statement)
    if version < VERSION:
        db.run(
            "INSERT INTO meta (key, value) VALUES ('schema_version', :version)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            version=str(VERSION),
        )
