"""Tests of the pages about bots against the code. `test_snippets.py` runs their blocks."""

from __future__ import annotations

import json
import logging
import re
import sys
import types
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import attrs
import httpx
import pytest
from tools.snippets.pages import ROOT, snippets_of

import freight_exchange
from freight_exchange import Bot
from freight_exchange.bot.metrics.metrics import ENDINGS, OUTCOMES
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

BOT = ROOT / "docs" / "bot.md"
MONTHS = ROOT / "docs" / "months.md"
OBSERVABILITY = ROOT / "docs" / "observability.md"
A_WEEK = timedelta(days=7).total_seconds()


def code_of(page: Path, name: str) -> str:
    (code,) = (snippet.code for snippet in snippets_of(page) if snippet.name == name)
    return code


def load(code: str, name: str = "page") -> dict[str, Any]:
    """Return the definitions of a block, without running its program."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(code, name, "exec"), names)  # the page is ours
    return names


def test_the_formatter_of_the_page_lists_the_error_too() -> None:
    names = load(code_of(OBSERVABILITY, "json_log.py"))
    record: Any = logging.LogRecord("freight_exchange.bot", logging.ERROR, "", 0, "%r is dead", ("quote",), None)
    record.request = 7
    expected = {"level": "ERROR", "message": "'quote' is dead", "request": 7}
    assert json.loads(names["JSONLines"]().format(record)) == expected
    try:
        raise LookupError("no rate for Rotterdam")
    except LookupError:
        record.exc_info = sys.exc_info()
    error = json.loads(names["JSONLines"]().format(record))["error"]
    assert error.startswith("Traceback")
    assert error.endswith("LookupError: no rate for Rotterdam")


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("name", "offers"),
    [("all_handlers.py", 1), ("shared_resources.py", 1), ("postpone.py", 1), ("second_price.py", 2)],
)
async def test_handlers_of_the_page_make_the_listed_offers(
    name: str, offers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, sandbox, code = MemoryStore(), Sandbox(), code_of(BOT, name)
    # Under virtual time a store needs no threads.
    monkeypatch.setattr(
        freight_exchange, "Bot", lambda **options: Bot(**{**options, "store": store, "start": "backfill"})
    )

    def make_bot() -> Bot:
        bot = load(code)["bot"]
        assert isinstance(bot, Bot)
        return bot

    bot = make_bot()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await everything_happens(sandbox, index, trial.idle)
        assert trial.status.dead == trial.status.retried == 0
    called = {handler for (handler, how), count in bot._metrics.deliveries.items() if how == "done" and count}
    if {handler.id for handler in bot} - called == {"unwatched"}:
        bot = make_bot()
        await anyio.sleep(A_WEEK)
        async with sandbox.running(bot):
            await anyio.sleep(600)
            assert bot.status().dead == 0
        called |= {handler for (handler, how), count in bot._metrics.deliveries.items() if how == "done" and count}
    assert called == {handler.id for handler in bot}
    assert len(sandbox.audit_log.offers_on(index)) == offers


async def everything_happens(sandbox: Sandbox, index: int, idle: Callable[[], Awaitable[None]]) -> None:
    """Put a request through all events, from an update to its end, and publish an unreadable one."""
    await idle()
    # Within the allowance, an update is taken for what the offer itself has brought about.
    await anyio.sleep(600)
    sandbox.exchange.update(index, sandbox.now(), attrs.evolve(Cargo(), quantity=11))
    await idle()
    sandbox.strike(*FAULTS["poison_record"](path="quote/getrequests"))
    other = sandbox.publish(Cargo(requesttype="Warehouse Storage", hazardous=1))
    await idle()
    sandbox.exchange.select(sandbox.audit_log.offers_on(index)[0].offer.index, sandbox.now())
    sandbox.exchange.withdraw(other, sandbox.now())
    await anyio.sleep(7200)


async def settle(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the page's program that settles parked offers and dead letters."""
    monkeypatch.setitem(sys.modules, "quote_bot", types.SimpleNamespace(bot=bot))
    await load(code_of(MONTHS, "settle_by_hand.py"))["settle"](bot)


@pytest.mark.virtual_time
async def test_a_dead_letter_is_shown_and_replayed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, sandbox, mended = MemoryStore(), Sandbox(), list[bool]()

    def make_bot() -> Bot:
        bot = Bot(sandbox.client(), store=store, start="backfill")

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            if not mended:
                raise ValueError("no tariff")
            await ctx.offer(amount=1, currency="USD")

        return bot

    index = sandbox.publish()
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
        assert trial.status.dead == 1
    mended.append(True)
    await settle(make_bot(), monkeypatch)
    assert f"quote failed 9 times on request {index} by ValueError: no tariff\n" in capsys.readouterr().out
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
    assert len(sandbox.audit_log.offers_on(index)) == 1


@pytest.mark.virtual_time
async def test_a_parked_offer_is_shown_and_resolved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A service that rounds shows a price that may be the offer's, or not.
    store, sandbox = MemoryStore(), Sandbox(Profile(amount_rounding="whole"))

    def make_bot() -> Bot:
        bot = Bot(sandbox.client(), store=store, start="backfill")

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1840.50", currency="USD")

        return bot

    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    index = sandbox.publish()
    async with sandbox.running(make_bot()) as trial:
        await anyio.sleep(3600)
        assert (trial.status.in_doubt, trial.status.parked) == (0, 1)
    await settle(make_bot(), monkeypatch)
    assert f"show the offer of 1840.50 on request {index}\n" in capsys.readouterr().out
    async with sandbox.running(make_bot()) as trial:
        await trial.idle()
        assert (trial.status.in_doubt, trial.status.parked, trial.status.dead) == (0, 0, 0)
    assert len(sandbox.audit_log.offers_on(index)) == 1


async def test_operators_port_reports_the_fields_that_the_page_lists() -> None:
    page, sandbox = (ROOT / "docs" / "bot-reference.md").read_text(), Sandbox()
    bot = Bot(sandbox.client(), store=None, start="backfill", port=0)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=1, currency="USD")

    index = sandbox.publish()
    async with bot, httpx.AsyncClient(trust_env=False) as client:
        with anyio.fail_after(60):
            while not bot.status().handled:  # noqa: ASYNC110  # the bot is at work beside this
                await anyio.sleep(0.02)
        address = bot.status().address
        assert address is not None
        live, ready, metrics = [
            await client.get(f"http://{address[0]}:{address[1]}{path}") for path in ("/livez", "/readyz", "/metrics")
        ]
    assert len(sandbox.audit_log.offers_on(index)) == 1
    assert (live.status_code, ready.status_code) == (200, 200)
    (block,) = re.findall(r"curl .*/livez\n```\n\n```text\n(.*)$", page, re.MULTILINE)
    assert re.sub(r"[\d.]+", "N", live.text.strip()) == re.sub(r"[\d.]+", "N", block)
    samples = re.findall(r"^freight_exchange_bot_(\w+?)(?:_bucket|_count|_sum)?[{ ]", metrics.text, re.MULTILINE)
    table = page[page.index("| Metric") : page.index("| `ending` |")]
    named = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(samples) == set(re.findall(r"`(\w+)", named))
    endings = page[page.index("| `ending` |") : page.index("\n`outcome` is")]
    assert re.findall(r"^\| `(\w+)`", endings, re.MULTILINE)[1:] == [*ENDINGS]
    (outcomes,) = re.findall(r"^`outcome` is .*", page, re.MULTILINE)
    assert [*dict.fromkeys(re.findall(r"`([a-z ]+)`", outcomes))][1:] == [*OUTCOMES]
    counted = re.findall(r'_total{.*(?:ending|outcome)="(.*?)"', metrics.text)
    assert sorted(counted) == sorted(ENDINGS + 2 * OUTCOMES)
