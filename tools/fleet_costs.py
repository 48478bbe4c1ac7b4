"""Costs of a fleet on PostgreSQL: fail-over, throughput compared with procrastinate, latency, scaling, and the fence.

`python tools/fleet_costs.py --part PART` starts a server of its own, with its defaults (fsync on), and prints a table;
`--quick` is a first look. `--part throughput` needs procrastinate, which is in the environment of `make bench`:
`.venvs/bench/bin/python tools/fleet_costs.py --part throughput`. Throughput is measured while the queue is topped up,
so that as many deliveries wait at the end as at the beginning.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import attrs

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.lib.fence_costs import fence_costs
from tools.lib.measured_failover import Failover, fail_over
from tools.lib.measured_processes import MeasuredProcesses
from tests.support.postgres import running_server
from tools.lib.waiting_queue import BotQueue, PeerQueue, Queue, empty_database

__all__ = ["Size", "percentile", "rate", "scaling", "throughput", "wait_for", "waiting", "wakeup"]

_REPLICAS: Final = 4
_HANDLER_LATENCY: Final = 0.05
_SCALING_CONCURRENCY: Final = 2
_TOP_UP_INTERVAL: Final = 0.1
_WARM_UP: Final = 2.0
_TIMEOUT: Final = 60.0


@attrs.frozen(kw_only=True)
class Size:
    """Size of a run.

    Attributes:
        seconds: Length of one measurement of throughput.
        rounds: Measurements of each kind, in turns.
        waiting: Deliveries that wait, in `waiting`.
        replicas: Numbers of replicas, in `scaling`.
        wakeups: Deliveries to idle replicas.
        fleets: Fleets that fail over at a time.
        failures: Ends of the poller for each fleet and signal.
        claims: Claims in each round of `fence`.
    """

    seconds: float
    rounds: int
    waiting: Sequence[int]
    replicas: Sequence[int]
    wakeups: int
    fleets: int
    failures: int
    claims: int


FULL: Final = Size(
    seconds=10, rounds=3, waiting=(1_000, 10_000, 100_000, 1_000_000), replicas=(1, 2, 4, 8), wakeups=500, fleets=3,
    failures=70, claims=2000,
)  # fmt: skip
QUICK: Final = Size(
    seconds=3, rounds=1, waiting=(1_000, 50_000), replicas=(1, 2), wakeups=30, fleets=1, failures=3, claims=200
)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of the values: the smallest one that this share of them does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def wait_for(condition: Callable[[], bool], timeout: float = _TIMEOUT) -> None:
    """Wait until it is true; raise `TimeoutError` if it takes too long."""
    until = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"nothing came within {timeout:g} s")
        time.sleep(0.001)


def rate(queue: Queue, replicas: int, seconds: float, *, warm_up: float = _WARM_UP) -> float:
    """Return the deliveries a second of a number of replicas, while the queue is topped up."""
    processes = MeasuredProcesses(queue.program, replicas)
    added = 0

    def top_up(seconds: float) -> None:
        nonlocal added
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(_TOP_UP_INTERVAL)
            handled = processes.handled
            queue.add(handled - added)
            added = handled

    try:
        wait_for(lambda: processes.all_work)
        top_up(warm_up)
        before, began = processes.handled, time.monotonic()
        top_up(seconds)
        return (processes.handled - before) / (time.monotonic() - began)
    finally:
        processes.end()


def throughput(server: str, size: Size) -> bool:
    """Compare four replicas with four workers of procrastinate, without and with a lock for each job."""
    if importlib.util.find_spec("procrastinate") is None:
        print("procrastinate is not installed: run make .venvs/bench/.ready, and this with .venvs/bench/bin/python")
        return False
    kinds: dict[str, Callable[[str], Queue]] = {
        "bot": partial(BotQueue, concurrency=8),
        "procrastinate": partial(PeerQueue, concurrency=8, locks=False),
        "procrastinate, a lock for each job": partial(PeerQueue, concurrency=8, locks=True),
    }
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(size.rounds):
        for kind, make in kinds.items():
            with empty_database(server, "throughput") as database:
                queue = make(database)
                queue.add(5000)
                queue.settle()
                rates[kind].append(rate(queue, _REPLICAS, size.seconds))
                queue.close()
            print(f"round {number + 1}: {kind}: {rates[kind][-1]:.0f} a second", file=sys.stderr, flush=True)
    print("| 5,000 waiting, 4 processes, 8 at a time each | deliveries a second | bot against it (lowest to highest) |")
    print("|---|---|---|")
    for kind, found in rates.items():
        ratios = [mine / other for mine, other in zip(rates["bot"], found, strict=True)]
        print(f"| {kind} | {median(found):.0f} | {_spread(ratios)} |")
    return median(rates["bot"]) >= median(rates["procrastinate"])


def waiting(server: str, size: Size) -> bool:
    """Compare throughput by the number of deliveries that wait."""
    rates: dict[int, list[float]] = {count: [] for count in size.waiting}
    for number in range(size.rounds):
        with empty_database(server, "waiting") as database:
            queue, added = BotQueue(database, concurrency=8), 0
            for count in size.waiting:
                queue.add(count - added)
                added = count
                queue.settle()
                rates[count].append(rate(queue, _REPLICAS, size.seconds))
                print(f"round {number + 1}: {count:,}: {rates[count][-1]:.0f} a second", file=sys.stderr, flush=True)
            queue.close()
    first = rates[size.waiting[0]]
    print("| Waiting | Deliveries a second | the first against it (lowest to highest) |")
    print("|---|---|---|")
    for count, found in rates.items():
        ratios = [one / own for one, own in zip(first, found, strict=True)]
        print(f"| {count:,} | {median(found):.0f} | {_spread(ratios)} |")
    return all(median(first) / median(found) <= 1.3 for found in rates.values())


def scaling(server: str, size: Size) -> bool:
    """Compare numbers of replicas whose handlers wait for 50 ms."""
    rates: dict[int, list[float]] = {count: [] for count in size.replicas}
    for number in range(size.rounds):
        for count in size.replicas:
            with empty_database(server, "scaling") as database:
                queue = BotQueue(database, concurrency=_SCALING_CONCURRENCY, latency=_HANDLER_LATENCY)
                queue.add(5000)
                queue.settle()
                rates[count].append(rate(queue, count, size.seconds))
                queue.close()
            print(f"round {number + 1}: {count}: {rates[count][-1]:.0f} a second", file=sys.stderr, flush=True)
    alone = rates[size.replicas[0]]
    print("| Replicas | Deliveries a second | of as many times one replica (lowest to highest) | of 2 / 50 ms each |")
    print("|---|---|---|---|")
    shares = {
        count: [own / (one * count) for own, one in zip(found, alone, strict=True)] for count, found in rates.items()
    }
    for count, found in rates.items():
        ideal = count * _SCALING_CONCURRENCY / _HANDLER_LATENCY
        print(f"| {count} | {median(found):.0f} | {_spread(shares[count])} | {median(found) / ideal:.2f} |")
    return all(median(found) >= 0.9 for found in shares.values())


def wakeup(server: str, size: Size) -> bool:
    """Measure the time from before an event is enqueued to the call of its handler, by idle replicas."""
    random, found = Random(0), list[float]()
    with empty_database(server, "wakeup") as database:
        queue = BotQueue(database, concurrency=8)
        processes = MeasuredProcesses(queue.program, _REPLICAS)
        try:
            queue.add(200)
            wait_for(lambda: processes.handled == 200 and processes.all_work)
            for number in range(size.wakeups):
                time.sleep(random.uniform(0.05, 0.35))
                began = queue.publish()
                wait_for(partial(_has_handled, processes, 201 + number))
                found.append(processes.latest - began)
        finally:
            processes.end()
            queue.close()
    print("| Wake-ups | p50 ms | p99 ms | highest ms |")
    print("|---|---|---|---|")
    print(f"| {len(found)} | {_ms(median(found))} | {_ms(percentile(found, 0.99))} | {_ms(max(found))} |")
    return percentile(found, 0.99) <= 0.05


def failover(server: str, size: Size) -> bool:
    """Measure the time without a scan after the scanning replica is killed, or stopped."""
    is_good = True
    print("| Poller | Times | p50 s | p99 s | highest s | what |")
    print("|---|---|---|---|---|---|")
    for kill in (True, False):
        found: list[Failover] = asyncio.run(fail_over(server, size.fleets, size.failures, kill=kill))
        for what, values, limit in (
            ("until another one has the term", [one.taken for one in found], None if kill else 1.0),
            ("until a request published then is delivered", [one.delivered for one in found], 4.0 if kill else None),
        ):
            highest = percentile(values, 0.99)
            name = "killed" if kill else "stopped"
            print(f"| {name} | {len(values)} | {median(values):.2f} | {highest:.2f} | {max(values):.2f} | {what} |")
            is_good &= limit is None or highest <= limit
    return is_good


def fence(server: str, size: Size) -> bool:
    """Compare claims and settlements with and without the fence."""
    print("| Deliveries a claim | with the fence, us each | without | ratio (lowest to highest) |")
    print("|---|---|---|---|")
    for batch in (1, 10):
        with empty_database(server, "fence") as database:
            costs = fence_costs(database, batch, size.claims, max(3, size.rounds))
        ratios = [fenced / bare for fenced, bare in costs]
        fenced, bare = (median(side) * 1e6 for side in zip(*costs, strict=True))
        print(f"| {batch} | {fenced:.0f} | {bare:.0f} | {_spread(ratios)} |")
    return True


PARTS: Final = {part.__name__: part for part in (failover, throughput, waiting, wakeup, scaling, fence)}


def _has_handled(processes: MeasuredProcesses, count: int) -> bool:
    return processes.handled == count


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=[*PARTS], required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    # The process that forks the others takes the path from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    with running_server() as server:
        print(f"load before: {os.getloadavg()[0]:.1f}", file=sys.stderr)
        is_good = PARTS[options.part](server.url(), QUICK if options.quick else FULL)
        print(f"load after: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print("the goal was reached" if is_good else "the goal was missed")
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
