"""The feed of offers and a naive loop under the same random schedules, as a table.

`python tools/offers_table.py --schedules 20000`. Exits with 1 if the feed missed, invented, repeated or misreported
anything, or the naive loop did not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tests.model.offers.checker import FLAWS
from tests.model.offers.summary import count_feed, count_naive

_AT_ONCE = 250


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's seed; the others count up from it")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    end = arguments.seed + arguments.schedules
    parts = [range(begin, min(begin + _AT_ONCE, end)) for begin in range(arguments.seed, end, _AT_ONCE)]
    backends: list[Literal["asyncio", "trio"]] = ["trio" if place % 2 else "asyncio" for place in range(len(parts))]
    with ProcessPoolExecutor(arguments.processes) as pool:
        feed = sum(pool.map(count_feed, parts, backends), Counter[str]())
        naive = sum(pool.map(count_naive, parts), Counter[str]())
    columns = ("schedules", "events", *FLAWS, "flawed schedules")
    print(f"| Loop | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name, counts in (("feed of offers", feed), ("difference of the last two listings", naive)):
        print(f"| {name} | {' | '.join(str(counts[column]) for column in columns)} |")
    for found in sorted(key for key in feed if key.startswith("seed")):
        print(found)
    return int(bool(feed["flawed schedules"] or not naive["flawed schedules"]))


if __name__ == "__main__":
    sys.exit(main())
