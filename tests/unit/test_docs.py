"""The blocks of the pages about bots run as written and do what the pages promise."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import attrs
import httpx
import pytest
from tests.unit.blocks import ROOT, blocks_of, compiled, run_program

import freight_exchange
from freight_exchange import Bot
from freight_exchange.bot.metrics import ENDINGS, OUTCOMES
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

BOT = ROOT / "docs" / "bot.md"
REFERENCE = ROOT / "docs" / "bot-reference.md"
TESTING = ROOT / "docs" / "testing.md"
BLOCKS = blocks_of(BOT) + blocks_of(REFERENCE)
WAYS = {"process", "handlers", "operator", "application"}
A_WEEK = timedelta(days=7).total_seconds()
NAMES: dict[str, Any] = {
    **{name: getattr(freight_exchange, name) for name in freight_exchange.__all__},
    "timedelta": timedelta,
    "Decimal": Decimal,
}


def blocks(way: str, *more: str) -> list[str]:
    """The blocks of the page about the bot that run in this way."""
    found = [code for how, code in BLOCKS if how[0] == way and (not more or how[1:] == [*more])]
    assert found, f"a test of {way} {more} would be skipped"
    return found


def test_every_block_runs_in_a_way_that_there_is() -> None:
    assert {how[0] for how, _ in BLOCKS} == WAYS


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("code", blocks("process"))
async def test_a_program_offers_once_and_drains(code: str, tmp_path: Path) -> None:
    offers, said = await run_program(code, tmp_path)
    assert offers == 1
    assert "Traceback" not in said
    if "json" in code:
        lines = [json.loads(line) for line in said.splitlines()]
        (thought,) = (line for line in lines if line["message"].startswith("pricing"))
        assert {"event": "new", "handler": "quote", "request": 1, "attempt": 1}.items() <= thought.items()
        assert any(line["request"] == 1 and "handler" not in line for line in lines if "request" in line)


def test_the_formatter_of_the_page_says_the_error_too() -> None:
    (code,) = (code for code in blocks("process") if "json" in code)
    names: dict[str, Any] = {}
    # Without what sets up logging: that would be for the whole process.
    exec(compile(code[: code.index("\n\n\nhandler = ")], BOT, "exec"), names)  # the page is ours
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
    ("code", "offers"),
    [(code, 1) for code in blocks("handlers", "an offer")] + [(code, 2) for code in blocks("handlers", "two offers")],
)
async def test_handlers_do_what_the_page_says(code: str, offers: int) -> None:
    store, sandbox, outages = MemoryStore(), Sandbox(), [TimeoutError(), TimeoutError()]

    async def rate_of_the_day(_: str) -> int:
        if outages:
            raise outages.pop()
        return 62

    def made() -> Bot:
        namespace = {**NAMES, "bot": Bot(store=store, start="backfill"), "rate_of_the_day": rate_of_the_day}
        exec(compile(code, str(BOT), "exec"), namespace)  # the page is ours
        bot = namespace["bot"]
        assert isinstance(bot, Bot)
        return bot

    bot = made()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        index = sandbox.publish()
        await everything_happens(sandbox, index, trial.idle)
        assert trial.status.dead == trial.status.retried == 0
    called = {handler for (handler, how), count in bot._metrics.deliveries.items() if how == "done" and count}
    if {handler.id for handler in bot} - called == {"unwatched"}:
        bot = made()
        await anyio.sleep(A_WEEK)
        async with sandbox.running(bot):
            await anyio.sleep(600)
            assert bot.status().dead == 0
        called |= {handler for (handler, how), count in bot._metrics.deliveries.items() if how == "done" and count}
    assert called == {handler.id for handler in bot}
    assert len(sandbox.audit_log.offers_on(index)) == offers


async def everything_happens(sandbox: Sandbox, index: int, idle: Callable[[], Awaitable[None]]) -> None:
    """What a request can come to, from an update to its end; another one cannot be read."""
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


@pytest.mark.virtual_time
async def test_a_dead_letter_is_shown_and_replayed() -> None:
    (code,) = blocks("operator", "dead letter")
    store, sandbox, mended = MemoryStore(), Sandbox(), list[bool]()

    def made() -> Bot:
        bot = Bot(sandbox.client(), store=store, start="backfill")

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            if not mended:
                raise ValueError("no tariff")
            await ctx.offer(amount=1, currency="USD")

        return bot

    index = sandbox.publish()
    async with sandbox.running(made()) as trial:
        await trial.idle()
        assert trial.status.dead == 1
    mended.append(True)
    printed = await printed_by(code, made())
    assert [str(value) for value in printed[0]] == (
        f"{test_a_dead_letter_is_shown_and_replayed.__name__}.<locals>.made.<locals>.quote|failed|9|"
        f"times on request|{index}|by|ValueError: no tariff"
    ).split("|")
    async with sandbox.running(made()) as trial:
        await trial.idle()
    assert len(sandbox.audit_log.offers_on(index)) == 1


@pytest.mark.virtual_time
async def test_a_parked_offer_is_shown_and_resolved() -> None:
    (code,) = blocks("operator", "parked")
    # A service that rounds shows a price that may be the offer's, or not.
    store, sandbox = MemoryStore(), Sandbox(Profile(amount_rounding="whole"))

    def made() -> Bot:
        bot = Bot(sandbox.client(), store=store, start="backfill")

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount="1840.50", currency="USD")

        return bot

    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    index = sandbox.publish()
    async with sandbox.running(made()) as trial:
        await anyio.sleep(3600)
        assert (trial.status.in_doubt, trial.status.parked) == (0, 1)
    printed = await printed_by(code, made())
    assert printed == [("is there an offer of", Decimal("1840.50"), "on request", index, "?")]
    async with sandbox.running(made()) as trial:
        await trial.idle()
        assert (trial.status.in_doubt, trial.status.parked, trial.status.dead) == (0, 0, 0)
    assert len(sandbox.audit_log.offers_on(index)) == 1


async def printed_by(code: str, bot: Bot) -> list[tuple[object, ...]]:
    printed: list[tuple[object, ...]] = []
    await compiled(code, BOT, {**NAMES, "bot": bot})(lambda *values: printed.append(values))
    return printed


@pytest.mark.parametrize("code", blocks("application"))
async def test_a_bot_runs_in_an_application(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    exchange = Exchange()
    printed: list[tuple[object, ...]] = []

    async def the_rest_of_your_program() -> None:
        import time

        request = exchange.publish(exchange.shipper, time.time())
        with anyio.fail_after(60):
            while not exchange.audit_log.offers_on(request):  # noqa: ASYNC110  # the bot makes it beside this
                await anyio.sleep(0.02)

    async with serve_tcp(exchange) as face:
        monkeypatch.setenv("FREIGHT_EXCHANGE_URL", face.url)
        monkeypatch.setenv("FREIGHT_EXCHANGE_EMAIL", exchange.forwarder.email)
        monkeypatch.setenv("FREIGHT_EXCHANGE_PASSWORD", exchange.forwarder.password)
        names = {**NAMES, "the_rest_of_your_program": the_rest_of_your_program}
        code = code.replace("timedelta(seconds=30)", "timedelta(seconds=1)")
        await compiled(code, BOT, names)(lambda *values: printed.append(values))
    assert printed == [("running",)]
    assert len(exchange.audit_log.offers) == 1


async def test_the_operators_port_says_what_the_page_says() -> None:
    page, sandbox = REFERENCE.read_text(), Sandbox()
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
    (shown,) = re.findall(r"^\$ curl .*/livez\n(.*)$", page, re.MULTILINE)
    assert re.sub(r"[\d.]+", "N", live.text.strip()) == re.sub(r"[\d.]+", "N", shown)
    there = set(re.findall(r"^freight_exchange_bot_(\w+)", metrics.text, re.MULTILINE))
    table = page[page.index("| Metric") : page.index("The words of `ending`")]
    named = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert there == set(re.findall(r"`(\w+)", named))
    (words,) = re.findall(r"^The words of `ending` .*?(?=\n\n)", page, re.DOTALL | re.MULTILINE)
    endings, outcomes = words.split("Those of `outcome`")
    assert re.findall(r"`([a-z]+)`", endings)[1:] == [*ENDINGS]
    assert [*dict.fromkeys(re.findall(r"`([a-z ]+)`", outcomes))] == [*OUTCOMES]
    counted = re.findall(r'(?:ending|outcome)="(.*?)"', metrics.text)
    assert sorted(counted) == sorted(ENDINGS + OUTCOMES)


def test_the_page_about_testing_is_a_suite_that_passes(tmp_path: Path) -> None:
    names = {"conftest": "conftest.py", "module": "my_bot.py"}
    for number, (how, code) in enumerate(blocks_of(TESTING)):
        (tmp_path / names.get(how[0], f"test_{number}.py")).write_text(code)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert len(written) == len(blocks_of(TESTING)) == 7
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "-W",
            "error",
            "-o",
            "anyio_mode=auto",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(tmp_path)])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Six tests, one of them at four points, on two backends.
    assert "18 passed" in done.stdout
