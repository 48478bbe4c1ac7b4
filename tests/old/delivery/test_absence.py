"""Handlers that were absent while another version of the bot scanned."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.old.delivery.recorders import hearing
from tests.old.rig import eventually, messages, new_bot, other, run_until_idle

from freight_exchange import Bot
from freight_exchange.bot.delivery import routing
from freight_exchange.feed.core.first_scan import UNDECIDED
from freight_exchange.store import MemoryStore, Store
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


class Versions:
    """Versions of a bot on one store: one with the handler `a`, and one with `a` and `b`."""

    def __init__(self, store: Store) -> None:
        self.store, self.a, self.b = store, list[int](), list[int]()

    def old(self, **options: Any) -> Bot:
        return hearing(new_bot(self.store, **options), self.a, id="a")

    def new(self, handler: Mapping[str, Any] | None = None, **options: Any) -> Bot:
        return hearing(self.old(**options), self.b, id="b", **(handler or {}))


@pytest.fixture
def versions(store: Store) -> Versions:
    return Versions(store)


@pytest.mark.both_backends
async def test_handler_receives_the_requests_of_its_absence_once(
    sandbox: Sandbox, versions: Versions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    known = sandbox.publish()
    await run_until_idle(sandbox, versions.new())
    missed = [sandbox.publish() for _ in range(3)]
    for _ in range(2):
        await run_until_idle(sandbox, versions.old())
    assert (sorted(versions.a), versions.b) == ([known, *missed], [known])
    assert len([text for text in messages(caplog) if "handlers b receive no new requests" in text]) == 1

    for _ in range(2):
        await run_until_idle(sandbox, versions.new())
    assert (sorted(versions.a), sorted(versions.b)) == ([known, *missed], [known, *missed])
    reports = [text for text in messages(caplog, logging.INFO) if "was absent" in text]
    assert reports == [
        "the handler b was absent while another version of the bot scanned; delivering 3 requests of that time to it"
    ]


async def test_each_absence_counts_for_itself(sandbox: Sandbox, versions: Versions) -> None:
    published = list[int]()
    for _ in range(3):
        published.append(sandbox.publish())
        await run_until_idle(sandbox, versions.new())
        published.append(sandbox.publish())
        await run_until_idle(sandbox, versions.old())
    await run_until_idle(sandbox, versions.new())
    assert sorted(versions.a) == sorted(versions.b) == published


@pytest.mark.parametrize("from_start", [True, False])
async def test_requests_that_were_found_but_not_routed_before_the_absence_are_received(
    sandbox: Sandbox, versions: Versions, from_start: bool
) -> None:
    """The version with the handler ended between a scan and the deliveries of its events."""
    await run_until_idle(sandbox, versions.new({"from_start": from_start}))
    async with sandbox.running(versions.new({"from_start": from_start}), crash_at="before deliver") as trial:
        found = sandbox.publish()
        await trial.crashed()
    await anyio.sleep(60)
    await run_until_idle(sandbox, versions.old())
    assert (versions.a, versions.b) == ([found], [])
    await run_until_idle(sandbox, versions.new({"from_start": from_start}))
    assert (versions.a, versions.b) == ([found], [found])


async def test_requests_that_the_other_version_found_but_did_not_route_are_received_once(
    sandbox: Sandbox, versions: Versions
) -> None:
    await run_until_idle(sandbox, versions.new())
    await run_until_idle(sandbox, versions.old())
    async with sandbox.running(versions.old(), crash_at="before deliver") as trial:
        found = sandbox.publish()
        await trial.crashed()
    await run_until_idle(sandbox, versions.new())
    assert (versions.a, versions.b) == ([found], [found])


async def test_request_that_was_undecided_when_the_absence_began_is_received(
    sandbox: Sandbox, versions: Versions, store: MemoryStore
) -> None:
    """With `start="now"`, a request that the first scan finds is decided an allowance later."""
    options: dict[str, Any] = {"start": "now", "allowance": timedelta(minutes=10)}
    *_, found = [sandbox.publish() for _ in range(3)]
    async with sandbox.running(versions.new(**options)):
        await anyio.sleep(60)
    database = store._database._connection
    assert database is not None
    database.execute('UPDATE seen SET version = ? WHERE "index" = ?', (UNDECIDED, found))
    for bot in (versions.old, versions.new):
        assert versions.b == []
        async with sandbox.running(bot(**options)):
            await anyio.sleep(1800)
    assert (versions.a, versions.b) == ([found], [found])


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("point", ["before deliver", "after deliver", "before known", "after known"])
async def test_crash_at_the_return_loses_and_repeats_nothing(
    sandbox: Sandbox, versions: Versions, point: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_BATCH", 2)
    known = sandbox.publish()
    await run_until_idle(sandbox, versions.new())
    missed = [sandbox.publish() for _ in range(5)]
    await run_until_idle(sandbox, versions.old())
    async with sandbox.running(versions.new(), crash_at=point, times=times) as trial:
        with anyio.move_on_after(60):
            await trial.crashed()
    missed.append(sandbox.publish())
    async with sandbox.running(versions.old()):
        # It is never idle: deliveries wait for the other handler.
        await eventually(lambda: len(versions.a) == 7)
    for _ in range(2):
        await run_until_idle(sandbox, versions.new())
    assert sorted(versions.a) == sorted(versions.b) == [known, *missed]


@pytest.mark.parametrize("point", ["before known", "after known", "before deliver", "after deliver"])
async def test_crash_at_the_beginning_of_the_absence_loses_and_repeats_nothing(
    sandbox: Sandbox, versions: Versions, point: str
) -> None:
    known = sandbox.publish()
    await run_until_idle(sandbox, versions.new())
    async with sandbox.running(versions.old(), crash_at=point) as trial:
        missed = sandbox.publish()
        await trial.crashed()
    await run_until_idle(sandbox, versions.old())
    await run_until_idle(sandbox, versions.new())
    assert sorted(versions.a) == sorted(versions.b) == [known, missed]


async def test_withdrawn_requests_and_those_that_the_filter_excludes_are_left_out(
    sandbox: Sandbox, versions: Versions
) -> None:
    def new() -> Bot:
        return versions.new({"origin": "Ningbo"})

    await run_until_idle(sandbox, new())
    async with sandbox.running(versions.old()) as trial:
        wanted, gone = sandbox.publish(other("Ningbo")), sandbox.publish(other("Ningbo"))
        sandbox.publish(other("Shenzhen"))
        await trial.idle()
        sandbox.exchange.withdraw(gone, sandbox.now())
        await anyio.sleep(2 * 3600)
    await run_until_idle(sandbox, new())
    assert versions.b == [wanted]


async def test_request_that_the_handler_already_got_by_a_faster_clock_is_not_repeated(
    sandbox: Sandbox, versions: Versions, store: MemoryStore
) -> None:
    """The other version's machine may be behind the one that scanned before."""
    known = sandbox.publish()
    await run_until_idle(sandbox, versions.new())
    database = store._database._connection
    assert database is not None
    database.execute("UPDATE seen SET first = first + 50")
    missed = sandbox.publish()
    await run_until_idle(sandbox, versions.old())
    await run_until_idle(sandbox, versions.new())
    assert versions.b == [known, missed]
