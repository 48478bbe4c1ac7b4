"""Seeded runs of the watcher against strange servers.

`python tools/strange_server_runs.py --runs 20000 --seed 0` makes them, `--only HABIT` with no other habit;
`--replay SEED` makes one again, and says all about it.
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

from tests.model.strange_servers import HABITS, Tally, draw, judge, run, watch

_CHUNK = 50


def tally(work: tuple[range, tuple[str, ...]]) -> Tally:
    # A strange server is a reason to warn; here it is what is wanted.
    logging.disable(logging.ERROR)
    total = Tally()
    total.add(run(seed, work[1]) for seed in work[0])
    return total


def replay(seed: int, only: tuple[str, ...], index: int | None) -> int:
    schedule = draw(seed, only)
    log, server = watch(schedule)
    finds = judge(schedule, log, server)
    print(schedule.names, schedule.habits)
    print(
        f"start {schedule.start}, interval {schedule.interval}, quiet from {schedule.active:.0f} to {schedule.end:.0f}"
    )
    print("sessions:", *schedule.sessions, "live:", log.live)
    for find in finds:
        print(find)
    wanted = index if index is not None else next((find.index for find in finds if not find.excuse), None)
    if wanted is not None:
        print(*schedule.market.versions(wanted), sep="\n")
        stamps = {row.stamp for at in (s.at for s in server.served) if (row := schedule.market.rows(at).get(wanted))}
        print("stamps:", sorted(stamps))
        lines = [(told.at, f"TOLD {told}") for told in log.told if told.index in (wanted, None)]
        lines += [(at, "Degraded") for at in log.degraded] + [(at, "Recovered") for at in log.recovered]
        lines += [(cover.at, f"complete {cover.rung}, covered {cover.since:.0f}") for cover in log.covers]
        for served in server.served:
            shown = f"{len(served.rows)} rows, {wanted}: {served.rows.get(wanted)}"
            lines.append((served.at, f"{served.asked} {served.note} {served.body} -> {shown}"))
        for at, line in sorted(lines):
            print(f"{at:9.1f} {line}")
    return int(any(not find.excuse for find in finds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--only", action="append", default=[], choices=sorted(HABITS), help="draw these habits alone")
    parser.add_argument("--replay", type=int, metavar="SEED", help="make this one run, and say all about it")
    parser.add_argument("--index", type=int, help="the request to tell about in a replay")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    only = tuple(arguments.only)
    if arguments.replay is not None:
        return replay(arguments.replay, only, arguments.index)
    end = arguments.seed + arguments.runs
    chunks = [(range(start, min(start + _CHUNK, end)), only) for start in range(arguments.seed, end, _CHUNK)]
    started = time.monotonic()
    total = Tally()
    with multiprocessing.Pool(arguments.processes) as pool:
        for done in pool.imap_unordered(tally, chunks):
            total.merge(done)
    print(total.report())
    print(f"{time.monotonic() - started:.0f} s")
    return int(total.broken > 0)


if __name__ == "__main__":
    sys.exit(main())
