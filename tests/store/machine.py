"""Reference machine of a fleet: the rows of replicas, claims, effects and a feed after each statement, in plain Python.

The rules are written from the description of `freight_exchange.store.fleet`, without its SQL.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from freight_exchange.errors import FencedError
from freight_exchange.store.errors import RestoredError

__all__ = ["Machine"]

OPEN: Final = ("sending", "unknown", "parked")
ORPHAN_AGE: Final = 20.2


class Machine:
    """The expected rows.

    Attributes:
        replicas: `living`, `lapsed` (its lease is over, and none has ended it) or `ended`, and the count of writes.
        claims: Owner of each delivery, or `None` while it is ready.
        effects: State, owner and age of each effect.
        owner, epoch, is_held: The feed.
    """

    def __init__(self, *, is_file: bool) -> None:
        self.is_file = is_file
        self.replicas: dict[int, list[Any]] = {}
        self.claims: dict[int, int | None] = {}
        self.effects: dict[str, tuple[str, int | None, float]] = {}
        self.owner: int | None = None
        self.epoch, self.is_held = 0, False

    def lives(self, me: int) -> bool:
        return me in self.replicas and str(self.replicas[me][0]) == "living"

    def join(self, me: int) -> bool:
        """Add a replica; return whether it is alone."""
        if self.is_file:
            for row in self.replicas.values():
                row[0] = "ended"
            self.is_held = False
        is_alone = not any(map(self.lives, self.replicas))
        self.replicas[me] = ["living", 0]
        return is_alone

    def beat(self, me: int) -> None:
        self._require(me, "living", "lapsed")
        self.replicas[me][0] = "living"

    def adopt(self, me: int) -> tuple[list[str], list[str]]:
        """Return the adopted effects and the orphans."""
        self._require(me, "living")
        for row in self.replicas.values():
            row[0] = "ended" if row[0] == "lapsed" else row[0]
        freed = [event for event, owner in self.claims.items() if owner is not None and not self.lives(owner)]
        self.claims.update(dict.fromkeys(freed))
        adopted = [
            key
            for key, (state, owner, _) in self.effects.items()
            if state in OPEN and (owner is None or not self.lives(owner))
        ]
        for key in adopted:
            self.effects[key] = (self.effects[key][0], me, self.effects[key][2])
        orphans = [
            key
            for key, (state, owner, age) in self.effects.items()
            if state == "sending" and owner == me and age > ORPHAN_AGE and key not in adopted
        ]
        return sorted(adopted), sorted(orphans)

    def take_feed(self, me: int) -> int | None:
        has_owner = self.owner in self.replicas and self.replicas[self.owner][0] != "ended"
        if (self.is_held and has_owner) or not self.lives(me):
            return None
        self.owner, self.is_held, self.epoch = me, True, self.epoch + 1
        return self.epoch

    def drop_feed(self, me: int, epoch: int) -> None:
        if (self.owner, self.epoch) == (me, epoch):
            self.is_held = False

    def leave(self, me: int) -> None:
        if me in self.replicas:
            self.replicas[me][0] = "ended"
        if self.owner == me:
            self.is_held = False
        self.claims.update({event: None for event, owner in self.claims.items() if owner == me})

    def note_write(self, me: int, mine: int) -> int:
        if me not in self.replicas or self.replicas[me][1] < mine:
            raise RestoredError
        self._require(me, "living")
        self.replicas[me][1] += 1
        return int(self.replicas[me][1])

    def _require(self, me: int, *states: str) -> None:
        if me not in self.replicas:
            raise RestoredError
        if self.replicas[me][0] not in states:
            raise FencedError

    def settle_randomly(self, chance: random.Random, change: Callable[[str, Any], None]) -> None:
        """Make a random change: a claim, an effect, a lease that is over, a row that is lost."""
        ids = [*self.replicas] or [1]
        match chance.randrange(6 if not self.is_file else 4):
            case 0:
                event, owner = chance.randrange(6), chance.choice(ids)
                self.claims[event] = owner
                change("claim", (event, owner))
            case 1 | 2:
                key, resolver = f"offer:{chance.randrange(6)}", chance.choice([*ids, None])
                state = chance.choice(["sending", "unknown", "parked", "confirmed", "absent"])
                age = chance.choice([0.0, 15.0, 60.0])
                self.effects[key] = (state, resolver, age)
                change("effect", (key, state, resolver, age))
            case 3:
                self.is_held = False
                change("feed lapses", None)
            case 4:
                me = chance.choice(ids)
                if self.lives(me):
                    self.replicas[me][0] = "lapsed"
                    change("lapse", me)
            case 5 if chance.random() < 0.2:
                me = chance.choice(ids)
                self.replicas.pop(me, None)
                change("lose", me)
            case _:
                pass
