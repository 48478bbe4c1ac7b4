"""Run a model from the shell, and print its flaws and what struck.

python -m tests.model watcher --runs 1000            # seeds 0 to 999
python -m tests.model watcher --runs 1000 --seed 5000 --jobs 2
python -m tests.model watcher --replay 5017          # one schedule, with the log
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.model.runner import NAIVE_SHARE, PARTS, Summary, load, summarize_on


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="schedules (default 100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the first one (default 0)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run the schedule of one seed, and log at INFO")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (default 1)")
    parser.add_argument("--without-naive", action="store_true", help="leave the naive program out")
    options = parser.parse_args()
    return _replay(options.part, options.replay) if options.replay is not None else _run(options)


def _replay(part: str, seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    result = load(part).run(seed)
    print(Summary(1, {seed: result.flaws} if result.flaws else {}, result.counts).report())
    return int(bool(result.flaws))


def _run(options: argparse.Namespace) -> int:
    total = Summary()
    seeds = range(options.seed, options.seed + options.runs)
    for total in summarize_on(options.jobs, options.part, seeds, naive=not options.without_naive):
        if sys.stderr.isatty():
            print(f"\r{total.schedules} of {options.runs}, {len(total.flaws)} flawed", end="", file=sys.stderr)
    print(total.report())
    return int(bool(total.flaws) or (total.naive is not None and total.naive_share < NAIVE_SHARE))


if __name__ == "__main__":
    sys.exit(main())
