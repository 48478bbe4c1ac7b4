"""Seeded runs against random paging servers.

`python tools/paging_runs.py --runs 100000 --seed 0` makes them; `--only SEED` repeats one and prints its details.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from pathlib import Path

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.model.paging import Tally, run

_CHUNK = 250


def tally(seeds: range) -> Tally:
    return Tally.of(map(run, seeds))


def replay(seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    ran = run(seed)
    print(ran.plan)
    print(f"{ran.outcome} after {ran.pages} pages; {ran.judgement}")
    return int(ran.judgement.wrong is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat this one run and print its details")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.only is not None:
        return replay(arguments.only)
    end = arguments.seed + arguments.runs
    chunks = [range(start, min(start + _CHUNK, end)) for start in range(arguments.seed, end, _CHUNK)]
    started = time.monotonic()
    total = Tally()
    with multiprocessing.Pool(arguments.processes) as pool:
        for done in pool.imap_unordered(tally, chunks):
            total.add(done)
    print(total.report())
    seconds = time.monotonic() - started
    print(f"{seconds:.0f} s, {arguments.runs / seconds / arguments.processes:.0f} servers a second and process")
    return int(bool(total.wrong) or total.decided_share < 0.99)


if __name__ == "__main__":
    sys.exit(main())
