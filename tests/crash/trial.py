"""A crash trial: an exchange with faults and busy shippers, and a watcher that is killed and started again."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from subprocess import PIPE
from typing import Any, Final

import anyio
import anyio.abc
import attrs
from tests.crash.checker import CheckResult, check, lines

from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox
from freight_sandbox.server import serve

__all__ = ["CrashTrial", "Outcome"]

_CONSUMER: Final = Path(__file__).with_name("consumer.py")
_SPEED: Final = 60.0
"""Seconds of the exchange in one real second."""

_PORTS: Final = ("Los Angeles", "Oakland", "Long Beach")
_FAULTS: Final = (
    ("reset_before_headers", None),
    ("reset_after_send", None),
    ("reset_after_processing", None),
    ("reset_mid_reply", None),
    ("fin_no_bytes", None),
    ("truncated_length", None),
    ("truncated_chunks", None),
    ("stall", None),
    ("unavailable", None),
    ("throttled_seconds", 1.0),
    ("html_200", None),
    ("half_json", None),
    ("tokens_revoked", None),
)
_STATEMENTS: Final = ("sql", "sql COMMIT", "sql INSERT", "sql UPDATE", "sql BEGIN")
_INITIAL_REQUESTS: Final = 30
_KILLS_DURING_START: Final = 2
_BREAKPOINT_TIMEOUT: Final = 6.0
_TIMEOUT: Final = 120.0


@attrs.frozen(kw_only=True)
class Outcome:
    """The result of a crash trial.

    Attributes:
        kills: Counted by target.
        faults: Counted by name.
        errors: The watcher's standard error, and exit codes of runs that were not killed.
    """

    result: CheckResult
    kills: Counter[str]
    faults: Counter[str]
    errors: str

    def report(self) -> str:
        result = self.result
        return (
            f"{self.kills.total()} kills ({_counted(self.kills)}); {self.faults.total()} faults"
            f" ({_counted(self.faults)}); published {result.published}, changed {result.changed}, withdrawn"
            f" {result.withdrawn}; delivered {result.delivered}, redelivered {result.redelivered}; missed"
            f" {len(result.missed)}, repeated {len(result.repeated)}, invented {len(result.invented)}"
        )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


class CrashTrial:
    """Crash trial whose choices are drawn from a seed. Its timing depends on the machine."""

    def __init__(self, directory: Path, backend: str, seed: int) -> None:
        self._random = Random(seed)
        self._backend = backend
        self._store = directory / "store.db"
        self._journal = directory / "journal"
        self._errors = directory / "errors"
        self._start = self._random.choice(("now", "backfill"))
        profile = Profile(
            order=self._random.choice(("newest", "oldest", "index", "updated", "random")),
            rows_clamp=self._random.choice((None, 7, 40)),
            late_visibility=self._random.choice((0.0, 20.0)),
        )
        self._exchange = Sandbox(profile).exchange
        self._origin = time.time()
        self._open: list[int] = []
        # Requests published before the watcher's first scan have an unknown time of update: their absence proves no
        # withdrawal, so that only later ones are withdrawn.
        self._withdrawable: list[int] = []
        self._run = 0
        self._kills: Counter[str] = Counter()

    async def run(self, kills: int) -> Outcome:
        async with serve(self._exchange, clock=self._now) as face:
            async with anyio.create_task_group() as work:
                if self._start == "backfill":
                    for _ in range(_INITIAL_REQUESTS):
                        self._change_request()
                work.start_soon(self._inject_faults)
                # Requests published before the first scan are baseline or backfill, and cannot be missed.
                for _ in range(_KILLS_DURING_START):
                    await self._run_watcher(face.url, stop=self._choose_breakpoint(_STATEMENTS))
                await self._run_watcher(face.url, until=self._primed)
                work.start_soon(self._change_requests)
                # At least once before an event is written down, and once after.
                for side in ("before", "after"):
                    await self._run_watcher(face.url, stop={"prefix": "event", "nth": 1, "side": side})
                while self._kills.total() < kills:
                    await self._run_watcher(face.url, stop=self._choose_breakpoint(("event", *_STATEMENTS)))
                work.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._run_watcher(face.url, until=self._nothing_missed)
            # Another run, long enough to repeat events wrongly.
            calls = self._exchange.audit_log.count
            await self._run_watcher(face.url, until=lambda: self._exchange.audit_log.count > calls + 20)
        return Outcome(
            result=self._check(),
            kills=self._kills,
            faults=Counter(fired.name for fired in self._exchange.faults.fired),
            errors=self._errors.read_text(),
        )

    def _now(self) -> float:
        return self._origin + (time.time() - self._origin) * _SPEED

    def _check(self) -> CheckResult:
        return check(self._exchange.audit_log.changes, lines(self._journal))

    def _primed(self) -> bool:
        return self._journal.exists() and self._journal.stat().st_size > 0

    def _nothing_missed(self) -> bool:
        return not self._check().missed

    # The exchange

    async def _change_requests(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.002, 0.08))
            self._change_request()

    def _change_request(self) -> None:
        draw, now, exchange = self._random.random(), self._now(), self._exchange
        cargo = Cargo(quantity=self._random.randint(1, 3), destination=self._random.choice(_PORTS))
        if draw < 0.45 or not self._open:
            index = exchange.publish(exchange.shipper, now, cargo)
            self._open.append(index)
            if self._primed():
                self._withdrawable.append(index)
        elif draw < 0.85:
            exchange.update(self._random.choice(self._open), now, cargo)
        elif draw < 0.9:
            exchange.touch(self._random.choice(self._open), now)
        elif draw < 0.95:
            exchange.reorder()
        elif self._withdrawable:
            withdrawn = self._withdrawable.pop(self._random.randrange(len(self._withdrawable)))
            self._open.remove(withdrawn)
            exchange.withdraw(withdrawn, now)

    async def _inject_faults(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.05, 0.4))
            if not self._exchange.faults.waiting:
                name, seconds = self._random.choice(_FAULTS)
                self._exchange.faults.add(*FAULTS[name](times=1, seconds=seconds))

    # The watcher

    def _choose_breakpoint(self, prefixes: Sequence[str]) -> dict[str, Any] | None:
        """Choose the breakpoint of the next kill; `None` for a random time."""
        if self._random.random() < 0.35:
            return None
        prefix = prefixes[0] if self._random.random() < 0.4 else self._random.choice(prefixes)
        nth = self._random.randint(1, 6) if prefix == "event" else math.ceil(60 ** self._random.random())
        return {"prefix": prefix, "nth": nth, "side": self._random.choice(("before", "after"))}

    async def _run_watcher(
        self, url: str, *, stop: dict[str, Any] | None = None, until: Callable[[], bool] | None = None
    ) -> None:
        """Start a watcher, and end it by SIGKILL at the breakpoint, when `until` is true, or at a random time."""
        self._run += 1
        options = {
            "url": url,
            "store": str(self._store),
            "journal": str(self._journal),
            "run": self._run,
            "backend": self._backend,
            "start": self._start,
            "speed": _SPEED,
            "origin": self._origin,
            "stop": stop,
        }
        command = [sys.executable, "-W", "error", str(_CONSUMER), json.dumps(options)]
        with self._errors.open("ab") as errors:
            async with await anyio.open_process(command, stdout=PIPE, stderr=errors) as process:
                target = "at random"
                try:
                    if until is not None:
                        await self._wait(until, process)
                    elif stop is None:
                        with anyio.move_on_after(self._random.uniform(0.0, 0.9)):
                            await process.wait()
                    elif await self._reaches_breakpoint(process):
                        target = f"{stop['side']} {stop['prefix'].removeprefix('sql ')}"
                finally:
                    if process.returncode is None:
                        process.kill()
                await process.wait()
            if process.returncode != -signal.SIGKILL:
                errors.write(f"run {self._run} ended by itself: {process.returncode}\n".encode())
        if until is None:
            self._kills[target] += 1

    async def _reaches_breakpoint(self, process: anyio.abc.Process) -> bool:
        assert process.stdout is not None
        with anyio.move_on_after(_BREAKPOINT_TIMEOUT):
            try:
                await process.stdout.receive()
            except anyio.EndOfStream:
                return False
            return True
        return False

    async def _wait(self, until: Callable[[], bool], process: anyio.abc.Process) -> None:
        with anyio.move_on_after(_TIMEOUT):
            while not until() and process.returncode is None:  # noqa: ASYNC110  # another process changes it
                await anyio.sleep(0.1)
