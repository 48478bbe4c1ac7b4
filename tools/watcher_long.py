"""What a watcher costs over days: polls, memory, and starts among very many requests; in virtual time.

`python tools/watcher_long.py` measures all of it and prints the tables; `idle`, `month` or `many` measures that alone.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.watcher_costs import idle, month, start

_T = TypeVar("_T")
_MINUTE: Final = 60.0
_MINUTES_A_DAY: Final = 1440
_MB: Final = 1e6
_STEPS: Final = 10_000.0
"""Bytes a day that a step or two of the allocator, anywhere in twenty days, look like."""


def _alone(what: Callable[..., _T], *arguments: Any) -> _T:
    """In a process of its own, whose memory is of this measurement only."""
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
    return abs(slope) <= max(3 * error, _STEPS)


def _print_many(requests: int, latency: float, folder: Path) -> bool:
    print(f"\n| {requests} open requests | open | handed out | pages | processor | memory before, peak |")
    print("|---|---|---|---|---|---|")
    good, told_before = True, 0
    for name, day in (("first start, backfill", 6.0), ("after 4 days", 10.0), ("after 6 days more", 16.0)):
        done = _alone(start, folder / "many.db", day, requests, latency)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(done.events.items()))
        memory = f"{done.before / _MB:.0f}, {done.peak / _MB:.0f} MB"
        print(f"| {name} | {done.open} | {told} | {done.calls} | {done.seconds:.1f} s | {memory} |")
        good &= done.whole and done.events["gap"] == (day == 16.0)
        # Only a gap excuses what lies between.
        good &= bool(done.events["gap"]) or done.first == told_before + 1 or not told_before
        told_before = done.last
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=("idle", "month", "many", []), help="all, unless told")
    parser.add_argument("--hours", type=float, default=7 * 24.0, help="of idle")
    parser.add_argument("--days", type=int, default=30, help="of the month")
    parser.add_argument("--requests", type=int, default=100_000, help="that are many")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds that a page takes, where they are many")
    parser.add_argument("--folder", type=Path, help="where the stores' files lie while they are measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the month's figures, day by day")
    arguments = parser.parse_args()
    if arguments.days < 3:
        parser.error("a slope wants three days at least")
    what = arguments.what or ["idle", "month", "many"]
    good = True
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if "idle" in what:
            good &= _print_idle(arguments.hours)
        if "month" in what:
            good &= _print_month(arguments.days, Path(folder), arguments.json)
        if "many" in what:
            good &= _print_many(arguments.requests, arguments.latency, Path(folder))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
