"""Tests of the examples that are programs: `make demo` does the main job end to end, over real HTTP."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import attrs
import pytest
from examples import demo

from freight_sandbox import Exchange

ROOT = Path(__file__).parents[3]
KEPT = demo.Counts(
    requests=12,
    offers=11,
    duplicates=0,
    missed=0,
    wrong_prices=0,
    lost_answers=3,
    in_doubt=0,
    unfinished=0,
    retries=7,
    dead_letters=1,
    selections_reported=1,
    exit_status=0,
)

Lines = list[tuple[str, str]]


def transcript_of(example: str) -> Lines:
    """Run the example, and return its lines: the speaker, and the text."""
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / example],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    parts = [line.split(" | ", 1) for line in done.stdout.splitlines() if " | " in line]
    return [(who.strip(), what.strip()) for who, what in parts]


def place(lines: Lines, who: str, words: str, *, after: int = -1) -> int:
    """Return the place of the first matching line after a line."""
    found = (at for at, line in enumerate(lines) if at > after and line[0] == who and words in line[1])
    at = next(found, None)
    assert at is not None, f"{who} does not say {words!r} after line {after} of {lines}"
    return at


def test_the_demo_kills_a_bot_and_finds_its_promises_kept() -> None:
    lines = transcript_of("demo.py")
    started = place(lines, "bot", "starts")
    place(lines, "bot", "found among your bids", after=started)
    killed = place(lines, "bot", "is gone, with status -9", after=started)
    meanwhile = place(lines, "shipper", "publishes", after=killed)
    again = place(lines, "bot", "starts", after=meanwhile)
    place(lines, "bot", "may have been sent before the last run ended", after=again)
    place(lines, "bot", "it was not taken, and its handler sends it again", after=again)
    approved = place(lines, "shipper", "approves", after=again)
    reported = place(lines, "bot", "was selected: call Paula Port", after=approved)
    place(lines, "bot", "starts", after=place(lines, "bot", "is gone, with status 0", after=reported))
    assert len({what.split()[1] for who, what in lines if who == "bot" and "starts" in what}) == 3
    # Counted once more, from the whole transcript: the closing lines must be true.
    published = [what.split()[2].rstrip(":") for who, what in lines if who == "shipper" and "publishes request" in what]
    flaky = sum("failed on" in what and "retrying in" in what for who, what in lines if who == "bot")
    closing = {who: int(what) for who, what in lines if what.isdigit()}
    assert len(set(published)) == len(published) == closing["requests"]
    # One may have been printed and not yet recorded when the bot was killed.
    assert closing["retries"] >= flaky - 1 > 3
    steady = {name.replace("_", " "): count for name, count in attrs.asdict(KEPT).items() if name != "retries"}
    assert steady.items() <= closing.items()


def test_a_tender_is_awarded_once_though_both_bots_are_killed() -> None:
    lines = transcript_of("demo_tender.py")
    place(lines, "forwarder", "is gone, with status -9")
    killed = place(lines, "tender", "is gone, with status -9")
    again = place(lines, "tender", "may have been sent before the last run ended", after=killed)
    place(lines, "tender", "is no longer in doubt: it was carried out", after=again)
    assert {who: int(what) for who, what in lines if what.strip().isdigit()} == {
        "requests": 4,
        "offers": 8,
        "offers in euros": 4,
        "awarded": 4,
        "approvals": 4,
        "approvals too many": 0,
        "wrong offer approved": 0,
        "replies lost": 1,
        "won by the forwarder": 3,
        "notified of a win": 3,
    }


def test_promises_that_are_kept() -> None:
    assert KEPT.broken() == []
    assert demo.verdict(KEPT) == 0


@pytest.mark.parametrize("name", sorted(attrs.fields_dict(demo.Counts)))
def test_a_promise_that_is_broken_ends_the_demo_with_an_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = attrs.evolve(KEPT, **{name: 0 if name == "retries" else getattr(KEPT, name) + 1})
    assert demo.verdict(wrong) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_demo_counts_requests_and_offers_by_the_exchange_and_by_the_bot() -> None:
    exchange = Exchange()
    requests = [exchange.publish(exchange.shipper, 0.0) for _ in range(4)]
    prices = dict.fromkeys(requests, Decimal(100))
    twice, dear, nothing, unheard = requests
    for request, amount in ((twice, 100), (twice, 100), (dear, 101), (unheard, 100)):
        exchange.offer(exchange.forwarder, request, 0.0, amount=amount)
    exchange.offer(exchange.rival, nothing, 0.0, amount=100)
    kept = demo.Kept(
        delivered=frozenset({twice, dear, nothing}),
        retries=2,
        dead=frozenset(),
        open=1,
        offers={"confirmed": 3, "unknown": 1},
    )
    counts = demo.Counts.of(exchange, prices, kept, reported=0, status=0)
    assert counts == attrs.evolve(
        KEPT,
        requests=4,
        offers=4,
        duplicates=1,
        missed=2,
        wrong_prices=1,
        lost_answers=0,
        in_doubt=1,
        unfinished=1,
        retries=2,
        dead_letters=0,
        selections_reported=0,
    )


def test_example_of_trading_plays_all_sides() -> None:
    lines = transcript_of("trading.py")
    for who, words in (
        ("shipper", "logged in as"),
        ("shipper", "publishes"),
        ("forwarder", "finds"),
        ("forwarder", "offers USD 1392.84"),
        ("rival", "offers USD"),
        ("shipper", "declines offer"),
        ("shipper", "approves offer"),
        ("forwarder", "selected; call"),
        ("forwarder", "creates route"),
        ("forwarder", "Ever Patient"),
    ):
        place(lines, who, words)


def test_a_watcher_that_is_killed_misses_nothing() -> None:
    lines = transcript_of("watching.py")
    starts = [at for at, line in enumerate(lines) if line[0] == "watcher" and line[1].endswith("starts")]
    killed = place(lines, "watcher", "is gone, with status -9")
    assert starts[0] < killed < starts[1]
    assert len({lines[at][1].split()[1] for at in starts}) == 2
    # Counted again from the output of both programs, to check the closing lines.
    published = [_reference(what) for who, what in lines if who == "shipper" and "publishes" in what]
    reported = [_reference(what) for who, what in lines if who == "watcher" and what.startswith("new ")]
    meanwhile = [_reference(what) for _, what in lines[killed : starts[1]] if "publishes" in what]
    assert meanwhile
    assert sorted(reported) == sorted(published)
    closing = {who: int(what) for who, what in lines if who in ("published", "seen", "missed", "repeated")}
    assert closing == {"published": len(published), "seen": len(published), "missed": 0, "repeated": 0}


def _reference(line: str) -> str:
    return next(word.rstrip(":") for word in line.split() if word.startswith("FX"))
