"""Adversary of the bot: servers, operators and deploys that a bot's author would not think of.

`python tools/bot_adversary.py --runs 2000 --seed 0` plays the scenarios in turn and prints a table. `--list` names
them, `--only SCENARIO` plays those whose name contains that text, `--replay SEED` with it plays one run and logs it.
Exits with 1 if an offer was made too often, a price was wrong or a delivery was lost.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.model.bot_adversary import Verdict, run, scenario_names

_COLUMNS: Final = (
    "runs",
    "offers too many",
    "wrong prices",
    "deliveries lost",
    "storms",
    "in doubt (honest)",
    "beside another's bid",
)


def play(job: tuple[str, int]) -> Verdict:
    """Play one run in a worker process."""
    logging.disable(logging.CRITICAL)
    try:
        return run(*job)
    except Exception:  # noqa: BLE001 - the next line says why
        # One that breaks the world itself is a find as well, and must not end the others.
        return Verdict(*job, lost=1, flaws=traceback.format_exc().splitlines())


def table(names: Iterable[str], verdicts: list[Verdict]) -> str:
    """Markdown table of the verdicts."""
    lines = [" | ".join(("scenario", *_COLUMNS)), " | ".join("-" * len(each) for each in ("scenario", *_COLUMNS))]
    for name in (*names, "all"):
        mine = [each for each in verdicts if name in (each.scenario, "all")]
        sums = (
            len(mine),
            sum(each.too_many for each in mine),
            sum(each.wrong for each in mine),
            sum(each.lost for each in mine),
            sum(each.storms for each in mine),
            sum(each.doubts for each in mine),
            sum(each.beside for each in mine),
        )
        lines.append(" | ".join((name, *map(str, sums))))
    return "\n".join(f"| {line} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; the others count up from it")
    parser.add_argument("--only", metavar="SCENARIO", default="", help="play scenarios whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play this one seed of the scenarios, and log it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    names = [name for name in scenario_names() if arguments.only in name]
    if arguments.list or not names:
        print("\n".join(scenario_names()))
        return int(not names)
    if arguments.replay is not None:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
        verdicts = [run(name, arguments.replay) for name in names]
    else:
        jobs = [(names[number % len(names)], arguments.seed + number) for number in range(arguments.runs)]
        began = time.monotonic()
        with multiprocessing.Pool(arguments.processes) as pool:
            verdicts = list(pool.imap_unordered(play, jobs, chunksize=4))
        elapsed = time.monotonic() - began
        print(f"{len(jobs)} runs in {elapsed:.0f} s, {len(jobs) / elapsed:.1f} a second\n")
    print(table(names, verdicts))
    bad = sorted((each.scenario, each.seed, each.flaws) for each in verdicts if each.is_bad)
    for name, seed, flaws in bad:
        print(f"\n{name}, seed {seed}:", *flaws, sep="\n  ")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
