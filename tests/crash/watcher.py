"""Watcher that is killed again and again while shippers are busy and the exchange fails.

The watcher's program, `watcher_program.py`, writes each event durably, and acknowledges it by pulling the next one.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs
from tests.crash.processes import Forks, fork_server

from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox
from freight_sandbox.server import serve

__all__ = ["FLAWS", "Line", "WatcherTrial", "check"]

FLAWS: Final = ("missed", "repeated", "invented", "unexpected ends")
"""Counts that must be zero."""

State = tuple[str, ...]

_SPEED: Final = 60.0
"""Seconds of the exchange in one real second."""
_PORTS: Final = ("Los Angeles", "Oakland", "Long Beach")
_FAULTS: Final = (
    *("reset_before_headers", "reset_after_send", "reset_after_processing", "reset_mid_reply", "fin_no_bytes"),
    *("truncated_length", "truncated_chunks", "stall", "unavailable", "throttled_seconds", "html_200", "half_json"),
    "tokens_revoked",
)
_STATEMENTS: Final = ("sql", "sql COMMIT", "sql INSERT", "sql UPDATE", "sql BEGIN")
_GONE: Final = "withdrawn"
_LONGEST_LIFE: Final = 6.0
_TIMEOUT: Final = 120.0


@attrs.frozen
class Line:
    """Event in the watcher's journal, with the number of its run."""

    run: int
    kind: str
    index: int | None
    state: State

    @property
    def after(self) -> State:
        """Return the state that the event shows."""
        return (_GONE,) if self.kind == _GONE else self.state


def check(changes: Iterable[Any], written: Iterable[Line]) -> Counter[str]:
    """Count what was delivered, and what is wrong with it.

    `missed` are requests whose last state was not delivered; `repeated` are events delivered again, but for the last
    one before a kill (`redelivered`), which was not acknowledged; `invented` are events without a cause or in disorder.
    """
    states: dict[int, list[State]] = {}
    for change in changes:
        cargo = change.state.cargo
        state = (_GONE,) if change.what == _GONE else (str(cargo.quantity), cargo.destination)
        known = states.setdefault(change.request, [])
        if not known or known[-1] != state:
            known.append(state)
    counts = Counter({"requests": len(states), "changes": sum(len(known) - 1 for known in states.values())})
    reached: Counter[int] = Counter()
    before: dict[int, Line] = {}
    previous: Line | None = None
    for line in written:
        if line.kind == "primed":
            continue
        counts["delivered"] += 1
        if line.index is None or line.index not in states:
            counts["invented"] += 1
            continue
        last = before.get(line.index)
        if last is not None and last.after == line.after:
            is_again = previous is last and last.run < line.run
            counts["redelivered" if is_again else "repeated"] += 1
        elif line.after in (later := states[line.index][reached[line.index] :]):
            reached[line.index] += later.index(line.after) + 1
        else:
            counts["invented"] += 1
        before[line.index] = previous = line
    for index, known in states.items():
        # A request that was withdrawn before it was seen has no event.
        counts["missed"] += (before[index].after if index in before else (_GONE,)) != known[-1]
    return counts


class WatcherTrial:
    """Exchange with faults and busy shippers, and a watcher that is killed and started again.

    Args:
        directory: Directory of the store.
        seed: Seed of all choices.
        backend: Event loop of the watcher.

    Attributes:
        counts: Counts of events, and of errors.
        points: Kills by their place.
    """

    def __init__(self, directory: Path, seed: int, backend: str) -> None:
        self._random = Random(seed)
        self._backend = backend
        self._store = directory / "store.db"
        self._journal = directory / "journal"
        self._errors = directory / "errors"
        self._start = self._random.choice(("now", "backfill"))
        profile = Profile(
            order=self._random.choice(("newest", "oldest", "index", "updated")),
            rows_clamp=self._random.choice((None, 20, 40)),
            late_visibility=self._random.choice((0.0, 20.0)),
        )
        self._exchange = Sandbox(profile, seed=seed).exchange
        self._origin = time.time()
        self._open: list[int] = []
        # Requests published before the first scan have an unknown time of update: their absence proves no withdrawal.
        self._withdrawable: list[int] = []
        self._run_number = 0
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()

    async def run(self, kills: int) -> Counter[str]:
        """Kill the watcher so often, let it come to rest, and return the counts."""
        async with (
            serve(self._exchange, clock=self._now) as face,
            fork_server("watcher_program", self._errors) as forks,
        ):
            async with anyio.create_task_group() as work:
                if self._start == "backfill":
                    for _ in range(30):
                        self._change_request()
                work.start_soon(self._strike)
                # Requests published before the first scan are baseline or backfill, and cannot be missed.
                for _ in range(2):
                    await self._kill(forks, face.url, self._place(_STATEMENTS))
                await self._live(forks, face.url, self._is_primed)
                work.start_soon(self._trade)
                # At least once before an event is written down, and once after.
                for side in ("before", "after"):
                    await self._kill(forks, face.url, {"prefix": "event", "nth": 1, "side": side})
                while self.points.total() < kills:
                    await self._kill(forks, face.url, self._place(("event", *_STATEMENTS)))
                work.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._live(forks, face.url, lambda: not self._check()["missed"])
            # Another run, long enough to repeat events wrongly.
            calls = self._exchange.audit_log.count
            await self._live(forks, face.url, lambda: self._exchange.audit_log.count > calls + 20)
        self.counts["kills"] = self.points.total()
        self.counts["faults that struck"] = len(self._exchange.faults.fired)
        self.counts["unexpected ends"] += bool(self._errors.read_text())
        return self.counts + self._check()

    def _now(self) -> float:
        return self._origin + (time.time() - self._origin) * _SPEED

    def _check(self) -> Counter[str]:
        # A last line that was cut off was not written.
        lines = self._journal.read_bytes().split(b"\n")[:-1] if self._journal.exists() else []
        records = [json.loads(line) for line in lines]
        return check(
            self._exchange.audit_log.changes,
            [Line(line["run"], line["kind"], line["index"], tuple(line["state"])) for line in records],
        )

    def _is_primed(self) -> bool:
        return self._journal.exists() and self._journal.stat().st_size > 0

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.002, 0.08))
            self._change_request()

    def _change_request(self) -> None:
        draw, now, exchange = self._random.random(), self._now(), self._exchange
        cargo = Cargo(quantity=self._random.randint(1, 3), destination=self._random.choice(_PORTS))
        if draw < 0.45 or not self._open:
            index = exchange.publish(exchange.shipper, now, cargo)
            self._open.append(index)
            if self._is_primed():
                self._withdrawable.append(index)
        elif draw < 0.9:
            exchange.update(self._random.choice(self._open), now, cargo)
        elif draw < 0.95:
            exchange.touch(self._random.choice(self._open), now)
        elif self._withdrawable:
            withdrawn = self._withdrawable.pop(self._random.randrange(len(self._withdrawable)))
            self._open.remove(withdrawn)
            exchange.withdraw(withdrawn, now)

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.05, 0.4))
            if not self._exchange.faults.waiting:
                name = self._random.choice(_FAULTS)
                seconds = 1.0 if name == "throttled_seconds" else None
                self._exchange.faults.add(*FAULTS[name](times=1, seconds=seconds))

    # The watcher

    def _place(self, prefixes: Sequence[str]) -> dict[str, Any] | None:
        """Choose the place of the next kill; `None` for a random time."""
        if self._random.random() < 0.35:
            return None
        prefix = prefixes[0] if self._random.random() < 0.4 else self._random.choice(prefixes)
        nth = self._random.randint(1, 6) if prefix == "event" else math.ceil(60 ** self._random.random())
        return {"prefix": prefix, "nth": nth, "side": self._random.choice(("before", "after"))}

    async def _kill(self, forks: Forks, url: str, place: dict[str, Any] | None) -> None:
        process = await self._begin(forks, url, place)
        status = await forks.end(process, self._random.uniform(0.0, 0.9) if place is None else _LONGEST_LIFE)
        name = "at random" if status is None or place is None else f"{place['side']} {place['prefix']}"
        self.points[name] += 1
        self.counts["unexpected ends"] += await forks.kill(process) != -signal.SIGKILL

    async def _live(self, forks: Forks, url: str, until: Callable[[], bool]) -> None:
        """Run a watcher until a condition holds."""
        process = await self._begin(forks, url, None)
        with anyio.move_on_after(_TIMEOUT):
            while not until() and await forks.end(process, 0.1) is None:
                pass
        self.counts["unexpected ends"] += await forks.kill(process) != -signal.SIGKILL

    async def _begin(self, forks: Forks, url: str, place: dict[str, Any] | None) -> int:
        self._run_number += 1
        return await forks.start({
            "url": url,
            "store": str(self._store),
            "journal": str(self._journal),
            "run": self._run_number,
            "backend": self._backend,
            "start": self._start,
            "speed": _SPEED,
            "origin": self._origin,
            "place": place,
        })  # fmt: skip
