"""Every block of the how-to pages runs as it stands, and does what its page says."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from tests.unit.blocks import PATIENCE, ROOT, blocks_of, compiled, environment_of, run_against_a_server

from freight_exchange import Bot, RetryPolicy
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.store import SQLiteStore
from freight_exchange.testing import Sandbox
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.retry_matrix import LONGEST_WAIT, MATRIX, THROTTLED_COST, TRANSIENT_COST, Cause, Rule

DOCS = ROOT / "docs"
ELSEWHERE = {"bot.md", "bot-reference.md", "tariff.md", "testing.md", "tutorial.md"}
"""Pages whose blocks other tests run."""

GUIDES = [page for page in sorted(DOCS.rglob("*.md")) if str(page.relative_to(DOCS)) not in ELSEWHERE]
BLOCKS = [(page, how, code) for page in GUIDES for how, code in blocks_of(page)]
SPECIAL = {"aiohttp", "proxy"}
WAYS = [["asyncio"], ["asyncio", "environment"], ["program"]]


def run_as(*way: str) -> list[Any]:
    """The blocks that run in this way, whatever more is said of them."""
    found = [
        pytest.param(page, how[len(way) :], code, id=f"{page.name}-{number}")
        for number, (page, how, code) in enumerate(BLOCKS)
        if how[: len(way)] == [*way] and (len(how) == len(way) or way != ("asyncio",)) and not SPECIAL & {*how}
    ]
    assert found, f"a test of {way} would be skipped"
    return found


def test_every_block_runs_in_a_way_that_there_is() -> None:
    assert all(how[:2] in WAYS or how[:1] == ["program"] for _, how, _ in BLOCKS)
    # A special one without a block would be a test that is skipped.
    assert all(any(special in how for _, how, _ in BLOCKS) for special in SPECIAL)


@pytest.mark.parametrize(("page", "more", "code"), run_as("asyncio"))
async def test_a_block_on_its_own(page: Path, more: list[str], code: str) -> None:
    printed: list[tuple[object, ...]] = []
    await compiled(code, page)(lambda *values: printed.append(values))
    assert printed


@pytest.mark.parametrize(("page", "more", "code"), run_as("asyncio", "environment"))
async def test_a_block_against_a_server(
    page: Path, more: list[str], code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    exchange, printed = await run_against_a_server(code, page, monkeypatch)
    assert printed
    said = " ".join(str(value) for line in printed for value in line)
    if "doubt" in more:
        assert "stands: 1840" in said or "Applied(record=Bid(" in said
        assert len(exchange.audit_log.offers) == 1
    if "a retry" in more:
        assert "POST quote/getrequests failed, again in" in said
        assert said.index("failed, again in") < said.index("POST quote/getrequests: 200")


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("page", "more", "code"), run_as("program"))
async def test_a_block_that_is_a_program(page: Path, more: list[str], code: str, tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.publish(exchange.shipper, time.time())
    async with serve_tcp(exchange) as face:
        environment = os.environ | environment_of(face.url, exchange.forwarder)
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, "-W", "error", "-c", code],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert "requests 1" in done.stdout


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(("page", "code"), [(page, code) for page, how, code in BLOCKS if "aiohttp" in how])
async def test_a_block_over_aiohttp(page: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, printed = await run_against_a_server(code, page, monkeypatch)
    assert printed


@asynccontextmanager
async def a_proxy() -> AsyncIterator[tuple[str, list[str]]]:
    """An HTTP proxy: its URL, and the targets that it was asked for."""
    asked: list[str] = []

    async def relay(source: ByteStream, sink: ByteStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                await sink.send(piece)
            await sink.send_eof()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n" not in head:
                head += await stream.receive()
            line, _, rest = head.partition(b"\r\n")
            method, target, version = line.decode().split(" ")
            asked.append(target)
            url = urlsplit(target)
            assert url.hostname is not None
            assert url.port is not None
            async with await anyio.connect_tcp(url.hostname, url.port) as there:
                # One request a connection: a second one would come with a target of its own.
                await there.send(f"{method} {url.path} {version}\r\nConnection: close\r\n".encode() + rest)
                async with anyio.create_task_group() as both:
                    both.start_soon(relay, stream, there)
                    await relay(there, stream)
                    both.cancel_scope.cancel()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}", asked
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("page", "code"), [(page, code) for page, how, code in BLOCKS if "proxy" in how])
async def test_a_block_behind_a_proxy(page: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_proxy() as (url, asked):
        monkeypatch.setenv("COMPANY_PROXY", url)
        _, printed = await run_against_a_server(code, page, monkeypatch)
    assert printed
    assert [urlsplit(target).path for target in asked] == ["/api/login", "/api/carrier"]


def test_what_is_tried_again_is_what_the_page_says() -> None:
    said = {
        "No connection came about": Cause.UNSENT,
        "The network failed after": Cause.INTERRUPTED,
        "Status 400, 403, 404": Cause.REFUSED,
        "Status 408": Cause.TIMED_OUT,
        "Status 429 with `Retry-After` of at most 120 s": Cause.THROTTLED,
        "Status 429 without": Cause.THROTTLED_BLINDLY,
        "Status 5xx": Cause.BROKEN,
        "A reply that is not what": Cause.MALFORMED,
        "A redirect": Cause.REDIRECTED,
        "A certificate": Cause.PERMANENT,
    }
    page = (DOCS / "retries.md").read_text()
    for words, cause in said.items():
        (row,) = re.findall(rf"^\| {re.escape(words)}.*$", page, re.MULTILINE)
        _, read, write = row.strip("| ").split(" | ")
        assert [_rule(read), _rule(write)] == [MATRIX[cause][RequestKind.READ], MATRIX[cause][RequestKind.WRITE]], words
    # 503 with Retry-After is a 5xx to the page, and a longer Retry-After raises.
    assert {*said.values()} == {*Cause} - {Cause.UNAVAILABLE, Cause.THROTTLED_LONG}
    assert MATRIX[Cause.UNAVAILABLE][RequestKind.READ] is MATRIX[Cause.BROKEN][RequestKind.READ]
    policy = RetryPolicy()
    assert LONGEST_WAIT == 120
    assert f"budget** of {policy.budget} tokens" in page
    assert f"takes\n{TRANSIENT_COST}, or {THROTTLED_COST} after a status 429" in page


def _rule(said: str) -> Rule:
    if said.startswith("raises"):
        return Rule.RAISE
    if said.startswith("never"):
        return Rule.UNKNOWN
    return Rule.ONCE if "once more" in said else Rule.RETRY


@pytest.mark.virtual_time
async def test_a_copy_that_was_made_while_the_bot_ran_offers_on_nothing_a_second_time(tmp_path: Path) -> None:
    sandbox = Sandbox()

    def made(store: str) -> Bot:
        bot = Bot(store=SQLiteStore(tmp_path / store, inline=True), start="backfill")

        @bot.on_new(id="quote")
        async def quote(request: Any, ctx: Any) -> None:
            await ctx.offer(amount=100, currency="USD")

        return bot

    async with sandbox.running(made("bot.db")) as trial:
        sandbox.publish()
        await trial.idle()
        # What `.backup` of SQLite's own program does, while the bot holds the file.
        with (
            closing(sqlite3.connect(tmp_path / "bot.db")) as source,
            closing(sqlite3.connect(tmp_path / "copy.db")) as to,
        ):
            source.backup(to)
        sandbox.publish()
        await trial.idle()
    async with sandbox.running(made("copy.db")) as trial:
        sandbox.publish()
        await trial.idle()
        assert (trial.status.dead, trial.status.parked) == (0, 0)
    assert len(sandbox.audit_log.offers) == 3
    assert not sandbox.audit_log.duplicate_offers()
