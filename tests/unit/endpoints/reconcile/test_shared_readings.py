"""Tests of reads that several callers share."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from freight_exchange.endpoints.reconcile.shared_readings import SharedReadings
from freight_exchange.errors import ServerError

pytestmark = pytest.mark.virtual_time


class Listing:
    """Listing whose reads are numbered, take a while, and may fail."""

    def __init__(self) -> None:
        self.begun = 0
        self.failing: set[int] = set()

    async def read(self) -> int:
        self.begun += 1
        number = self.begun
        await anyio.sleep(1)
        if number in self.failing:
            raise ServerError("the service failed", status=500)
        return number


async def test_callers_share_the_reading_that_begins_after_they_asked() -> None:
    shared, listing, found = SharedReadings(), Listing(), list[tuple[str, int]]()

    async def ask(name: str, delay: float) -> None:
        await anyio.sleep(delay)
        found.append((name, await shared.read("bids", listing.read)))

    async with anyio.create_task_group() as group:
        for name, delay in (("first", 0), ("second", 0.2), ("third", 0.5), ("last", 1.5)):
            group.start_soon(ask, name, delay)
    assert sorted(found) == [("first", 1), ("last", 3), ("second", 2), ("third", 2)]


async def test_listings_are_read_side_by_side() -> None:
    shared, listing = SharedReadings(), Listing()
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        for key in ("bids", "offers"):
            group.start_soon(shared.read, key, listing.read)
    assert anyio.current_time() - began < 1.5


async def test_failure_reaches_only_callers_that_share_the_reading() -> None:
    shared, listing, errors, found = SharedReadings(), Listing(), list[ServerError](), list[int]()
    listing.failing = {2}

    async def ask(delay: float) -> None:
        await anyio.sleep(delay)
        try:
            found.append(await shared.read("bids", listing.read))
        except ServerError as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        for delay in (0, 0.2, 0.5, 1.5):
            group.start_soon(ask, delay)
    assert found == [1, 3]
    assert len({id(error) for error in errors}) == 2


@pytest.mark.parametrize("cut", [0.5, 1.5])
async def test_another_caller_takes_over_where_the_one_that_reads_is_cancelled(cut: float) -> None:
    """The caller is cancelled before its read begins, or during it."""
    shared, listing, found = SharedReadings(), Listing(), list[int]()

    async def ask(delay: float, timeout: float) -> None:
        await anyio.sleep(delay)
        with anyio.move_on_after(timeout):
            found.append(await shared.read("bids", listing.read))

    async with anyio.create_task_group() as group:
        group.start_soon(ask, 0, 10)
        group.start_soon(ask, 0.1, cut)
        group.start_soon(ask, 0.2, 10)
    assert len(found) == 2
    assert found[0] == 1
    assert found[1] > 1


async def test_error_of_one_reader_is_not_shared() -> None:
    shared, listing = SharedReadings(), Listing()

    async def broken() -> int:
        await anyio.sleep(1)
        raise ZeroDivisionError

    async def ask() -> None:
        with pytest.raises(ZeroDivisionError):
            await shared.read("bids", broken)

    found: list[int] = []

    async def join() -> None:
        await anyio.lowlevel.checkpoint()
        found.append(await shared.read("bids", listing.read))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(join)
    assert found == [1]
