"""Shipper's bot that is killed again and again while it answers offers: in real processes, and in virtual time.

Forwarders offer and raise prices, a person approves too, and the exchange fails. Two handlers decide about each offer,
as two colleagues may who do not know of each other. The bot's program is `answers_program.py`.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import anyio
import attrs
from tests.crash.bot import WINDOW, Kill, draw_kills, effects
from tests.crash.processes import TRANSIENT_FAULTS, Forks, fork_server

from freight_exchange import Bot, Context, Offer, OfferEvent
from freight_exchange.store import MemoryStore
from freight_exchange.testing import FAILPOINTS, FAULTS, Cargo, Profile, Sandbox
from freight_sandbox.server import serve

__all__ = ["FLAWS", "POINTS", "AnswersTrial", "PriceChange", "check", "crash_in_virtual_time", "draw_answer_kills"]

FLAWS: Final = (
    *("approvals too many", "wrong offer approved", "declines too many", "not approved", "in doubt at the end"),
    "unexpected ends",
)
"""Counts that must be zero."""
POINTS: Final = [point for point in FAILPOINTS if point.split()[1] not in ("adopt", "rejected")]
"""Failpoints of an answer; the others concern bids, or an answer that the exchange refuses."""

_APPROVE: Final = "quote/approveoffer"
_FAULTS: Final = (*TRANSIENT_FAULTS, "approval_of_another_offer")
_LONGEST_LIFE: Final = 10.0
_TIMEOUT: Final = 90.0
"""Seconds without an answer after which the bot is not expected to give the others."""
_MOST_TRIES: Final = 3
_MOST_WAITING: Final = 12
_IN_FLIGHT: Final = 0.05
"""Seconds in which the exchange takes what a dead bot has sent."""


class PriceChange(NamedTuple):
    """New amount of an offer from a given time."""

    time: float
    offer: int
    amount: Decimal


def check(log: Any, expected: Iterable[int], changes: Sequence[PriceChange] = ()) -> Counter[str]:
    """Count the answers, and what is wrong with them.

    An approval is wrong if another pending offer on the request was cheaper at the time. A selection by a person counts
    as an approval: a bot's approval after it is one too many. A request whose offers were all declined has none left to
    approve, and is counted apart.

    Args:
        log: Audit log of the exchange.
        expected: The requests that must be awarded.
        changes: Prices that were changed.
    """
    request_of = {record.offer.index: record.offer.request for record in log.offers}
    counts: Counter[str] = Counter()
    by_hand = [change for change in log.changes if change.what == "selected" and change.call is None]
    approvals = Counter(change.request for change in by_hand)
    declines: Counter[int] = Counter()
    for call in log.calls_to("POST", _APPROVE):
        offer = int(call.parameters["offerIndex"]) if call.processed else 0
        if call.processed and call.parameters["approved"] != 1:
            declines[offer] += 1
        elif call.processed:
            counts["approvals"] += 1
            approvals[request_of[offer]] += 1
            prices = {
                record.offer.index: Decimal(record.offer.amount)
                for record in log.offers
                if record.offer.request == request_of[offer]
                and record.time <= call.time
                and not declines[record.offer.index]
            }
            prices |= {at.offer: at.amount for at in changes if at.offer in prices and at.time <= call.time}
            counts["wrong offer approved"] += offer != min(prices, key=lambda index: prices[index])
    left = {request for offer, request in request_of.items() if not declines[offer]}
    unanswered = [request for request in expected if not approvals[request]]
    counts["selections by hand"] = len(by_hand)
    counts["declines"] = declines.total()
    counts["declines too many"] = declines.total() - len(+declines)
    counts["approvals too many"] = approvals.total() - len(+approvals)
    offered = {*request_of.values()}
    counts["not approved"] = sum(request in left or request not in offered for request in unanswered)
    counts["all offers declined"] = len(unanswered) - counts["not approved"]
    return counts


def draw_answer_kills(random: Random, *, ledger: bool = True, more: int = 8, at_random: int = 6) -> list[Kill]:
    """Draw kills at each failpoint of an answer, while one is in flight, and at any moment."""
    return draw_kills(random, POINTS, more=more, at_random=at_random, ledger=ledger)


class AnswersTrial:
    """Exchange with faults, forwarders, a person, and a bot that is killed and started again.

    Args:
        directory: Directory of the store.
        seed: Seed of all choices.
        backend: Event loop of the bot.
        ledger: Whether the bot answers through `ctx`; else by the client, as people write it.

    Attributes:
        counts: Counts of events, and of errors.
        points: Kills at each failpoint; `at random`, and `too late` where a point was not reached.
    """

    def __init__(self, directory: Path, seed: int, backend: str, *, ledger: bool = True) -> None:
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
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()

    async def run(self, plan: Sequence[Kill]) -> Counter[str]:
        """Run the bot until each kill of the plan has struck and all requests are awarded; return the counts."""
        async with serve(self._exchange) as face, fork_server("answers_program", self._errors) as forks:
            async with anyio.create_task_group() as market:
                market.start_soon(self._trade)
                market.start_soon(self._strike)
                for kill in plan:
                    for _ in range(_MOST_TRIES):
                        if await self._kill(forks, face.url, kill):
                            break
                market.cancel_scope.cancel()
            self._exchange.faults.clear()
            await self._rest(forks, face.url)
        self.counts["kills"] = self.points.total()
        self.counts["faults that struck"] = len(self._exchange.faults.fired)
        self.counts["requests"] = len(self._exchange.audit_log.publications)
        self.counts["prices raised"] = len(self._changes)
        states = effects(self._store, kinds="'approval', 'decline'")
        self.counts["in doubt at the end"] = states["sending"] + states["unknown"]
        self.counts["unexpected ends"] += bool(self._errors.read_text())
        return self.counts + self._check()

    def _check(self) -> Counter[str]:
        log = self._exchange.audit_log
        return check(log, [entry.request for entry in log.publications], self._changes)

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.2, 1.0))
            if len(self._open()) <= _MOST_WAITING:
                self._publish()

    def _publish(self) -> None:
        """Publish a request with its offers. Amounts differ in their cents, also once they are raised."""
        exchange, now = self._exchange, time.time()
        request = exchange.publish(exchange.shipper, now, Cargo(quantity=self._random.randint(1, 50)))
        for cents, account in enumerate(self._forwarders):
            amount = self._random.randint(500, 999) + Decimal(cents) / 100
            exchange.offer(account, request, now, amount=amount)

    def _open(self) -> list[int]:
        states = {change.request: change.state.state for change in self._exchange.audit_log.changes}
        return [request for request, state in states.items() if state == "open"]

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.6))
            if not self._exchange.faults.waiting:
                self._arm(self._random.choice(_FAULTS), self._random.choice((None, _APPROVE)))

    def _arm(self, name: str, path: str | None) -> None:
        factory = FAULTS[name]
        self._exchange.faults.add(*factory(path=path, processed=self._random.choice(factory.phases)))

    def _provoke(self, kill: Kill) -> None:
        """Give the bot a reason to reach the failpoint of the kill."""
        if kill.step in ("unknown", "resolved"):
            self._arm("reset_after_processing", _APPROVE)
        elif kill.step == "withdrawn":
            self._arm("throttled_huge", _APPROVE)
        for _ in range(kill.visit):
            self._publish()

    async def _interfere(self) -> None:
        """Raise prices or approve by hand while the bot's answer is in doubt, which is the worst case."""
        await anyio.sleep(_IN_FLIGHT)
        states = effects(self._store, kinds="'approval', 'decline'")
        if self._ledger and not states["sending"] + states["unknown"]:
            return
        for request in self._open():
            now = time.time()
            offers = self._exchange.offers_on(request, now)
            pending = [offer for offer in offers if offer.status == "pending"]
            pending.sort(key=lambda offer: Decimal(offer.amount))
            # One rise a request: after two, the handlers may have declined each offer as the dearest of an event.
            has_risen = not {offer.index for offer in offers}.isdisjoint(change.offer for change in self._changes)
            draw = self._random.randrange(8)
            if draw == 0 and pending and not has_risen:
                raised = attrs.evolve(pending[0], amount=Decimal(pending[0].amount) + 500)
                self._exchange.offers.put(raised.index, now, raised)
                self._changes.append(PriceChange(now, raised.index, Decimal(raised.amount)))
            elif draw == 1 and pending:
                self._exchange.select(self._random.choice(pending).index, now)

    # The bot

    async def _kill(self, forks: Forks, url: str, kill: Kill) -> bool:
        """Run the bot once, and end it by SIGKILL; return whether that was where the plan has it."""
        self._provoke(kill)
        process = await self._start(forks, url, kill)
        status = await forks.end(process, _LONGEST_LIFE if kill.point is not None else kill.seconds)
        is_hit = (status is None) == (kill.point is None)
        self.counts["unexpected ends"] += await forks.kill(process) != -signal.SIGKILL
        self.points[(kill.point or "at random") if is_hit else "too late"] += 1
        states = effects(self._store, kinds="'approval', 'decline'")
        # Without the ledger, nothing is recorded; the point tells.
        in_flight = states["sending"] if self._ledger else is_hit and kill.point in WINDOW
        self.counts["kills with an answer in flight"] += bool(in_flight)
        self.counts["kills with an answer in doubt"] += bool(states["unknown"])
        await self._interfere()
        return is_hit

    async def _rest(self, forks: Forks, url: str) -> None:
        """Run the bot without kills until every offer is answered, and two seconds longer."""
        process = await self._start(forks, url, Kill(None))
        left = self._left()
        with anyio.move_on_after(_TIMEOUT) as scope:
            while left:
                await anyio.sleep(1)
                if (now := self._left()) < left:
                    left, scope.deadline = now, anyio.current_time() + _TIMEOUT
        await anyio.sleep(2)
        self.counts["unexpected ends"] += await forks.kill(process, signal.SIGTERM) != 0

    def _left(self) -> int:
        """Return how many requests have no answer, and how many answers are in doubt."""
        states = effects(self._store, kinds="'approval', 'decline'")
        return self._check()["not approved"] + states["sending"] + states["unknown"]

    async def _start(self, forks: Forks, url: str, kill: Kill) -> int:
        return await forks.start({
            "url": url,
            "store": str(self._store),
            "log": str(self._log),
            "backend": self._backend,
            "ledger": self._ledger,
            "point": kill.point,
            "visit": kill.visit,
        })  # fmt: skip


async def crash_in_virtual_time(seed: int, *, ledger: bool = True) -> Counter[str]:
    """Crash a bot up to ten times at named points while it answers; count crashes, answers, and what is wrong."""
    random = Random(seed)
    # A second approval is carried out: of another offer, or, as people's retries send it, of the same one.
    profile = Profile(decline_outcome="declined", second_approval="switched" if ledger else "repeated")
    sandbox = Sandbox(profile, seed=seed)
    requests = [sandbox.publish() for _ in range(3)]
    for request in requests:
        amounts = random.sample(range(500, 999), 2)
        for account, amount in zip((sandbox.forwarder, sandbox.rival), amounts, strict=True):
            async with sandbox.client(account) as forwarder:
                await forwarder.bids.submit(request, amount=amount, currency="USD")
    counts: Counter[str] = Counter()
    store = MemoryStore()
    for _ in range(10):
        if random.random() < 0.7:
            name = random.choice((*("reset_after_processing", "reset_after_send", "stall"), "throttled", "refused"))
            sandbox.strike(*FAULTS[name](path=_APPROVE))
        point, times = random.choice(POINTS), random.randint(1, 4)
        bot = _awarding_bot(store, ledger=ledger)
        async with sandbox.running(bot, account=sandbox.shipper, crash_at=point, times=times) as trial:
            try:
                await trial.idle()
            except RuntimeError:
                counts["crashes"] += 1
        if not trial.has_crashed and random.random() < 0.5:
            break
    async with sandbox.running(_awarding_bot(store, ledger=ledger), account=sandbox.shipper) as trial:
        await trial.idle()
    return counts + check(sandbox.audit_log, requests)


def _awarding_bot(store: MemoryStore, *, ledger: bool) -> Bot:
    bot = Bot(store=store, interval=timedelta(minutes=1), settle=timedelta(seconds=10))

    # Both handlers decide the same: the cheapest is approved, and the other one declined first.
    @bot.on_offer(id="award")
    @bot.on_offer_answered(id="award")
    async def award(offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        listing = ctx.event.listing
        if len(listing.offers) == 2 and listing.selected is None:
            cheapest = min(listing.offers, key=lambda entry: entry.amount or 0)
            await (ctx.approve(cheapest) if ledger else ctx.exchange.offers.approve(cheapest))

    @bot.on_offer(id="decline")
    async def decline(offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        offers = ctx.event.listing.offers
        if len(offers) == 2 and offer.amount == max(entry.amount or 0 for entry in offers):
            await (ctx.decline(offer) if ledger else ctx.exchange.offers.decline(offer))

    return bot
