"""Tests of entering, using and closing clients in several tasks and loops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio
from tests.faults.support import Kind, arm, outcome, patient, perform, stocked

from freight_exchange import ConfigurationError, FreightExchange
from freight_exchange.testing import Sandbox
from freight_sandbox.server import serve

pytestmark = pytest.mark.both_backends

_PROJECT = """
    from __future__ import annotations

    import asyncio

    import pytest
    import pytest_asyncio

    from freight_exchange.testing import Sandbox


    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def sandbox():
        yield Sandbox()


    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def exchange(sandbox):
        async with sandbox.client() as exchange:
            exchange.entered_in = asyncio.current_task()
            yield exchange


    @pytest.mark.asyncio(loop_scope="module")
    @pytest.mark.parametrize("turn", range(3))
    async def test_use(exchange, sandbox, turn):
        assert asyncio.current_task() is not exchange.entered_in
        index = sandbox.publish()
        found = await asyncio.gather(*(exchange.requests.get(index) for _ in range(30)))
        assert {request.index for request in found} == {index}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await exchange.requests.search().collect()
        await exchange.bids.submit(index, amount=turn + 1, currency="USD")


    @pytest.mark.asyncio(loop_scope="module")
    async def test_all_calls_share_one_login(sandbox):
        assert len(sandbox.audit_log.logins) == 1
"""


def test_a_pytest_asyncio_fixture(tmp_path: Path) -> None:
    """Set-up and clean-up of a fixture run in two tasks, and the test runs in a third."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    (tmp_path / "test_project.py").write_text(textwrap.dedent(_PROJECT))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "4 passed" in run.stdout, run.stdout + run.stderr


def test_cells_of_a_notebook() -> None:
    """Each cell is a separate task on one loop, and may be interrupted."""
    sandbox = stocked(Sandbox())
    with asyncio.Runner() as notebook:
        exchange = sandbox.client()
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
        assert len(asyncio.all_tasks(notebook.get_loop())) == 0


async def _interrupted(exchange: FreightExchange) -> None:
    async with asyncio.timeout(0.1):
        await perform(exchange, Kind.READ)


async def test_tasks_of_a_group() -> None:
    """One task enters the client, others use it, and another closes it after the group of the first one has ended."""
    sandbox = stocked(Sandbox())
    async with serve(sandbox.exchange) as face:
        exchange = patient(sandbox, url=face.url)
        for step in (exchange.__aenter__, lambda: _use(exchange), lambda: _use(exchange), exchange.aclose):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_step, step)
        with anyio.fail_after(60):
            while face.open_connections:  # noqa: ASYNC110 - the sandbox has no event to wait for
                await anyio.sleep(0.01)
    assert len(sandbox.audit_log.logins) == 1


async def _step(step: Callable[[], Awaitable[object]]) -> None:
    await step()


async def _use(exchange: FreightExchange) -> None:
    async with anyio.create_task_group() as tasks:
        for kind in (Kind.READ, Kind.WRITE) * 10:
            tasks.start_soon(perform, exchange, kind)


def _run_on_asyncio(work: Callable[[], Awaitable[object]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


def _run_on_trio(work: Callable[[], Awaitable[object]]) -> None:
    async def main() -> None:
        await work()

    trio.run(main)


@pytest.mark.parametrize("first", [_run_on_asyncio, _run_on_trio])
@pytest.mark.parametrize("second", [_run_on_asyncio, _run_on_trio])
def test_client_on_another_event_loop_is_refused(first: Callable[..., None], second: Callable[..., None]) -> None:
    sandbox = stocked(Sandbox())
    exchange = sandbox.client()

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
            with pytest.raises(ConfigurationError, match="another event loop"):
                await act()

    first(enter)
    before = len(sandbox.audit_log.calls)
    second(use)
    assert len(sandbox.audit_log.calls) == before


@pytest.mark.parametrize("kind", list(Kind))
async def test_client_that_is_not_entered_is_refused(kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    exchange = sandbox.client()
    for client in (exchange, exchange.with_options(deadline=1)):
        with pytest.raises(ConfigurationError, match="async with"):
            await perform(client, kind)
    with pytest.raises(ConfigurationError, match="async with"):
        await exchange.requests.search().collect()
    assert not sandbox.audit_log.calls


@pytest.mark.parametrize("kind", list(Kind))
async def test_call_after_closing_raises(kind: Kind) -> None:
    sandbox = stocked(Sandbox())
    async with sandbox.client() as exchange:
        view = exchange.with_options(deadline=1)
        listing = exchange.requests.search()
        await perform(view, kind)
        async with view:
            pass
        # Leaving a view leaves the client as it was.
        await perform(exchange, kind)
    before = len(sandbox.audit_log.calls)
    for client in (exchange, view):
        with pytest.raises(ConfigurationError, match="closed"):
            await perform(client, kind)
    with pytest.raises(ConfigurationError, match="closed"):
        await listing.collect()
    await exchange.aclose()
    with pytest.raises(ConfigurationError, match="closed"):
        await exchange.__aenter__()
    assert len(sandbox.audit_log.calls) == before


async def test_entering_an_open_client_raises() -> None:
    sandbox = stocked(Sandbox())
    async with sandbox.client() as exchange:
        with pytest.raises(ConfigurationError, match="open already"):
            await exchange.__aenter__()
        assert await outcome(exchange, Kind.READ) == "ok"
