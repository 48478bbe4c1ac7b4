"""Replicas of a bot as a lease table: join, beat, adopt, take a feed, leave. Statements only.

A replica's id is random and never used twice, so it is the fencing token: each write names the owner that it expects.

| Write | Condition |
|---|---|
| page of a scan, or any event | its first statement changes the row of `feed` WHERE `owner` and `epoch` agree |
| claim | `LIVING`, and `state = 'ready'` of rows that are locked by `{SKIP}` |
| settle | `state = 'claimed' AND owner = :me` |
| begin an effect | `note_write` first; then the delivery is still claimed by me; insert, unique while it is open |
| finish an effect | `version = :version`, without a lease |
| adopt | all that is claimed or open and has no living owner, however old |

A claim or a `sending` whose COMMIT had no reply may stay behind though its owner lives: a worker releases the claims
that it does not run, and `adopt` returns this replica's own old `sending`. A settlement without a reply is repeated.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.errors import FencedError, StoreError
from freight_exchange.store.errors import RestoredError
from freight_exchange.store.schema import FEEDS, OPEN

if TYPE_CHECKING:
    from freight_exchange.store.database import Database

LEASE: Final = 15.0
"""Seconds for which a replica that no longer answers keeps its work. It beats every third of that."""

ORPHAN_AGE: Final = 20.2
"""Seconds after which an effect in `sending` can neither be sent any more nor be on its way: (window of 10 s + TCP user
time-out of 10 s) x 1.01."""

LIVING: Final = "EXISTS (SELECT 1 FROM replica WHERE id = :me AND lease_until > {NOW})"
"""Condition that replica `:me` lives."""

_DELAY: Final = (
    "(CASE WHEN attempts > 9 THEN 300 ELSE 1 << (attempts - 1) END) * (0.5 + (event * 7 + handler * 3) % 16 / 32.0)"
)
"""Delay of a delivery whose process has ended, as after a failure. It differs from event to event, so that one which
ends its process does not end the attempts of the others each time."""

_FOREVER: Final = 1e11
"""Lease of the only replica of a file, whose lock excludes others, so that a machine may sleep for a week."""
_KEPT: Final = 30 * 86_400.0
"""Seconds for which the row of a replica is kept. One that wakes later takes the database for a restored one."""


@attrs.frozen
class Binding:
    """The service's API root, the account's email, and the name of the bot to which a state belongs."""

    url: str
    account: str
    name: str


@attrs.frozen(kw_only=True)
class Joined:
    """A replica's place: its id, the row of its binding, and the rows of the binding's feeds by name.

    It `is_alone` if it is new and no other replica lives, and `is_restored` if the database was put back under this
    process, or lacks commits of it. It `is_restarted` if the server is another one than before, which may lack commits
    of others.
    """

    me: int
    binding: int
    feeds: Mapping[str, int]
    is_alone: bool
    is_restored: bool
    is_restarted: bool = False
    stamp: tuple[str, str] = ("", "")

    @property
    def must_read(self) -> bool:
        """`True` if the ledger may lack offers: the account's bids must be read before anything is offered."""
        return self.is_alone or self.is_restored or self.is_restarted


@attrs.frozen(kw_only=True)
class Adopted:
    """Unfinished work that `adopt` has found.

    Attributes:
        effects: Ids of the effects that are this replica's from now on: none can be sent or arrive any more once
            `ORPHAN_AGE` has passed since the adoption, by this replica's own clock.
        orphans: Ids of this replica's own effects that have been in `sending` for longer than `ORPHAN_AGE`. The ledger
            resolves those that it knows nothing of.
    """

    effects: tuple[int, ...] = ()
    orphans: tuple[int, ...] = ()


def join(
    db: Database,
    binding: Binding,
    holder: str,
    lease: float,
    *,
    before: int = 0,
    writes: int = 0,
    stamp: tuple[str, str] = ("", ""),
) -> Joined:
    """Insert this replica under a new id, and its binding with its feeds if they are new.

    Args:
        holder: Description of this process.
        lease: Seconds until other replicas may adopt its work.
        before: The id that this process had before, or 0. If that replica lives, it is the result.
        writes, stamp: How many effects it had begun, and the stamp of the database that it had joined.

    Raises:
        StoreError: The file belongs to another service, account or name; or a living replica of the same bot uses
            another URL.
    """
    # One at a time: the checks below must see every other replica.
    db.run("SELECT value FROM meta WHERE key = 'schema_version' {LOCK}")
    is_file = db.dialect == "sqlite"
    old = db.run("SELECT binding, lease_until, writes FROM replica WHERE id = :before", before=before).fetchone()
    found = db.run("SELECT {STAMP}, {STARTED}").fetchone()
    is_restored = before != 0 and (old is None or old[2] < writes or found[0] != stamp[0])
    is_mine = old is not None and old[1] > 0 and not is_restored
    if is_file and not is_mine:
        # The lock of the file proves that no other process lives.
        db.run("UPDATE replica SET lease_until = 0")
        db.run("UPDATE feed SET lease_until = 0")
    row = _bind(db, binding)
    check_not_moved(db)
    if old is not None and is_mine and old[0] != row:
        raise StoreError(f"{db.place} is open for another bot in this process: use one Store object for each")
    me = before if is_mine else 1 + secrets.randbelow(2**63 - 1)
    others = "SELECT count(*) FROM replica WHERE binding = :binding AND id <> :me AND lease_until > {NOW}"
    is_alone = not is_mine and not db.run(others, binding=row, me=me).fetchone()[0]
    sql = f"""DELETE FROM replica WHERE lease_until = 0 AND joined < :joined AND NOT EXISTS
        (SELECT 1 FROM effect WHERE owner = replica.id AND state IN {OPEN})"""
    db.run(sql, joined=db.now - _KEPT)
    if is_mine:
        beat(db, me)
    else:
        lease = _FOREVER if is_file else lease
        sql = """INSERT INTO replica (id, binding, holder, joined, lease, lease_until)
            VALUES (:me, :binding, :holder, :joined, :lease, {NOW} + :lease)"""
        db.run(sql, me=me, binding=row, holder=holder, joined=db.now, lease=lease)
    feeds = dict(db.run("SELECT name, id FROM feed WHERE binding = :binding", binding=row).fetchall())
    return Joined(
        me=me,
        binding=row,
        feeds=feeds,
        is_alone=is_alone,
        is_restored=is_restored,
        is_restarted=before != 0 and found[1] != stamp[1],
        stamp=found,
    )


def check_not_moved(db: Database) -> None:
    moved = db.run("SELECT value FROM meta WHERE key = 'moved'").fetchone()
    if moved:
        raise StoreError(
            f"{db.place} was moved into {moved[0]}: use that one; if it is empty, run `store copy` again, which was"
            " interrupted"
        )


def beat(db: Database, me: int, stamp: str = "") -> None:
    """Renew the lease of this replica; an empty `stamp` is not checked.

    Raises:
        FencedError: Another replica has ended it, or the database was put back: join again.
    """
    sql = """UPDATE replica SET lease_until = {NOW} + lease
        WHERE id = :me AND lease_until > 0 AND :stamp IN ('', {STAMP})"""
    if not db.run(sql, me=me, stamp=stamp).rowcount:
        raise _fenced(db, me)


def adopt(db: Database, me: int, writes: int = 0) -> Adopted:
    """Take over all that is claimed or open and has no living owner. Call it with each beat.

    An adopted effect keeps its state and its version, so that an answer which its old owner still gets is recorded.

    Raises:
        FencedError: This replica does not live.
        RestoredError: The database lacks some of the `writes` of this replica.
    """
    sql = f"SELECT binding FROM replica WHERE id = :me AND writes >= :writes AND {LIVING}"
    mine = db.run(sql, me=me, writes=writes).fetchone()
    if mine is None:
        raise _fenced(db, me, writes)
    (binding,) = mine
    # One replica at a time: another one that adopts now does the same.
    if db.run("SELECT id FROM binding WHERE id = :binding {SKIP}", binding=binding).fetchone() is None:
        return Adopted()
    # Locks the rows: what an ended replica has begun is committed, or will find that it has ended.
    sql = """UPDATE replica SET lease_until = 0
        WHERE binding = :binding AND id <> :me AND lease_until > 0 AND lease_until <= {NOW}"""
    db.run(sql, binding=binding, me=me)
    sql = f"""UPDATE delivery SET state = 'ready', owner = NULL, not_before = :now + {_DELAY} WHERE state = 'claimed'
        AND NOT EXISTS (SELECT 1 FROM replica WHERE replica.id = delivery.owner AND lease_until > 0)
        AND handler IN (SELECT id FROM handler WHERE binding = :binding)"""
    freed = db.run(sql, binding=binding, now=db.now).rowcount
    sql = f"""UPDATE effect SET owner = :me WHERE binding = :binding AND state IN {OPEN} AND NOT EXISTS
        (SELECT 1 FROM replica WHERE replica.id = effect.owner AND lease_until > 0) RETURNING id"""
    effects = db.run(sql, binding=binding, me=me).fetchall()
    sql = "SELECT id FROM effect WHERE binding = :binding AND state = 'sending' AND owner = :me AND at < :at"
    orphans = db.run(sql, binding=binding, me=me, at=db.now - ORPHAN_AGE).fetchall()
    if freed:
        db.wake("work")
    found = tuple(sorted(id for (id,) in effects))
    return Adopted(effects=found, orphans=tuple(sorted(id for (id,) in orphans if id not in found)))


def take_feed(db: Database, me: int, feed: int, *, lease: float = LEASE) -> int | None:
    """Take the right to scan a feed, unless another scan has it; return its epoch, or `None`.

    `feeds.hold` extends the lease.
    """
    sql = f"""UPDATE feed SET owner = :me, epoch = epoch + 1, lease_until = {{NOW}} + :lease
        WHERE id = :feed AND {LIVING} AND (lease_until <= {{NOW}}
            OR NOT EXISTS (SELECT 1 FROM replica WHERE replica.id = feed.owner AND replica.lease_until > 0))
        RETURNING epoch"""
    taken = db.run(sql, me=me, feed=feed, lease=lease).fetchone()
    return None if taken is None else int(taken[0])


def drop_feed(db: Database, me: int, feed: int, epoch: int) -> None:
    """Give the right to scan a feed back."""
    sql = "UPDATE feed SET lease_until = 0 WHERE id = :feed AND owner = :me AND epoch = :epoch"
    db.run(sql, me=me, feed=feed, epoch=epoch)


def leave(db: Database, me: int) -> None:
    """End this replica: its feeds are free and its claims ready at once; others adopt its open effects."""
    db.run("UPDATE replica SET lease_until = 0 WHERE id = :me", me=me)
    db.run("UPDATE feed SET lease_until = 0 WHERE owner = :me", me=me)
    db.run("UPDATE delivery SET state = 'ready', owner = NULL WHERE state = 'claimed' AND owner = :me", me=me)


def note_write(db: Database, me: int, mine: int, stamp: str = "") -> int:
    """Count an effect that this transaction begins, and lock the replica's row until the commit.

    `mine` is the count that its last commit returned. Keep the new one in `Store.writes` after the commit. The `stamp`
    is that of a database that was not put back; an empty one is not checked.

    Raises:
        FencedError: This replica does not live: join again.
        RestoredError: The database lacks commits of this replica. A larger count is its own COMMIT without a reply.
    """
    sql = """UPDATE replica SET writes = writes + 1
        WHERE id = :me AND lease_until > {NOW} AND writes >= :mine AND :stamp IN ('', {STAMP}) RETURNING writes"""
    noted = db.run(sql, me=me, mine=mine, stamp=stamp).fetchone()
    if noted is None:
        raise _fenced(db, me, mine)
    return int(noted[0])


def describe_process() -> str:
    """Describe this process for other replicas and for messages."""
    return f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _fenced(db: Database, me: int, writes: int = 0) -> FencedError:
    row = db.run("SELECT writes FROM replica WHERE id = :me", me=me).fetchone()
    if row is None or row[0] < writes:
        return RestoredError(f"{db.place} lacks what this replica has committed: an earlier copy was put back")
    return FencedError(f"the lease of this replica in {db.place} is over: another one takes its work")


def _bind(db: Database, binding: Binding) -> int:
    """Return the row of a binding; insert it, and its feeds, if it is new."""
    found = db.run("SELECT id, url, account, name FROM binding ORDER BY id").fetchall()
    for row, *its in found:
        if its == [binding.url, binding.account, binding.name]:
            return int(row)
    for row, its_url, account, name in found:
        if db.dialect == "sqlite":
            # A first run with a wrong URL or email records nothing, and the next run may correct them.
            if _is_unused(db, row) and not _living(db, row):
                sql = "UPDATE binding SET url = :url, account = :account, name = :name WHERE id = :row"
                db.run(sql, url=binding.url, account=binding.account, name=binding.name, row=row)
                return int(row)
            raise StoreError(
                f"{db.place} belongs to {name!r} of {account} at {its_url}, not to {binding.name!r} of"
                f" {binding.account} at {binding.url}: give another file"
            )
        if (account, name) == (binding.account, binding.name) and (holder := _living(db, row)):
            raise StoreError(
                f"{holder} uses {db.place} for {name!r} of {account} at {its_url}, not at {binding.url}: give all"
                " replicas the same URL, or stop the other ones first"
            )
    sql = """INSERT INTO binding (url, account, name, created)
        VALUES (:url, :account, :name, :created) RETURNING id"""
    (row,) = db.run(sql, url=binding.url, account=binding.account, name=binding.name, created=db.now).fetchone()
    db.many("INSERT INTO feed (binding, name) VALUES (:row, :name)", [{"row": row, "name": name} for name in FEEDS])
    return int(row)


def _is_unused(db: Database, binding: int) -> bool:
    sql = """SELECT (SELECT count(*) FROM feed WHERE binding = :row AND (state IS NOT NULL
        OR EXISTS (SELECT 1 FROM item WHERE feed = feed.id) OR EXISTS (SELECT 1 FROM event WHERE feed = feed.id)))
        + (SELECT count(*) FROM effect WHERE binding = :row)"""
    return not db.run(sql, row=binding).fetchone()[0]


def _living(db: Database, binding: int) -> str:
    sql = "SELECT holder FROM replica WHERE binding = :row AND lease_until > {NOW} ORDER BY joined LIMIT 1"
    row = db.run(sql, row=binding).fetchone()
    return str(row[0]) if row else ""
