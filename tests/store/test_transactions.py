"""Transactions of a store on memory, SQLite and PostgreSQL: whole or not at all, in order, and never half cancelled."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from tests.store.support import BINDING, Place, crash_at_each_statement, read, write

from freight_exchange.errors import ConfigurationError, StoreError
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.database import Database

_ADD = "INSERT INTO reading (binding, name, began, payload) VALUES (:n, 'one', 0, :payload)"
_ALL = "SELECT binding FROM reading ORDER BY binding"


def add(db: Database, *numbers: int, fails: bool = False) -> int:
    """Insert rows one by one."""
    for number in numbers:
        db.run(_ADD, n=number, payload=b"\x00\xff")
    db.wake("work")
    if fails:
        raise LookupError
    return len(numbers)


async def test_a_function_is_committed_whole_or_not_at_all(place: Place) -> None:
    async with place.store() as store:
        assert await store.run(add, 1, 2) == 2
        with pytest.raises(LookupError):
            await store.run(add, 3, 4, fails=True)
        assert await crash_at_each_statement(store, add, 5, 6, 7) == 3
        assert await read(store, _ALL) == [(1,), (2,)]
    if place.kind != "memory":
        async with place.store() as store:
            assert await read(store, _ALL) == [(1,), (2,)]


async def test_memory_lives_as_long_as_its_object() -> None:
    store = MemoryStore()
    async with store:
        await store.run(add, 1)
    async with store:
        assert await read(store, _ALL) == [(1,)]
    async with MemoryStore() as other:
        assert await read(other, _ALL) == []


async def test_tasks_are_woken_after_the_commit_and_not_after_a_rollback(place: Place) -> None:
    async with place.store() as store:
        waiter = store.waiter("work")
        with pytest.raises(LookupError):
            await store.run(add, 1, fails=True)
        assert not waiter.is_set()
        await store.run(add, 1)
        assert waiter.is_set()
        assert not store.waiter("work").is_set()
        assert not store.waiter("feed").is_set()


@pytest.mark.parametrize("size", [0, 1, 3, 3000])
async def test_one_statement_takes_any_number_of_items(place: Place, size: int) -> None:
    async with place.store() as store:
        await store.run(add, *range(5))

        def chosen(db: Database, no: str) -> list[Any]:
            query = (
                f"SELECT binding FROM reading WHERE binding {no}IN ({{numbers}}) AND began < :limit ORDER BY binding"
            )
            return db.among(query, "numbers", range(size), limit=1)

        assert await store.run(chosen, "") == [(n,) for n in range(5) if n < size]
        assert await store.run(chosen, "NOT ") == [(n,) for n in range(5) if n >= size]
        names = await store.run(
            lambda db: db.among("SELECT name FROM reading WHERE name IN ({names})", "names", ["one", "'", ":x", "%s"])
        )
        assert names == [("one",)] * 5


async def test_values_come_back_as_they_were(place: Place) -> None:
    text, payload, number = "ü:x %s {NOW} '\"\\ \U0001f600", bytes(range(256)), 2**63 - 1
    insert = (
        "INSERT INTO effect (binding, key, kind, subject, state, payload, at) VALUES (1, :k, 'x', :s, 'y', :p, :at)"
    )
    async with place.store() as store:
        await write(store, insert, k=text, s=number, p=payload, at=1795905597.123456)
        ((key, subject, back, at, owner),) = await read(store, "SELECT key, subject, payload, at, owner FROM effect")
        assert (key, subject, bytes(back), at, owner) == (text, number, payload, 1795905597.123456, None)


@pytest.mark.parametrize("value", ["\ud800", 2**70, "\x00"], ids=["surrogate", "large", "null"])
async def test_a_value_that_cannot_be_kept_changes_nothing(place: Place, value: object) -> None:
    async with place.store() as store:

        def put(db: Database) -> None:
            db.run(_ADD, n=1, payload=b"")
            column = "name" if isinstance(value, str) else "binding"
            db.run(f"UPDATE reading SET {column} = :value", value=value)

        if value == "\x00" and place.kind != "postgres":
            await store.run(put)
            assert await read(store, "SELECT name FROM reading") == [("\x00",)]
            return
        with pytest.raises(StoreError, match="cannot keep a value that it was given"):
            await store.run(put)
        assert await read(store, _ALL) == []


async def test_calls_of_many_tasks_follow_each_other(place: Place) -> None:
    async with place.store() as store:
        await write(store, "INSERT INTO meta (key, value) VALUES ('n', '0')")

        def increment(db: Database) -> None:
            ((value,),) = db.run("SELECT value FROM meta WHERE key = 'n'").fetchall()
            db.run("UPDATE meta SET value = :value WHERE key = 'n'", value=str(int(value) + 1))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(store.run, increment)
        assert await read(store, "SELECT value FROM meta WHERE key = 'n'") == [("20",)]


async def test_a_cancelled_call_has_committed_or_not_begun(place: Place) -> None:
    async with place.store() as store:
        results = []
        with anyio.CancelScope() as scope:

            def cancelling(db: Database) -> int:
                if not store.is_inline:
                    anyio.from_thread.run_sync(scope.cancel)
                else:
                    scope.cancel()
                return add(db, 1)

            results.append(await store.run(cancelling))
            await store.run(add, 2)
        assert results == [1]
        assert await read(store, _ALL) == [(1,)]


async def test_native_cancellation_does_not_mix_two_transactions(place: Place, anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("only asyncio cancels tasks natively")
    async with place.store() as store:
        for number in range(0, 40, 2):
            task = asyncio.create_task(store.run(add, number, number + 1))
            await asyncio.sleep(0.0002 * (number % 7))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        found = [number for (number,) in await read(store, _ALL)]
        assert [n for n in found if n % 2 == 0] == [n - 1 for n in found if n % 2]


async def test_a_closed_store_refuses_calls(place: Place) -> None:
    store = place.store()
    with pytest.raises(StoreError, match="is closed"):
        await store.run(add, 1)
    async with store:
        await store.run(add, 1)
    with pytest.raises(StoreError, match="is closed"):
        await store.run(add, 2)


async def test_two_openers_share_one_store_and_its_replica(place: Place) -> None:
    store = place.store()
    async with store, store as same:
        assert same is store
        first = await store.join(BINDING)
        # It reads the bids once, for both.
        assert (first.is_alone, await same.join(BINDING)) == (True, attrs.evolve(first, is_alone=False))
        with pytest.raises(StoreError):
            await same.join(type(BINDING)(BINDING.url, "other@co.example", "bot"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python 3.12 warns of threads in a process that forks
async def test_a_fork_cannot_use_the_store(tmp_path: Path) -> None:
    async with Store(tmp_path / "bot.db", inline=True) as store:
        if not (child := os.fork()):
            try:
                await store.run(add, 1)
            except StoreError as error:
                os._exit(0 if "a fork cannot use it" in str(error) else 1)
            finally:
                os._exit(2)
        (_, status) = await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await read(store, _ALL) == []


@pytest.mark.parametrize("target", ["", "a\0b", 4, b"x", object(), ["bot.db"]])
def test_other_arguments_are_refused(target: object) -> None:
    with pytest.raises(ConfigurationError):
        Store(target)  # type: ignore[arg-type]


async def test_the_clock_never_goes_back(place: Place) -> None:
    async with place.store() as store:
        before = store.now
        # The database's own clock is the start on PostgreSQL; a file may have been written by a clock that was ahead.
        await write(store, "INSERT INTO event (feed, key, kind, payload, at) VALUES (1, 'x', 'new', :p, :at)", p=b"",
                    at=before + 1000)  # fmt: skip
        assert await store.run(lambda db: db.now) >= before
    async with place.store() as store:
        assert (store.now - before >= 1000) == (place.kind != "postgres")
