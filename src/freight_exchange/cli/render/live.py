"""Live view of a watch: events scroll by above a status line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from freight_exchange.cli.render.event import format_event

if TYPE_CHECKING:
    from freight_exchange import Feed, FeedStatus, OfferEvent, OfferFeed, OfferFeedStatus
    from freight_exchange.feed.events import Event

__all__ = ["format_status", "show_live"]

_STYLES: Final = {
    "new": "bold green",
    "updated": "yellow",
    "changed": "yellow",
    "answered": "bold cyan",
    "withdrawn": "dim",
    "gone": "dim",
}
_REFRESH_INTERVAL: Final = 1.0


async def show_live(
    feed: Feed | OfferFeed,
    pull: Callable[[Callable[[Any], None]], Awaitable[None]],
    console: Console | None = None,
    *,
    codes: Mapping[int, str] | None = None,
) -> None:
    """Show the view until `pull` ends. `pull` calls its argument with each event; `codes` as in `format_event`."""
    console = Console() if console is None else console
    event_count = 0
    failure: Exception | None = None

    def status_text() -> Text:
        # On one line: a longer one would flicker as it is redrawn.
        return Text(format_status(feed.status(), event_count), style="dim", no_wrap=True, overflow="ellipsis")

    def show(event: Event | OfferEvent) -> None:
        nonlocal event_count
        event_count += 1
        # Before the line is printed: printing redraws the status as it is.
        view.update(status_text(), refresh=True)
        console.print(Text(format_event(event, codes), style=_STYLES.get(event.kind, "bold red")), soft_wrap=True)

    # No automatic refresh: it would read the feed's status in a thread.
    with Live(console=console, auto_refresh=False, transient=True) as view:

        async def refresh() -> None:
            while True:
                view.update(status_text(), refresh=True)
                await anyio.sleep(_REFRESH_INTERVAL)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresh)
            try:
                await pull(show)
            except Exception as error:  # noqa: BLE001 - raised below, outside of the task group
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def format_status(status: FeedStatus | OfferFeedStatus, event_count: int) -> str:
    """Format the status of a watch as a line."""
    if status.cover_age is None:
        coverage = "list not read yet"
    else:
        coverage = f"all seen up to {status.cover_age.total_seconds():.0f} s ago"
    pages = f"{status.pages} page{'' if status.pages == 1 else 's'}"
    progress = f" · {pages} read" if status.state == "priming" and status.pages else ""
    return f"{status.state}{progress} · {coverage} · {event_count} shown · Ctrl-C ends"
