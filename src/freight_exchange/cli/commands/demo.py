"""`demo`: the exchange at work in this process, without an account."""

from __future__ import annotations

import time
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import anyio
import click

import freight_exchange
from freight_exchange.cli.render.tables import said
from freight_exchange.cli.runner import run
from freight_exchange.sandbox import Cargo, Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp

if TYPE_CHECKING:
    from freight_exchange import Bid, Context, FreightExchange, RateRequest

__all__ = ["demo"]

_RATE = Decimal("62.40")
_PATIENCE = 30.0


@click.command
def demo() -> None:
    """Show the exchange at work: a sandbox in this process, a shipper, and a forwarder's bot that offers by itself.

    It talks over real HTTP, to a port of this machine alone, and leaves nothing behind.

    \b
    Example:
      freight-exchange demo
    """
    run(_demo)


async def _demo() -> None:
    exchange = Exchange()
    async with serve_tcp(exchange) as face:
        _say("exchange", f"a sandbox listens at {face.url}")
        people = [
            freight_exchange.FreightExchange(face.url, email=account.email, password=account.password)
            for account in (exchange.shipper, exchange.forwarder)
        ]
        async with people[0] as shipper, people[1] as forwarder:
            user = await shipper.login()
            _say("shipper", f"logged in as {user.first_name} {user.last_name}")
            await _trade(exchange, shipper, forwarder)
    calls = len(exchange.audit_log.calls)
    _say("exchange", f"saw {calls} calls, 1 request and {len(exchange.audit_log.offers)} offer")
    click.echo('\nNow try it yourself: "freight-exchange sandbox" serves such an exchange to you and your programs.')


async def _trade(exchange: Exchange, shipper: FreightExchange, forwarder: FreightExchange) -> None:
    won = anyio.Event()
    unheard: list[OSError] = []

    def tell(what: str) -> None:
        # A bot tries again what its handlers fail at, and here nobody listens any more.
        try:
            _say("bot", what)
        except OSError as error:
            unheard.append(error)

    bot = freight_exchange.Bot(
        forwarder,
        store=None,
        interval=timedelta(seconds=1),
        selection_interval=timedelta(seconds=1),
        allowance=timedelta(seconds=1),
    )

    @bot.on_new
    async def quote(request: RateRequest, ctx: Context) -> None:
        assert request.volume is not None
        tell(f"hears of {request.ref_id}: {request.volume:f} m3 of {request.commodity}")
        bid = await ctx.offer(amount=round(_RATE * request.volume, 2), currency="USD", terms="valid 14 days")
        tell(f"offers USD {bid.amount}")

    @bot.on_selected
    async def selected(bid: Bid, ctx: Context) -> None:
        assert bid.contact is not None
        tell(f"is told that its offer was selected: call {bid.contact.name} <{bid.contact.email}>")
        won.set()

    with anyio.fail_after(_PATIENCE):
        async with bot:
            index = exchange.publish(
                exchange.shipper,
                time.time(),
                Cargo(commodityname="Ceramic tiles", destination="Long Beach", quantity=20, packaging="pallet"),
            )
            _say("shipper", f"publishes request {index}: 20 pallets of ceramic tiles, Hong Kong to Long Beach")
            while not (listing := await shipper.offers.get(index)).offers:  # noqa: ASYNC110  # a service tells nobody
                await anyio.sleep(0.1)
            offer = listing.offers[0]
            _say("shipper", f"reads offer {offer.id} of {offer.amount}, {offer.terms}, and approves it")
            approved = await shipper.offers.approve(offer)
            assert approved.contact is not None
            _say("shipper", f"learns whose it was: {approved.contact.name} <{approved.contact.email}>")
            await won.wait()
    if unheard:
        raise unheard[0]


def _say(who: str, what: str) -> None:
    click.echo(f"{who:>9} | {said(what)}")
