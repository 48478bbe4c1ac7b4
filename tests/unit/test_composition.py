"""Tests of a client's parts in combination."""

from __future__ import annotations

import anyio
import pytest

from freight_exchange.testing import FAULTS, Sandbox

pytestmark = pytest.mark.virtual_time


async def test_feed_repeats_a_page_itself_and_not_by_retries_of_its_calls() -> None:
    sandbox = Sandbox()
    async with sandbox.client() as exchange:
        await exchange.login()
        sandbox.strike(*FAULTS["unavailable"](path="quote/getrequests", times=None))
        with anyio.move_on_after(10):
            async with exchange.watch() as feed:
                await anext(feed)
    # The first failure is repeated at once; a call with retries would send three requests each time.
    assert len(sandbox.audit_log.calls_to("POST", "quote/getrequests")) == 2
