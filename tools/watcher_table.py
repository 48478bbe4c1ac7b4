"""Updates that polling misses: common polling loops and `exchange.watch()` on the same market in virtual time.

`python tools/watcher_table.py` measures two hours of 15 s polls at 0.2 updates a second, in four orders, with four
seeds each, and prints the table; `--json FILE` keeps every single run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import anyio
import attrs
import httpx

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tests.model.watcher.clocks import Clocks
from tools.lib.naive_watchers import Tell, newest_of_the_last_hour, since_the_last_poll

from freight_exchange import FreightExchange, RequestEvent, RetryPolicy
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox, virtual_time_options
from freight_sandbox import Exchange
from freight_sandbox.memory import transport

__all__ = ["ALGORITHMS", "COLUMNS", "ORDERS", "Measurement", "Setting", "markdown", "run"]

COLUMNS: Final = ("calm", "burst", "late visibility", "page clamp", "page failures")
ORDERS: Final = ("newest", "oldest", "updated", "random")
INTERVAL: Final = 15.0
RATE: Final = 0.2
LATENCY: Final = 0.2
QUIET: Final = 600.0
"""Quiet seconds after the last update, without failures. An update that is not seen by then is missed."""

_MINUTE: Final = 60.0
_BURST: Final = 200
_CLAMP: Final = 3
_FAILING: Final = 0.12
_WORTH: Final = ("unavailable", "reset_after_send", "truncated_length", "half_json")


@attrs.frozen
class Setting:
    """Parameters of a market, from which all its events are drawn."""

    column: str
    order: str
    seed: int
    hours: float = 2.0


@attrs.frozen
class Measurement:
    """Result of one algorithm on one market.

    Attributes:
        requests: Number of requests at the exchange, each with a last state to report.
        missed: Number of these last states that were never reported.
        events: Number of reported states.
        repeated: Number of states that were reported again.
        calls: Number of calls.
        latencies: Seconds from the start of each state to its report.
    """

    requests: int
    missed: int
    events: int
    repeated: int
    calls: int
    latencies: Sequence[float]


class _Market:
    """Exchange in which shippers publish and change requests; each state has a different quantity."""

    def __init__(self, setting: Setting) -> None:
        self._random = Random(repr(setting))
        self._failing = Random(f"failing {setting}")
        self._setting = setting
        clamp = _CLAMP if setting.column == "page clamp" else None
        order: Any = setting.order
        self.exchange = Exchange(Profile(order=order, rows_clamp=clamp, latency=LATENCY), seed=setting.seed)
        self.clocks = Clocks("steady")
        self.began: dict[int, float] = {}
        self.last: dict[int, int] = {}
        self._stands_since: float | None = None
        self._over = False

    def client(self) -> FreightExchange:
        account = self.exchange.forwarder
        carrier = transport(self.exchange, clock=self._served)
        exchange = FreightExchange(
            Sandbox.url,
            email=account.email,
            password=account.password,
            http_client=httpx.AsyncClient(transport=carrier, trust_env=False),
            retries=RetryPolicy(attempts=1),
        )
        exchange._shared.clock = self.clocks
        return exchange

    async def trade(self) -> None:
        ended = anyio.current_time() + self._setting.hours * 3600
        for name in _WORTH if self._setting.column == "page failures" else ():
            for fault in FAULTS[name](path="quote/getrequests", times=None):
                self.exchange.faults.add(attrs.evolve(fault, when=lambda _: self._failing.random() < _FAILING / 4))
        for moment in self._moments():
            await anyio.sleep(moment - self.clocks.loop())
            self._deal()
        await anyio.sleep(ended - anyio.current_time())
        self._over = True
        self.exchange.faults.clear()
        await anyio.sleep(QUIET)

    def _moments(self) -> Sequence[float]:
        end = self._setting.hours * 3600
        moments = list(
            itertools.takewhile(
                lambda moment: moment < end,
                itertools.accumulate(iter(lambda: self._random.expovariate(RATE), None)),
            )
        )
        if self._setting.column == "burst":
            for start in range(int(5 * _MINUTE), int(end), int(10 * _MINUTE)):
                moments.extend(start + self._random.uniform(0, 20) for _ in range(_BURST))
        return sorted(moments)

    def _deal(self) -> None:
        now, state = self.clocks.now(), len(self.began) + 1
        cargo = Cargo(quantity=state)
        if not self.last or self._random.random() < 0.4:
            index = self.exchange.publish(self.exchange.shipper, now, cargo)
        else:
            index = self._random.choice([*self.last])
            self.exchange.update(index, now, cargo)
        self.began[state] = self.clocks.loop()
        self.last[index] = state

    async def lag(self) -> None:
        """Server with a replica that stops for a while, and then catches up at once."""
        lagging = Random(f"lagging {self._setting}")
        while self._setting.column == "late visibility":
            await anyio.sleep(lagging.uniform(4, 8) * _MINUTE)
            self._stands_since = self.clocks.now()
            await anyio.sleep(lagging.uniform(20, 100))
            self._stands_since = None

    def _served(self) -> float:
        """Return the time of the data for a call. A stopped replica shows the state at its stop."""
        now = self.clocks.now()
        late = 0.0 if self._stands_since is None or self._over else now - self._stands_since
        if late != self.exchange.profile.late_visibility:
            self.exchange.profile = attrs.evolve(self.exchange.profile, late_visibility=late)
        return now


async def _poll(loop: Callable[..., Any], exchange: FreightExchange, tell: Tell) -> None:
    async def ask(page: int, rows: int, window: int) -> Sequence[Mapping[str, Any]]:
        body = {"type": "all", "offset": page, "rowsperpage": rows, "secondsSinceUpdate": window}
        reply = await exchange.request("POST", "quote/getrequests", body=body, repeatable=True)
        records = reply["raterequests"]
        return [*records.values()] if isinstance(records, dict) else records

    await loop(ask, tell, INTERVAL)


async def _watch(exchange: FreightExchange, tell: Tell) -> None:
    async with exchange.watch(start="backfill", interval=timedelta(seconds=INTERVAL)) as feed:
        async for event in feed:
            assert isinstance(event, RequestEvent), event
            tell({"qty": event.request.quantity})


ALGORITHMS: Final[Mapping[str, Callable[[FreightExchange, Tell], Any]]] = {
    "newest 100 of the last hour": partial(_poll, newest_of_the_last_hour),
    "window since the last poll, stop on a short page": partial(_poll, partial(since_the_last_poll, overlap=0)),
    "+ 60 s overlap": partial(_poll, partial(since_the_last_poll, overlap=60)),
    "`exchange.watch()`": _watch,
}


async def _run(setting: Setting, algorithm: str) -> Measurement:
    market = _Market(setting)
    reported: dict[int, float] = {}
    events = 0

    def tell(row: Mapping[str, Any]) -> None:
        nonlocal events
        events += 1
        reported.setdefault(int(row["qty"]), market.clocks.loop())

    async with market.client() as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(market.lag)
        tasks.start_soon(ALGORITHMS[algorithm], exchange, tell)
        await market.trade()
        tasks.cancel_scope.cancel()
    return Measurement(
        requests=len(market.last),
        missed=sum(state not in reported for state in market.last.values()),
        events=events,
        repeated=events - len(reported),
        calls=len(market.exchange.audit_log.calls_to("POST", "quote/getrequests")),
        latencies=[at - market.began[state] for state, at in reported.items()],
    )


def run(setting: Setting, algorithm: str, backend: Literal["asyncio", "trio"] = "asyncio") -> Measurement:
    return anyio.run(_run, setting, algorithm, backend=backend, backend_options=virtual_time_options(backend))


def markdown(measurements: Iterable[tuple[Setting, str, Measurement]]) -> str:
    """Return the table of missed final states, and that of the cost and latency of each algorithm."""
    cells: dict[tuple[str, str], list[Measurement]] = {}
    for setting, algorithm, measurement in measurements:
        cells.setdefault((algorithm, setting.column), []).append(measurement)
    columns = [column for column in COLUMNS if any(key[1] == column for key in cells)]

    def table(title: str, cell: Callable[[Sequence[Measurement]], str]) -> list[str]:
        rows = [f"| {title} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
        for algorithm in ALGORITHMS:
            rows.append(f"| {algorithm} | {' | '.join(cell(cells[algorithm, column]) for column in columns)} |")
        return [*rows, ""]

    def lost(some: Sequence[Measurement]) -> str:
        missed, share = sum(measurement.missed for measurement in some), _share(some, "missed", "requests")
        return "0" if not missed else f"{missed} ({share:.2g} %)" if share < 1 else f"{share:.1f} %"

    def calls(some: Sequence[Measurement]) -> str:
        return f"{_share(some, 'calls', 'events') / 100:.2f}"

    def latency(some: Sequence[Measurement]) -> str:
        all_of_them = sorted(itertools.chain.from_iterable(measurement.latencies for measurement in some))
        return f"{statistics.median(all_of_them):.1f} / {all_of_them[math.ceil(0.99 * len(all_of_them)) - 1]:.1f}"

    return "\n".join(
        (
            *table("Final states missed", lost),
            *table("Reported twice", lambda some: str(sum(measurement.repeated for measurement in some))),
            *table("Requests per event", calls),
            *table("Latency p50 / p99, s", latency),
        )
    )


def _share(some: Sequence[Measurement], part: str, whole: str) -> float:
    parts, wholes = (sum(int(getattr(measurement, name)) for measurement in some) for name in (part, whole))
    return 100 * parts / max(1, wholes)


def _measure(task: tuple[Setting, str]) -> tuple[Setting, str, Measurement]:
    return (*task, run(*task))


def _kept(done: Iterable[tuple[Setting, str, Measurement]]) -> str:
    """Return one line for each run, with its latencies counted by tenths of a second."""
    lines = [
        json.dumps(
            {
                **attrs.asdict(setting),
                "algorithm": name,
                **attrs.asdict(measurement),
                "latencies": Counter(f"{seconds:.1f}" for seconds in sorted(measurement.latencies)),
            }
        )
        for setting, name, measurement in done
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what every run gave")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    settings = [Setting(*of, arguments.hours) for of in itertools.product(COLUMNS, ORDERS, range(arguments.seeds))]
    with multiprocessing.Pool(arguments.processes) as pool:
        done = pool.map(_measure, list(itertools.product(settings, ALGORITHMS)), chunksize=1)
    if arguments.json is not None:
        arguments.json.write_text(_kept(done))
    print(markdown(done))
    watched = [measurement for _, name, measurement in done if name == [*ALGORITHMS][-1]]
    return int(any(measurement.missed or measurement.repeated for measurement in watched))


if __name__ == "__main__":
    sys.exit(main())
