"""Model of a bot that offers on new requests: its process, store, network and service fail, and people trade beside.

Each row of the table is one kind of trouble; the seed draws its details. Eventual facts are judged: offers too many,
wrong prices, lost deliveries, false notices, storms of calls. A naive bot stands beside it.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import anyio
import attrs
from anyio.abc import TaskGroup
from tests.model.runner import Result
from tests.model.support import (
    BEGAN,
    FAULTS,
    Cargo,
    Cut,
    Disk,
    Fault,
    Profile,
    Sandbox,
    WireFault,
    disks,
    in_virtual_time,
)

from freight_exchange import (
    AlreadyOfferedError,
    Bid,
    Bot,
    Context,
    Drop,
    FreightExchangeError,
    OutcomeUnknownError,
    RateRequest,
    RetryLater,
    StoreError,
)
from freight_exchange.testing import FAILPOINTS

__all__ = ["ROWS", "naive", "run"]

_OFFERS: Final = "quote/submitoffer"
_LOST: Final = ("reset_after_processing", "reset_after_send", "reset_mid_reply", "fin_no_bytes", "stall",
                "garbage_status", "server_error", "server_error_after_commit", "bad_gateway", "request_timeout",
                "refused", "unavailable", "truncated_length", "html_200", "throttled_seconds")  # fmt: skip
_OUTAGES: Final = ("refused", "unavailable", "stall", "html_200", "maintenance_200", "unauthorized_once", "throttled",
                   "bad_gateway")  # fmt: skip
_WHILE_SENDING: Final = ("before sending", "after sending", "before send", "after send",
                         "before confirmed", "before unknown", "after unknown")  # fmt: skip
_SPAN, _MOST_CALLS = 600.0, 1500
_OWED: Final = 300.0
"""Seconds for which a request must have been open for an offer on it to be owed."""


@attrs.define
class Asked:
    """Price that a handler wants to offer."""

    at: float
    machine: int
    request: int
    revision: int
    amount: Decimal
    ending: str = ""


@attrs.define(eq=False)
class Life:
    """One process of a machine.

    Attributes:
        is_gone: Whether it was killed, so that nothing that it still does counts.
    """

    started: float
    is_gone: bool = False
    leaving: anyio.Event = attrs.field(factory=anyio.Event)
    error: BaseException | None = None
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    bot: Bot | None = None
    trial: Any = None


Register = Callable[["Machine", Life, Bot], None]


@attrs.define(eq=False)
class Machine:
    """Machine with one store, on which one process runs at a time."""

    play: Play
    number: int
    disk: Disk
    lives: list[Life] = attrs.field(factory=list)

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def start(self, register: Register | None = None, *, crash_at: str | None = None, times: int = 1) -> Life:
        """Start the program, by default with a handler that quotes new requests."""
        life = Life(self.play.now)
        self.lives.append(life)
        self.play.tasks.start_soon(self._live, life, register or quotes(), crash_at, times)
        return life

    async def end(self) -> None:
        """End the program in some way."""
        if self.play.random.random() < 0.5:
            await self.kill()
        else:
            await self.stop()

    async def stop(self) -> None:
        self.life.leaving.set()
        await self.life.ended.wait()
        self.play.counts["stopped"] += 1

    async def kill(self) -> None:
        """End the program as SIGKILL does: its files stay as they are, and it sends nothing more."""
        if self.life.ended.is_set():
            return
        self.play.counts["killed"] += 1
        self.life.is_gone = True
        self.life.leaving.set()
        self.disk.kill()
        self.play.is_cut = True
        await self.life.ended.wait()
        self.play.is_cut = False

    async def crash(self, within: float) -> None:
        """Wait until the program crashes, and end it."""
        for _ in range(int(2 * within)):
            if self.life.trial is not None and self.life.trial.has_crashed:
                break
            await anyio.sleep(0.5)
        await self.kill()

    async def _live(self, life: Life, register: Register, crash_at: str | None, times: int) -> None:
        try:
            if self.play.is_naive:
                await self._live_naively(life)
                return
            store = self.disk.open()
            life.bot = Bot(store=store, **self.play.options)
            register(self, life, life.bot)
            running = self.play.sandbox.running(life.bot, crash_at=crash_at, times=times)
            async with running as life.trial:
                while not running.has_crashed and running.status.state != "stopped":
                    if await _is_set(life.leaving, 20.0):
                        break
            self.play.counts["crashed"] += running.has_crashed
        except Exception as error:  # noqa: BLE001  # it ends this process alone
            life.error = error
            self.play.counts[f"ended by {type(error).__name__}"] += not life.is_gone
        finally:
            life.is_gone = True
            life.ended.set()

    async def _live_naively(self, life: Life) -> None:
        """Offer on each listed request that this process has not seen, and send again what got no answer."""
        seen: set[int] = set()
        async with self.play.sandbox.client() as exchange:
            while not life.leaving.is_set():
                with contextlib.suppress(FreightExchangeError):
                    for request in await exchange.requests.search().collect():
                        if request.index in seen:
                            continue
                        seen.add(request.index)
                        asked = self.play.ask(self, request, 0)
                        for _ in range(3):
                            with contextlib.suppress(OutcomeUnknownError):
                                await exchange.bids.submit(request.index, amount=asked.amount, currency="USD")
                                break
                await _is_set(life.leaving, self.play.interval)

    # What its handlers do

    async def offer(self, life: Life, ctx: Context, request: RateRequest, *, revision: int = 0, more: int = 0) -> None:
        """Offer as a handler does, and note the call and its result."""
        if life.is_gone:
            raise RetryLater(timedelta(seconds=60))
        asked = self.play.ask(self, request, revision, more)
        try:
            bid: Bid = await ctx.offer(
                amount=asked.amount, currency="USD", revision=revision, allow_existing=self.play.allows_existing
            )
        except BaseException as error:
            asked.ending = "" if life.is_gone else type(error).__name__
            raise
        if not life.is_gone:
            asked.ending = "bid"
            self.play.handled[request.index].add("bid")
            if not self.play.is_rounded and bid.amount not in self.play.prices(request.index):
                self.play.flaws.append(f"request {request.index}: the handler was given a bid of {bid.amount}")


async def _is_set(event: anyio.Event, within: float) -> bool:
    with anyio.move_on_after(within):
        await event.wait()
    return event.is_set()


def quotes(
    *,
    think: float = 0.0,
    ids: tuple[str, ...] = ("quote",),
    revises: bool = False,
    breaks: float = 0.0,
    before: Callable[[], None] = lambda: None,
) -> Register:
    """Return the registration of handlers that quote new requests after up to `think` seconds.

    Args:
        ids: Names of the handlers; each has its own price.
        revises: Whether an update gets a second price.
        breaks: Probability of each fault that a handler can have.
        before: Called first.
    """

    def register(machine: Machine, life: Life, bot: Bot) -> None:
        play = machine.play

        async def quote(request: RateRequest, ctx: Context, revision: int, more: int) -> None:
            before()
            if think:
                await anyio.sleep(play.random.uniform(0.0, think))
            if play.random.random() < breaks:
                raise _raised(play.random)
            if play.random.random() < breaks:
                play.tasks.start_soon(_leaked, machine, life, ctx, request)
            timeout = play.random.choice((0.01, 1.0, 20.0)) if play.random.random() < breaks else 10_000.0
            try:
                with anyio.move_on_after(timeout):
                    await machine.offer(life, ctx, request, revision=revision, more=more)
            except AlreadyOfferedError:
                play.handled[request.index].add("already")
                raise
            except Drop:
                raise
            except StoreError:
                raise
            except FreightExchangeError:
                if play.random.random() >= breaks:
                    raise
            if play.random.random() < breaks:
                raise _raised(play.random)

        def handler(revision: int, more: int) -> Callable[[RateRequest, Context], Awaitable[None]]:
            async def handle(request: RateRequest, ctx: Context) -> None:
                await quote(request, ctx, revision, more)

            return handle

        for number, name in enumerate(ids):
            bot.on_new(id=name)(handler(0, 500 * number))
        if revises:
            bot.on_updated(id="revise")(handler(1, -100))

        @bot.on_selected(id="selected")
        async def selected(bid: Bid, ctx: Context) -> None:
            if not life.is_gone:
                play.told["selected", bid.index] += 1

        @bot.on_withdrawn(id="withdrawn")
        async def withdrawn(request: RateRequest, ctx: Context) -> None:
            if not life.is_gone:
                play.told["gone", request.index] += 1
                if play.is_open(request.index):
                    play.flaws.append(f"request {request.index}: a false notice of its withdrawal")

    return register


async def _leaked(machine: Machine, life: Life, ctx: Context, request: RateRequest) -> None:
    """Offer in a task that outlives its handler, at another price."""
    await anyio.sleep(machine.play.random.choice((0.0, 0.5, 40.0)))
    with contextlib.suppress(FreightExchangeError, RetryLater, Drop, RuntimeError):
        await machine.offer(life, ctx, request, more=7)


def _raised(random: Random) -> Exception:
    kinds: tuple[Exception, ...] = (
        ValueError("a bug"), KeyError("tariff"), ExceptionGroup("several", [ValueError(), KeyError("x")]),
        StopAsyncIteration(), RecursionError("too deep"), MemoryError(), TimeoutError(), ZeroDivisionError(),
    )  # fmt: skip
    return random.choice(kinds)


class Play:
    """World of one schedule, and what happens in it.

    Attributes:
        people: Offers that a person made on the bot's account, as requests with times.
        told: Number of notices by kind and request.
        last: Handlers of the last processes, if they differ.
        is_cut: Whether a killed process still ends, so that what it sends must not arrive.
    """

    def __init__(self, seed: int, tasks: TaskGroup, folder: Callable[[], Disk], *, is_naive: bool) -> None:
        self.random = random = Random(f"bot {seed}")
        self.tasks = tasks
        self.is_naive = is_naive
        self.interval = random.choice((30.0, 120.0, 120.0, 240.0))
        self.settle = random.choice((30.0, 30.0, 120.0))
        self.sandbox = Sandbox(Profile(late_visibility=0.0), seed=seed, began=BEGAN)
        self.exchange = self.sandbox.exchange
        self.counts: Counter[str] = Counter()
        self.flaws: list[str] = []
        self.asked: list[Asked] = []
        self.handled: defaultdict[int, set[str]] = defaultdict(set)
        self.told: Counter[tuple[str, int]] = Counter()
        self.published: dict[int, float] = {}
        self.gone: dict[int, float] = {}
        self.awarded: set[int] = set()
        self.people: list[tuple[int, float]] = []
        self.reported: set[int] = set()
        self.troubles: list[tuple[float, float]] = []
        self.machines: list[Machine] = []
        self.allows_existing = self.is_rounded = self.is_cut = self.has_bugs = False
        self.owes = True
        self.last: Register | None = None
        self._folder = folder
        self._late: Any = None
        self._cut = Fault(
            name="dead", when=lambda call: self.is_cut, processed=False, times=None, wire=WireFault(Cut.REFUSED)
        )
        # An account that has offered before, and a page of requests that are gone.
        old = self.exchange.publish(self.sandbox.shipper, self.now - 600_000.0)
        self.exchange.offer(self.sandbox.forwarder, old, self.now - 500_000.0, amount=77)
        self.exchange.withdraw(old, self.now - 400_000.0)
        self.heal()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "start": "backfill", "interval": timedelta(seconds=self.interval),
            "settle": timedelta(seconds=self.settle), "drain": timedelta(seconds=5),
            # Of scans that find nothing, a few are enough.
            "selection_interval": timedelta(seconds=4 * self.interval),
        }  # fmt: skip

    @property
    def now(self) -> float:
        return self.sandbox.now()

    def machine(self) -> Machine:
        machine = Machine(self, len(self.machines), self._folder())
        self.machines.append(machine)
        return machine

    async def wait(self, least: float, most: float | None = None) -> None:
        await anyio.sleep(least if most is None else self.random.uniform(least, most))

    # What the service and people do

    def profile(self, **quirks: Any) -> None:
        self.exchange.profile = attrs.evolve(self.exchange.profile, **quirks)

    def publish(self, least: int, most: int | None = None) -> list[int]:
        count = self.random.randint(least, least if most is None else most)
        made = [self.sandbox.publish(Cargo(quantity=self.random.randrange(1, 400))) for _ in range(count)]
        self.published |= dict.fromkeys(made, self.now)
        return made

    def update(self, request: int) -> None:
        self.exchange.update(request, self.now, Cargo(quantity=self.random.randrange(1, 400)))

    def withdraw(self, request: int) -> None:
        self.gone[request] = self.now
        self.exchange.withdraw(request, self.now)

    def award(self) -> None:
        """Select one of the bot's bids."""
        bids = [(call, request) for call, request, _ in self.sent() if self.is_open(request)]
        if bids:
            request = self.random.choice(bids)[1]
            offers = self.sandbox.audit_log.offers_on(request, self.sandbox.forwarder.email)
            if offers:
                self.gone[request] = self.now
                self.awarded.add(request)
                self.exchange.select(offers[-1].offer.index, self.now)

    def person(self, request: int, amount: Decimal | int) -> None:
        """Offer by hand on the bot's account."""
        self.people.append((request, self.now))
        self.exchange.offer(self.sandbox.forwarder, request, self.now, amount=amount)

    def fail(self, *names: str, path: str | None = _OFFERS, times: int | None = 1) -> str:
        """Arm one of the faults, by default one of those that lose replies, for offers."""
        name = self.random.choice(names or _LOST)
        phase = self.random.choice(FAULTS[name].phases)
        self.sandbox.strike(*FAULTS[name](path=path, times=times, processed=phase))
        return name

    def leave_out(self, request: int) -> None:
        """Leave a request out of the listings, but not of look-ups."""

        def drop(reply: Any, now: float, drawn: Random) -> Any:
            rows = json.loads(reply.body)["raterequests"]
            kept = {key: row for key, row in rows.items() if str(row["index"]) != str(request)}
            return attrs.evolve(reply, body=json.dumps({"raterequests": kept}).encode())

        self.sandbox.strike(
            Fault(
                name="left out",
                path="quote/getrequests",
                when=lambda call: b"offset" in call.body,
                mutate=drop,
                times=None,
            )
        )

    def take_late(self, delay: float) -> None:
        """Let the service carry out an offer only so many seconds after it came."""

        def note(call: Any) -> bool:
            self._late = call
            return True

        def later(exchange: Any, now: float) -> None:
            self.tasks.start_soon(self._carry_out, self._late, delay)

        self.sandbox.strike(
            Fault(
                name="taken late",
                path=_OFFERS,
                method="POST",
                when=note,
                change=later,
                processed=False,
                wire=WireFault(self.random.choice((Cut.STALL, Cut.RESET_AFTER_SEND))),
            )
        )

    async def _carry_out(self, call: Any, delay: float) -> None:
        await anyio.sleep(delay)
        self.exchange.handle(call, self.now)

    def heal(self) -> None:
        """End all faults."""
        self.exchange.faults.clear()
        self.sandbox.strike(self._cut)

    # What is true

    def is_open(self, request: int) -> bool:
        return request not in self.gone

    def ask(self, machine: Machine, request: RateRequest, revision: int, more: int = 0) -> Asked:
        """Note a price. It shows the request, the revision and the machine."""
        assert request.quantity is not None
        amount = 1000 * request.index + int(request.quantity) + more + Decimal(10 * revision + machine.number) / 100
        self.asked.append(Asked(self.now, machine.number, request.index, revision, amount))
        return self.asked[-1]

    def prices(self, request: int) -> set[Decimal]:
        return {asked.amount for asked in self.asked if asked.request == request}

    def sent(self) -> list[tuple[Any, int, Decimal]]:
        """Return the offers of the programs that were carried out: call, request and amount."""
        calls = self.sandbox.audit_log.calls_to("POST", _OFFERS)
        return [
            (call, int(call.parameters["requestIndex"]), Decimal(str(call.parameters["offer"])))
            for call in calls
            if call.processed
        ]

    # The end

    async def finish(self) -> None:
        """Let each program finish its work in peace, and note what it reports."""
        self.heal()
        for machine in self.machines:
            machine.disk.recover()
        # A program that has met a full disk may still drain.
        await self.wait(30.0)
        for machine in self.machines:
            if not machine.lives or machine.life.ended.is_set():
                machine.start(self.last)
            await self.wait(self.interval + self.settle + 60.0)
            life = machine.life
            if not self.is_naive:
                await self._settle(life)
            await machine.stop()
            if life.error is not None:
                self.flaws.append(f"the last process ended by {life.error!r}")

    async def _settle(self, life: Life) -> None:
        bot = life.bot
        try:
            assert bot is not None
            for _ in range(2):
                with contextlib.suppress(TimeoutError):
                    await life.trial.idle(timedelta(hours=4))
                await self.wait(120.0)
            status = bot.status()
            if status.in_doubt or status.in_flight or status.waiting > status.parked or status.state != "running":
                self.flaws.append(f"the last process never became idle: {status}")
            letters = await bot.dead_letters()
            if letters and not self.has_bugs:
                self.flaws.append(f"given up, though no handler fails: {letters}")
            self.reported |= {letter.request for letter in letters if letter.request is not None}
            self.reported |= {doubt.request for doubt in await bot.doubts()}
        except Exception as error:  # noqa: BLE001  # judged
            self.flaws.append(f"the last process failed: {error!r}")
        self.counts["reported"] += len(self.reported)

    def judge(self) -> None:
        self._judge_offers()
        for request, since in self.published.items():
            self._judge_delivery(request, since)
        for request in self.awarded:
            if not self.is_naive and not self.told["selected", request]:
                self.flaws.append(f"request {request}: its selected bid was never told")
        lives = sum(len(machine.lives) for machine in self.machines)
        for (kind, request), count in self.told.items():
            if kind == "selected" and request not in self.awarded:
                self.flaws.append(f"request {request}: a false notice of a selected bid")
            if count > lives:
                self.flaws.append(f"request {request}: {count} notices that it is {kind}")
        self._judge_calm()

    def _judge_offers(self) -> None:
        made: defaultdict[tuple[int, int], list[tuple[float, Decimal]]] = defaultdict(list)
        for call, request, amount in self.sent():
            made[request, int(amount * 100) % 10].append((call.time, amount))
        for (request, number), offers in made.items():
            wanted = [one for one in self.asked if one.request == request and one.machine == number]
            if len(offers) > len({one.revision for one in wanted}):
                self.flaws.append(f"request {request}: {offers} were made where {wanted} were wanted")
            for at, amount in offers:
                if not any(one.amount == amount and one.at <= at for one in wanted):
                    self.flaws.append(f"request {request}: {amount} was sent, {wanted} were wanted")
            revisions = [int(amount * 10) % 10 for _, amount in offers]
            if revisions != sorted(revisions):
                self.flaws.append(f"request {request}: an older price came after a newer one, {offers}")
            self._judge_beside(request, number, offers[0][0])

    def _judge_beside(self, request: int, number: int, first: float) -> None:
        """Judge an offer beside one of a person that stood when the process began."""
        began = max((life.started for life in self.machines[number].lives if life.started <= first), default=first)
        if any(one == request and at < first for one, at in self.people):
            self.counts["beside a person's offer"] += 1
            stood = any(one == request and at + self.settle < began for one, at in self.people)
            if stood and not self.allows_existing:
                self.flaws.append(f"request {request}: an offer beside one that stood before")

    def _judge_delivery(self, request: int, since: float) -> None:
        if self.gone.get(request, self.now) - since < _OWED or not self.owes:
            return
        has_bid = bool(self.sandbox.audit_log.offers_on(request, self.sandbox.forwarder.email))
        if not has_bid and request not in self.reported:
            asked = [one for one in self.asked if one.request == request]
            self.flaws.append(f"request {request}: no offer, and on no list; {self.handled.get(request)}, {asked}")

    def _judge_calm(self) -> None:
        times = [call.time for call in self.sandbox.audit_log.calls]
        if times and max(bisect_left(times, at + _SPAN) - first for first, at in enumerate(times)) > _MOST_CALLS:
            self.flaws.append(f"more than {_MOST_CALLS} calls in ten minutes")
        for since, until in self.troubles:
            self.counts["seconds of trouble"] += int(until - since)
            self.counts["calls in trouble"] += bisect_left(times, until) - bisect_left(times, since)
            # The same time before it, or as much of it as there was.
            self.counts["calls in health"] += bisect_left(times, since) - bisect_left(times, 2 * since - until)


# The rows


async def _killed(play: Play) -> None:
    """Crash at failpoints, and kill at any time, several times in a row."""
    machine = play.machine()
    play.publish(1, 4)
    for _ in range(play.random.randint(1, 5)):
        if play.random.random() < 0.4:
            play.fail(times=play.random.choice((1, 2)))
        if play.random.random() < 0.6:
            points = play.random.choice((FAILPOINTS, _WHILE_SENDING))
            machine.start(crash_at=play.random.choice(points), times=play.random.randint(1, 4))
            play.publish(0, 2)
            await machine.crash(play.random.uniform(10.0, 300.0))
        else:
            machine.start(quotes(think=2.0))
            play.publish(0, 2)
            await play.wait(0.0, play.random.choice((1.0, 100.0)))
        await machine.kill()
        play.heal()
        await play.wait(0.0, play.random.choice((1.0, 60.0)))


async def _at_each_failpoint(play: Play) -> None:
    """Crash while one offer goes its way, with or without its reply, and go on before it is listed."""
    play.profile(late_visibility=play.random.uniform(0.2, 0.9) * play.settle)
    machine = play.machine()
    machine.start()
    await play.wait(2 * play.interval)
    await machine.stop()
    for point in (*play.random.sample(_WHILE_SENDING, 5), play.random.choice(FAILPOINTS)):
        if play.random.random() < 0.6:
            play.fail()
        machine.start(crash_at=point)
        play.publish(1)
        await machine.crash(3 * play.interval + play.settle)
        play.heal()


async def _stopped(play: Play) -> None:
    """Stop and start, while handlers and replies are slow."""
    machine = play.machine()
    play.publish(3)
    for _ in range(play.random.randint(1, 4)):
        if play.random.random() < 0.6:
            play.fail(times=play.random.choice((1, 2)))
        machine.start(quotes(think=play.random.choice((0.0, 2.0, 60.0))))
        play.publish(0, 2)
        await play.wait(0.0, 2 * play.interval)
        await machine.stop()
        play.heal()


async def _reply_lost(play: Play) -> None:
    """Lose replies, list bids late and kill."""
    play.profile(late_visibility=play.random.uniform(0.2, 0.9) * play.settle)
    machine = play.machine()
    machine.start(quotes(think=play.random.choice((0.0, 10.0))))
    await play.wait(1.0, 60.0)
    play.fail(times=play.random.choice((1, 2, 4)))
    play.publish(2, 4)
    if play.random.random() < 0.5:
        # What cannot be looked for stays in doubt.
        await play.wait(play.interval + 5.0)
        play.fail("unavailable", "maintenance_200", "html_200", path="quote/bid", times=None)
        await play.wait(600.0, 3600.0)
        play.heal()
    await play.wait(play.interval, play.interval + 300.0)
    play.award()
    if play.random.random() < 0.6:
        await machine.end()
        machine.start()
    await play.wait(60.0, 900.0)
    play.publish(1)


async def _taken_late(play: Play) -> None:
    """Carry out offers that their sender gave up long ago."""
    slowest = play.random.choice((20.0, 45.0, 90.0))
    play.settle = slowest + 30.0
    machine = play.machine()
    for _ in range(3):
        play.take_late(play.random.uniform(0.5, 1.0) * slowest)
    machine.start()
    play.publish(4)
    await play.wait(play.interval, play.interval + 120.0)
    if play.random.random() < 0.6:
        await machine.end()
    await play.wait(slowest)


async def _rounded(play: Play) -> None:
    """Round amounts, beside a person's bids at nearly the same price."""
    play.profile(amount_rounding=play.random.choice(("cents", "whole")))
    play.allows_existing = play.is_rounded = True
    play.owes = False
    machine = play.machine()
    for request in play.publish(4):
        play.person(request, request * 1000 + play.random.choice((0, 1, 200)))
    machine.start()
    await play.wait(play.interval)
    play.fail(times=play.random.choice((1, 3)))
    for request in play.publish(3):
        play.person(request, request * 1000 + play.random.randrange(400))
    await play.wait(play.interval, play.interval + 100.0)
    if play.random.random() < 0.5:
        await machine.kill()


async def _person(play: Play) -> None:
    """Let a person offer before the start, and while handlers decide."""
    requests = play.publish(6)
    for request in play.random.sample(requests, 3):
        play.person(request, play.random.choice((77, request * 1000)))
    await play.wait(0.0, 200.0)
    machine = play.machine()
    machine.start(quotes(think=play.random.choice((5.0, 100.0))))
    await play.wait(30.0, 200.0)
    if play.random.random() < 0.5:
        play.fail(times=2)
    requests = play.publish(4)
    await play.wait(0.0, play.interval)
    for request in play.random.sample(requests, 2):
        play.person(request, play.random.choice((78, request * 1000 + 1)))
        await play.wait(0.0, 20.0)
    await play.wait(play.interval)
    play.award()


async def _outage(play: Play) -> None:
    """Fail every call, or every listing, for hours."""
    machine = play.machine()
    machine.start()
    play.publish(2)
    lasts = play.random.choice((600.0, 3600.0, 6 * 3600.0))
    await play.wait(lasts + 600.0)
    began = play.now
    paths = (None, None, "quote/getrequests", "quote/bid", _OFFERS)
    play.fail(*_OUTAGES, path=play.random.choice(paths), times=None)
    for _ in range(3):
        play.publish(0, 2)
        await play.wait(lasts / 3)
    play.troubles.append((began, play.now))
    play.heal()


async def _login(play: Play) -> None:
    """Revoke tokens, and reject the password for a while."""
    machine = play.machine()
    machine.start(quotes(think=play.random.choice((0.0, 20.0))))
    await play.wait(2.0, 60.0)
    for _ in range(play.random.randint(1, 4)):
        play.publish(1, 3)
        match play.random.randrange(3):
            case 0:
                await play.wait(0.0, 1.5 * play.interval)
            case 1:
                play.fail("login_message_200", "login_message_403", path="login", times=None)
                play.exchange.expire_tokens()
                await play.wait(10.0, 600.0)
                play.heal()
            case _:
                play.fail("unauthorized_once", "unauthorized_200", times=play.random.randint(1, 3))
        play.exchange.expire_tokens()
        await play.wait(0.5 * play.interval, 2 * play.interval)
    # A rejected login is tried again less and less often, but at least every quarter of an hour.
    await play.wait(1000.0)


async def _clocks(play: Play) -> None:
    """Set the wall clock and suspend the machine, while the bot runs and while it does not."""
    machine = play.machine()
    machine.start(quotes(think=5.0))
    for _ in range(play.random.randint(2, 5)):
        play.publish(1, 2)
        if play.random.random() < 0.5:
            play.fail()
        await play.wait(0.0, 2 * play.interval)
        ends = play.random.random() < 0.5
        if ends:
            await machine.end()
        play.sandbox.machine.set_wall_clock(by=play.random.choice((-86400.0, -3600.0, -30.0, 30.0, 3600.0, 86400.0)))
        if play.random.random() < 0.4:
            play.sandbox.machine.suspend(play.random.choice((60.0, 7200.0)))
        if ends:
            machine.start()
        await play.wait(0.0, 2 * play.interval)


async def _disk_full(play: Play) -> None:
    """Refuse writes of the store for a while, from any one on."""
    machine = play.machine()
    play.publish(3)
    for _ in range(play.random.randint(1, 3)):
        if not machine.lives or machine.life.ended.is_set():
            machine.start(quotes(think=2.0))
        await play.wait(0.0, 2 * play.interval)
        if play.random.random() < 0.4:
            play.fail()
        machine.disk.fill(play.random.choice((0, 1, 2, 5, 13)))
        play.publish(0, 3)
        await play.wait(play.interval, 4 * play.interval)
        machine.disk.recover()
        play.heal()
        if play.random.random() < 0.6:
            await machine.end()


async def _store_put_back(play: Play) -> None:
    """Go on from a copy of the store that lacks the last offers."""
    machine = play.machine()
    machine.start()
    play.publish(4)
    await play.wait(2 * play.interval, 4 * play.interval)
    await machine.stop()
    backup = machine.disk.back_up()
    machine.start()
    for _ in range(play.random.randint(1, 4)):
        play.publish(1, 3)
        await play.wait(play.interval, 5 * play.interval)
    await machine.end()
    # The documentation asks for it: the last offers have to be listed.
    await play.wait(play.settle, play.settle + 60.0)
    machine.disk.put_back(backup)
    machine.start()
    play.publish(2)
    await play.wait(play.interval)


async def _store_lost(play: Play) -> None:
    """Go on without the store, once an offer is listed."""
    machine = play.machine()
    machine.start()
    if play.random.random() < 0.5:
        play.fail(times=2)
    play.publish(4)
    await play.wait(play.interval, 3 * play.interval)
    await machine.end()
    play.heal()
    await play.wait(play.settle + 60.0)
    machine.disk.lose()
    machine.start()
    await play.wait(0.0, play.settle)
    play.publish(0, 2)


async def _two_machines(play: Play) -> None:
    """Run a second machine by mistake, with a store of its own or with a copy."""
    first, second = play.machine(), play.machine()
    first.start()
    play.publish(2)
    await play.wait(play.random.choice((2.0, 20.0, 200.0)))
    if play.random.random() < 0.5:
        await first.stop()
        second.disk.put_back(first.disk.back_up())
        first.start()
    second.start(quotes(think=5.0))
    for _ in range(play.random.randint(1, 3)):
        play.publish(1, 3)
        await play.wait(0.5 * play.interval, 3 * play.interval)


async def _handlers_with_bugs(play: Play) -> None:
    """Let handlers raise anything, leak tasks, swallow errors and run out of time."""
    machine = play.machine()
    play.has_bugs = True
    buggy = quotes(breaks=play.random.choice((0.1, 0.3)), think=play.random.choice((0.0, 5.0)))
    machine.start(buggy)
    if play.random.random() < 0.6:
        play.fail(times=3)
    play.publish(5)
    await play.wait(2 * play.interval, 2 * play.interval + 300.0)
    await machine.end()
    machine.start(buggy)
    await play.wait(play.interval)
    # What such a handler gave up silently is not owed.
    play.owes = False


async def _revisions(play: Play) -> None:
    """Quote a request by several handlers, and again when it changes."""
    machine = play.machine()
    register = quotes(ids=("quote", "rival"), revises=True, think=play.random.choice((0.0, 5.0)))
    play.last = register
    machine.start(register)
    requests = play.publish(4)
    if play.random.random() < 0.6:
        play.fail(times=3)
    for _ in range(play.random.randint(1, 3)):
        await play.wait(0.3 * play.interval, 2 * play.interval)
        for request in play.random.sample(requests, 2):
            play.update(request)
        if play.random.random() < 0.4:
            await machine.end()
            machine.start(register)


async def _deploys(play: Play) -> None:
    """Rename handlers from deploy to deploy, with a broken tariff between two good ones."""
    machine = play.machine()

    play.has_bugs = True
    # The last deploy has the handlers of all, for what still waits for them.
    play.last = quotes(ids=("quote", "east", *(f"quote_{number}" for number in range(4))))

    def broken() -> None:
        raise KeyError("no tariff")

    for number in range(play.random.randint(2, 4)):
        if play.random.random() < 0.5:
            play.fail(times=play.random.choice((1, 2)))
        ids = play.random.choice((("quote",), ("quote", f"quote_{number}"), ("east", "quote")))
        machine.start(quotes(ids=ids, before=broken if number % 2 else lambda: None))
        play.publish(1, 3)
        await play.wait(0.3 * play.interval, 2 * play.interval)
        await machine.end()
        play.heal()
    await play.wait(30.0)


async def _withdrawn(play: Play) -> None:
    """Withdraw and award requests, publish others, and leave one out of the listing for a while."""
    machine = play.machine()
    machine.start()
    requests = play.publish(12)
    await play.wait(3 * play.interval)
    play.leave_out(requests.pop())
    for _ in range(play.random.randint(2, 4)):
        await play.wait(0.5 * play.interval, 10 * play.interval)
        for request in play.random.sample([one for one in requests if play.is_open(one)], 1):
            play.withdraw(request)
        play.award()
        if play.random.random() < 0.4:
            await machine.end()
            machine.start()
        requests += play.publish(0, 2)
    await play.wait(0.0, 7200.0)


ROWS: Final[Mapping[str, Callable[[Play], Awaitable[None]]]] = {
    "killed": _killed,
    "crashed at a failpoint": _at_each_failpoint,
    "stopped": _stopped,
    "replies lost, bids listed late": _reply_lost,
    "offers taken late": _taken_late,
    "amounts rounded": _rounded,
    "a person on the account": _person,
    "an outage": _outage,
    "logins revoked and rejected": _login,
    "clocks jump": _clocks,
    "a full disk": _disk_full,
    "a store put back": _store_put_back,
    "a store lost": _store_lost,
    "two machines": _two_machines,
    "handlers with bugs": _handlers_with_bugs,
    "revisions": _revisions,
    "deploys": _deploys,
    "requests withdrawn": _withdrawn,
}
"""Kinds of trouble that a bot survives. The seed's remainder picks the row."""


def run(seed: int) -> Result:
    """Play the schedule of a seed, and judge it."""
    play = _played(seed, is_naive=False)
    play.counts.update(f"fault {name}" for name, *_ in play.exchange.faults.fired if name != "dead")
    play.counts["offers"] += len(play.sent())
    play.counts["notices"] += play.told.total()
    return Result([f"{_row(seed)}: {flaw}" for flaw in play.flaws], play.counts)


def naive(seed: int) -> bool:
    """Return whether a naive bot offers twice, at all or in vain under the schedule of a seed."""
    return bool(_played(seed, is_naive=True).flaws)


def _row(seed: int) -> str:
    return [*ROWS][seed % len(ROWS)]


def _played(seed: int, *, is_naive: bool) -> Play:
    async def work() -> Play:
        async with anyio.create_task_group() as tasks:
            play = Play(seed, tasks, folder, is_naive=is_naive)
            await ROWS[_row(seed)](play)
            await play.finish()
            tasks.cancel_scope.cancel()
        play.judge()
        return play

    with disks() as folder:
        return in_virtual_time(seed, "trio" if seed % 4 == 3 else "asyncio", work)
