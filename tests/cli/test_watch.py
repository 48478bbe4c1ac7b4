"""Tests of `requests watch`; `render/test_live` tests its live view."""

from __future__ import annotations

import re
import time

import pytest
from tests.cli.harness import TILES, Shell

from freight_sandbox import Cargo

WATCH = ("requests", "watch", "--start", "backfill", "--count", "1")


def test_event_is_printed_as_line(shell: Shell) -> None:
    shell.publish()
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  new        1  FX000001  Shipping  Ceramic tiles  Hong Kong to Long Beach  9.600 m3\n",
        shell(*WATCH).out,
    )


def test_first_run_begins_at_start(shell: Shell) -> None:
    old = shell.exchange.publish(shell.exchange.shipper, time.time() - 7200, TILES)
    new = shell.publish()
    (event,) = shell("requests", "watch", "--json", "--count", "1", "--start", "1h").objects
    assert event["request"]["index"] == new
    events = shell("requests", "watch", "--json", "--count", "2", "--start", "backfill").objects
    assert {event["request"]["index"] for event in events} == {old, new}


def test_run_with_store_continues_after_last_event(shell: Shell) -> None:
    def next_index() -> int:
        (event,) = shell(*WATCH, "--store", "seen.db", "--interval", "1s", "--json").objects
        index: int = event["request"]["index"]
        return index

    published = [shell.publish() for _ in range(2)]
    assert sorted(next_index() for _ in published) == published
    last = shell.publish()
    assert next_index() == last


def test_options_filter_events(shell: Shell) -> None:
    shell.publish()
    wanted = shell.publish(Cargo(origin="Shenzhen"))
    (event,) = shell(*WATCH, "--origin", "Shenzhen", "--json").objects
    assert (event["request"]["index"], event["observed_between"][0]) == (wanted, None)


@pytest.mark.parametrize("options", [[], ["--weight", "total"]])
def test_request_of_event_equals_that_of_list(shell: Shell, options: list[str]) -> None:
    shell.publish(Cargo(requesttype="Air Freight", weight=1))
    (event,) = shell(*WATCH, "--json", *options).objects
    assert [event["request"]] == shell("requests", "list", "--json", *options).objects
