"""Make a campaign of kills or faults, and print its counts; the exit status is 1 if a promise was broken.

`python -m tests.crash bot --kills 240` kills bots at named points and at any moment, on asyncio and trio in turn. The
other parts are `watcher`, `answers`, `fleet` (faults of three replicas) and `answers-in-virtual-time`. With `--naive`,
the handlers call the client, as people write it: the same kills must then break a promise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from tests.crash import answers, bot, fleet, watcher
from tests.support.postgres import running_server

from freight_exchange.testing import virtual_time_options

Campaign = Callable[[Path, int, int, bool], Counter[str]]
"""Run of one seed in a directory, with at most so many kills, perhaps naive."""


def _kill_bot(directory: Path, seed: int, kills: int, naive: bool) -> Counter[str]:
    trial = bot.BotTrial(directory, seed, _backend(seed), ledger=not naive)
    plan = bot.draw_kills(Random(seed), ledger=not naive)[:kills]
    return anyio.run(trial.run, plan, backend=_backend(seed)) + _points(trial.points)


def _kill_answering_bot(directory: Path, seed: int, kills: int, naive: bool) -> Counter[str]:
    trial = answers.AnswersTrial(directory, seed, _backend(seed), ledger=not naive)
    plan = answers.draw_answer_kills(Random(seed), ledger=not naive)[:kills]
    return anyio.run(trial.run, plan, backend=_backend(seed)) + _points(trial.points)


def _crash_answering_bot(directory: Path, seed: int, kills: int, naive: bool) -> Counter[str]:
    del directory, kills
    options = virtual_time_options("trio" if seed % 2 else "asyncio")
    crash = partial(answers.crash_in_virtual_time, seed, ledger=not naive)
    counts = anyio.run(crash, backend=_backend(seed), backend_options=options)
    return counts + Counter({"kills": counts["crashes"]})


def _kill_watcher(directory: Path, seed: int, kills: int, naive: bool) -> Counter[str]:
    del naive
    trial = watcher.WatcherTrial(directory, seed, _backend(seed))
    return anyio.run(trial.run, min(kills, 24), backend=_backend(seed)) + _points(trial.points)


def _fault_fleet(directory: Path, seed: int, kills: int, naive: bool) -> Counter[str]:
    with running_server() as server:
        trial = fleet.FleetTrial(directory, server, seed, ledger=not naive)
        counts = anyio.run(trial.run, min(kills, 60))
    return counts + Counter({"kills": counts["faults"]}) + _points(trial.faults)


def _backend(seed: int) -> str:
    return "trio" if seed % 2 else "asyncio"


def _points(points: Counter[str]) -> Counter[str]:
    return Counter({f"  {point}": count for point, count in sorted(points.items())})


PARTS: Final[dict[str, tuple[Campaign, tuple[str, ...]]]] = {
    "watcher": (_kill_watcher, watcher.FLAWS),
    "bot": (_kill_bot, bot.FLAWS),
    "answers": (_kill_answering_bot, answers.FLAWS),
    "answers-in-virtual-time": (_crash_answering_bot, answers.FLAWS),
    "fleet": (_fault_fleet, fleet.FLAWS),
}
"""Campaigns, and the counts that must be zero."""


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--kills", type=int, default=30, help="kills or faults in all")
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--naive", action="store_true", help="the handlers call the client, without the ledger")
    options = parser.parse_args(arguments)
    campaign, flaws = PARTS[options.part]
    counts: Counter[str] = Counter()
    began, seed = time.monotonic(), options.seed
    while counts["kills"] < options.kills:
        with TemporaryDirectory() as directory:
            found = campaign(Path(directory), seed, options.kills - counts["kills"], options.naive)
            if (errors := Path(directory, "errors")).exists():
                print(errors.read_text(), end="", file=sys.stderr)
        counts += found
        wrong = {flaw: found[flaw] for flaw in flaws if found[flaw]}
        print(f"seed {seed}: {counts['kills']} kills, {time.monotonic() - began:.0f} s, {wrong or 'right'}", flush=True)
        seed += 1
    for name in (*(name for name in counts if not name.startswith(" ") and name not in flaws), *flaws):
        print(f"{name:<36} {counts[name]:>6}")
    for name in sorted(name for name in counts if name.startswith(" ")):
        print(f"{name:<36} {counts[name]:>6}")
    return int(any(counts[flaw] for flaw in flaws))


if __name__ == "__main__":
    sys.exit(main())
