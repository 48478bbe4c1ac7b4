"""Tests of entering, using and closing clients in several tasks and loops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest
from tests.calls.support import Kind, arm, client, logins, outcome, patient, perform, served, stocked

from freight_exchange import ConfigurationError, FreightExchange

pytestmark = pytest.mark.both_backends


def test_cells_of_a_notebook() -> None:
    """Each cell is a separate task on one loop, and may be interrupted."""
    sandbox = stocked()
    with asyncio.Runner() as notebook:
        server = served(sandbox)
        face = notebook.run(server.__aenter__())
        exchange = patient(sandbox, url=face.url)
        notebook.run(exchange.__aenter__())
        assert notebook.run(exchange.login()).first_name == "Fergus"
        arm(sandbox, "slow", Kind.READ, seconds=30)
        with pytest.raises(TimeoutError):
            notebook.run(_interrupted(exchange))
        for kind in Kind:
            assert notebook.run(outcome(exchange, kind)) == "ok"
        notebook.run(exchange.aclose())
        with pytest.raises(ConfigurationError, match="closed"):
            notebook.run(perform(exchange, Kind.READ))


async def _interrupted(exchange: FreightExchange) -> None:
    async with asyncio.timeout(0.1):
        await perform(exchange, Kind.READ)


async def test_tasks_of_a_group() -> None:
    """One task enters the client, others use it, and another closes it after the group of the first one has ended."""
    sandbox = stocked()
    async with served(sandbox) as face:
        exchange = patient(sandbox, url=face.url)
        for step in (exchange.__aenter__, lambda: _use(exchange), lambda: _use(exchange), exchange.aclose):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_step, step)
        with anyio.fail_after(60):
            while face.open_connections:  # noqa: ASYNC110 - the sandbox has no event to wait for
                await anyio.sleep(0.01)
    assert logins(sandbox) == 1


async def _step(step: Callable[[], Awaitable[object]]) -> None:
    await step()


async def _use(exchange: FreightExchange) -> None:
    async with anyio.create_task_group() as tasks:
        for kind in (Kind.READ, Kind.WRITE) * 10:
            tasks.start_soon(perform, exchange, kind)


@pytest.mark.parametrize("first", ["asyncio", "trio"])
@pytest.mark.parametrize("second", ["asyncio", "trio"])
def test_client_on_another_event_loop_is_refused(first: str, second: str) -> None:
    sandbox = stocked()
    exchange = client(sandbox)

    async def enter() -> None:
        await exchange.__aenter__()
        await perform(exchange, Kind.READ)

    async def use() -> None:
        acts: list[Callable[[], Awaitable[object]]] = [
            *(partial(perform, exchange, kind) for kind in Kind),
            exchange.requests.search().collect,
            exchange.aclose,
        ]
        for act in acts:
            with pytest.raises(ConfigurationError, match="event loop"):
                await act()

    anyio.run(enter, backend=first)
    before = len(sandbox.audit_log.calls)
    anyio.run(use, backend=second)
    assert len(sandbox.audit_log.calls) == before


@pytest.mark.parametrize("kind", list(Kind))
async def test_client_that_is_not_entered_is_refused(kind: Kind) -> None:
    sandbox = stocked()
    exchange = client(sandbox)
    assert not exchange.entered
    for one in (exchange, exchange.with_options(deadline=1)):
        with pytest.raises(ConfigurationError, match="async with"):
            await perform(one, kind)
    with pytest.raises(ConfigurationError, match="async with"):
        await exchange.requests.search().collect()
    assert not sandbox.audit_log.calls


@pytest.mark.parametrize("kind", list(Kind))
async def test_call_after_closing_is_refused_and_closing_a_view_closes_nothing(kind: Kind) -> None:
    sandbox = stocked()
    async with client(sandbox) as exchange:
        view = exchange.with_options(deadline=1)
        listing = exchange.requests.search()
        await perform(view, kind)
        async with view:
            pass
        await perform(exchange, kind)
    before = len(sandbox.audit_log.calls)
    for one in (exchange, view):
        with pytest.raises(ConfigurationError, match="closed"):
            await perform(one, kind)
    with pytest.raises(ConfigurationError, match="closed"):
        await listing.collect()
    await exchange.aclose()
    with pytest.raises(ConfigurationError, match="closed"):
        await exchange.__aenter__()
    assert len(sandbox.audit_log.calls) == before
