"""Seeded schedules of trouble for the watcher, beside naive loops.

`python tools/watcher_runs.py --runs 100000 --seed 0` makes them and prints a table; `--replay SEED` makes one again,
and prints its schedule and its history. Exits with 1 if anything was missed, repeated or claimed without proof. What
is interrupted prints the table of the schedules that had ended.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.model.watcher import Ran, Tally, draw, run
from tests.model.watcher.clocks import BEGAN

_CHUNK = 100


def tally(seeds: range) -> Tally:
    logging.disable(logging.CRITICAL)
    return Tally.of(seeds)


def replay(seed: int) -> int:
    ran = run(draw(seed))
    print(ran.plan)
    for time_of_it, line in sorted(_lines(ran)):
        print(f"{time_of_it - BEGAN:14.3f}  {line}")
    for flaw in ran.flaws:
        print(f"{flaw.kind}: {flaw.what}")
    print(f"{len(ran.flaws)} flaws")
    return int(bool(ran.flaws))


def _lines(ran: Ran) -> Iterator[tuple[float, str]]:
    history = ran.history
    for change in history.audit_log.changes:
        shown = history.shown_at(change.time) - BEGAN
        yield change.time, f"request {change.request} {change.what}, shown from {shown:.3f} on: {change.state.cargo}"
    for call in history.audit_log.calls:
        yield call.time, f"{call.method} {call.path} {dict(call.parameters)} -> {call.status} {call.fault or ''}"
    for note in history.notes:
        about = f"covered up to {note.until - BEGAN:.3f}" if note.kind == "cover" else f"{note.kind} {note.index}"
        yield note.time, f"written down: {about}"
    for gap in history.gaps:
        yield gap.time, f"written down: a gap from {gap.since - BEGAN:.3f} to {gap.until - BEGAN:.3f}"
    for delivery in history.deliveries:
        yield delivery.time, f"handed out: {delivery}"


def _ends_with_its_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--replay", type=int, metavar="SEED", help="make this one run, and print all of it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.replay is not None:
        return replay(arguments.replay)
    end = arguments.seed + arguments.runs
    chunks = [range(start, min(start + _CHUNK, end)) for start in range(arguments.seed, end, _CHUNK)]
    started = time.monotonic()
    total = Tally()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with multiprocessing.Pool(arguments.processes, _ends_with_its_parent) as pool:
        try:
            for done in pool.imap_unordered(tally, chunks):
                total.add(done)
                if done.failed:
                    print(f"seeds with a flaw: {sorted(done.failed)}", flush=True)
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            print("interrupted; until then:")
    print(total.report())
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    return int(bool(total.failed) or total.naive_share < 0.2)


if __name__ == "__main__":
    sys.exit(main())
