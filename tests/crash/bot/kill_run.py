"""One run: an exchange under faults, shippers at work, and a bot that is killed and started again."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import anyio
import attrs
from tests.crash.bot import trigger_log
from tests.crash.bot.checker import RIVAL, CheckResult, check, reported
from tests.crash.bot.figures import AT_RANDOM, TOO_LATE, Outcome
from tests.crash.bot.plan import Kill
from tests.crash.bot.tariff import PORTS
from tests.crash.faults import TRANSIENT_FAULTS
from tests.crash.fork_server import ForkServer, fork_server
from tests.crash.market import final_states

from freight_exchange.testing import FAULTS, Cargo, Profile, Sandbox
from freight_sandbox.server import serve

__all__ = ["KillRun"]

_PROGRAM: Final = Path(__file__).with_name("program.py")

_OFFERS: Final = "quote/submitoffer"
_SEARCH: Final = "quote/getrequests"
_REFUSALS: Final = ("unauthorized_once", "tokens_revoked")
"""Faults that strike once in a run.

A client logs in once, not twice, if its fresh token is refused within half a minute. A refused login would end the bot.
"""
_FAULTS: Final = (*TRANSIENT_FAULTS, *_REFUSALS)

_SETTLE: Final = 0.3
_CHANGED_IN_DOUBT: Final = 0.5
_LONGEST_LIFE: Final = 10.0
_TIMEOUT: Final = 180.0
_CALLS_MORE: Final = 5
_MOST_TRIES: Final = 3
_CHANGING_CLAMP: Final = 20
_MOST_WAITING: Final = 40
"""Requests without an offer above which shippers wait. On a slow machine, a bot that dies early makes no offer."""


class KillRun:
    """Run whose choices are drawn from a seed. Only the timing depends on the machine.

    Args:
        directory: Directory of the store.
        backend: Event loop of the bot.
        seed: Seed of all choices.
        ledger: Whether the bot's handler offers through the ledger, or directly.
        short_pages: Whether the bot takes a short page for the end of a listing.
    """

    def __init__(
        self, directory: Path, backend: str, seed: int, *, ledger: bool = True, short_pages: bool = False
    ) -> None:
        self._random = Random(seed)
        self._backend = backend
        self._ledger = ledger
        self._short_pages = short_pages
        self._store = directory / "store.db"
        self._journal = directory / "journal"
        self._errors = directory / "errors"
        self._log = directory / "log"
        profile = Profile(
            order=self._random.choice(("newest", "oldest", "index", "updated", "random")),
            rows_clamp=self._random.choice((None, 10, 40)),
            late_visibility=self._random.choice((0.0, 0.1)),
            # Drawn from the seed apart, so that the same seed makes the same market with and without them.
            clamp_change=Random(seed).choice(("steady", "lowered", "lowered", "alternating")),
            rights=Random(seed + 1).choice(("before_paging", "after_paging")),
        )
        if profile.clamp_change != "steady" and profile.rows_clamp is None:
            # The sandbox would give two rows a page: hundreds of requests for each look at the bids.
            profile = attrs.evolve(profile, rows_clamp=_CHANGING_CLAMP)
        self._exchange = Sandbox(profile, seed=seed).exchange
        self._run_number = 0
        self._refused_in = 0
        self._kills: Counter[str] = Counter()
        self._on_the_way = 0
        self._in_doubt = 0

    async def run(self, plan: Sequence[Kill]) -> Outcome:
        began = time.monotonic()
        trigger_log.fresh(self._store)
        async with serve(self._exchange) as face, fork_server(_PROGRAM, self._errors, self._backend) as server:
            async with anyio.create_task_group() as work:
                work.start_soon(self._trade)
                work.start_soon(self._strike)
                for kill in plan:
                    for _ in range(_MOST_TRIES):
                        if await self._killed(server, face.url, kill):
                            break
                work.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._rest(server, face.url)
        return Outcome(
            result=self._check(),
            planned=Counter(kill.point for kill in plan if kill.point is not None),
            kills=self._kills,
            on_the_way=self._on_the_way,
            in_doubt=self._in_doubt,
            faults=Counter(fired.name for fired in self._exchange.faults.fired),
            errors=self._errors.read_text(),
            seconds=time.monotonic() - began,
        )

    def _check(self) -> CheckResult:
        return check(
            self._exchange.audit_log, trigger_log.read(self._store), reported(self._journal), ledger=self._ledger
        )

    def _is_done(self) -> bool:
        result = self._check()
        # Without the ledger, what was offered twice may be selected and reported in ways that have no end.
        return result.idle if self._ledger else not result.missed

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.8))
            draw = self._random.random()
            if draw < 0.7:
                if self._waiting() <= _MOST_WAITING:
                    self._publish(hazardous=self._random.random() < 0.1)
            elif draw < 0.85:
                self._update()
            else:
                self._select()

    def _waiting(self) -> int:
        log = self._exchange.audit_log
        return len(final_states(log)) - len({record.offer.request for record in log.offers if record.account != RIVAL})

    def _publish(self, *, hazardous: bool = False) -> None:
        exchange = self._exchange
        cargo = attrs.evolve(self._cargo(), hazardous=int(hazardous))
        request = exchange.publish(exchange.shipper, time.time(), cargo)
        # Bids of others, which the bot may not see, count in the pages where rights come last.
        for _ in range(self._random.randint(0, 3)):
            exchange.offer(exchange.rival, request, time.time())

    def _update(self, request: int | None = None) -> None:
        states = final_states(self._exchange.audit_log)
        may_change = [state for state in states.values() if state.state == "open" and request in (None, state.index)]
        if may_change:
            changed = self._random.choice(may_change)
            cargo = attrs.evolve(self._cargo(), hazardous=changed.cargo.hazardous)
            self._exchange.update(changed.index, time.time(), cargo)

    def _select(self) -> None:
        states = final_states(self._exchange.audit_log)
        offers = [record.offer for record in self._exchange.audit_log.offers if record.account != RIVAL]
        pending = [offer.index for offer in offers if states[offer.request].state == "open"]
        if pending:
            self._exchange.select(self._random.choice(pending), time.time())

    def _cargo(self) -> Cargo:
        return Cargo(quantity=self._random.randint(1, 50), destination=self._random.choice(PORTS))

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.6))
            if not self._exchange.faults.waiting:
                name, path = self._random.choice(_FAULTS), self._random.choice((None, _OFFERS))
                if name in _REFUSALS:
                    if self._refused_in == self._run_number:
                        continue
                    self._refused_in = self._run_number
                    path = path or _SEARCH
                self._arm(name, path)

    def _arm(self, name: str, path: str | None) -> None:
        factory = FAULTS[name]
        self._exchange.faults.add(*factory(path=path, processed=self._random.choice(factory.phases)))

    def _provoke(self, kill: Kill) -> None:
        """Give the bot a reason to reach the failpoint of the kill."""
        match kill.step:
            case "unknown" | "resolved":
                self._arm("reset_after_processing", _OFFERS)
            case "withdrawn":
                self._arm("throttled_huge", _OFFERS)
            case "selected" | "reported":
                self._select()
            case _:
                pass
        for _ in range(kill.visit):
            self._publish(hazardous=kill.step == "rejected")

    # The bot

    async def _killed(self, server: ForkServer, url: str, kill: Kill) -> bool:
        """Run the bot once, and end it by SIGKILL; return whether the kill struck where it was planned."""
        self._provoke(kill)
        born = await self._start(server, url, kill)
        ended: int | None = None
        with anyio.move_on_after(_LONGEST_LIFE if kill.point is not None else kill.seconds):
            ended = await server.ended()
        hit = (ended is None) == (kill.point is None)
        if ended is None:
            os.kill(born, signal.SIGKILL)
            ended = await server.ended()
        await server.reap()
        if ended != -signal.SIGKILL:
            self._complain(ended)
        self._kills[(kill.point or AT_RANDOM) if hit else TOO_LATE] += 1
        contents = trigger_log.read_after_death(self._store)
        self._on_the_way += "sending" in contents.states
        self._in_doubt += "unknown" in contents.states
        for entry in contents.offers:
            # The worst that a shipper can do: another handler gets the request while its offer is not known.
            if entry.state in ("sending", "unknown") and self._random.random() < _CHANGED_IN_DOUBT:
                self._update(entry.request)
        return hit

    async def _rest(self, server: ForkServer, url: str) -> None:
        """Run the bot without kills until nothing new comes and every call could have been repeated."""
        born = await self._start(server, url, Kill(None))
        ended: int | None = None
        calls: int | None = None
        with anyio.move_on_after(_TIMEOUT):
            while ended is None and (calls is None or self._exchange.audit_log.count < calls + _CALLS_MORE):
                with anyio.move_on_after(0.2):
                    ended = await server.ended()
                if calls is None and self._is_done():
                    calls = self._exchange.audit_log.count
        if ended is None:
            os.kill(born, signal.SIGTERM)
            with anyio.move_on_after(_TIMEOUT):
                ended = await server.ended()
        if ended is None:
            os.kill(born, signal.SIGKILL)
            ended = await server.ended()
        await server.reap()
        if ended != 0:
            self._complain(ended)

    async def _start(self, server: ForkServer, url: str, kill: Kill) -> int:
        self._run_number += 1
        return await server.start(
            {
                "url": url,
                "store": str(self._store),
                "journal": str(self._journal),
                "log": str(self._log),
                "run": self._run_number,
                "backend": self._backend,
                "ledger": self._ledger,
                "short_pages": self._short_pages,
                "settle": _SETTLE,
                "point": kill.point,
                "visit": kill.visit,
            }
        )

    def _complain(self, ended: int) -> None:
        with self._errors.open("a") as errors:
            errors.write(f"life {self._run_number} ended by itself: {ended}\n")
