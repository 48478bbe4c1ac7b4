"""The live view of `requests watch`: events scroll by, and below them stands how the watch is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from freight_exchange.cli.commands.watch import line_of

if TYPE_CHECKING:
    from freight_exchange import Feed, FeedStatus
    from freight_exchange.feed.events import Event

__all__ = ["live", "status_line"]

_STYLES: Final = {"new": "bold green", "updated": "yellow", "withdrawn": "dim"}
_REFRESH: Final = 1.0


async def live(
    feed: Feed, pull: Callable[[Callable[[Event], None]], Awaitable[None]], console: Console | None = None
) -> None:
    """Show the view for as long as `pull` goes on, which is given what to call with each event."""
    console = Console() if console is None else console
    shown = 0
    failure: Exception | None = None

    def standing() -> Text:
        return Text(status_line(feed.status(), shown), style="dim")

    def show(event: Event) -> None:
        nonlocal shown
        shown += 1
        # What is printed then puts the line below itself, as it is.
        view.update(standing(), refresh=True)
        console.print(Text(line_of(event), style=_STYLES.get(event.kind, "bold red")), soft_wrap=True)

    # Refreshed by this loop alone: the feed is not to be asked from a thread.
    with Live(console=console, auto_refresh=False, transient=True) as view:

        async def refresh() -> None:
            while True:
                view.update(standing(), refresh=True)
                await anyio.sleep(_REFRESH)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresh)
            try:
                await pull(show)
            except Exception as error:  # noqa: BLE001 - raised below, as it came and not in a group
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def status_line(status: FeedStatus, shown: int) -> str:
    """How the watch is, in a line."""
    if status.cover_age is None:
        seen = "not seen the list yet"
    else:
        seen = f"all seen up to {status.cover_age.total_seconds():.0f} s ago"
    return f"{status.state} · {seen} · {shown} shown · Ctrl-C ends"
