"""Kill a bot again and again while it makes offers, and count the offers that the exchange received, as a table.

`python tools/bot_kills.py --kills 240 --seed 0` makes runs of 30 kills, at every named point and at any moment, on
asyncio and trio in turn. `--without-ledger` does the same to a bot that offers directly, `--short-pages` to one that
takes a short page for the end of a listing. Exits with 1 if a request was missed, received two offers or the wrong
amount, or is not settled at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio
from tests.crash.bot.figures import Outcome, table
from tests.crash.bot.kill_run import KillRun
from tests.crash.bot.plan import Kill, draw, without_ledger

from freight_exchange.testing import FAILPOINTS

_MORE, _AT_RANDOM = 4, 2
_IN_ONE = len(FAILPOINTS) + _MORE + _AT_RANDOM


def plans(kills: int, seed: int) -> Iterator[tuple[int, list[Kill]]]:
    """Yield the seeds and plans of the runs; the last run has the remaining kills."""
    while kills > 0:
        yield seed, draw(Random(seed), FAILPOINTS, more=_MORE, at_random=_AT_RANDOM)[:kills]
        kills -= _IN_ONE
        seed += 1


def run(seed: int, plan: list[Kill], *, ledger: bool, short_pages: bool) -> Outcome:
    backend = ("asyncio", "trio")[seed % 2]
    if not ledger:
        plan = without_ledger(plan, Random(seed))
    with TemporaryDirectory() as directory:
        run = KillRun(Path(directory), backend, seed, ledger=ledger, short_pages=short_pages)
        outcome = anyio.run(run.run, plan, backend=backend)
    for flaw in outcome.result.flaws:
        print(f"seed {seed}, {backend}: {flaw}")
    for point in outcome.unhit:
        print(f"seed {seed}, {backend}: the kill {point} came too late")
    print(outcome.errors, end="")
    flaws = len(outcome.result.flaws)
    print(f"seed {seed}, {backend}: {outcome.kills.total()} kills, {flaws} flaws, {outcome.seconds:.0f} s", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=_IN_ONE)
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--without-ledger", action="store_true", help="the handler offers directly")
    parser.add_argument("--short-pages", action="store_true", help="a short page is taken for the end of a listing")
    arguments = parser.parse_args()
    outcomes = [
        run(seed, plan, ledger=not arguments.without_ledger, short_pages=arguments.short_pages)
        for seed, plan in plans(arguments.kills, arguments.seed)
    ]
    print(table(outcomes))
    return int(any(outcome.result.flaws or outcome.errors for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
