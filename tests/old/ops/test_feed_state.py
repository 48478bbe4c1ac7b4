"""Tests of the feeds' states in a bot's file: the feed of requests of a shipper's bot is idle."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from freight_exchange import Bot, ConfigurationError, Context, Offer
from freight_exchange.bot.admin import BotFile
from freight_exchange.store import Store
from freight_exchange.testing import Profile, Sandbox, virtual_time_options


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tender.db"


def declining(path: Path, **options: Any) -> Bot:
    bot = Bot(store=Store(path, inline=True), interval=timedelta(minutes=1), **options)

    @bot.on_offer(id="decline", max_amount=850, currency=840)
    async def decline(offer: Offer, ctx: Context) -> None:
        await ctx.decline(offer)

    return bot


def run(sandbox: Sandbox, bot: Bot, *, as_shipper: bool = True) -> tuple[int, int]:
    """Publish a request with two offers and one without offers, and run a bot."""

    async def main() -> tuple[int, int]:
        request, other = sandbox.publish(), sandbox.publish()
        for account, amount in ((sandbox.forwarder, 900), (sandbox.rival, 800)):
            async with sandbox.client(account) as forwarder:
                await forwarder.bids.submit(request, amount=amount, currency="USD")
        async with sandbox.running(bot, account=sandbox.shipper if as_shipper else sandbox.forwarder) as trial:
            await trial.idle()
            await anyio.sleep(120)
        return request, other

    return anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))


def test_own_request_is_explained_by_its_offers(path: Path) -> None:
    sandbox = Sandbox(Profile(decline_outcome="declined"))
    request, other = run(sandbox, declining(path))
    explained = [BotFile(path).explain(index).explanation for index in (request, other, 99)]
    assert [str(explanation) for explanation in explained] == [
        f"request {request} is one of your requests; offer 5001 is pending, offer 5002 is declined",
        f"request {other} is one of your requests, without offers",
        "request 99 was in no scan of your requests",
    ]
    assert [explanation.verdict for explanation in explained] == ["handed-out", "baseline", "unseen"]
    assert BotFile(path).explain(request).deliveries == [("offer", "decline", "done", None)]
    # As of the last scan of offers: the feed of requests is idle.
    assert BotFile(path).status().covered_until is not None


def test_request_of_another_party_is_explained_by_the_feed_of_requests(path: Path) -> None:
    sandbox = Sandbox()
    bot = declining(path, start="backfill")

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Context) -> None: ...

    request, _ = run(sandbox, bot, as_shipper=False)
    assert BotFile(path).explain(request).explanation.sentence.startswith(f"request {request} was handed out")
    assert "was in no scan: the scans cover updates before " in BotFile(path).explain(99).explanation.sentence


def test_feed_of_offers_of_a_named_bot_is_no_second_bot(path: Path) -> None:
    run(Sandbox(), declining(path, name="tender"))
    assert BotFile(path).status().name == "tender"
    with pytest.raises(ConfigurationError, match=r"the file has 'tender'$"):
        BotFile(path, name="award").status()
