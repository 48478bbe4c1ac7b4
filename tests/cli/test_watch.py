"""Tests of `requests watch`; `render/test_live` tests its live view."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.cli.harness import TILES, Shell

from freight_exchange.cli.run import Status
from freight_sandbox import FAULTS, Cargo

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


def test_store_that_is_no_database_is_reported(shell: Shell) -> None:
    Path("seen.db").write_text("something that is not a database, and long enough to show it")
    result = shell(*WATCH, "--store", "seen.db")
    assert result.status == Status.STORE
    assert "is not a database: give another path, or move the file away" in result.err


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


def test_rejected_login_ends_watch(shell: Shell) -> None:
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    result = shell("requests", "watch")
    assert (result.status, result.out) == (Status.LOGIN_REJECTED, "")


def test_watch_survives_transient_failure(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["unavailable"](path="quote/getrequests"))
    assert shell(*WATCH, "--interval", "1s").status == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--start", "yesterday", "'yesterday' is not a duration such as 90s, 15m, 6h or 5d"),
        ("--start", "9d", "--start must be from zero to five days, which is all that the service lists"),
        ("--interval", "0s", "--interval must be"),
        ("--interval", "99999999999d", "--interval must be at most 1 day"),
        ("--store", "", "'--store': it must not be empty"),
        ("--count", "0", "'0' is not a whole number from 1"),
        ("--type", "pigeon", "'pigeon' is none of Shipping, Air Freight, Trucking, Warehousing"),
    ],
)
def test_invalid_option_is_rejected(shell: Shell, option: str, value: str, message: str) -> None:
    result = shell("requests", "watch", option, value)
    assert result.status == Status.USAGE
    assert message in result.err
