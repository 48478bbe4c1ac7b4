"""Command `requests watch`: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.enum_choice import ParamType
from freight_exchange.cli.exit_status import QuietInterrupt
from freight_exchange.cli.options import (
    FILE,
    Duration,
    build_filter,
    filter_options,
    json_option,
    weight_option,
)
from freight_exchange.cli.render.event import event_to_json, format_event
from freight_exchange.cli.render.listing import show_progress
from freight_exchange.cli.render.record import print_json
from freight_exchange.feed.core.planning.schedule import DEEPEST
from freight_exchange.feed.events import Acknowledgeable
from freight_exchange.hooks import Scan, ScanProgress

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, OfferEvent
    from freight_exchange.cargo import Per
    from freight_exchange.cli.options import GlobalOptions
    from freight_exchange.feed.events import Event
    from freight_exchange.feed.stream import EventStream
    from freight_exchange.hooks import Event as HookEvent

__all__ = ["print_event_json", "print_event_line", "pull", "watch"]

EventT = TypeVar("EventT", bound=Acknowledgeable)


class _Start(ParamType):
    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | str:
        return value if value in ("now", "backfill") else _LOOKBACK.convert(value, param, ctx)


_LOOKBACK = Duration(5, ", which is all that the service lists", allow_zero=True)


@click.command
@filter_options
@click.option(
    "--store",
    type=FILE,
    metavar="FILE",
    help="File that records the shown events, so that the next run continues there and misses none.",
)
@click.option(
    "--start",
    type=_Start(),
    default="now",
    show_default=True,
    metavar="WHEN",
    help="Start of the first run: now, backfill (all listed requests), or a time ago such as 6h.",
)
@click.option(
    "--interval", type=Duration(1), default="30s", show_default=True, metavar="TIME", help="Time between two scans."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N events.")
@weight_option
@json_option
@click.pass_obj
def watch(
    options: GlobalOptions,
    /,
    store: str | None,
    start: Any,
    interval: timedelta,
    count: int | None,
    per: Per,
    as_json: bool,
    **filters: Any,
) -> None:
    """Watch for requests: new, changed and withdrawn ones.

    Ctrl-C ends it. With --store, the next run continues where the last one ended, misses no event and repeats none.
    Without it, each run starts from scratch.

    \b
    Examples:
      freight-exchange requests watch --origin Shenzhen --type air-freight
      freight-exchange requests watch --store requests.db --json | ./quote
    """
    request_filter = build_filter(filters)
    is_live = sys.stdout.isatty() and not as_json
    advance: Callable[[int], None] = _ignore
    progress = ExitStack()

    def show_first_scan(event: HookEvent) -> None:
        if isinstance(event, ScanProgress) and event.first:
            advance(1)
        elif isinstance(event, Scan) and event.tier == DEEPEST.name:
            progress.close()

    async def work(exchange: FreightExchange) -> None:
        nonlocal advance
        with progress:
            advance = progress.enter_context(show_progress("pages read:"))
            async with exchange.watch(store=store, start=start, interval=interval, where=request_filter) as feed:
                if sys.stdout.isatty():
                    # Events are shown on the same terminal; the live view shows the progress in its status line.
                    progress.close()
                    advance = _ignore
                if not is_live:
                    await pull(feed, count, partial(print_event_json, per) if as_json else print_event_line)
                else:
                    from freight_exchange.cli.render.live import show_live

                    await show_live(feed, partial(pull, feed, count))

    try:
        run_with_client(options, work, hook=show_first_scan)
    except KeyboardInterrupt:
        if not is_live:
            raise
        # Ctrl-C is the regular end of the live view.
        raise QuietInterrupt from None


def _ignore(count: int) -> None:
    """Show no progress."""


async def pull(feed: EventStream[EventT], limit: int | None, show: Callable[[EventT], None]) -> None:
    """Show the events of a feed, each acknowledged once it is shown; stop after `limit`."""
    count = 0
    async for event in feed:
        show(event)
        # After the output: an event that a closed pipe lost is shown again.
        await event.ack()
        count += 1
        if count == limit:
            return


def print_event_json(per: Per, event: Event | OfferEvent) -> None:
    """Print an event as a line of JSON."""
    print_json(event_to_json(event, per))
    sys.stdout.flush()


def print_event_line(event: Event | OfferEvent, *, codes: Mapping[int, str] | None = None) -> None:
    """Print an event as a line for people; `codes` as in `format_event`."""
    click.echo(format_event(event, codes))
    sys.stdout.flush()
