"""Tests of the how-to pages against the code. `test_snippets.py` runs their blocks."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.blocks import ROOT

from freight_exchange import Bot, RetryPolicy
from freight_exchange.store import SQLiteStore
from freight_exchange.testing import Sandbox
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.rules.retry_matrix import (
    MATRIX,
    MAX_WAIT,
    THROTTLED_COST,
    TRANSIENT_COST,
    Cause,
    RetryRule,
)

DOCS = ROOT / "docs"


def test_page_lists_the_causes_that_are_retried() -> None:
    causes = {
        "There was no connection": Cause.UNSENT,
        "The network failed, and": Cause.INTERRUPTED,
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
    for words, cause in causes.items():
        (row,) = re.findall(rf"^\| {re.escape(words)}.*$", page, re.MULTILINE)
        _, read, write = row.strip("| ").split(" | ")
        assert [_rule(read), _rule(write)] == [MATRIX[cause][RequestKind.READ], MATRIX[cause][RequestKind.WRITE]], words
    # 503 with Retry-After is a 5xx to the page, and a longer Retry-After raises.
    assert {*causes.values()} == {*Cause} - {Cause.UNAVAILABLE, Cause.THROTTLED_LONG}
    assert MATRIX[Cause.UNAVAILABLE][RequestKind.READ] is MATRIX[Cause.BROKEN][RequestKind.READ]
    policy = RetryPolicy()
    assert MAX_WAIT == 120
    assert f"budget** of {policy.budget} tokens" in page
    assert f"takes\n{TRANSIENT_COST}, or {THROTTLED_COST} after a status 429" in page


def _rule(causes: str) -> RetryRule:
    if causes.startswith("raises"):
        return RetryRule.RAISE
    if causes.startswith("never"):
        return RetryRule.UNKNOWN
    return RetryRule.ONCE if "once more" in causes else RetryRule.RETRY


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
