"""Log that triggers write in the file of a store: each step of each offer and each delivery.

They write in the transaction that they record, so a kill takes both or neither, and they share no code with the bot.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs

from freight_exchange.store.sqlite.schema import prepare

__all__ = ["Delivered", "Entered", "Step", "StoreContents", "copy_after_death", "fresh", "read", "read_after_death"]

_TRIGGERS: Final = """
    CREATE TABLE past_offer (
        number INTEGER PRIMARY KEY, epoch INTEGER, key TEXT, was TEXT, became TEXT
    );
    CREATE TRIGGER offer_begun AFTER INSERT ON effect WHEN NEW.key LIKE 'offer:%' BEGIN
        INSERT INTO past_offer (epoch, key, was, became)
        SELECT epoch, NEW.key, NULL, NEW.state FROM feed WHERE id = NEW.feed;
    END;
    CREATE TRIGGER offer_moved AFTER UPDATE ON effect WHEN NEW.key LIKE 'offer:%' BEGIN
        INSERT INTO past_offer (epoch, key, was, became)
        SELECT epoch, NEW.key, OLD.state, NEW.state FROM feed WHERE id = NEW.feed;
    END;
    CREATE TABLE past_claim (event INTEGER, handler TEXT);
    CREATE TRIGGER delivery_was_claimed AFTER UPDATE ON delivery WHEN NEW.state = 'claimed' BEGIN
        INSERT INTO past_claim VALUES (NEW.event, NEW.handler);
    END;
"""


@attrs.frozen
class Step:
    """Step of an offer from one state to the next, in one transaction of the store."""

    epoch: int
    key: str
    was: str | None
    became: str


@attrs.frozen
class Entered:
    """Offer at the end of a run."""

    key: str
    state: str
    amount: Decimal

    @property
    def request(self) -> int:
        return int(self.key.split(":")[1])


@attrs.frozen
class Delivered:
    """Delivery at the end of a run; `claims` is how often it was claimed."""

    event: int
    handler: str
    state: str
    claims: int
    error: str | None


@attrs.frozen(kw_only=True)
class StoreContents:
    """Contents of a store's file."""

    steps: Sequence[Step] = ()
    offers: Sequence[Entered] = ()
    deliveries: Sequence[Delivered] = ()
    waiting: int = 0
    """Events that no handler has received."""

    @property
    def states(self) -> Mapping[str, int]:
        """Return the number of offers in each state."""
        counts: dict[str, int] = {}
        for entry in self.offers:
            counts[entry.state] = counts.get(entry.state, 0) + 1
        return counts


def fresh(path: Path) -> None:
    """Create an empty store with its triggers, which the first bot opens."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        prepare(connection, str(path))
        connection.executescript(_TRIGGERS)


def read(path: Path) -> StoreContents:
    """Read the contents while a bot may write to the store."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
        connection.execute("BEGIN")
        claims = {
            (event, handler): count
            for event, handler, count in connection.execute(
                "SELECT event, handler, count(*) FROM past_claim GROUP BY event, handler"
            )
        }
        return StoreContents(
            steps=[Step(*row) for row in connection.execute("SELECT epoch, key, was, became FROM past_offer")],
            offers=[
                Entered(key, state, Decimal(json.loads(payload)["amount"]))
                for key, state, payload in connection.execute(
                    "SELECT key, state, payload FROM effect WHERE key LIKE 'offer:%'"
                )
            ],
            deliveries=[
                Delivered(event, handler, state, claims.get((event, handler), 0), error)
                for event, handler, state, error in connection.execute(
                    "SELECT event, handler, state, error FROM delivery"
                )
            ],
            waiting=connection.execute("SELECT count(*) FROM event WHERE acknowledged = 0").fetchone()[0],
        )


def read_after_death(path: Path) -> StoreContents:
    """Read the contents as a dead bot left them."""
    return read(copy_after_death(path))


def copy_after_death(path: Path) -> Path:
    """Copy a file that a dead bot left: opening the file itself would recover it before the next bot does."""
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    log = path.with_name(f"{path.name}-wal")
    if log.exists():
        shutil.copy(log, path.with_name("copy.db-wal"))
    else:
        path.with_name("copy.db-wal").unlink(missing_ok=True)
    path.with_name("copy.db-shm").unlink(missing_ok=True)
    # A plain connection may replay the log.
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("SELECT count(*) FROM feed").fetchone()
    return copy
