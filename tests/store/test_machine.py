"""The statements of a fleet beside a reference machine, with a crash at each statement."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.store.machine import Machine
from tests.store.support import BINDING, Place, crash_at_each_statement, read

from freight_exchange.errors import FencedError
from freight_exchange.store import Store, fleet
from freight_exchange.store.database import Database

_STEPS = 40


class _Run:
    """A schedule on a store and on the machine."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.chance = store, random.Random(seed)
        self.machine = Machine(is_file=not store.is_shared)
        self.crashes = 0

    async def call(self, function: Callable[..., Any], *args: Any, expected: Callable[[], Any]) -> Any:
        """Crash at each statement of a function, then run it; compare its result or error, and all rows."""
        before = await self.rows()
        self.crashes += await crash_at_each_statement(self.store, function, *args)
        assert await self.rows() == before
        wanted: Any = None
        refusal: type[FencedError] | None = None
        try:
            wanted = expected()
        except FencedError as error:
            refusal = type(error)
        try:
            result = await self.store.run(function, *args)
        except FencedError as error:
            assert type(error) is refusal  # noqa: PT017
            result = None
        else:
            assert refusal is None
        await self.compare()
        return result, wanted

    async def rows(self) -> Any:
        query = (
            "SELECT id, CASE WHEN lease_until = 0 THEN 'ended' WHEN lease_until > {NOW} THEN 'living' ELSE 'lapsed' END"
        )
        replicas = await read(self.store, f"{query}, writes FROM replica")
        claims = await read(self.store, "SELECT event, state, owner FROM delivery")
        effects = await read(self.store, "SELECT key, state, owner, version FROM effect")
        feed = await read(self.store, "SELECT owner, epoch, lease_until > {NOW} FROM feed WHERE name = 'requests'")
        return sorted(replicas), sorted(claims), sorted(effects, key=lambda row: row[0]), feed

    async def compare(self) -> None:
        replicas, claims, effects, feed = await self.rows()
        machine = self.machine
        assert {row[0]: [*row[1:]] for row in replicas} == machine.replicas
        assert {event: owner for event, _, owner in claims} == machine.claims
        assert all(state == ("ready" if owner is None else "claimed") for _, state, owner in claims)
        assert {key: (state, owner) for key, state, owner, _ in effects} == {
            key: effect[:2] for key, effect in machine.effects.items()
        }
        assert all(version == 7 for *_, version in effects), "an adoption keeps the version"
        assert [(owner, epoch, bool(held)) for owner, epoch, held in feed] == [
            (machine.owner, machine.epoch, machine.is_held)
        ]

    async def step(self) -> None:
        me = self.chance.choice([*self.machine.replicas, 12345])
        feed, epoch = self.store.feeds["requests"], self.machine.epoch - self.chance.randrange(2)
        mine = max(0, self.machine.replicas.get(me, [0, 1])[1] - self.chance.choice([-1, 0, 0, 1]))
        match self.chance.choice(["join", "beat", "beat", "adopt", "adopt", "take", "drop", "leave", "note", "other"]):
            case "join" if len(self.machine.replicas) < 5:
                # A new process: it has no id yet.
                joined = await self.store.run(fleet.join, BINDING, f"process {self.chance.random()}", 1e6)
                assert joined.is_alone is self.machine.join(joined.me)
                assert not joined.is_restored
                await self.compare()
            case "beat":
                await self.call(fleet.beat, me, expected=lambda: self.machine.beat(me))
            case "adopt":
                result, wanted = await self.call(fleet.adopt, me, expected=lambda: self.machine.adopt(me))
                if result is not None:
                    names = dict(await read(self.store, "SELECT id, key FROM effect"))
                    found = [sorted(names[one] for one in ids) for ids in (result.effects, result.orphans)]
                    assert (*found,) == wanted
            case "take":
                result, wanted = await self.call(
                    lambda db: fleet.take_feed(db, me, feed, lease=1e6), expected=lambda: self.machine.take_feed(me)
                )
                assert result == wanted
            case "drop":
                me = self.machine.owner or me
                await self.call(fleet.drop_feed, me, feed, epoch, expected=lambda: self.machine.drop_feed(me, epoch))
            case "leave":
                await self.call(fleet.leave, me, expected=lambda: self.machine.leave(me))
            case "note":
                result, wanted = await self.call(
                    fleet.note_write, me, mine, expected=lambda: self.machine.note_write(me, mine)
                )
                assert result == wanted
            case _:
                changes: list[tuple[str, Any]] = []
                self.machine.settle_randomly(self.chance, lambda *change: changes.append(change))
                for change in changes:
                    await self.store.run(_change, *change, feed, self.store.binding)
                await self.compare()


def _change(db: Database, name: str, value: Any, feed: int, binding: int) -> None:
    match name:
        case "claim":
            event, owner = value
            db.run(
                "INSERT INTO delivery (event, handler, state, not_before, owner)"
                " VALUES (:event, 1, 'claimed', 0, :owner)"
                " ON CONFLICT (event, handler) DO UPDATE SET state = 'claimed', owner = :owner",
                event=event, owner=owner,
            )  # fmt: skip
        case "effect":
            key, state, owner, age = value
            db.run(
                "INSERT INTO effect (binding, key, kind, subject, state, version, payload, at, owner)"
                " VALUES (:binding, :key, 'offer', NULL, :state, 7, :payload, :at, :owner)"
                " ON CONFLICT (binding, key) DO UPDATE SET state = :state, owner = :owner, at = :at",
                binding=binding, key=key, state=state, payload=b"", at=db.now - age, owner=owner,
            )  # fmt: skip
        case "feed lapses":
            db.run("UPDATE feed SET lease_until = 0 WHERE id = :feed", feed=feed)
        case "lapse":
            db.run("UPDATE replica SET lease_until = {NOW} - 1 WHERE id = :me", me=value)
        case "lose":
            db.run("DELETE FROM replica WHERE id = :me", me=value)


@pytest.mark.parametrize("seed", range(6))
async def test_statements_of_a_fleet_agree_with_the_machine_and_survive_crashes(place: Place, seed: int) -> None:
    async with place.store() as store:
        joined = await store.join(BINDING)
        run = _Run(store, seed)
        run.machine.replicas[joined.me] = ["living", 0]
        await store.run(lambda db: db.run(
            "INSERT INTO handler (id, binding, name, feed, cursor) VALUES (1, :binding, 'quote', 1, 0)",
            binding=store.binding,
        ))  # fmt: skip
        for _ in range(_STEPS):
            await run.step()
        assert run.crashes > 20
