"""Notices of won requests and of offers on your requests: a mail, and a signed webhook to another system.

Run it with `python examples/notices.py bot.db`. The exchange and the account come from the environment, as for
`bot.py`, and so do `NOTICE_SMTP`, `NOTICE_FROM`, `NOTICE_TO`, `NOTICE_WEBHOOK` and `NOTICE_SECRET`.

Each notice is a delivery of its own. If the mail server or the webhook fails, the bot calls that handler again, with
growing delays and over restarts, and keeps a dead letter after the last attempt. A notice may arrive twice, after a
crash between sending and recording it: mail and webhook carry a key by which the receiver detects it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import smtplib
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage

import anyio
import httpx

from freight_exchange import Bid, Bot, Context, Offer, OfferEvent, RetryLater, Router

REQUIRED = ("NOTICE_WEBHOOK", "NOTICE_SECRET", "NOTICE_FROM", "NOTICE_TO")

router = Router()


@dataclass(frozen=True)
class Notices:
    """Destination of notices. The secret is shared with the receiver of the webhook and never sent."""

    client: httpx.AsyncClient
    webhook: str
    secret: str = field(repr=False)
    smtp_host: str
    smtp_port: int
    sender: str
    recipient: str


# A forwarder's own offer was selected.


@router.on_selected(id="mail")
async def mail_selection(bid: Bid, ctx: Context, notices: Notices) -> None:
    contact = "unknown" if bid.contact is None else f"{bid.contact.name} <{bid.contact.email}>"
    price = f"{bid.amount} {await currency_code(ctx, bid.currency)}"
    text = f"Request {bid.ref_id or bid.index} at {price} is ours.\nContact: {contact}\n"
    await send_mail(notices, f"selected-{bid.index}", f"Won: {bid.commodity}, {bid.origin} to {bid.destination}", text)


@router.on_selected(id="webhook")
async def post_selection(bid: Bid, ctx: Context, notices: Notices) -> None:
    contact = None if bid.contact is None else {"name": bid.contact.name, "email": bid.contact.email}
    currency = await currency_code(ctx, bid.currency)
    notice = {
        "event": "selected",
        "request": bid.index,
        "amount": str(bid.amount),
        "currency": currency,
        "contact": contact,
    }
    await call_webhook(notices, f"selected-{bid.index}", notice)


# An offer came in on a shipper's own request.


@router.on_offer(id="mail offer")
async def mail_offer(offer: Offer, ctx: Context, notices: Notices) -> None:
    assert isinstance(ctx.event, OfferEvent)
    request = ctx.event.listing
    price = f"{offer.amount} {await currency_code(ctx, offer.currency)}"
    text = f"Offer {offer.id} on request {request.ref_id or request.index}: {price}, {offer.terms or 'no terms'}.\n"
    subject = f"Offer: {request.commodity}, {request.origin} to {request.destination}"
    await send_mail(notices, f"offer-{offer.id}", subject, text)


@router.on_offer(id="webhook offer")
async def post_offer(offer: Offer, ctx: Context, notices: Notices) -> None:
    assert isinstance(ctx.event, OfferEvent)
    notice = {
        "event": "offer",
        "request": ctx.event.request,
        "offer": offer.id,
        "amount": str(offer.amount),
        "currency": await currency_code(ctx, offer.currency),
    }
    await call_webhook(notices, f"offer-{offer.id}", notice)


async def currency_code(ctx: Context, currency: int | None) -> str | None:
    """Return the code of a currency, which offers name by its index at this exchange."""
    return None if currency is None else (await ctx.exchange.currencies.get(currency)).code


async def send_mail(notices: Notices, key: str, subject: str, text: str) -> None:
    """Send a mail. Each attempt has the same `Message-ID`, made of the key."""
    message = EmailMessage()
    message["From"], message["To"] = notices.sender, notices.recipient
    message["Subject"] = one_line(subject)
    message["Message-ID"] = f"<{key}@{notices.sender.partition('@')[2]}>"
    message.set_content(text)

    def deliver() -> None:
        with smtplib.SMTP(notices.smtp_host, notices.smtp_port, timeout=20) as server:
            server.send_message(message)

    await anyio.to_thread.run_sync(deliver, abandon_on_cancel=True)


async def call_webhook(notices: Notices, key: str, notice: Mapping[str, object]) -> None:
    """Post a notice. Each attempt has the same key: the receiver ignores one that it has seen."""
    body = json.dumps(notice).encode()
    timestamp = str(int(time.time()))
    reply = await notices.client.post(
        notices.webhook,
        content=body,
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": key,
            "X-Timestamp": timestamp,
            "X-Signature": signature(notices.secret, timestamp, body),
        },
    )
    if reply.status_code == 429:
        raise RetryLater(timedelta(minutes=1), "the receiver limits the rate")
    reply.raise_for_status()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Sign time and body, so that a receiver can refuse changed and old notices."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def one_line(text: str) -> str:
    """Remove line breaks: another party's text must not add a header."""
    return " ".join(text.split())


async def from_environment() -> AsyncIterator[Notices]:
    """Open the resources that the handlers share, once for the life of the bot."""
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
