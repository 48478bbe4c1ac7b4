"""Tests of a flood of cancelled calls: all later calls work."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
from tests.faults.support import REQUEST, Kind, is_on_asyncio, outcome, patient, stocked
from tests.faults.test_cancel import all_closed, no_task_left

from freight_exchange import FreightExchange
from freight_exchange.testing import Sandbox
from freight_sandbox.server import serve

pytestmark = pytest.mark.both_backends

CONNECTIONS = 5
_AT_ONCE = 100
_LONGEST = 0.02

BACKENDS: list[Any] = [pytest.param("asyncio", id="asyncio"), pytest.param("trio", id="trio")]
if importlib.util.find_spec("uvloop") is not None:  # it does not exist everywhere
    BACKENDS.append(pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"))


@contextlib.asynccontextmanager
async def no_descriptor_left() -> AsyncIterator[None]:
    # A loop may keep a descriptor of its own from its first connection on: that one is not a leak.
    async with serve(Sandbox().exchange) as face, httpx.AsyncClient(trust_env=False) as client:
        await client.get(face.url)
    before = descriptors()
    yield
    await anyio.lowlevel.checkpoint()
    assert descriptors() == before


def descriptors() -> int:
    """Return the number of open descriptors, where the system shows it."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@contextlib.asynccontextmanager
async def sending_through(kind: str, sandbox: Sandbox, url: str) -> AsyncIterator[FreightExchange]:
    """Create a client with its own connections, or with a caller's HTTP client."""
    own: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
    if kind == "httpx":
        own = httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=CONNECTIONS))
    elif kind == "httpx2":
        own = httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=CONNECTIONS))
    async with (
        own as http_client,
        patient(sandbox, url=url, http_client=http_client, max_connections=CONNECTIONS) as exchange,
    ):
        yield exchange


async def cancelled(work: Callable[[], Awaitable[object]], way: int, after: float) -> None:
    """Begin the work and cancel it: by a scope, by its task, or by its task twice."""
    if way == 0 or not is_on_asyncio():
        with anyio.move_on_after(after):
            await work()
        return
    task = asyncio.ensure_future(work())
    await asyncio.sleep(after)
    for _ in range(way):
        task.cancel()
        await asyncio.sleep(0)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def flood(exchange: FreightExchange, calls: int, chance: random.Random) -> None:
    async def one(number: int) -> None:
        async def work() -> None:
            if number % 2:
                await exchange.bids.submit(REQUEST, amount=number, currency=840)
            else:
                await outcome(exchange, Kind.READ)

        await cancelled(work, chance.randrange(3), chance.random() * _LONGEST)

    for batch in range(0, calls, _AT_ONCE):
        async with anyio.create_task_group() as tasks:
            for number in range(batch + 1, min(batch + _AT_ONCE, calls) + 1):
                tasks.start_soon(one, number)


@pytest.mark.parametrize("anyio_backend", BACKENDS)
@pytest.mark.parametrize("through", ["own", "httpx", "httpx2"])
@pytest.mark.parametrize("calls", [300, pytest.param(10_000, marks=pytest.mark.long)])
async def test_a_flood_of_cancelled_calls(through: str, calls: int, caplog: pytest.LogCaptureFixture) -> None:
    # Each abandoned write is a warning, as it should be: here there are thousands.
    caplog.set_level("CRITICAL", logger="freight_exchange")
    sandbox = stocked(Sandbox())
    async with (
        no_descriptor_left(),
        serve(sandbox.exchange) as face,
        no_task_left(),
        all_closed(face),
        sending_through(through, sandbox, face.url) as exchange,
    ):
        await exchange.login()
        await flood(exchange, calls, random.Random(calls))
        endings: list[str] = []

        async def call(kind: Kind) -> None:
            endings.append(await outcome(exchange.with_options(deadline=20), kind))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(call, Kind.WRITE if number % 2 else Kind.READ)
        assert endings == ["ok"] * 100
    on_the_wire = f"{face.requests} requests on {face.connections} connections"
    print(f"{through}: {calls} cancelled, {on_the_wire} reached the server")  # noqa: T201 - the figure, for `-s`
    assert face.requests > calls / 20, "hardly a call got as far as the network"
    amounts = [record.offer.amount for record in sandbox.audit_log.offers if record.offer.amount != 1840.5]
    assert len(amounts) == len(set(amounts))
