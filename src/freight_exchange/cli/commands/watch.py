"""`requests watch`: requests as they appear, change and are withdrawn: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import freight_exchange
from freight_exchange.cli.exit_status import Left
from freight_exchange.cli.filters import filter_options, filtered
from freight_exchange.cli.options import FILE, Duration, ParamType, json_option, weight_option
from freight_exchange.cli.render.freight import as_object as request_as_object
from freight_exchange.cli.render.listing import progress
from freight_exchange.cli.render.tables import instant, plain, said, show_json
from freight_exchange.cli.session import connected
from freight_exchange.hooks import Attempt

if TYPE_CHECKING:
    from freight_exchange import Feed, FreightExchange
    from freight_exchange.cargo import Per
    from freight_exchange.cli.settings import Settings
    from freight_exchange.feed.events import Event
    from freight_exchange.hooks import Event as HookEvent

__all__ = ["as_object", "line_of", "watch"]


class _Start(ParamType):
    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | str:
        return value if value in ("now", "backfill") else _BACK.convert(value, param, ctx)


_BACK = Duration(5, ", which is all that the service lists", zero=True)


@click.command
@filter_options
@click.option(
    "--store",
    type=FILE,
    metavar="FILE",
    help="Keep in this file what was shown: the next run goes on there, and misses nothing.",
)
@click.option(
    "--start",
    type=_Start(),
    default="now",
    show_default=True,
    metavar="WHEN",
    help="Where the first run begins: now, backfill (all that is listed), or a time such as 6h ago.",
)
@click.option(
    "--interval", type=Duration(1), default="30s", show_default=True, metavar="TIME", help="Between two looks."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many events.")
@weight_option
@json_option
@click.pass_obj
def watch(
    settings: Settings,
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

    Ctrl-C ends it. With --store nothing is missed between two runs, and what was shown is not shown again. Without, the
    watch begins anew each time.

    \b
    Examples:
      freight-exchange requests watch --origin Shenzhen --type air-freight
      freight-exchange requests watch --store requests.db --json | ./quote
    """
    where = filtered(filters)
    is_live = sys.stdout.isatty() and not as_json
    advance: Callable[[int], None] = _nobody

    def count_pages(event: HookEvent) -> None:
        if isinstance(event, Attempt) and event.path != "login":
            advance(1)

    async def work(exchange: FreightExchange) -> None:
        nonlocal advance
        async with AsyncExitStack() as stack:
            # A backfill reads all that is listed before it shows anything.
            with progress("looking at what is listed,", "pages") as advance:
                feed = await stack.enter_async_context(
                    exchange.watch(store=store, start=start, interval=interval, where=where)
                )
            advance = _nobody
            if not is_live:
                await _pull(feed, count, partial(_print_json, per) if as_json else _print_line)
            else:
                from freight_exchange.cli.render.live import live

                await live(feed, partial(_pull, feed, count))

    try:
        connected(settings, work, hook=count_pages)
    except KeyboardInterrupt:
        if not is_live:
            raise
        # It says itself that Ctrl-C ends it.
        raise Left from None


def _nobody(_: int) -> None:
    """Told how far it is when nobody looks."""


async def _pull(feed: Feed, count: int | None, show: Callable[[Event], None]) -> None:
    shown = 0
    async for event in feed:
        show(event)
        # Only now: what a reader did not get, because the pipe broke say, comes again.
        await event.ack()
        shown += 1
        if shown == count:
            return


def _print_json(per: Per, event: Event) -> None:
    show_json(as_object(event, per))
    sys.stdout.flush()


def _print_line(event: Event) -> None:
    click.echo(line_of(event))
    sys.stdout.flush()


def as_object(event: Event, per: Per = "unit") -> dict[str, Any]:
    """An event as a JSON object; `per` says how to read the weight of its request."""
    match event:
        case freight_exchange.RequestEvent():
            since, until = event.observed_between
            return {
                "kind": event.kind,
                "request": request_as_object(event.request, per),
                "previous": None if event.previous is None else request_as_object(event.previous, per),
                "changed": plain(event.changed),
                "observed_after": None if since is None else instant(since),
                "observed": instant(until),
            }
        case freight_exchange.Gap():
            return {"kind": event.kind, "since": instant(event.since), "until": instant(event.until)}
        case freight_exchange.SchemaChanged():
            return {
                "kind": event.kind,
                "added": plain(event.added),
                "removed": plain(event.removed),
                "requests": plain(event.requests),
                "observed": instant(event.observed),
            }
        case freight_exchange.Unreadable():
            return {
                "kind": event.kind,
                "index": event.index,
                "raw": plain(event.raw),
                "error": event.error,
                "observed": instant(event.observed),
            }


def line_of(event: Event) -> str:
    """An event as a line for people."""
    match event:
        case freight_exchange.RequestEvent(request=request):
            parts = [
                f"{event.observed_between[1].astimezone():%H:%M:%S}",
                f"{event.kind:<9}",
                str(request.index),
                said(request.ref_id),
                said(request.type),
                said(request.commodity),
                f"{said(request.origin)} to {said(request.destination)}",
                "" if request.volume is None else f"{request.volume:f} m3",
                f"changed: {said(', '.join(event.changed))}" if event.changed else "",
            ]
            return "  ".join(part for part in parts if part)
        case freight_exchange.Gap():
            return (
                f"nobody watched from {said(event.since)} to {said(event.until)}: what was updated then may be missing"
            )
        case freight_exchange.SchemaChanged():
            names = said(", ".join([*(f"+{name}" for name in event.added), *(f"-{name}" for name in event.removed)]))
            return f"the service changed the fields of its requests: {names}"
        case freight_exchange.Unreadable():
            return f"request {said(event.index)} cannot be read: {said(event.error)}"
