"""A shipper's bot that is killed again and again while it answers offers: real processes, real HTTP, real faults."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Final

import anyio
import attrs
from tests.crash.answers.checker import APPROVE, FLAWS, PriceChange, check, not_approved
from tests.crash.bot.figures import AT_RANDOM, TOO_LATE
from tests.crash.bot.plan import Kill, draw
from tests.crash.bot.trigger_log import copy_after_death
from tests.crash.faults import TRANSIENT_FAULTS
from tests.crash.fork_server import ForkServer, fork_server
from tests.crash.market import final_states

from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.testing import FAILPOINTS, FAULTS, Cargo, Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply
from freight_sandbox.server import serve

__all__ = ["COLUMNS", "KillTrial", "draw_kills"]

_PROGRAM: Final = Path(__file__).with_name("program.py")
_POINTS: Final = [point for point in FAILPOINTS if point.split()[1] not in ("selected", "reported")]
"""Failpoints of an answer. The other failpoints concern bids."""
_UNREACHED: Final = {"unknown", "resolved", "withdrawn", "rejected"}
"""Failpoints that a bot without a ledger never reaches."""
_FAULTS: Final = (*TRANSIENT_FAULTS, "approval_of_another_offer")
_REFUSAL: Final = Fault(name="refusal", path=APPROVE, processed=False, mutate=json_reply(400, {"message": "Not now."}))
COLUMNS: Final = (
    "kills",
    "kills between sending and confirmed",
    "kills with an answer in doubt",
    "faults that struck",
    "requests",
    "prices raised",
    "selections by hand",
    "approvals",
    "refused answers",
    "declines",
    "all offers declined",
    *FLAWS,
    "in doubt at the end",
    "unexpected ends",
)

_LONGEST_LIFE: Final = 10.0
_TIMEOUT: Final = 90.0
"""Seconds without an answer after which the bot is not expected to give the others."""
_MOST_TRIES: Final = 3
_MOST_WAITING: Final = 12
_IN_FLIGHT: Final = 0.05
"""Seconds in which the exchange takes what a dead bot has sent."""


def draw_kills(random: Random, *, more: int = 8, at_random: int = 6, ledger: bool = True) -> list[Kill]:
    """Draw kills: each point once, `more` of them while an answer is on its way, and some at any moment."""
    plan = draw(random, _POINTS, more=more, at_random=at_random)
    return plan if ledger else [kill for kill in plan if kill.step not in _UNREACHED]


class KillTrial:
    """An exchange with faults, forwarders who offer and raise prices, a person who approves too, and the bot.

    Args:
        directory: Directory of the store.
        backend: Event loop of the bot.
        seed: Seed of all choices.
        ledger: Whether the bot answers through `ctx`; else by the client, as people write it.

    Attributes:
        counts: Counts of events, and of errors.
        points: Number of kills at each point.
        forgotten: Records of the bot's store about each request that was not approved.
    """

    def __init__(self, directory: Path, backend: str, seed: int, *, ledger: bool = True) -> None:
        self._random = Random(seed)
        self._backend = backend
        self._ledger = ledger
        self._store = directory / "store.db"
        self._errors = directory / "errors"
        self._log = directory / "log"
        profile = Profile(
            decline_outcome="declined",
            # A second approval is carried out.
            second_approval=self._random.choice(("switched", "repeated")),
            late_visibility=self._random.choice((0.0, 0.1)),
            rows_clamp=self._random.choice((None, 20)),
        )
        self._exchange = Sandbox(profile, seed=seed).exchange
        second = self._exchange.add_account("second@demo.example", "second", role="forwarder")
        self._forwarders = (self._exchange.forwarder, self._exchange.rival, second)
        self._changes: list[PriceChange] = []
        self._run_number = 0
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.forgotten: list[str] = []

    async def run(self, plan: Sequence[Kill]) -> Counter[str]:
        """Run the bot until each kill of the plan has struck and all requests are awarded; return the counts."""
        async with serve(self._exchange) as face, fork_server(_PROGRAM, self._errors, self._backend) as server:
            async with anyio.create_task_group() as market:
                market.start_soon(self._trade)
                market.start_soon(self._strike)
                for kill in plan:
                    for _ in range(_MOST_TRIES):
                        if await self._kill(server, face.url, kill):
                            break
                market.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._rest(server, face.url)
        self.counts["faults that struck"] = len(self._exchange.faults.fired)
        self.counts["requests"] = len(self._exchange.audit_log.publications)
        self.counts["prices raised"] = len(self._changes)
        self.counts["refused answers"] = len(self._refused())
        self.counts["in doubt at the end"] = len(self._answers("sending", "unknown"))
        self.forgotten = await anyio.to_thread.run_sync(self._describe_forgotten)
        return self.counts + self._check()

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.2, 1.0))
            if self._waiting() <= _MOST_WAITING:
                self._publish()

    def _publish(self) -> None:
        """Publish a request with its offers. Amounts differ in their cents, also once they are raised."""
        exchange, now = self._exchange, time.time()
        request = exchange.publish(exchange.shipper, now, Cargo(quantity=self._random.randint(1, 50)))
        for cents, account in enumerate(self._forwarders):
            amount = self._random.randint(500, 999) + Decimal(cents) / 100
            exchange.offer(account, request, now, amount=amount)

    def _waiting(self) -> int:
        return sum(state.state == "open" for state in final_states(self._exchange.audit_log).values())

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.6))
            if not self._exchange.faults.waiting:
                self._arm(self._random.choice(_FAULTS), self._random.choice((None, APPROVE)))

    def _arm(self, name: str, path: str | None) -> None:
        factory = FAULTS[name]
        self._exchange.faults.add(*factory(path=path, processed=self._random.choice(factory.phases)))

    def _provoke(self, kill: Kill) -> None:
        """Give the bot a reason to reach the point."""
        match kill.step:
            case "unknown" | "resolved":
                self._arm("reset_after_processing", APPROVE)
            case "withdrawn":
                self._arm("throttled_huge", APPROVE)
            case "rejected":
                self._exchange.faults.add(_REFUSAL)
            case _:
                pass
        for _ in range(kill.visit):
            self._publish()

    async def _interfere(self) -> None:
        """Raise prices or approve by hand while the bot's answer is in doubt, which is the worst case."""
        await anyio.sleep(_IN_FLIGHT)
        open_requests = [
            request for request, state in final_states(self._exchange.audit_log).items() if state.state == "open"
        ]
        doubtful = {int(key.split(":")[1]) for key in self._answers("intent", "sending", "unknown")}
        # Without the ledger, nothing tells which these are.
        for request in sorted(doubtful.intersection(open_requests)) if self._ledger else open_requests:
            now = time.time()
            offers = self._exchange.offers_on(request, now)
            pending = sorted(
                (offer for offer in offers if offer.status == "pending"), key=lambda offer: Decimal(offer.amount)
            )
            # One rise a request: after two, the handlers may have declined each offer as the dearest of an event.
            has_risen = not {offer.index for offer in offers}.isdisjoint(change.offer for change in self._changes)
            match self._random.randrange(4):
                case 0 if pending and not has_risen:
                    raised = attrs.evolve(pending[0], amount=Decimal(pending[0].amount) + 500)
                    self._exchange.offers.put(raised.index, now, raised)
                    self._changes.append(PriceChange(now, raised.index, Decimal(raised.amount)))
                case 1 if pending:
                    self._exchange.select(self._random.choice(pending).index, now)
                case _:
                    pass

    # The bot

    async def _kill(self, server: ForkServer, url: str, kill: Kill) -> bool:
        """Run the bot once, and end it by SIGKILL; return whether that was where the plan has it."""
        self._provoke(kill)
        process = await self._start(server, url, kill)
        ended: int | None = None
        with anyio.move_on_after(_LONGEST_LIFE if kill.point is not None else kill.seconds):
            ended = await server.ended()
        is_hit = (ended is None) == (kill.point is None)
        if ended is None:
            os.kill(process, signal.SIGKILL)
            ended = await server.ended()
        await server.reap()
        self.counts["kills"] += 1
        self.counts["unexpected ends"] += ended != -signal.SIGKILL
        self.points[(kill.point or AT_RANDOM) if is_hit else TOO_LATE] += 1
        self.counts["kills between sending and confirmed"] += bool(self._answers("sending")) or (
            # Without the ledger, nothing is recorded; the point tells.
            not self._ledger and is_hit and kill.point in ("after sending", "before send", "after send")
        )
        self.counts["kills with an answer in doubt"] += bool(self._answers("unknown"))
        await self._interfere()
        return is_hit

    async def _rest(self, server: ForkServer, url: str) -> None:
        """Run the bot without kills until every offer is answered, and two seconds longer."""
        process = await self._start(server, url, Kill(None))
        left = self._left()
        with anyio.move_on_after(_TIMEOUT) as scope:
            while left:
                await anyio.sleep(1)
                if (now := self._left()) < left:
                    left, scope.deadline = now, anyio.current_time() + _TIMEOUT
        await anyio.sleep(2)
        os.kill(process, signal.SIGTERM)
        self.counts["unexpected ends"] += await server.ended() != 0
        await server.reap()

    async def _start(self, server: ForkServer, url: str, kill: Kill) -> int:
        self._run_number += 1
        return await server.start(
            {
                "url": url,
                "store": str(self._store),
                "log": str(self._log),
                "run": self._run_number,
                "backend": self._backend,
                "ledger": self._ledger,
                "settle": 0.3,
                "point": kill.point,
                "visit": kill.visit,
            }
        )

    # What came of it

    def _check(self) -> Counter[str]:
        return check(self._exchange.audit_log, self._expected(), self._changes)

    def _expected(self) -> list[int]:
        refused = self._refused()
        return [entry.request for entry in self._exchange.audit_log.publications if entry.request not in refused]

    def _left(self) -> int:
        """Return how many requests have no answer, and how many answers are in doubt."""
        waiting = not_approved(self._exchange.audit_log, self._expected())
        return len(waiting) + len(self._answers("sending", "unknown"))

    def _describe_forgotten(self) -> list[str]:
        lines = []
        for request in not_approved(self._exchange.audit_log, self._expected()):
            found = BotFile(self._store).explain(request)
            answers = [f"{answer} is {answer.state}" for answer in found.answers]
            deliveries = [f"{kind} to {handler!r} is {state}" for kind, handler, state, _ in found.deliveries]
            lines.append(f"{found.explanation}; {'; '.join([*answers, *deliveries]) or 'nothing was delivered'}")
        return lines

    def _refused(self) -> frozenset[int]:
        """Return the requests on which the exchange has refused an answer: the handlers give these up."""
        return frozenset(int(key.split(":")[1]) for key in self._answers("rejected"))

    def _answers(self, *states: str) -> list[str]:
        """Return the keys of the answers in these states, from a copy of the store's file."""
        if not self._store.exists():
            return []
        with closing(sqlite3.connect(copy_after_death(self._store))) as connection:
            rows = connection.execute("SELECT key, state FROM effect WHERE key LIKE 'answer:%'")
            return [key for key, state in rows if state in states]
