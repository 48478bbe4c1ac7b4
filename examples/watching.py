"""Demonstration of a watcher that is killed at night and misses nothing, over real HTTP, against the sandbox.

The watcher (`watcher.py`) is a process of its own. Run it with `python examples/watching.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from freight_exchange import FreightExchange, RateRequestDraft
from freight_sandbox import Exchange
from freight_sandbox.server import serve

# A script's own folder is on the path; the root, which the next import needs, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.stage import Program, client, say, sea

AT_NIGHT = [
    sea(commodity, "Hong Kong", destination, quantity)
    for commodity, destination, quantity in (
        ("Bicycles", "Rotterdam", 40),
        ("Green tea", "Hamburg", 12),
        ("Office chairs", "Oakland", 25),
        ("Garden lamps", "Felixstowe", 60),
        ("Loudspeakers", "Antwerp", 18),
        ("Water pumps", "Los Angeles", 8),
        ("Umbrellas", "Bristol", 90),
        ("Violins", "Genoa", 4),
    )
]


async def main() -> int:
    async with AsyncExitStack() as stack:
        sandbox = Exchange()
        url = (await stack.enter_async_context(serve(sandbox))).url
        shipper = await stack.enter_async_context(client(url, sandbox.shipper))
        store = Path(stack.enter_context(TemporaryDirectory())) / "watcher.db"
        watcher = Program("watcher", ["examples/watcher.py", str(store), "1"], url, sandbox.forwarder)
        return await night(sandbox, shipper, await stack.enter_async_context(watcher))


async def night(sandbox: Exchange, shipper: FreightExchange, watcher: Program) -> int:
    """Kill the watcher while the shipper publishes, and compare the printed with the published requests."""
    await watcher.starts()
    await watcher.until(lambda: watcher.count_lines("watching") > 0)
    await publish(shipper, AT_NIGHT[:3])
    await watcher.until(lambda: watcher.count_lines("new") >= 3)
    # The next scan acknowledges the printed events. If killed before it, the watcher would repeat the last one.
    await watcher.until(looked_again(sandbox))
    await watcher.dies()
    await publish(shipper, AT_NIGHT[3:6])
    await watcher.starts()
    await publish(shipper, AT_NIGHT[6:])
    await watcher.until(lambda: watcher.count_lines("new") >= len(AT_NIGHT))
    await watcher.until(looked_again(sandbox))
    published = {f"FX{publication.request:06d}" for publication in sandbox.audit_log.publications}
    seen = Counter(line.split(":")[0].removeprefix("new ") for line in watcher.lines if line.startswith("new "))
    say("published", f"{len(published):>3}")
    say("seen", f"{len(published & seen.keys()):>3}")
    say("missed", f"{len(published - seen.keys()):>3}")
    say("repeated", f"{seen.total() - len(seen):>3}")
    return int(published != seen.keys() or seen.total() != len(seen))


def looked_again(sandbox: Exchange) -> Callable[[], bool]:
    """Return a function that is true after another scan."""
    looks = len(sandbox.audit_log.calls_to("POST", "quote/getrequests"))
    return lambda: len(sandbox.audit_log.calls_to("POST", "quote/getrequests")) > looks


async def publish(shipper: FreightExchange, drafts: Sequence[RateRequestDraft]) -> None:
    for draft in drafts:
        published = await shipper.requests.publish(draft)
        say("shipper", f"publishes {published.ref_id}: {published.quantity} x {published.commodity}")
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
