"""Replicas of one store: whose it is, who lives, and whether the database was put back."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import attrs
import pytest
from tests.store.support import BINDING, Place, read, write

from freight_exchange.errors import FencedError, StoreError
from freight_exchange.store import MemoryStore, Store, feeds, fleet, work
from freight_exchange.store.errors import RestoredError
from freight_exchange.store.feeds import NewEvent

_OTHER_HOST = attrs.evolve(BINDING, url="http://127.0.0.1:8000/api")


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(BINDING, url="https://exchange.example/v2/api"),
        attrs.evolve(BINDING, url="http://exchange.example/api"),
        attrs.evolve(BINDING, url="https://exchange.example:8443/api"),
        attrs.evolve(BINDING, account="you@co.example"),
        attrs.evolve(BINDING, name="another"),
    ],
    ids=["path", "scheme", "port", "account", "name"],
)
@pytest.mark.parametrize("content", ["", "state", "event", "effect"])
async def test_a_file_with_content_belongs_to_one_binding(place: Place, other: fleet.Binding, content: str) -> None:
    async with place.store() as store:
        feed = (await store.join(BINDING)).feeds["requests"]
        match content:
            case "state":
                await write(store, "UPDATE feed SET state = '{}' WHERE id = :feed", feed=feed)
            case "event":
                insert = "INSERT INTO event (feed, key, kind, payload, at) VALUES (:feed, 'a', 'new', :p, 0)"
                await write(store, insert, feed=feed, p=b"")
            case "effect":
                insert = "INSERT INTO effect (binding, key, kind, state, payload, at) VALUES (:b, 'a', 'x', 'y', :p, 0)"
                await write(store, insert, b=store.binding, p=b"")
        await store.leave()
        if content and place.kind != "postgres":
            with pytest.raises(StoreError, match=r"belongs to 'bot' of me@co.example at https://exchange.example/api"):
                await store.join(other)
        else:
            joined = await store.join(other)
            assert (joined.binding == 1) is (place.kind != "postgres")


async def test_replicas_of_one_bot_have_one_url(address: str) -> None:
    async with Store(address) as one, Store(address) as other:
        await one.join(attrs.evolve(_OTHER_HOST, url="http://localhost:8000/api"))
        with pytest.raises(
            StoreError, match=r"process \d+ on .* at http://localhost:8000/api, not at http://127.0.0.1"
        ):
            await other.join(_OTHER_HOST)
        await other.join(attrs.evolve(_OTHER_HOST, name="another"))
        await other.leave()
        await one.leave()
        assert (await other.join(_OTHER_HOST)).is_alone


async def test_a_replica_is_alone_only_beside_no_living_one(address: str) -> None:
    async with Store(address) as one, Store(address) as other, Store(address) as third:
        assert (await one.join(BINDING)).must_read
        assert not (await other.join(BINDING)).must_read
        assert (await third.join(attrs.evolve(BINDING, name="another"))).must_read
        await write(other, "UPDATE replica SET lease_until = {NOW} - 1 WHERE id = :me", me=one.me)
        await other.leave()
        assert (await other.join(BINDING)).is_alone


async def test_a_rejoin_beside_the_same_rows_reads_nothing(address: str) -> None:
    async with Store(address) as one, Store(address) as other:
        await one.join(BINDING)
        await other.join(BINDING)
        one.writes = await one.run(fleet.note_write, one.me, one.writes)
        ended = one.me
        await write(other, "UPDATE replica SET lease_until = {NOW} - 1 WHERE id = :me", me=ended)
        await other.run(fleet.adopt, other.me)
        for call in (fleet.beat, fleet.adopt):
            with pytest.raises(FencedError):
                await one.run(call, ended)
        joined = await one.join(BINDING)
        assert joined.me != ended
        assert not joined.must_read
        assert one.writes == 0


async def test_a_rejoin_of_a_living_replica_reads_nothing(place: Place) -> None:
    """It has lost its connection, and is alone."""
    async with place.store() as store:
        assert (await store.join(BINDING)).must_read
        me, store.writes = store.me, await store.run(fleet.note_write, store.me, store.writes)
        joined = await store.join(BINDING)
        assert joined.me == me
        assert not joined.must_read


@pytest.mark.parametrize(
    "change", ["DELETE FROM replica WHERE id = :me", "UPDATE replica SET writes = 1 WHERE id = :me"]
)
async def test_a_database_that_was_put_back_is_noticed(address: str, change: str) -> None:
    async with Store(address) as one, Store(address) as other:
        await one.join(BINDING)
        await other.join(BINDING)
        for _ in range(2):
            one.writes = await one.run(fleet.note_write, one.me, one.writes)
        await write(other, change, me=one.me)
        with pytest.raises(RestoredError, match="an earlier copy was put back"):
            await one.run(fleet.note_write, one.me, one.writes)
        joined = await one.join(BINDING)
        assert joined.is_restored
        assert joined.must_read


async def test_a_database_that_was_put_back_is_noticed_by_a_replica_with_no_effect(address: str) -> None:
    async with Store(address) as one, Store(address) as other:
        await one.join(BINDING)
        assert not (await other.join(BINDING)).is_restored
        # As a dump does; another replica may have begun effects since.
        await write(one, "CREATE TEMP TABLE dump AS TABLE meta")
        await write(one, "DELETE FROM meta")
        await write(one, "INSERT INTO meta SELECT * FROM dump")
        for call in (fleet.beat, partial(fleet.note_write, mine=0)):
            with pytest.raises(FencedError):
                await other.run(call, other.me, stamp=other.stamp[0])
        joined = await other.join(BINDING)
        assert joined.is_restored
        assert joined.must_read


async def test_a_commit_whose_reply_was_lost_is_no_loss(place: Place) -> None:
    async with place.store() as store:
        await store.join(BINDING)
        await store.run(fleet.note_write, store.me, 0)
        # The process does not know of that one.
        assert await store.run(fleet.note_write, store.me, 0) == 2


async def test_two_adoptions_at_once_share_nothing(address: str) -> None:
    async with Store(address) as one, Store(address) as other, Store(address) as ended:
        for store in (one, other, ended):
            await store.join(BINDING)
        insert = (
            "INSERT INTO effect (binding, key, kind, state, payload, at, owner) VALUES (:b, :k, 'x', :s, :p, 0, :me)"
        )
        for n in range(10):
            state = ("sending", "unknown")[n % 2]
            await write(ended, insert, b=ended.binding, k=str(n), s=state, p=b"", me=ended.me)
        me = ended.me
        await write(one, "UPDATE replica SET lease_until = {NOW} - 1 WHERE id = :me", me=me)
        found: list[Any] = []

        async def adopt(store: Store) -> None:
            found.append((await store.run(fleet.adopt, store.me)).effects)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adopt, one)
            tasks.start_soon(adopt, other)
        await adopt(other)
        assert sorted(number for effects in found for number in effects) == [*range(1, 11)]
        with pytest.raises(FencedError):
            await ended.run(fleet.beat, me)


async def test_old_rows_of_ended_replicas_go_unless_they_own_something(place: Place) -> None:
    async with place.store() as store:
        await store.join(BINDING)
        insert = "INSERT INTO replica (id, binding, holder, joined, lease, lease_until) VALUES (:id, 1, 'x', :at, 1, 0)"
        for number, age in ((1, 40), (2, 40), (3, 20)):
            await write(store, insert, id=number, at=store.now - age * 86_400)
        effect = (
            "INSERT INTO effect (binding, key, kind, state, payload, at, owner)"
            " VALUES (1, 'a', 'x', 'sending', :p, 0, 2)"
        )
        await write(store, effect, p=b"")
        await store.leave()
        await store.join(BINDING)
        assert await read(store, "SELECT id FROM replica WHERE holder = 'x' ORDER BY id") == [(2,), (3,)]


async def test_a_reader_keeps_its_feed_while_its_pages_extend_the_lease(address: str) -> None:
    # A reader without a bot does not beat.
    async with Store(address) as one, Store(address) as other:
        joined = await one.join(BINDING)
        await other.join(BINDING)
        feed = joined.feeds["requests"]
        epoch = await one.run(fleet.take_feed, one.me, feed, lease=60.0)
        assert epoch is not None
        await write(one, "UPDATE replica SET lease_until = {NOW} - 1 WHERE id = :me", me=one.me)
        assert await other.run(fleet.take_feed, other.me, feed) is None
        await one.run(feeds.hold, one.me, feed, epoch, 60.0)
        await other.run(fleet.adopt, other.me)
        assert await other.run(fleet.take_feed, other.me, feed) is not None
        with pytest.raises(FencedError):
            await one.run(feeds.hold, one.me, feed, epoch, 60.0)


async def test_a_handler_that_was_away_longer_than_events_are_kept_learns_what_it_missed(place: Place) -> None:
    async with place.store() as store:
        joined = await store.join(BINDING)
        feed, other = joined.feeds["requests"], joined.feeds["offers"]
        handlers = [("quote", feed, False), ("answer", other, False)]
        await store.run(work.introduce, store.binding, handlers, selected=0)
        events = [NewEvent(f"4:{number}", 4, "new", b"{}") for number in range(3)]
        await store.run(feeds.add_events, feed, events)
        await store.run(feeds.prune, feed, items_before=0.0, retention=3600.0)
        (behind, unconcerned) = await store.run(work.cursors, store.binding, ["quote", "answer"])
        assert await store.run(work.lost, behind) is None
        await write(store, "UPDATE event SET at = 1500.0, acked = true")
        await store.run(feeds.prune, feed, items_before=0.0, retention=3600.0)
        assert await store.run(work.lost, behind) == 1500.0
        assert await store.run(work.lost, unconcerned) is None
        await store.run(work.introduce, store.binding, [("later", feed, True)], selected=0)
        (later,) = await store.run(work.cursors, store.binding, ["later"])
        assert await store.run(work.lost, later) is None


async def test_what_is_open_is_found_by_its_own_index() -> None:
    """A count of what is open, in each acknowledgement, must not read what was acknowledged in six days."""
    async with MemoryStore() as store:
        await store.join(BINDING)
        plan = await read(
            store, "EXPLAIN QUERY PLAN SELECT count(*) FROM event WHERE feed = :feed AND NOT acked", feed=1
        )
        assert "event_open" in plan[0][3]
