"""One candidate, one round, in a process of its own: prints CPU and wall microseconds a call.

Run: `python -m benchmarks.client CANDIDATE PORT CALLS`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import httpx

Call = Callable[[], Awaitable[object]]
BODY = {"index": 1, "secondsSinceUpdate": 432000}
PAGE_BODY = {"type": "all", "secondsSinceUpdate": 432000, "offset": 0, "rowsperpage": 100}


async def raw(stack: AsyncExitStack, root: str, body: dict[str, object], library: str = "httpx") -> Call:
    """The library's own client, as people use it."""
    module = __import__(library)
    client = await stack.enter_async_context(
        module.AsyncClient(base_url=root, headers={"Authorization": "Bearer benchmark"}, verify=False, trust_env=False)
    )

    async def call() -> object:
        response = await client.post("quote/getrequests", json=body)
        response.raise_for_status()
        return response.json()

    return call


async def sdk(stack: AsyncExitStack, root: str, *, page: bool, http_client: httpx.AsyncClient | None = None) -> Call:
    """This SDK with everything on: typed, renewed, retried, limited, supervised."""
    from freight_exchange import FreightExchange

    exchange = await stack.enter_async_context(
        FreightExchange(root, email="ben@demo.example", password="benchmark", http_client=http_client)
    )
    await exchange.login()
    if page:

        async def read_page() -> object:
            return await exchange.requests.search()

        return read_page

    async def read_one() -> object:
        return await exchange.requests.get(1)

    return read_one


async def candidate(name: str, stack: AsyncExitStack, port: int) -> Call:
    one, page = f"http://127.0.0.1:{port}/one/api", f"http://127.0.0.1:{port}/page/api"
    match name:
        case "httpx, one record":
            return await raw(stack, one, dict(BODY))
        case "httpx2, one record":
            return await raw(stack, one, dict(BODY), "httpx2")
        case "this SDK, one record":
            return await sdk(stack, one, page=False)
        case "this SDK on httpx2, one record":
            import httpx2

            client = await stack.enter_async_context(httpx2.AsyncClient(verify=False, trust_env=False))
            return await sdk(stack, one, page=False, http_client=client)  # type: ignore[arg-type]  # either will do
        case "httpx, page of 100":
            return await raw(stack, page, dict(PAGE_BODY))
        case "this SDK, page of 100":
            return await sdk(stack, page, page=True)
    raise SystemExit(f"no candidate {name!r}")


async def measure(name: str, port: int, calls: int) -> None:
    async with AsyncExitStack() as stack:
        call = await candidate(name, stack, port)
        for _ in range(calls // 10 + 1):
            await call()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            await call()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{cpu / calls * 1e6:.2f} {wall / calls * 1e6:.2f}")


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
