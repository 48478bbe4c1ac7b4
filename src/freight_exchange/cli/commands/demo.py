"""Command `demo`: a trade on a sandbox exchange in this process."""

from __future__ import annotations

import time
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import anyio
import click

import freight_exchange
from freight_exchange.cli.client.runner import run
from freight_exchange.cli.render.record import format_value
from freight_sandbox import Cargo, Exchange
from freight_sandbox.server import serve

if TYPE_CHECKING:
    from freight_exchange import Bid, Context, FreightExchange, RateRequest

__all__ = ["demo"]

_RATE = Decimal("62.40")
_TIMEOUT = 30.0


@click.command
def demo() -> None:
    """Show the exchange at work: a sandbox in this process, a shipper, and a forwarder's bot that makes an offer.

    The demo uses real HTTP on a local port and leaves no files.

    \b
    Example:
      freight-exchange demo
    """
    run(_demo)


async def _demo() -> None:
    exchange = Exchange()
    async with serve(exchange) as server:
        _print_step("exchange", f"a sandbox listens at {server.url}")
        clients = [
            freight_exchange.FreightExchange(server.url, email=account.email, password=account.password)
            for account in (exchange.shipper, exchange.forwarder)
        ]
        async with clients[0] as shipper, clients[1] as forwarder:
            user = await shipper.login()
            _print_step("shipper", f"logged in as {user.first_name} {user.last_name}")
            await _trade(exchange, shipper, forwarder)
    _print_step("exchange", f"has 1 request and {len(exchange.audit_log.offers)} offer")
    click.echo('\nNow try it yourself: "freight-exchange sandbox" serves such an exchange to you and your programs.')


async def _trade(exchange: Exchange, shipper: FreightExchange, forwarder: FreightExchange) -> None:
    won = anyio.Event()
    output_errors: list[OSError] = []

    def print_bot_step(text: str) -> None:
        # The bot would retry a handler that raises, although the output is closed for good.
        try:
            _print_step("bot", text)
        except OSError as error:
            output_errors.append(error)

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
        print_bot_step(f"receives {request.ref_id}: {request.volume:f} m3 of {request.commodity}")
        bid = await ctx.offer(amount=round(_RATE * request.volume, 2), currency="USD", terms="valid 14 days")
        print_bot_step(f"offers USD {bid.amount}")

    @bot.on_selected
    async def selected(bid: Bid, ctx: Context) -> None:
        assert bid.contact is not None
        print_bot_step(f"receives the selection of its offer: call {bid.contact.name} <{bid.contact.email}>")
        won.set()

    with anyio.fail_after(_TIMEOUT):
        async with bot:
            index = exchange.publish(
                exchange.shipper,
                time.time(),
                Cargo(commodityname="Ceramic tiles", destination="Long Beach", quantity=20, packaging="pallet"),
            )
            _print_step("shipper", f"publishes request {index}: 20 pallets of ceramic tiles, Hong Kong to Long Beach")
            while not (listing := await shipper.offers.get(index)).offers:  # noqa: ASYNC110  # the service has no notifications
                await anyio.sleep(0.1)
            offer = listing.offers[0]
            _print_step("shipper", f"reads offer {offer.id} of {offer.amount}, {offer.terms}, and approves it")
            approved = await shipper.offers.approve(offer)
            assert approved.contact is not None
            _print_step("shipper", f"sees who made it: {approved.contact.name} <{approved.contact.email}>")
            await won.wait()
    if output_errors:
        raise output_errors[0]


def _print_step(role: str, text: str) -> None:
    click.echo(f"{role:>9} | {format_value(text)}")
