"""Crash a shipper's bot while it approves and declines offers, and print the results as a table.

`python tools/answer_crashes.py --crashes 200` crashes bots at the named points, in virtual time, on asyncio and trio in
turn, until so many crashes have happened. `--without-ledger` does the same to a handler that answers by the client.
Exits with 1 if a request got two approvals or none, or a wrong offer was approved.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Literal

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio
from tests.crash.answers.trials import run_trial

from freight_exchange.testing import virtual_time_options

_FLAWS = ("approvals too many", "wrong offer approved", "declines too many", "not approved")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crashes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-ledger", action="store_true", help="the handler answers by the client")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    seed = arguments.seed
    while counts["crashes"] < arguments.crashes:
        backend: Literal["asyncio", "trio"] = "trio" if seed % 2 else "asyncio"
        trial = partial(run_trial, seed, ledger=not arguments.without_ledger)
        counts.update(anyio.run(trial, backend=backend, backend_options=virtual_time_options(backend)))
        counts["trials"] += 1
        print(f"seed {seed}, {backend}: {counts['crashes']} crashes so far", file=sys.stderr)
        seed += 1
    for column in ("trials", "crashes", "approvals", "declines", *_FLAWS, "dead letters"):
        print(f"{column}: {counts[column]}")
    points = {key: number for key, number in counts.items() if key.startswith("crash ")}
    print(", ".join(f"{point.removeprefix('crash ')} {number}" for point, number in sorted(points.items())))
    return int(any(counts[flaw] for flaw in _FLAWS))


if __name__ == "__main__":
    sys.exit(main())
