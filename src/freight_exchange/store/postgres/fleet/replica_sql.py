"""Statements on the rows of replicas, and on the term of their binding."""

from __future__ import annotations

from typing import Final

from freight_exchange.store.postgres.history import FILE, FLUSHED, LEASE, STARTED

__all__ = [
    "ANNOUNCE", "CHECK", "DROP_TERM", "END_LAPSED", "FENCE", "FENCE_LOCK", "FENCE_TERM", "FORGET", "HAS_LEFTOVERS",
    "HAS_NEWER", "HAS_PEER", "HEARTBEAT", "JOIN", "LAST_HOLDER", "LEAVE", "LEFT_OUT", "OTHER_HOLDER", "RESIGN",
    "TAKE_TERM", "WITHDRAW", "is_alive",
]  # fmt: skip

# The id is not enough: a restored dump may have the row of a replica that still runs, or reuse its id. An earlier state
# of the row has an earlier lease.
_OWN: Final = f"id = %(replica)s AND {FILE} = %(relation)s AND {LEASE} >= %(renewed)s"
# After a restart or a promotion of the server, a replica only ends, and joins again, which checks for lost commits.
_LIVING: Final = f"{_OWN} AND {STARTED} = %(started)s AND epoch = 0"

CHECK: Final = f"SELECT FROM freight_exchange.replica WHERE {_LIVING}"
"""Query that finds a replica only if its work was not taken over."""

FENCE_LOCK: Final = "FOR KEY SHARE"
"""Lock to append to `CHECK`: the replica's work cannot be taken over before the end of the transaction."""

# Its version is empty until `ANNOUNCE`: a replica that may never scan must not keep those of another version from it.
JOIN: Final = f"""
    WITH bound AS (
        INSERT INTO freight_exchange.binding (base_url, account, name) VALUES (%(base_url)s, %(account)s, %(feed)s)
        ON CONFLICT (base_url, account, name) DO UPDATE SET name = excluded.name
        RETURNING id
    )
    INSERT INTO freight_exchange.replica (binding, holder, version, handlers, lease_until)
    SELECT id, %(holder)s, '', %(handlers)s, clock_timestamp() + make_interval(secs => %(lease)s) FROM bound
    RETURNING id, binding, {FILE}, {STARTED}
"""
ANNOUNCE: Final = f"UPDATE freight_exchange.replica SET version = %(version)s WHERE {_LIVING}"
# `lease_until` is not a key column, so a heartbeat waits for no transaction of this replica.
HEARTBEAT: Final = f"""
    UPDATE freight_exchange.replica SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
    WHERE {_LIVING} AND NOT has_left
    RETURNING {FLUSHED}::text, {LEASE}
"""
FENCE: Final = f"{CHECK} {FENCE_LOCK}"
# A lease ends within an hour, or within the time of this replica's lease if that is longer. If one ends later, the
# clock of the database was set back: its replica, unless that has ended, gets another one with its next heartbeat.
_IN_TIME: Final = (
    "lease_until BETWEEN clock_timestamp() AND clock_timestamp() + make_interval(secs => greatest(%(lease)s, 3600))"
)


def is_alive(replica: str = "replica") -> str:
    """Return the condition that a replica, given by the name of its row, has not ended. It needs the value `lease`."""
    return f"NOT {replica}.has_left AND {replica}.{_IN_TIME}"


# A replica whose lease is over, and whose work no other one has taken over.
_IS_LAPSED: Final = f"binding = %(binding)s AND id <> %(replica)s AND NOT has_left AND NOT {_IN_TIME}"
# The living replica that has the term of a row of `binding`.
_HOLDS_TERM: Final = f"replica.id = term_replica AND {is_alive()}"
# Skips a replica that is inside a transaction until the next time: its lock ends with the transaction.
END_LAPSED: Final = f"""
    UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true
    WHERE id IN (
        SELECT id FROM freight_exchange.replica
        WHERE {_IS_LAPSED}
        FOR UPDATE SKIP LOCKED
    )
"""
LEAVE: Final = f"UPDATE freight_exchange.replica SET epoch = epoch + 1, has_left = true WHERE {_OWN}"
WITHDRAW: Final = f"DELETE FROM freight_exchange.replica WHERE {_OWN}"
HAS_LEFTOVERS: Final = f"""
    SELECT EXISTS (
        SELECT FROM freight_exchange.replica
        WHERE {_IS_LAPSED}
    ) OR EXISTS (
        SELECT FROM freight_exchange.delivery JOIN freight_exchange.replica ON replica.id = delivery.owner
        WHERE delivery.binding = %(binding)s AND delivery.state = 'claimed' AND replica.has_left
    ) OR EXISTS (
        SELECT FROM freight_exchange.effect JOIN freight_exchange.replica ON replica.id = effect.owner
        WHERE effect.binding = %(binding)s AND effect.state IN ('sending', 'unknown') AND replica.has_left
    )
"""
# Whether an announced replica of a newer version lives. A version here is the pair of version and handlers, and is
# newer if its first replica joined later: an old version stays old even if one of its replicas is restarted during a
# deploy. Before a replica is announced, its row has no version.
HAS_NEWER: Final = f"""
    EXISTS (
        SELECT FROM freight_exchange.replica AS own JOIN freight_exchange.replica AS other
            ON other.binding = own.binding AND (other.version, other.handlers) <> (%(version)s, own.handlers)
        WHERE own.id = %(replica)s AND %(version)s <> '' AND other.version <> ''
            AND {is_alive("other")}
            AND (
                SELECT min(id) FROM freight_exchange.replica AS first
                WHERE first.binding = own.binding AND (first.version, first.handlers) = (other.version, other.handlers)
            ) > least(own.id, (
                SELECT min(id) FROM freight_exchange.replica AS first
                WHERE first.binding = own.binding AND (first.version, first.handlers) = (%(version)s, own.handlers)
            ))
    )
"""
HAS_PEER: Final = f"""
    SELECT EXISTS (
        SELECT FROM freight_exchange.replica AS own JOIN freight_exchange.replica AS other
            ON other.binding = own.binding AND (other.version, other.handlers) = (own.version, own.handlers)
        WHERE own.id = %(replica)s AND own.version <> '' AND other.id <> own.id
            AND {is_alive("other")}
    )
"""
# The newest version is that of the living replica whose kind joined last. One that is not announced may be newer yet.
LEFT_OUT: Final = f"""
    SELECT ARRAY(SELECT unnest(own.handlers) EXCEPT SELECT unnest(newest.handlers) ORDER BY 1)
    FROM freight_exchange.replica AS own CROSS JOIN LATERAL (
        SELECT other.handlers FROM freight_exchange.replica AS other
        WHERE other.binding = own.binding AND other.version <> ''
            AND {is_alive("other")}
        ORDER BY (
            SELECT min(id) FROM freight_exchange.replica AS first
            WHERE first.binding = other.binding AND (first.version, first.handlers) = (other.version, other.handlers)
        ) DESC
        LIMIT 1
    ) AS newest
    WHERE own.id = %(replica)s AND own.version <> ''
"""
# Finds nothing for a replica whose work was taken over: it has to find that out.
OTHER_HOLDER: Final = f"""
    SELECT replica.holder, replica.id, state
    FROM freight_exchange.binding JOIN freight_exchange.replica ON {_HOLDS_TERM}
    WHERE binding.id = %(binding)s AND replica.id <> %(replica)s AND EXISTS ({CHECK})
"""
"""Query for the other living replica that has the term, and the feed's state. It finds none if the term is free."""
TAKE_TERM: Final = f"""
    UPDATE freight_exchange.binding SET term_epoch = term_epoch + 1, term_replica = %(replica)s
    WHERE id = %(binding)s
        AND NOT EXISTS (SELECT FROM freight_exchange.replica WHERE {_HOLDS_TERM}) AND NOT {HAS_NEWER}
    RETURNING term_epoch, state
"""
_FREE_TERM: Final = "UPDATE freight_exchange.binding SET term_replica = NULL WHERE id = %(binding)s"
# Frees a term that this replica could not give back because its connection was cut.
DROP_TERM: Final = f"{_FREE_TERM} AND term_replica = %(replica)s"
FENCE_TERM: Final = """
    SELECT FROM freight_exchange.binding WHERE id = %(binding)s AND term_epoch = %(epoch)s FOR NO KEY UPDATE
"""
RESIGN: Final = f"{_FREE_TERM} AND term_epoch = %(epoch)s"
# Keeps the first replica of each version, which shows which version is newer, and owners of work to adopt.
FORGET: Final = """
    DELETE FROM freight_exchange.replica AS gone
    WHERE binding = %(binding)s AND has_left AND lease_until < clock_timestamp() - interval '1 day'
        AND EXISTS (
            SELECT FROM freight_exchange.replica AS first
            WHERE first.binding = gone.binding AND (first.version, first.handlers) = (gone.version, gone.handlers)
                AND first.id < gone.id
        )
        AND NOT EXISTS (
            SELECT FROM freight_exchange.delivery
            WHERE delivery.binding = gone.binding AND state = 'claimed' AND owner = gone.id
        )
        AND NOT EXISTS (
            SELECT FROM freight_exchange.effect
            WHERE effect.binding = gone.binding AND state IN ('sending', 'unknown') AND owner = gone.id
        )
"""
LAST_HOLDER: Final = """
    SELECT replica.holder FROM freight_exchange.binding
    JOIN freight_exchange.replica ON replica.id = term_replica WHERE binding.id = %(binding)s
"""
