"""One ordeal: an exchange under faults, shippers at work, and a watcher that is killed and started again."""

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
from tests.crash.judge import Verdict, judge, lines

from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox

__all__ = ["Ordeal", "Outcome"]

_CONSUMER: Final = Path(__file__).with_name("consumer.py")
_SPEED: Final = 60.0
"""Seconds of the exchange in one of ours."""

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
_THERE_BEFORE: Final = 30
_KILLS_BEFORE: Final = 2
_LONGEST_LIFE: Final = 6.0
_PATIENCE: Final = 30.0


@attrs.frozen(kw_only=True)
class Outcome:
    """How an ordeal ended.

    Attributes:
        kills: By what they were aimed at.
        faults: How often each fault struck.
        errors: What the watcher said on its standard error, and how it ended where nobody killed it.
    """

    verdict: Verdict
    kills: Counter[str]
    faults: Counter[str]
    errors: str

    def report(self) -> str:
        verdict = self.verdict
        return (
            f"{self.kills.total()} kills ({_counted(self.kills)}); {self.faults.total()} faults"
            f" ({_counted(self.faults)}); published {verdict.published}, changed {verdict.changed}, withdrawn"
            f" {verdict.withdrawn}; handed out {verdict.handed_out}, {verdict.again} of them again; missed"
            f" {len(verdict.missed)}, repeated {len(verdict.repeated)}, invented {len(verdict.invented)}"
        )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


class Ordeal:
    """Everything in it is drawn from its seed, but for what the machine makes of it."""

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
        # When something was updated that was there before anybody watched, nobody knows: that it is listed no longer
        # proves nothing, and its withdrawal is not told.
        self._may_go: list[int] = []
        self._life = 0
        self._kills: Counter[str] = Counter()

    async def run(self, kills: int) -> Outcome:
        async with serve_tcp(self._exchange, clock=self._now) as face:
            async with anyio.create_task_group() as work:
                if self._start == "backfill":
                    for _ in range(_THERE_BEFORE):
                        self._deal()
                work.start_soon(self._strike)
                # What is published before anybody watches is baseline or backfill, and says nothing of what is missed.
                for _ in range(_KILLS_BEFORE):
                    await self._live(face.url, stop=self._aim(_STATEMENTS))
                await self._live(face.url, until=self._primed)
                work.start_soon(self._trade)
                # Whatever chance has: once before what was handed out is written down, and once after.
                for side in ("before", "after"):
                    await self._live(face.url, stop={"what": "event", "nth": 1, "side": side})
                while self._kills.total() < kills:
                    await self._live(face.url, stop=self._aim(("event", *_STATEMENTS)))
                work.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._live(face.url, until=self._nothing_missed)
            # Once more, for long enough to say again what was said.
            calls = self._exchange.audit_log.count
            await self._live(face.url, until=lambda: self._exchange.audit_log.count > calls + 20)
        return Outcome(
            verdict=self._judge(),
            kills=self._kills,
            faults=Counter(fired.name for fired in self._exchange.faults.fired),
            errors=self._errors.read_text(),
        )

    def _now(self) -> float:
        return self._origin + (time.time() - self._origin) * _SPEED

    def _judge(self) -> Verdict:
        return judge(self._exchange.audit_log.changes, lines(self._journal))

    def _primed(self) -> bool:
        return self._journal.exists() and self._journal.stat().st_size > 0

    def _nothing_missed(self) -> bool:
        return not self._judge().missed

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.002, 0.08))
            self._deal()

    def _deal(self) -> None:
        draw, now, exchange = self._random.random(), self._now(), self._exchange
        cargo = Cargo(quantity=self._random.randint(1, 3), destination=self._random.choice(_PORTS))
        if draw < 0.45 or not self._open:
            index = exchange.publish(exchange.shipper, now, cargo)
            self._open.append(index)
            if self._primed():
                self._may_go.append(index)
        elif draw < 0.85:
            exchange.update(self._random.choice(self._open), now, cargo)
        elif draw < 0.9:
            exchange.touch(self._random.choice(self._open), now)
        elif draw < 0.95:
            exchange.reorder()
        elif self._may_go:
            gone = self._may_go.pop(self._random.randrange(len(self._may_go)))
            self._open.remove(gone)
            exchange.withdraw(gone, now)

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.05, 0.4))
            if not self._exchange.faults.waiting:
                name, seconds = self._random.choice(_FAULTS)
                self._exchange.faults.add(*FAULTS[name](times=1, seconds=seconds))

    # The watcher

    def _aim(self, at: Sequence[str]) -> dict[str, Any] | None:
        """Where the next kill strikes: `None` is whenever chance has it."""
        if self._random.random() < 0.35:
            return None
        what = at[0] if self._random.random() < 0.4 else self._random.choice(at)
        nth = self._random.randint(1, 6) if what == "event" else math.ceil(60 ** self._random.random())
        return {"what": what, "nth": nth, "side": self._random.choice(("before", "after"))}

    async def _live(
        self, url: str, *, stop: dict[str, Any] | None = None, until: Callable[[], bool] | None = None
    ) -> None:
        """One life of the watcher, and its end by SIGKILL."""
        self._life += 1
        orders = {
            "url": url,
            "store": str(self._store),
            "journal": str(self._journal),
            "life": self._life,
            "backend": self._backend,
            "start": self._start,
            "speed": _SPEED,
            "origin": self._origin,
            "stop": stop,
        }
        command = [sys.executable, "-W", "error", str(_CONSUMER), json.dumps(orders)]
        with self._errors.open("ab") as errors:
            async with await anyio.open_process(command, stdout=PIPE, stderr=errors) as process:
                aim = "at random"
                try:
                    if until is not None:
                        await self._wait(until, process)
                    elif stop is None:
                        with anyio.move_on_after(self._random.uniform(0.0, 0.9)):
                            await process.wait()
                    elif await self._stands(process):
                        aim = f"{stop['side']} {stop['what'].removeprefix('sql ')}"
                finally:
                    if process.returncode is None:
                        process.kill()
                await process.wait()
            if process.returncode != -signal.SIGKILL:
                errors.write(f"life {self._life} ended by itself: {process.returncode}\n".encode())
        if until is None:
            self._kills[aim] += 1

    async def _stands(self, process: anyio.abc.Process) -> bool:
        assert process.stdout is not None
        with anyio.move_on_after(_LONGEST_LIFE):
            try:
                await process.stdout.receive()
            except anyio.EndOfStream:
                return False
            return True
        return False

    async def _wait(self, until: Callable[[], bool], process: anyio.abc.Process) -> None:
        with anyio.move_on_after(_PATIENCE):
            while not until() and process.returncode is None:  # noqa: ASYNC110  # another process does it
                await anyio.sleep(0.1)
