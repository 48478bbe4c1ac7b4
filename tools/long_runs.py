"""Measure weeks of a bot or a watcher in virtual time, and print the tables of the documentation.

    python tools/long_runs.py --part idle       # requests of a week: idle, and with a request a minute
    python tools/long_runs.py --part month      # memory and file of a watcher over a month
    python tools/long_runs.py --part many       # starts among 100,000 open requests
    python tools/long_runs.py --part bot        # memory, file and objects of a bot over a month

A month of a bot waits for a real disk some 300,000 times; a `--folder` in memory takes a third of the time. Exits
with 1 if a figure is worse than it should be.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import attrs

# A script's own folder is on the path, but not the root of the tree.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.lib.bot_long import BotMonth, bot_month
from tools.lib.watcher_costs import idle, month, start

PARTS: Final = ("idle", "month", "many", "bot")
_T = TypeVar("_T")
_MINUTE: Final = 60.0
_MINUTES_A_DAY: Final = 1440
_MB: Final = 1e6
_STEPS_OF_WATCHER: Final = 10_000.0
"""Bytes a day that one or two steps of the allocator, anywhere in twenty days, may look like."""
_STEPS_OF_BOT: Final = 50_000.0
"""Bytes a day that one step of the allocator by half a megabyte, in the middle of twenty days, may look like.

A leak of a hundred bytes per delivery would be three times as much.
"""


def _alone(what: Callable[..., _T], *arguments: Any) -> _T:
    """Measure in a separate process, whose memory only this measurement uses."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(what, arguments)


def _print_idle(hours: float) -> bool:
    print("| Watching | scans | of them deep | requests | beyond one a scan |\n|---|---|---|---|---|")
    good = True
    for name, period in (("idle", math.inf), ("a request a minute", _MINUTE)):
        done = _alone(idle, hours, period)
        deep = done.scans.total() - done.scans["narrow"]
        print(f"| {done.hours:g} h, {name} | {done.scans.total()} | {deep} | {done.calls} | {done.extra:.2%} |")
        good &= done.extra == 0 if period == math.inf else done.extra <= 0.1
    return good


def _print_month(days: int, folder: Path, kept: Path | None) -> bool:
    done = _alone(month, days, _MINUTE, folder / "month.db")
    if kept is not None:
        kept.write_text(json.dumps(attrs.asdict(done)))
    since = max(1, days // 3)
    slope, error = done.slope(done.resident, since)
    growth, _ = done.slope(done.file, since)
    a_tombstone = growth / _MINUTES_A_DAY
    live = (done.file[-1] - done.tombstones * a_tombstone) / max(1, done.live)
    print(f"\n| {days} days, a request a minute, SQLite | |\n|---|---|")
    print(f"| events handed out | {done.events} |")
    ends = f"{done.resident[since - 1] / _MB:.1f}, {done.resident[-1] / _MB:.1f} MB"
    print(f"| memory at the end of day {since}, {days} | {ends} |")
    print(f"| its slope from day {since} to {days} | {slope / 1000:.1f} kB a day, standard error {error / 1000:.1f} |")
    print(
        f"| requests remembered: live, tombstones; events kept | {done.live}, {done.tombstones}; {done.kept_events} |"
    )
    print(f"| bytes of the file a live request (its event included), a tombstone | {live:.0f}, {a_tombstone:.0f} |")
    print(f"| the file at the end | {done.file[-1] / _MB:.1f} MB |")
    print(f"| measured in | {done.seconds:.0f} s |")
    return abs(slope) <= max(3 * error, _STEPS_OF_WATCHER)


def _print_many(requests: int, latency: float, folder: Path) -> bool:
    print(f"\n| {requests} open requests | open | handed out | pages | processor | memory before, peak |")
    print("|---|---|---|---|---|---|")
    good, reported_before = True, 0
    for name, day in (("first start, backfill", 6.0), ("after 4 days", 10.0), ("after 6 days more", 16.0)):
        done = _alone(start, folder / "many.db", day, requests, latency)
        reported = ", ".join(f"{count} {kind}" for kind, count in sorted(done.events.items()))
        memory = f"{done.before / _MB:.0f}, {done.peak / _MB:.0f} MB"
        print(f"| {name} | {done.open} | {reported} | {done.calls} | {done.seconds:.1f} s | {memory} |")
        good &= done.whole and done.events["gap"] == (day == 16.0)
        # Only a gap excuses what lies between.
        good &= bool(done.events["gap"]) or done.first == reported_before + 1 or not reported_before
        reported_before = done.last
    return good


def _print_bot(days: int, folder: Path, interval: float, looks: float, backend: str, kept: Path | None) -> bool:
    done = _alone(bot_month, days, _MINUTE, folder / "month.db", interval, looks, backend)
    if kept is not None:
        kept.write_text(json.dumps(attrs.asdict(done)))
    _print_days(done)
    return _print_slopes(done, max(1, days // 3))


def _print_days(done: BotMonth) -> None:
    names = sorted({name for day in done.days for name in day.rows})
    print(f"| day | memory MB | objects | file MB | descriptors | tasks | {' | '.join(names)} |")
    print("|---" * (6 + len(names)) + "|")
    for number, day in enumerate(done.days, 1):
        if number in (1, 2, len(done.days)) or not number % 5:
            rows = " | ".join(str(day.rows[name]) for name in names)
            sizes = f"{day.resident / _MB:.1f} | {day.objects} | {day.file / _MB:.1f}"
            print(f"| {number} | {sizes} | {day.descriptors} | {day.tasks} | {rows} |")


def _print_slopes(done: BotMonth, since: int) -> bool:
    def change(series: Sequence[int], unit: float, name: str) -> str:
        slope, error = done.slope(series, since)
        typical = median(
            (later - early) / (far - near)
            for (near, early), (far, later) in itertools.combinations([*enumerate(series, 1)][since - 1 :], 2)
        )
        figures = f"{slope / unit:.2f} {name} a day, standard error {error / unit:.2f}"
        return f"{figures}; median slope between two days {typical / unit:.2f}"

    slope, error = done.slope(done.resident, since)
    days = len(done.days)
    print(f"\n| from day {since} to {days} | |\n|---|---|")
    print(f"| memory | {change(done.resident, 1000, 'kB')} |")
    print(f"| objects | {change([day.objects for day in done.days], 1, 'objects')} |")
    print(f"| the file | {change(done.file, 1000, 'kB')} |")
    print(
        f"| offers a request: requests | {', '.join(f'{many}: {done.offers[many]}' for many in sorted(done.offers))} |"
    )
    print(f"| deliveries | {', '.join(f'{count} {kind}' for kind, count in sorted(done.handled.items()))} |")
    print(f"| bids selected | {done.selections} |")
    print(f"| measured in | {done.seconds:.0f} s |")
    once = set(done.offers) == {1} and done.handled["selected"] == done.selections
    return once and abs(slope) <= max(3 * error, _STEPS_OF_BOT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--hours", type=float, default=7 * 24.0, help="length of idle")
    parser.add_argument("--days", type=int, default=30, help="length of month and bot")
    parser.add_argument("--requests", type=int, default=100_000, help="open requests of many")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds for a page of many")
    parser.add_argument("--interval", type=float, default=60.0, help="bot: seconds between scans")
    parser.add_argument("--looks", type=float, default=600.0, help="bot: seconds between readings of selected bids")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="bot: its event loop")
    parser.add_argument("--folder", type=Path, help="folder of the stores during the measurement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of month or bot, day by day")
    options = parser.parse_args()
    if options.days < 3:
        parser.error("a slope needs at least three days")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        match options.part:
            case "idle":
                good = _print_idle(options.hours)
            case "month":
                good = _print_month(options.days, folder, options.json)
            case "many":
                good = _print_many(options.requests, options.latency, folder)
            case _:
                good = _print_bot(options.days, folder, options.interval, options.looks, options.backend, options.json)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
