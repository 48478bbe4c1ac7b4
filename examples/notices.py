"""Notices of won requests: a mail to the sales desk, and a signed webhook to another system.

Run it with `python examples/notices.py bot.db`. The exchange and the account come from the environment, as for
`bot.py`, and so do `NOTICE_SMTP`, `NOTICE_FROM`, `NOTICE_TO`, `NOTICE_WEBHOOK` and `NOTICE_SECRET`.

Each notice is a delivery of its own. If the mail server or the webhook fails, the bot calls that handler again, with
growing delays and over restarts, and keeps a dead letter after the last attempt. A notice may arrive twice, after a
crash between sending and recording it: both carry a key by which the receiver detects it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import smtplib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage

import anyio
import httpx

from freight_exchange import Bid, Bot, Context, RetryLater, Router

REQUIRED = ("NOTICE_WEBHOOK", "NOTICE_SECRET", "NOTICE_FROM", "NOTICE_TO")

router = Router()


@dataclass(frozen=True)
class Notices:
    """Where notices go. The secret is shared with the receiver of the webhook and never sent."""

    client: httpx.AsyncClient
    webhook: str
    secret: str = field(repr=False)
    smtp_host: str
    smtp_port: int
    sender: str
    recipient: str


@router.on_selected(id="mail")
async def send_mail(bid: Bid, ctx: Context, notices: Notices) -> None:
    message = EmailMessage()
    message["From"], message["To"] = notices.sender, notices.recipient
    message["Subject"] = one_line(f"Won: {bid.commodity}, {bid.origin} to {bid.destination}")
    message["Message-ID"] = f"<{key(bid)}@{notices.sender.partition('@')[2]}>"
    contact = "unknown" if bid.contact is None else f"{bid.contact.name} <{bid.contact.email}>"
    message.set_content(f"Request {bid.ref_id or bid.index} at {bid.amount} is ours.\nContact: {contact}\n")

    def deliver() -> None:
        with smtplib.SMTP(notices.smtp_host, notices.smtp_port, timeout=20) as server:
            server.send_message(message)

    await anyio.to_thread.run_sync(deliver, abandon_on_cancel=True)


@router.on_selected(id="webhook")
async def call_webhook(bid: Bid, ctx: Context, notices: Notices) -> None:
    contact = None if bid.contact is None else {"name": bid.contact.name, "email": bid.contact.email}
    notice = {"event": "selected", "request": bid.index, "amount": str(bid.amount), "contact": contact}
    body = json.dumps(notice).encode()
    timestamp = str(int(time.time()))
    reply = await notices.client.post(
        notices.webhook,
        content=body,
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": key(bid),
            "X-Timestamp": timestamp,
            "X-Signature": signature(notices.secret, timestamp, body),
        },
    )
    if reply.status_code == 429:
        raise RetryLater(timedelta(minutes=1), "the receiver limits the rate")
    reply.raise_for_status()


def key(bid: Bid) -> str:
    """Return the same key for each notice of a selected bid: the receiver ignores a repeated one."""
    return f"selected-{bid.index}"


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Sign time and body, so that a receiver can refuse changed and old notices."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def one_line(text: str) -> str:
    """Remove line breaks: a shipper's text must not add a header."""
    return " ".join(text.split())


async def from_environment() -> AsyncIterator[Notices]:
    """Open what the handlers share, once for the life of the bot."""
    host, _, port = os.environ.get("NOTICE_SMTP", "localhost:25").partition(":")
    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
        yield Notices(
            client=client,
            webhook=os.environ["NOTICE_WEBHOOK"],
            secret=os.environ["NOTICE_SECRET"],
            smtp_host=host,
            smtp_port=int(port or 25),
            sender=os.environ["NOTICE_FROM"],
            recipient=os.environ["NOTICE_TO"],
        )


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1:
        sys.exit("name the file of the bot: python examples/notices.py bot.db")
    if missing := [name for name in REQUIRED if not os.environ.get(name)]:
        sys.exit(f"set {', '.join(missing)}: where notices go, and the secret that signs them")
    bot = Bot(store=arguments[0], lifespan=from_environment)
    bot.include(router)
    bot.run()


if __name__ == "__main__":
    main(sys.argv[1:])
