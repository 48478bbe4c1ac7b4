"""Tests of the live view."""

from __future__ import annotations

import io
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import anyio
import anyio.lowlevel
import attrs
import pytest
from rich.console import Console
from tests.unit.cli.harness import TIMEOUT, Shell, open_terminal, render_screen

from freight_exchange import Feed, FeedStatus, RateRequest, RequestEvent, StoreError
from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.render.live import format_status, show_live
from freight_exchange.feed.events import Event
from freight_sandbox import FAULTS, Cargo

NEW = RequestEvent(
    kind="new",
    request=RateRequest(index=4, commodity="Ti\x1bles"),
    observed_between=(None, datetime(2027, 1, 5, 12, tzinfo=UTC)),
)


def make_status(age: timedelta | None = None) -> FeedStatus:
    return FeedStatus(
        state="priming",
        cover_age=age,
        last_success=None,
        window=timedelta(0),
        pages=0,
        clamp=None,
        allowance=timedelta(0),
        late=0,
        unacknowledged=0,
        gaps=(),
    )


class FakeFeed:
    def status(self) -> FeedStatus:
        return make_status()


def run_view(stream: io.StringIO, pull: Callable[[Callable[[Event], None]], Awaitable[None]]) -> None:
    anyio.run(show_live, cast("Feed", FakeFeed()), pull, Console(file=stream, force_terminal=True, width=100))


def test_view_raises_error_of_pull_unwrapped() -> None:
    async def pull(show: Callable[[Event], None]) -> None:
        show(NEW)
        await anyio.lowlevel.checkpoint()
        raise StoreError("gone")

    stream = io.StringIO()
    with pytest.raises(StoreError, match="gone"):
        run_view(stream, pull)
    assert "Ti\\x1bles" in render_screen(stream.getvalue())


def test_status_line_fits_narrow_terminals() -> None:
    async def pull(show: Callable[[Event], None]) -> None:
        show(NEW)

    stream = io.StringIO()
    anyio.run(show_live, cast("Feed", FakeFeed()), pull, Console(file=stream, force_terminal=True, width=30))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).splitlines()
    status_lines = [line for line in lines if "priming" in line]
    assert status_lines
    assert max(map(len, status_lines)) <= 30


def test_view_counts_events_during_backfill() -> None:
    async def pull(show: Callable[[Event], None]) -> None:
        for _ in range(3):
            show(NEW)

    stream = io.StringIO()
    run_view(stream, pull)
    for count in (1, 2, 3):
        assert f" · {count} shown" in stream.getvalue()


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (None, "priming · list not read yet · 0 shown"),
        (timedelta(seconds=12.4), "priming · all seen up to 12 s ago"),
    ],
)
def test_status_line_shows_coverage(age: timedelta | None, text: str) -> None:
    assert format_status(make_status(age), 0).startswith(text)


def test_status_line_shows_progress_of_the_first_scan() -> None:
    status = attrs.evolve(make_status(timedelta(seconds=3)), pages=12)
    assert format_status(status, 40).startswith("priming · 12 pages read · all seen up to 3 s ago · 40")


def test_watch_into_a_pipe_shows_progress_of_the_first_scan(shell: Shell) -> None:
    shell.exchange.profile = attrs.evolve(shell.exchange.profile, rows_clamp=1)
    for _ in range(8):
        shell.publish()
    result = shell("requests", "watch", "--start", "backfill", "--count", "8", typed="")
    assert result.status == 0
    assert result.out.count("Ceramic tiles") == 8
    assert re.search("pages read: [1-9]", result.err)


def test_watch_on_terminal_runs_until_ctrl_c(shell: Shell) -> None:
    shell.publish()
    with open_terminal(("requests", "watch", "--start", "backfill", "--interval", "1s")) as terminal:
        output = terminal.read_until("Ceramic tiles")
        shell.publish(Cargo(commodityname="[red]Batteries\x1b]0;owned\x07"))
        output += terminal.read_until("Batteries")
        output += terminal.read_until("2 shown")
        terminal.type(b"\x03")
        assert terminal.process.wait(TIMEOUT) == Status.INTERRUPTED
        rest = terminal.read_rest()
    assert "Error" not in rest
    assert "pages read: " in output
    assert "live · all seen up to " in output
    assert "[red]Batteries\\x1b]0;owned\\x07" in render_screen(output)
    assert "\x1b]0;" not in output


def test_slow_listing_shows_transient_progress(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["slow"](path="quote/getrequests", seconds=0.5))
    with open_terminal(("requests", "list")) as terminal:
        output = terminal.read_until("12.800 W/M")
        assert terminal.process.wait(TIMEOUT) == 0
    assert "records read: 0" in output
    assert "records read" not in render_screen(output)
