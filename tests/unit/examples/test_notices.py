"""Tests of `examples/notices.py`: a mail, and a webhook that fails once."""

from __future__ import annotations

import json
import smtplib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from examples import notices

from freight_exchange import Bot, Context, RateRequest
from freight_exchange.testing import Cargo, Sandbox

SECOND = timedelta(seconds=1)
CARGO = Cargo(commodityname="Tiles\r\nBcc: thief@example.com", origin="Hong Kong", destination="Oslo")


class Receivers:
    """Mail server and receiver of the webhook, which answers 503 at first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[httpx.Request] = []
        self.mails: list[str] = []
        monkeypatch.setattr(smtplib, "SMTP", self._connect)
        self.bot = Bot(store=None, start="backfill", lifespan=self._shared, interval=SECOND, selection_interval=SECOND)
        self.bot.include(notices.router)

    async def _shared(self) -> AsyncIterator[notices.Notices]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self._call)) as client:
            shared = notices.Notices(client, "http://x/won", "s3cret", "mail:26", "bot@x.example", "us@x.example")
            assert "s3cret" not in repr(shared)
            yield shared

    def _call(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(request)
        return httpx.Response(204 if self.calls[1:] else 503)

    @contextmanager
    def _connect(self, *address: Any, **_: Any) -> Iterator[Any]:
        assert address == ("mail", 26)
        yield SimpleNamespace(send_message=lambda message: self.mails.append(message.as_string()))

    async def received(self) -> tuple[Any, str]:
        """Wait for a mail and a webhook, which is called again with the same key."""
        with anyio.fail_after(30):
            while len(self.calls) < 2 or not self.mails:  # noqa: ASYNC110 - a thread sends the mail
                await anyio.sleep(0.05)
        first, last = self.calls
        assert first.headers["Idempotency-Key"] == last.headers["Idempotency-Key"]
        for secret in ("s3cret", "other"):
            signed = notices.signature(secret, last.headers["X-Timestamp"], last.content)
            assert (last.headers["X-Signature"] == signed) == (secret == "s3cret")
        assert b"s3cret" not in last.content
        (message,) = self.mails
        assert "Bcc: thief@example.com, Hong Kong to Oslo" in message
        assert not [line for line in message.splitlines() if line.startswith("Bcc")]
        return json.loads(last.content) | {"key": last.headers["Idempotency-Key"]}, message


async def test_forwarder_is_notified_of_a_win(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, receivers = Sandbox(), Receivers(monkeypatch)
    request = sandbox.publish(CARGO)

    @receivers.bot.on_new
    async def offer(request: RateRequest, ctx: Context) -> None:
        await ctx.offer(amount=100, currency="USD")

    async with sandbox.running(receivers.bot) as trial:
        await trial.idle()
        sandbox.exchange.select(sandbox.audit_log.offers[0].offer.index, sandbox.now())
        notice, message = await receivers.received()
    contact, key = "shipper@demo.example", f"selected-{request}"
    assert notice == {"event": "selected", "request": request, "price": "100 USD", "contact": contact, "key": key}
    for words in (f"<{key}@x.example>", "at 100 USD is ours.", "Contact: Sylvia Ship <shipper@demo.example>"):
        assert words in message


async def test_shipper_is_notified_of_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, receivers = Sandbox(), Receivers(monkeypatch)
    request = sandbox.publish(CARGO)
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=840, terms="valid 7 days")
    async with sandbox.running(receivers.bot, account=sandbox.shipper):
        notice, message = await receivers.received()
    assert notice == {"event": "offer", "request": request, "offer": 5001, "price": "840 USD", "key": "offer-5001"}
    assert "Message-ID: <offer-5001@x.example>" in message
    assert ": 840 USD, valid 7 days." in message
