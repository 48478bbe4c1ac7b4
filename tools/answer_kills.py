"""Kill a shipper's bot while it approves and declines offers, in real processes, and print the results as a table.

`python tools/answer_kills.py --kills 200` kills bots at the named points and at any moment, on asyncio and trio in
turn. `--without-ledger` does the same to a bot that answers by the client. Exits with 1 if a request got two approvals
or none, or a wrong offer was approved, and prints what the bot's store has of each request without one. A request whose
offers were all declined has none left to approve.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio
from tests.crash.answers.checker import FLAWS
from tests.crash.answers.kills import COLUMNS, KillTrial, draw_kills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-ledger", action="store_true", help="the handlers answer by the client")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    points: Counter[str] = Counter()
    began, seed = time.monotonic(), arguments.seed
    while counts["kills"] < arguments.kills:
        backend = "trio" if seed % 2 else "asyncio"
        plan = draw_kills(Random(seed), ledger=not arguments.without_ledger)[: arguments.kills - counts["kills"]]
        with TemporaryDirectory() as directory:
            trial = KillTrial(Path(directory), backend, seed, ledger=not arguments.without_ledger)
            counts += anyio.run(partial(trial.run, plan), backend=backend)
        points += trial.points
        for line in trial.forgotten:
            print(line, file=sys.stderr)
        print(f"seed {seed}, {backend}: {counts['kills']} kills, {time.monotonic() - began:.0f} s", file=sys.stderr)
        seed += 1
    for column in COLUMNS:
        print(f"{column:<36} {counts[column]:>5}")
    for point, number in sorted(points.items()):
        print(f"  {point:<34} {number:>5}")
    print(f"{'seconds':<36} {time.monotonic() - began:>5.0f}")
    return int(any(counts[flaw] for flaw in (*FLAWS, "in doubt at the end", "unexpected ends")))


if __name__ == "__main__":
    sys.exit(main())
