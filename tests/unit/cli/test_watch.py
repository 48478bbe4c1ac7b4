"""`requests watch`: lines, JSON, what a store adds, and the live view of a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import attrs
import pytest
from rich.console import Console
from tests.unit.cli.rig import PATIENCE, TILES, Shell, plain, terminal

from freight_exchange import Feed, FeedStatus, Gap, RateRequest, RequestEvent, SchemaChanged, StoreError, Unreadable
from freight_exchange.cli.commands.watch import as_object, line_of
from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.render.live import live, status_line
from freight_exchange.feed.events import Event
from freight_exchange.sandbox import FAULTS, Cargo

NOON = datetime(2027, 1, 5, 12, tzinfo=UTC)
REQUEST = RateRequest(index=4, ref_id="FX4", commodity="Ti\x1bles", origin="Hong Kong", destination="Long Beach")
NEW = RequestEvent(kind="new", request=REQUEST, observed_between=(None, NOON))
UPDATED = attrs.evolve(
    NEW, kind="updated", previous=REQUEST, changed=("quantity", "weight"), observed_between=(NOON, NOON)
)
GAP = Gap(since=NOON, until=NOON + timedelta(days=7))
CHANGED = SchemaChanged(added=("urgency",), removed=("notes",), requests=(1, 2), observed=NOON)
BROKEN = Unreadable(index=7, raw={"weight": "he\x9bavy"}, error="not a number at weight", observed=NOON)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (NEW, "new        4  FX4  Ti\\x1bles  Hong Kong to Long Beach"),
        (UPDATED, "changed: quantity, weight"),
        (GAP, "nobody watched from 2027-01-05 12:00 UTC to 2027-01-12 12:00 UTC"),
        (CHANGED, "the service changed the fields of its requests: +urgency, -notes"),
        (BROKEN, "request 7 cannot be read: not a number at weight"),
    ],
)
def test_a_line_for_each_kind_of_event(event: Event, said: str) -> None:
    assert said in line_of(event)
    assert line_of(event).isprintable()


@pytest.mark.parametrize("event", [NEW, UPDATED, GAP, CHANGED, BROKEN], ids=lambda event: event.kind)
def test_an_object_for_each_kind_of_event(event: Event) -> None:
    told = as_object(event)
    assert told["kind"] == event.kind
    assert all(not isinstance(value, datetime) for value in told.values())


def test_lines_are_for_programs_too(shell: Shell) -> None:
    shell.publish()
    done = shell("requests", "watch", "--start", "backfill", "--count", "1")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  new        1  FX000001  Shipping  Ceramic tiles  Hong Kong to Long Beach  9.600 m3\n",
        done.out,
    )


def test_the_first_run_begins_where_it_is_told(shell: Shell) -> None:
    old = shell.exchange.publish(shell.exchange.shipper, time.time() - 7200, TILES)
    new = shell.publish()
    watch = ("requests", "watch", "--json", "--count", "1", "--start")
    assert json.loads(shell(*watch, "1h").out)["request"]["index"] == new
    told = [json.loads(line) for line in shell(*watch[:3], "--count", "2", "--start", "backfill").out.splitlines()]
    assert {event["request"]["index"] for event in told} == {old, new}


def test_with_a_store_it_goes_on_where_it_ended(shell: Shell) -> None:
    watch = (
        "requests",
        "watch",
        "--store",
        "seen.db",
        "--start",
        "backfill",
        "--interval",
        "1s",
        "--json",
        "--count",
        "1",
    )
    indexes = [shell.publish() for _ in range(2)]
    seen = [json.loads(shell(*watch).out)["request"]["index"] for _ in indexes]
    assert sorted(seen) == indexes
    last = shell.publish()
    assert json.loads(shell(*watch).out)["request"]["index"] == last


def test_a_store_is_held_by_one_watch_at_a_time(shell: Shell) -> None:
    shell.publish()
    Path("seen.db").write_text("something that is no database, and long enough to show it")
    done = shell("requests", "watch", "--store", "seen.db", "--count", "1")
    assert done.status == Status.STORE
    assert "is no database: give another path, or move the file away" in done.err


def test_only_what_is_wanted_is_shown(shell: Shell) -> None:
    shell.publish()
    wanted = shell.publish(Cargo(origin="Shenzhen"))
    done = shell("requests", "watch", "--start", "backfill", "--origin", "Shenzhen", "--count", "1", "--json")
    told = json.loads(done.out, parse_float=Decimal)
    assert (told["request"]["index"], told["observed_after"]) == (wanted, None)


def test_its_requests_have_what_those_of_a_list_have(shell: Shell) -> None:
    shell.publish(Cargo(requesttype="Air Freight", weight=1))
    for more in ([], ["--weight", "total"]):
        watched = shell("requests", "watch", "--start", "backfill", "--count", "1", "--json", *more).out
        assert json.loads(watched)["request"] == json.loads(shell("requests", "list", "--json", *more).out)


def test_what_a_request_was_is_said_as_what_it_is() -> None:
    told = as_object(UPDATED)
    assert told["request"] == told["previous"]
    assert {"volume", "gross_weight", "chargeable", "doubts"} <= told["previous"].keys()


def test_a_rejected_login_ends_it(shell: Shell) -> None:
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    done = shell("requests", "watch")
    assert (done.status, done.out) == (Status.LOGIN_REJECTED, "")


def test_trouble_that_passes_does_not(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["unavailable"](path="quote/getrequests"))
    assert shell("requests", "watch", "--start", "backfill", "--interval", "1s", "--count", "1").status == 0


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--start", "yesterday", "'yesterday' is no time such as 90s, 15m, 6h or 5d"),
        ("--start", "9d", "'--start': '9d' is too long: 5d is the most, which is all that the service lists"),
        ("--start", "99999999999999d", "'--start': '99999999999999d' is too long"),
        ("--interval", "0s", "'--interval': '0s' is too short: it must be more than 0s"),
        ("--interval", "99999999999d", "'--interval': '99999999999d' is too long: 1d is the most"),
        ("--store", "", "'--store': it must not be empty"),
        ("--count", "0", "0 is not in the range x>=1"),
        ("--type", "pigeon", "'pigeon' is none of Shipping, Air Freight, Trucking, Warehousing"),
    ],
)
def test_what_cannot_be_asked_for(shell: Shell, option: str, value: str, sentence: str) -> None:
    done = shell("requests", "watch", option, value)
    assert done.status == Status.USAGE
    assert sentence in done.err


def test_the_view_of_a_terminal_lives_until_ctrl_c(shell: Shell) -> None:
    shell.publish()
    arguments = ("requests", "watch", "--start", "backfill", "--interval", "1s")
    with terminal(arguments, columns=120) as (process, screen):
        shown = _read_until(screen, "Ceramic tiles")
        shell.publish(Cargo(commodityname="[red]Batteries\x1b]0;owned\x07"))
        shown += _read_until(screen, "Batteries")
        shown += _read_until(screen, "2 shown")
        os.write(screen, b"\x03")
        assert process.wait(PATIENCE) == Status.INTERRUPTED
        left = _what_is_left(screen)
    assert "Error" not in left
    assert "looking at what is listed, " in shown
    assert "live · all seen up to " in shown
    assert "[red]Batteries\\x1b]0;owned\\x07" in plain(shown)
    assert "\x1b]0;" not in shown


def test_a_long_listing_says_how_far_it_is(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["slow"](path="quote/getrequests", seconds=0.5))
    with terminal(("requests", "list"), columns=120) as (process, screen):
        shown = _read_until(screen, "12.800 W/M")
        assert process.wait(PATIENCE) == 0
    assert "reading 0 records" in shown
    assert "reading" not in plain(shown)


def _read_until(screen: int, wanted: str) -> str:
    shown, ends = "", time.monotonic() + PATIENCE
    while wanted not in plain(shown):
        assert time.monotonic() < ends, shown
        shown += os.read(screen, 65536).decode(errors="replace")
    return shown


def _what_is_left(screen: int) -> str:
    shown = ""
    with contextlib.suppress(OSError):
        while piece := os.read(screen, 65536):
            shown += piece.decode(errors="replace")
    return shown


def standing(age: timedelta | None) -> FeedStatus:
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


def test_what_ends_the_view_ends_it_as_it_came() -> None:
    class Standing:
        def status(self) -> FeedStatus:
            return standing(None)

    async def pull(show: Callable[[Event], None]) -> None:
        show(NEW)
        await anyio.lowlevel.checkpoint()
        raise StoreError("gone")

    stream = io.StringIO()
    with pytest.raises(StoreError, match="gone"):
        anyio.run(live, cast("Feed", Standing()), pull, Console(file=stream, force_terminal=True, width=100))
    assert "Ti\\x1bles" in plain(stream.getvalue())


def test_the_view_counts_while_a_backfill_scrolls_by() -> None:
    class Standing:
        def status(self) -> FeedStatus:
            return standing(None)

    async def pull(show: Callable[[Event], None]) -> None:
        for _ in range(3):
            show(NEW)

    stream = io.StringIO()
    anyio.run(live, cast("Feed", Standing()), pull, Console(file=stream, force_terminal=True, width=100))
    for shown in (1, 2, 3):
        assert f" · {shown} shown" in stream.getvalue()


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (None, "priming · not seen the list yet · 0 shown"),
        (timedelta(seconds=12.4), "priming · all seen up to 12 s ago"),
    ],
)
def test_the_status_line(age: timedelta | None, said: str) -> None:
    assert status_line(standing(age), 0).startswith(said)
