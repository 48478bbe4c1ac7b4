"""Commands `requests watch` and `offers watch`: a live view on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from freight_exchange import OfferFilter, RequestFilter
from freight_exchange.cli import options as opt
from freight_exchange.cli.login import connect
from freight_exchange.cli.run import Interrupted, warn
from freight_exchange.cli.show import Out, counted, progress, text_of
from freight_exchange.errors import FreightExchangeError
from freight_exchange.hooks import Scan, ScanProgress

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.hooks import Event as HookEvent

__all__ = ["watch", "watch_offers"]

_DEEPEST: Final = "five days"
_REFRESH_INTERVAL: Final = 1.0
_STYLES: Final = {
    "new": "bold green", "updated": "yellow", "changed": "yellow", "answered": "bold cyan", "withdrawn": "dim",
    "gone": "dim",
}  # fmt: skip


def _feed_options(command: opt.AnyCommand) -> opt.AnyCommand:
    store = "File that records the shown events, so that the next run continues there and misses none."
    interval = {"default": "30s", "show_default": True, "help": "Time between two scans."}
    command = click.option("--count", type=opt.index, metavar="N", help="Stop after N events.")(opt.as_json(command))
    command = click.option("--interval", type=opt.duration, metavar="TIME", **interval)(command)  # type: ignore[arg-type]
    return click.option("--store", type=opt.file_path, metavar="FILE", help=store)(command)


@click.command(cls=opt.Command)
@opt.made_from(opt.fields_of(RequestFilter))
@click.option(
    "--start",
    type=opt.duration,
    default="now",
    show_default=True,
    metavar="WHEN",
    help="Start of the first run: now, backfill (all listed requests), or a time ago such as 6h.",
)
@_feed_options
@opt.weight(default="unit", show_default=True)
@click.pass_obj
def watch(
    options: opt.Options, /, store: str | None, start: Any, interval: Any, count: int | None, out: Out, **filters: Any
) -> None:
    """Watch for requests: new, changed and withdrawn ones.

    Ctrl-C ends it. With --store, the next run continues where the last one ended, misses no event and repeats none.
    Without it, each run starts from scratch.

    $ requests watch --origin Shenzhen --type air-freight
    $ requests watch --store requests.db --json | ./quote
    """
    where = RequestFilter(**{name: value for name, value in filters.items() if value not in (None, ())})
    first_scan = ExitStack()
    advance: list[Callable[[int], None]] = []

    def show_first_scan(event: HookEvent) -> None:
        if isinstance(event, ScanProgress) and event.first:
            for step in advance:
                step(1)
        elif isinstance(event, Scan) and event.tier == _DEEPEST:
            first_scan.close()

    async def work(exchange: FreightExchange) -> None:
        with first_scan:
            advance.append(first_scan.enter_context(progress("pages read:")))
            async with exchange.watch(store=store, start=start, interval=interval, where=where) as feed:
                if sys.stdout.isatty():
                    # Events are shown on the same terminal; the live view has the progress in its status line.
                    first_scan.close()
                    advance.clear()
                await _show(feed, count, out)

    _watch(options, work, out, show_first_scan)


@click.command("watch", cls=opt.Command)
@click.argument("requests", type=opt.index, nargs=-1, metavar="[REQUEST]...")
@opt.choice("--start", ["now", "backfill"], "First run: all pending offers (backfill), or later ones only.", "backfill")
@_feed_options
@click.pass_obj
def watch_offers(
    options: opt.Options, /, requests: Sequence[int], count: int | None, out: Out, **feed_options: Any
) -> None:
    """Watch for offers on your requests.

    It shows new, changed, answered and gone offers. Without a REQUEST, it watches all of them. Ctrl-C ends it. With
    --store, the next run continues where the last one ended, misses no event and repeats none. Without it, each run
    starts from scratch.

    $ offers watch
    $ offers watch 4 --store tender.db --json | ./award
    """
    where = OfferFilter(request=requests) if requests else None

    async def work(exchange: FreightExchange) -> None:
        async with exchange.watch_offers(where=where, **feed_options) as feed:
            if not out.format:
                try:
                    await out.read_codes(exchange)
                except FreightExchangeError as error:
                    # A watch continues despite failures.
                    warn(f"The codes of currencies cannot be read, so their indexes are shown: {text_of(error)}")
            await _show(feed, count, out)

    _watch(options, work, out)


def _watch(
    options: opt.Options,
    work: Callable[[FreightExchange], Awaitable[None]],
    out: Out,
    hook: Callable[[HookEvent], None] | None = None,
) -> None:
    try:
        connect(options, work, hook=hook)
    except Interrupted as error:
        # Ctrl-C is the regular end of the live view.
        raise Interrupted(error.number, is_reported=not _is_live(out)) from None


def _is_live(out: Out) -> bool:
    return sys.stdout.isatty() and not out.format


async def _show(feed: Any, count: int | None, out: Out) -> None:
    """Show the events of a feed, each acknowledged once it is shown; stop after `count`."""

    def line(event: Any) -> None:
        if out.format:
            out.json(event)
        else:
            click.echo(out.line(event))
        sys.stdout.flush()

    async def pull(show: Callable[[Any], None]) -> None:
        shown = 0
        async for event in feed:
            show(event)
            # After the output: an event that a closed pipe lost is shown again.
            await event.ack()
            shown += 1
            if shown == count:
                return

    await (_show_live(feed, pull, out) if _is_live(out) else pull(line))


async def _show_live(feed: Any, pull: Callable[[Callable[[Any], None]], Awaitable[None]], out: Out) -> None:
    """Show events that scroll by above a status line."""
    import anyio
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    shown = 0

    def show(event: Any) -> None:
        nonlocal shown
        shown += 1
        # Before the line is printed: printing redraws the status as it is.
        refresh()
        console.print(Text(out.line(event), style=_STYLES.get(event.kind, "bold red")), soft_wrap=True)

    def refresh() -> None:
        # On one line: a longer one would flicker as it is redrawn.
        text = Text(_status_of(feed.status(), shown), style="dim", no_wrap=True, overflow="ellipsis")
        view.update(text, refresh=True)

    async def refresh_regularly() -> None:
        while True:
            refresh()
            await anyio.sleep(_REFRESH_INTERVAL)

    # No automatic refresh: it would read the feed's status in a thread.
    with Live(console=console, auto_refresh=False, transient=True) as view:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresh_regularly)
            await pull(show)
            tasks.cancel_scope.cancel()


def _status_of(status: Any, shown: int) -> str:
    age = status.cover_age
    coverage = "list not read yet" if age is None else f"all seen up to {age.total_seconds():.0f} s ago"
    first = f" · {counted(status.pages, 'page')} read" if status.state == "priming" and status.pages else ""
    return f"{status.state}{first} · {coverage} · {shown} shown · Ctrl-C ends"
