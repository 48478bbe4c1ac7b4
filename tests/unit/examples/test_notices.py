"""Tests of `examples/notices.py` against a mail server and a web server in the test."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx
import pytest
from examples import notices

from freight_exchange import Bid, Bot, Contact, Context, Currency, RateRequest, RetryLater
from freight_exchange.testing import Sandbox

BID = Bid(
    index=4,
    ref_id="RQ-4",
    commodity="Tiles\r\nBcc: thief@example.com",
    origin="Hong Kong",
    destination="Oslo",
    amount=Decimal("1840.50"),
    currency=840,
    contact=Contact(name="Ann Shipper", email="ann@shipper.example"),
)


class Currencies:
    async def get(self, index: int) -> Currency:
        return Currency(index=index, code="USD")


CONTEXT = cast("Context", SimpleNamespace(exchange=SimpleNamespace(currencies=Currencies())))
"""Context of a handler; the handlers under test use no other part of it."""


class MailHandler(StreamRequestHandler):
    """Mail server that implements the commands of a simple client."""

    def handle(self) -> None:
        self._say("220 ready")
        while line := self.rfile.readline().decode().strip():
            match line[:4].upper():
                case "DATA":
                    self._say("354 go on")
                    lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                    cast("Any", self.server).received.append("".join(lines))
                    self._say("250 taken")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class HookHandler(BaseHTTPRequestHandler):
    """Web server that answers with its statuses in turn, then with 204, and keeps the requests."""

    def do_POST(self) -> None:
        server = cast("Any", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.received.append((dict(self.headers), body))
        self.send_response(server.statuses.pop(0) if server.statuses else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving(kind: type[Any], handler: type[Any], *statuses: int) -> Iterator[Any]:
    with kind(("127.0.0.1", 0), handler) as server:
        server.received, server.statuses = [], [*statuses]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def shared(client: httpx.AsyncClient, *, hook: Any = None, mail: Any = None) -> notices.Notices:
    return notices.Notices(
        client=client,
        webhook="" if hook is None else f"http://127.0.0.1:{hook.server_address[1]}/won",
        secret="s3cret",
        smtp_host="127.0.0.1",
        smtp_port=0 if mail is None else mail.server_address[1],
        sender="bot@forwarder.example",
        recipient="sales@forwarder.example",
    )


async def test_mail_names_the_contact_and_no_text_of_the_shipper_adds_a_header() -> None:
    async with httpx.AsyncClient() as client:
        with serving(ThreadingTCPServer, MailHandler) as mail:
            await notices.mail_selection(BID, CONTEXT, shared(client, mail=mail))
    (message,) = mail.received
    head, body = message.split("\r\n\r\n")
    assert "Subject: Won: Tiles Bcc: thief@example.com, Hong Kong to Oslo" in head
    assert "Message-ID: <selected-4@forwarder.example>" in head
    assert not [line for line in head.splitlines() if line.startswith("Bcc")]
    assert "Request RQ-4 at 1840.50 USD is ours." in body
    assert "Contact: Ann Shipper <ann@shipper.example>" in body


async def test_webhook_is_signed_and_carries_a_key() -> None:
    async with httpx.AsyncClient() as client:
        with serving(ThreadingHTTPServer, HookHandler) as hook:
            await notices.post_selection(BID, CONTEXT, shared(client, hook=hook))
    ((headers, body),) = hook.received
    assert headers["X-Signature"] == notices.signature("s3cret", headers["X-Timestamp"], body)
    assert headers["X-Signature"] != notices.signature("other", headers["X-Timestamp"], body)
    assert headers["Idempotency-Key"] == "selected-4"
    assert (json.loads(body)["amount"], json.loads(body)["currency"]) == ("1840.50", "USD")
    assert b"s3cret" not in body
    assert "s3cret" not in str(headers) + repr(shared(client))


async def test_webhook_waits_where_the_receiver_limits_the_rate() -> None:
    async with httpx.AsyncClient() as client:
        with serving(ThreadingHTTPServer, HookHandler, 429) as hook, pytest.raises(RetryLater):
            await notices.post_selection(BID, CONTEXT, shared(client, hook=hook))


async def test_bot_calls_a_webhook_again_until_it_is_taken() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()

    with serving(ThreadingHTTPServer, HookHandler, 503) as hook, serving(ThreadingTCPServer, MailHandler) as mail:

        async def lifespan() -> AsyncIterator[notices.Notices]:
            async with httpx.AsyncClient() as client:
                yield shared(client, hook=hook, mail=mail)

        second = timedelta(seconds=1)
        bot = Bot(store=None, start="backfill", lifespan=lifespan, interval=second, selection_interval=second)
        bot.include(notices.router)

        @bot.on_new
        async def offer(request: RateRequest, ctx: Context) -> None:
            await ctx.offer(amount=100, currency="USD")

        async with sandbox.client(sandbox.shipper) as shipper, sandbox.running(bot) as trial:
            await trial.idle()
            listing = await shipper.offers.get(request)
            await shipper.offers.approve(listing.offers[0])
            with anyio.fail_after(30):
                while len(hook.received) < 2 or not mail.received:  # noqa: ASYNC110 - threads receive them
                    await anyio.sleep(0.05)
    keys = {headers["Idempotency-Key"] for headers, _ in hook.received}
    assert keys == {f"selected-{request}"}


async def test_shipper_is_notified_of_an_offer_by_mail_and_by_webhook() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=840, terms="valid\r\nBcc: x@example.com")

    with serving(ThreadingHTTPServer, HookHandler, 503) as hook, serving(ThreadingTCPServer, MailHandler) as mail:

        async def lifespan() -> AsyncIterator[notices.Notices]:
            async with httpx.AsyncClient() as client:
                yield shared(client, hook=hook, mail=mail)

        bot = Bot(store=None, lifespan=lifespan, interval=timedelta(seconds=1))
        bot.include(notices.router)
        async with sandbox.running(bot, account=sandbox.shipper):
            with anyio.fail_after(30):
                while len(hook.received) < 2 or not mail.received:  # noqa: ASYNC110 - threads receive them
                    await anyio.sleep(0.05)
    headers, body = hook.received[1]
    assert json.loads(body) == {"event": "offer", "request": request, "offer": 5001, "amount": "840", "currency": "USD"}
    assert headers["X-Signature"] == notices.signature("s3cret", headers["X-Timestamp"], body)
    assert {headers["Idempotency-Key"] for headers, _ in hook.received} == {"offer-5001"}
    (message,) = mail.received
    assert "Message-ID: <offer-5001@forwarder.example>" in message
    assert "Subject: Offer: " in message
    assert "840 USD, valid" in message
