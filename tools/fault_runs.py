"""Seeded fault runs over the writes.

`python tools/fault_runs.py --runs 100000 --seed 0` makes them in process and in virtual time, against the sandbox.
With `--transport` (`own`, `httpx`, ... or `all`) they are made over real sockets, against a server that shares nothing
with the SDK or the sandbox. `--only SEED` repeats one run and prints its details.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.model import fault_runs, socket_runs

_CHUNK = 250

T = TypeVar("T")


def tally(seeds: range) -> fault_runs.Tally:
    return fault_runs.Tally.of(map(fault_runs.run, seeds))


def tally_over(transport: socket_runs.Transport, seeds: range) -> socket_runs.Tally:
    return socket_runs.tally(transport, seeds, socket_runs.backend_of(transport, seeds.start))


def replay(seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    ran = fault_runs.run(seed)
    print(ran.plan)
    print(f"fired on the write (name, carried out first): {ran.fired}")
    print(f"{ran.outcome}; {ran.judgement}")
    return int(ran.judgement.wrong is not None)


def replay_over(transport: socket_runs.Transport, seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    ran = socket_runs.repeat(transport, seed)
    print(ran.plan)
    print(f"fired (name, carried out first): {ran.fired}")
    print(*ran.endings, sep="\n")
    print(*(f"WRONG: {judgement}" for judgement in ran.judgements), sep="\n")
    return int(bool(ran.judgements))


def in_process(seeds: range, processes: int) -> bool:
    total = fault_runs.Tally()
    _each(tally, seeds, processes, total.add)
    print(total.report())
    return not total.wrong and total.decided_share >= 0.99 and total.naive > 0


def over_sockets(transport: socket_runs.Transport, seeds: range, processes: int) -> bool:
    total = socket_runs.Tally(transport)
    started = time.monotonic()
    _each(partial(tally_over, transport), seeds, processes, total.add)
    print(total.report())
    print(f"  {len(seeds) / (time.monotonic() - started):.0f} runs a second", flush=True)
    return total.is_clean


def _each(make: Callable[[range], T], seeds: range, processes: int, add: Callable[[T], None]) -> None:
    chunks = [range(start, min(start + _CHUNK, seeds.stop)) for start in range(seeds.start, seeds.stop, _CHUNK)]
    with multiprocessing.Pool(processes) as pool:
        for done in pool.imap_unordered(make, chunks):
            add(done)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first run's seed; the others count up from it")
    parser.add_argument("--only", type=int, metavar="SEED", help="repeat this one run and print its details")
    parser.add_argument("--transport", choices=[*socket_runs.TRANSPORTS, "all"], help="over real sockets, through this")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    chosen = arguments.transport
    if arguments.only is not None:
        return replay(arguments.only) if chosen is None else replay_over(chosen, arguments.only)
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    started = time.monotonic()
    if chosen is None:
        clean = in_process(seeds, arguments.processes)
    else:
        transports = socket_runs.TRANSPORTS if chosen == "all" else (chosen,)
        # A list: each of them is to run, whatever came of the ones before.
        clean = False not in [over_sockets(transport, seeds, arguments.processes) for transport in transports]
    print(f"{time.monotonic() - started:.0f} s")
    return int(not clean)


if __name__ == "__main__":
    sys.exit(main())
