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

from freight_exchange import Bid, Bot, Context, Offer, OfferContext, RetryLater, Router

REQUIRED = ("NOTICE_WEBHOOK", "NOTICE_SECRET", "NOTICE_FROM", "NOTICE_TO")
SMTP_PORT = 25

router = Router()


@dataclass(frozen=True)
class Notices:
    """Destination of notices. The secret is shared with the receiver of the webhook and never sent."""

    client: httpx.AsyncClient
    webhook: str
    secret: str = field(repr=False)
    smtp: str
    sender: str
    recipient: str


@router.on_selected(id="mail")
async def mail_selection(bid: Bid, ctx: Context, notices: Notices) -> None:
    contact = "unknown" if bid.contact is None else f"{bid.contact.name} <{bid.contact.email}>"
    text = f"Request {bid.ref_id or bid.index} at {await price(ctx, bid)} is ours.\nContact: {contact}\n"
    await send_mail(notices, f"selected-{bid.index}", f"Won: {bid.commodity}, {bid.origin} to {bid.destination}", text)


@router.on_selected(id="webhook")
async def post_selection(bid: Bid, ctx: Context, notices: Notices) -> None:
    contact = None if bid.contact is None else bid.contact.email
    notice = {"event": "selected", "request": bid.index, "price": await price(ctx, bid), "contact": contact}
    await call_webhook(notices, f"selected-{bid.index}", notice)


@router.on_offer(id="mail offer")
async def mail_offer(offer: Offer, ctx: OfferContext, notices: Notices) -> None:
    request = ctx.event.listing
    text = f"Offer {offer.id} on request {request.ref_id}: {await price(ctx, offer)}, {offer.terms or 'no terms'}.\n"
    subject = f"Offer: {request.commodity}, {request.origin} to {request.destination}"
    await send_mail(notices, f"offer-{offer.id}", subject, text)


@router.on_offer(id="webhook offer")
async def post_offer(offer: Offer, ctx: OfferContext, notices: Notices) -> None:
    notice = {"event": "offer", "request": ctx.event.request, "offer": offer.id, "price": await price(ctx, offer)}
    await call_webhook(notices, f"offer-{offer.id}", notice)


async def price(ctx: Context, offer: Bid | Offer) -> str:
    """Return the amount with the code of its currency, which offers name by its index at this exchange."""
    code = "?" if offer.currency is None else (await ctx.exchange.currencies.get(offer.currency)).code
    return f"{offer.amount} {code}"


async def send_mail(notices: Notices, key: str, subject: str, text: str) -> None:
    """Send a mail. Each attempt has the same `Message-ID`, made of the key."""
    message = EmailMessage()
    message["From"], message["To"] = notices.sender, notices.recipient
    message["Subject"] = " ".join(subject.split())  # a line break in another party's text must not add a header
    message["Message-ID"] = f"<{key}@{notices.sender.partition('@')[2]}>"
    message.set_content(text)

    def deliver() -> None:
        host, _, port = notices.smtp.partition(":")
        with smtplib.SMTP(host, int(port or SMTP_PORT), timeout=20) as server:
            server.send_message(message)

    await anyio.to_thread.run_sync(deliver, abandon_on_cancel=True)


async def call_webhook(notices: Notices, key: str, notice: Mapping[str, object]) -> None:
    """Post a notice. Each attempt has the same key: the receiver ignores one that it has seen."""
    body, timestamp = json.dumps(notice).encode(), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": key,
        "X-Timestamp": timestamp,
        "X-Signature": signature(notices.secret, timestamp, body),
    }
    reply = await notices.client.post(notices.webhook, content=body, headers=headers)
    if reply.status_code == 429:
        raise RetryLater(timedelta(minutes=1), "the receiver limits the rate")
    reply.raise_for_status()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Sign time and body, so that a receiver can refuse changed and old notices."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


async def from_environment() -> AsyncIterator[Notices]:
    """Open the resources that the handlers share, once for the life of the bot."""
    webhook, secret, sender, recipient = (os.environ[name] for name in REQUIRED)
    async with httpx.AsyncClient(timeout=20, trust_env=False) as client:
        yield Notices(client, webhook, secret, os.environ.get("NOTICE_SMTP", "localhost"), sender, recipient)


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
