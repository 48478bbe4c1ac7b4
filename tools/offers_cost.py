"""Cost of one scan of the feed of offers, by the number of the account's requests, as a table.

`python tools/offers_cost.py` watches sandboxes in virtual time, each request with an offer, nothing changing. The
CPU is that of the whole process, so that it includes the sandbox.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

# A script's own folder is on the path; the sources are not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio

from freight_exchange.store import SQLiteStore
from freight_exchange.testing import Profile, Sandbox, virtual_time_options

_INTERVAL, _SCANS = 30, 20
_SEARCH = "quote/getoffers"


async def measure(requests: int, clamp: int | None, folder: Path) -> str:
    sandbox = Sandbox(Profile(rows_clamp=clamp))
    async with sandbox.client() as forwarder:
        for number in range(requests):
            await forwarder.bids.submit(sandbox.publish(), amount=500 + number % 90, currency="USD")
    store = SQLiteStore(folder / f"{requests}-{clamp}.db", inline=True)
    async with (
        sandbox.client(sandbox.shipper) as exchange,
        exchange.watch_offers(store=store, start="now", interval=timedelta(seconds=_INTERVAL)) as feed,
    ):
        with anyio.move_on_after(10 * _INTERVAL):
            await anext(feed)
        sandbox.audit_log.calls.clear()
        began = time.process_time()
        with anyio.move_on_after(_SCANS * _INTERVAL):
            await anext(feed)
        seconds = time.process_time() - began
        calls = sandbox.audit_log.calls_to("POST", _SEARCH)
        scans = sum(call.parameters["offset"] == 0 for call in calls)
        body = {"type": "all", "offset": 0, "rowsperpage": 1000}
        listing = len(str(await exchange.request("POST", _SEARCH, body=body, repeatable=True)))
        size = listing * requests // min(requests, clamp or requests)
    cost = f"{len(calls) / scans:.1f} | {size / 1000:.0f} kB | {1000 * seconds / scans:.0f} ms"
    return f"| {requests} | {clamp or 'none'} | {cost} |"


def main() -> None:
    print("| Your requests | Maximum rows in a page | Requests in a scan | About, received | CPU with the sandbox |")
    print("|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for requests, clamp in ((10, None), (100, None), (1000, None), (1000, 100)):
            work = partial(measure, requests, clamp, Path(folder))
            print(anyio.run(work, backend_options=virtual_time_options("asyncio")))


if __name__ == "__main__":
    main()
