"""Command `offers watch`: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.commands.watch import print_event_json, print_event_line, pull
from freight_exchange.cli.exit_status import QuietInterrupt
from freight_exchange.cli.options import FILE, INDEX, Duration, json_option
from freight_exchange.cli.render.record import currency_codes
from freight_exchange.cli.terminal import warn
from freight_exchange.errors import FreightExchangeError
from freight_exchange.filters import OfferFilter

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["watch_offers"]


@click.command("watch")
@click.argument("requests", type=INDEX, nargs=-1, metavar="[REQUEST]...")
@click.option(
    "--store",
    type=FILE,
    metavar="FILE",
    help="File that records the shown events, so that the next run continues there and misses none.",
)
@click.option(
    "--start",
    type=click.Choice(["now", "backfill"]),
    default="backfill",
    show_default=True,
    help="Events of the first run: those of all pending offers (backfill), or later ones only (now).",
)
@click.option(
    "--interval", type=Duration(1), default="30s", show_default=True, metavar="TIME", help="Time between two scans."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N events.")
@json_option
@click.pass_obj
def watch_offers(
    options: GlobalOptions,
    /,
    requests: Sequence[int],
    store: str | None,
    start: Literal["now", "backfill"],
    interval: timedelta,
    count: int | None,
    as_json: bool,
) -> None:
    """Watch for offers on your requests.

    It shows new, changed, answered and gone offers. Without a REQUEST, it watches all of them. Ctrl-C ends it. With
    --store, the next run continues where the last one ended, misses no event and repeats none. Without it, each run
    starts from scratch.

    \b
    Examples:
      freight-exchange offers watch
      freight-exchange offers watch 4 --store tender.db --json | ./award
    """
    where = OfferFilter(request=requests) if requests else None
    is_live = sys.stdout.isatty() and not as_json

    async def work(exchange: FreightExchange) -> None:
        async with exchange.watch_offers(store=store, start=start, interval=interval, where=where) as feed:
            if as_json:
                await pull(feed, count, partial(print_event_json, "unit"))
                return
            codes = await _currency_codes(exchange)
            if not is_live:
                await pull(feed, count, partial(print_event_line, codes=codes))
            else:
                from freight_exchange.cli.render.live import show_live

                await show_live(feed, partial(pull, feed, count), codes=codes)

    try:
        run_with_client(options, work)
    except KeyboardInterrupt:
        if not is_live:
            raise
        # Ctrl-C is the regular end of the live view.
        raise QuietInterrupt from None


async def _currency_codes(exchange: FreightExchange) -> Mapping[int, str]:
    try:
        return await currency_codes(exchange)
    except FreightExchangeError as error:
        # A watch continues despite failures.
        warn(f"The codes of currencies cannot be read, so their indexes are shown: {error}")
        return {}
