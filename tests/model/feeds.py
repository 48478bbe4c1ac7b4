"""Parts that the models of both feeds share: operations, a service in motion, and the run of a reader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any, ClassVar, Final, Literal

import anyio
import attrs
from tests.model.feed_checker import Claim, History, Span, Told
from tests.model.reader import Reader
from tests.model.support import LOGIN_FAULTS, Backend, Disk, Fault, Profile, Service

from freight_exchange import FreightExchange, FreightExchangeError

__all__ = ["DAY", "HIDDEN_BETWEEN", "Drawing", "Op", "Plan", "World", "follow", "follow_naively", "plain"]

DAY: Final = 86_400.0
HIDDEN_BETWEEN: Final = 1_000_000
"""Seed from which on the service hides rows after it has cut the pages, which leaves short and empty ones."""

_BETWEEN_FALSE_ENDS: Final = 400.0
_SLOW_POLLS: Final = timedelta(hours=1)
"""Interval of the program in the quiet hours at the end of a long schedule."""

_NAIVE_PAGES: Final = 200
_NAIVE_POLLS: Final = 3_000
_NAIVE_PAGE: Final = 100
_LOSES_PAGES: Final = {"leave", "kill", "kill_waits", "kill_pages", "cancel", "disk_full"}


@attrs.frozen(kw_only=True)
class Op:
    """One operation.

    Attributes:
        at: Seconds since the beginning, by the loop's clock.
        which: Picks a record, or counts the steps until it strikes.
        amount: Seconds, or rows.
        page: It happens right before the first page with at least this number that is requested after `at`.
    """

    at: float
    what: str
    which: int = 0
    amount: float = 0.0
    name: str = ""
    page: int | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """Schedule of a run.

    Attributes:
        late: Seconds after which the service shows a change.
        boots: Whether the machine restarts with the program.
        calm: Time of the last failure.
        settled: Time at which all but absences must have been told.
        quiet: Hours that follow, after which all must have been told; 0 if none do.
        is_windowed: Whether the listing looks back for five days only.
    """

    seed: int
    backend: Backend
    profile: Profile
    late: float
    start: Literal["now", "backfill"] | float
    interval: float
    allowance: float = 60.0
    boots: bool
    ops: tuple[Op, ...]
    calm: float
    settled: float
    quiet: int
    is_windowed: ClassVar[bool] = False

    @classmethod
    def draw(cls, random: Random, drawing: Drawing, count: int, **plan: Any) -> Any:
        """Draw what all plans have in common; `plan` has the rest."""
        ops = tuple(drawing.ops(count))
        profile: Profile = plan["profile"]
        calm = max((drawing.now, *(op.at for op in ops))) + 1.0
        # A client obeys a Retry-After for an hour at most.
        silence = 3700.0 if any(op.name in ("throttled_huge", "throttled_date") for op in ops) else 0.0
        # After a long storm a client may pause for some minutes more.
        storm = 300.0 if any(op.what == "storm" for op in ops) else 0.0
        # What follows many hidden rows is only found by the deeper scans, which come every five minutes.
        behind = 600.0 if profile.rights == "after_paging" else 0.0
        # So is what is shown later than a feed allows for.
        behind += 600.0 if plan["late"] > plan.get("allowance", 60.0) else 0.0
        extra = 100 * profile.latency + silence + storm + behind
        return cls(
            backend="trio" if random.random() < 0.2 else "asyncio",
            boots=random.random() < 0.2,
            ops=ops,
            calm=calm,
            settled=calm + 7 * drawing.interval + plan["late"] + 60.0 + extra,
            interval=drawing.interval,
            **plan,
        )


class Drawing:
    """Builder of operations, each some time after the one before.

    Attributes:
        weights: Frequencies of the kinds.
        market: Operations that can happen between pages, or while the program is down.
        faults: Names of faults that strike the listing.
        bursts: Numbers of records that appear at once; the last but one needs a second page.
    """

    weights: ClassVar[Mapping[str, float]]
    market: ClassVar[tuple[str, ...]]
    faults: ClassVar[tuple[str, ...]]
    bursts: ClassVar[tuple[int, ...]]

    failures: ClassVar[Mapping[str, float]] = {
        "fault": 7.0, "storm": 1.8, "false_end": 1.5, "slow_page": 1.0, "stop": 6.0, "cancel": 2.0, "disk": 1.0,
        "pause": 1.0, "break": 1.0, "batches": 0.7, "suspend": 1.0, "wall": 1.0,
    }  # fmt: skip

    def __init__(self, random: Random, interval: float) -> None:
        self._random = random
        self._is_long = False
        self.interval = interval
        self.now = random.uniform(0.0, 2.5) * interval

    def ops(self, count: int) -> Iterator[Op]:
        for kind in self._random.choices([*self.weights], [*self.weights.values()], k=count):
            self.now += self._pick(0.0, 0.3, 1.0, 1.0, 2.5) * self._random.random() * self.interval
            special: Callable[[], Iterator[Op]] | None = getattr(self, f"_{kind}", None)
            yield from [self._op(kind)] if special is None else special()

    def _op(self, what: str, amount: float = 0.0, name: str = "", **other: Any) -> Op:
        other.setdefault("which", self._random.getrandbits(16))
        other.setdefault("at", round(self.now, 3))
        return Op(what=what, amount=amount, name=name, **other)

    def _pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _between(self) -> Iterator[Op]:
        for _ in range(self._pick(1, 1, 2, 4)):
            yield self._op(self._pick(*self.market), self._random.randint(2, 6), page=self._pick(0, 1, 1, 2, 3))

    def _burst(self) -> Iterator[Op]:
        yield self._op("burst", self._pick(*self.bursts))

    def _false_end(self) -> Iterator[Op]:
        # Only a listing of several pages can seem to end too early.
        yield self._op("burst", self.bursts[-2])
        yield self._op("false_end")

    def _slow_page(self) -> Iterator[Op]:
        # The window slides while pages are read, and what is shown late is the first to fall out of it.
        yield self._op("burst", self.bursts[-1])
        self.now += self._random.uniform(0.0, 60.0)
        yield self._op("slow_page", self._pick(1, 3, 4))

    def _fault(self) -> Iterator[Op]:
        name = self._pick(*self.faults) if self._random.random() < 0.85 else self._pick(*LOGIN_FAULTS)
        if name in LOGIN_FAULTS:
            # A login is only asked for again once the token is refused.
            yield self._op("fault", 1, "tokens_revoked", which=0)
        yield self._op("fault", self._pick(1, 1, 1, 2, 3, 7), name, which=self._pick(0, 0, 1, 2))

    def _storm(self) -> Iterator[Op]:
        lasts = self._pick(30.0, 200.0, 3600.0, 4 * 3600.0)
        yield self._op("storm", lasts, self._pick("unavailable", "refused", "throttled_seconds"))
        at = round(self.now + self._random.random() * min(lasts, 120.0), 3)
        yield self._op(self._pick(*self.market), 3, at=at)
        if self._random.random() < 0.5:
            yield self._set_wall()
        self.now += lasts if lasts < 3600.0 else 120.0
        if lasts >= 3600.0:
            # The machine sleeps for the rest: hours of refused polls would show nothing new.
            yield self._op("suspend", lasts)
            self.now += 1.0
        yield self._op("end_storm")

    def _stop(self) -> Iterator[Op]:
        how = self._pick("leave", "kill", "kill_waits", "kill_waits", "kill_pages", "kill_pages")
        down = self._pick(0.0, 0.0, 1.0, 120.0, 1800.0, 9 * 3600.0, self._random.uniform(0, 6.4) * DAY, 6 * DAY)
        down = self._once(down, 60.0)
        yield self._op(how, down, which=self._pick(0, 1, 2, 3, 5, 8, 13, 21, 34))
        # A program that has not come to that step yet is killed anyway.
        yield self._op("kill_overdue", at=round(self.now + min(down, 1.5 * self.interval), 3))
        for _ in range(self._pick(0, 1, 1, 3) if down > 1.0 else 0):
            yield self._op(self._pick(*self.market), 3, at=round(self.now + self._random.random() * down, 3))
        self.now += down

    def _cancel(self) -> Iterator[Op]:
        yield self._op("cancel", which=self._pick(0, 1, 2, 3, 5, 8, 13, 21))

    def _disk(self) -> Iterator[Op]:
        yield self._op("disk_full", which=self._pick(0, 0, 1, 2, 5))
        for _ in range(2):
            yield self._op(self._pick(*self.market), 3)
            self.now += self._pick(0.1, 1.2, 2.5) * self.interval
        yield self._op("disk_free")

    def _pause(self) -> Iterator[Op]:
        lasts = self._pick(0.3, 2.0, 5.0, 40.0) * self.interval
        yield self._op("pause", lasts)
        # A reader is slow only with an event in hand.
        yield self._op("burst", 1)
        self.now += 1.2 * self.interval + lasts * self._random.random()

    def _suspend(self) -> Iterator[Op]:
        lasts = self._pick(30.0, 600.0, 8 * 3600.0, self._random.uniform(0, 5.5) * DAY)
        yield self._op("suspend", self._once(lasts, 300.0))

    def _wall(self) -> Iterator[Op]:
        yield self._set_wall()

    def _set_wall(self) -> Op:
        return self._op("wall", self._pick(5.0, 600.0, 7200.0, DAY, 3 * DAY) * self._pick(1, -1))

    def _once(self, lasts: float, otherwise: float) -> float:
        """Return the time, or another if the schedule has a long time already."""
        if lasts <= 7200.0:
            return lasts
        self._is_long, was_long = True, self._is_long
        return otherwise if was_long else lasts


class World:
    """Service of a run, which follows a plan. Subclasses have a market, and tell the truth about it.

    Attributes:
        on_poll: Called before each first page.
        storms: Times in which every call failed, without those in which the machine was suspended.
        garbled: Subjects that were shown as a row without an identifier for a moment.
        garbage: What stood in those rows, with times.
        began: Time of the first request; `None` before.
    """

    def __init__(self, plan: Plan, *paths: str) -> None:
        self.plan = plan
        profile = attrs.evolve(plan.profile, late_visibility=plan.late)
        self.service = Service(profile, plan.seed, paths, before=self._before, after=self.change)
        self.exchange = self.service.sandbox.exchange
        self.counts = self.service.counts
        self.on_poll: Callable[[], None] = lambda: None
        self.garbled: set[int] = set()
        self.garbage: list[tuple[float, str]] = []
        self.began: float | None = None
        self.late_until = float("inf")
        self.storms: list[tuple[float, float]] = []
        self._storm_began: float | None = None
        self.lies: list[Op] = []
        self._between: list[Op] = []
        self._last_end = float("-inf")

    # What a subclass has

    def act(self, op: Op, now: float) -> None:
        """Carry out an operation on the market."""
        raise NotImplementedError

    def change(self, page: int | None, rows: dict[Any, Any]) -> bool:
        """Change the rows of a good reply if the schedule says so, and return whether it does."""
        raise NotImplementedError

    def spans(self) -> dict[int, list[Span]]:
        """Return the states of each subject, with the times from which the service showed them."""
        raise NotImplementedError

    def exempt(self, spans: dict[int, list[Span]], entered: float) -> set[int]:
        """Return the subjects whose last state need not be told."""
        return set()

    def shown(self, changed: float) -> float:
        """Return the time from which the service shows a change."""
        return max(changed, min(changed + self.plan.late, self.late_until))

    # What happens

    def happen(self, op: Op) -> None:
        """Carry out an operation now, or between two pages."""
        if op.page is not None:
            self._between.append(op)
        else:
            self._do(op)

    def calm(self) -> None:
        self.service.calm()
        self._between.clear()
        self.lies.clear()

    def _do(self, op: Op) -> None:
        self.counts[f"{op.what} between pages" if op.page is not None else op.what] += 1
        match op.what:
            case "reorder":
                self.exchange.reorder()
            case "respell":
                forms: tuple[Any, ...] = ("plain", "string", "padded", "exponent")
                self.exchange.profile = attrs.evolve(self.exchange.profile, number_form=forms[op.which % 4])
            case "no_longer_late":
                self.late_until = min(self.late_until, self.service.now)
                self.exchange.profile = attrs.evolve(self.exchange.profile, late_visibility=0.0)
            case "fault":
                seconds = 20.0 if op.name == "slow" else None
                self.service.strike(op.name, times=int(op.amount), skip=op.which, seconds=seconds)
            case "storm":
                self.service.strike(op.name, times=None)
                self._storm_began = self.service.now
            case "end_storm":
                self.service.calm()
                if self._storm_began is not None:
                    self.storms.append((self._storm_began, self.service.now))
            case "lie":
                self.lies += [op] * int(op.amount)
                self.service.changes_replies = True
            case "false_end":
                self._end_too_early(op)
            case "slow_page":
                self.service.delay_pages(25.0, times=int(op.amount))
            case "suspend":
                self._storm_began = None
                self.service.sandbox.machine.suspend(op.amount)
            case "wall":
                self.service.sandbox.machine.set_wall_clock(by=op.amount)
            case _:
                self.act(op, self.service.now)

    def _is_further_page(self, call: Any) -> bool:
        return (self.service.page_of(call) or 0) > 0

    def _end_too_early(self, op: Op) -> None:
        """Refuse one page of a scan that exists. A second refusal of it would be the end by all signs."""
        # Without latency, a scan takes no time.
        pause = _BETWEEN_FALSE_ENDS if self.plan.profile.latency else 5.0

        def is_due(call: Any) -> bool:
            return self._is_further_page(call) and anyio.current_time() - self._last_end > pause

        def note(exchange: Any, now: float) -> None:
            self._last_end = anyio.current_time()

        def answer(good: Any, now: float, drawn: Random) -> Any:
            headers = (("content-type", "application/json"),)
            status = 404 if op.which % 2 else 400
            return attrs.evolve(
                good, status=status, headers=headers, body=b'{"message":"No records found."}', wire=None
            )

        self.service.arm(Fault(name="false_end", when=is_due, change=note, mutate=answer))

    def _before(self, page: int | None) -> None:
        if self.began is None:
            self.began = self.service.now
        if page == 0:
            self.on_poll()
        for op in [op for op in self._between if page is not None and (op.page or 0) <= page]:
            self._between.remove(op)
            self._do(op)

    def garble(self, page: int | None, rows: dict[Any, Any], subjects: Callable[[Any], set[int]]) -> bool:
        """Replace a row of a page, so that not even its identifier can be read, if a lie is due."""
        if page is None or not rows or not self.lies:
            return False
        key = sorted(rows, key=str)[self.lies.pop().which % len(rows)]
        self.garbled |= subjects(rows[key])
        self.counts["row garbled"] += 1
        rows[key] = f"Undefined index, {self.counts['row garbled']}"
        self.garbage.append((self.service.now, rows[key]))
        return True


Watch = Callable[[FreightExchange, Any, timedelta], Any]
"""Maker of a feed from a client, a store and an interval."""


async def follow(
    world: World, disk: Disk, client: Callable[[], FreightExchange], watch: Watch, told: Callable[[Any], Told]
) -> History:
    """Run a reader under the plan of a world, and return what it was told beside the truth."""
    plan, service = world.plan, world.service
    interval = timedelta(seconds=plan.interval)
    reader = Reader(service, disk, client, lambda exchange, store: watch(exchange, store, interval), reboots=plan.boots)
    claims: list[Claim] = []
    polls = [service.now]

    def poll() -> None:
        polls.append(service.now)
        if reader.feed is not None and reader.entered is not None:
            status = reader.feed.status()
            is_claim = status.cover_age is not None and status.state != "priming" and status.unacknowledged == 0
            if is_claim and status.cover_age < timedelta(days=5):
                claims.append(Claim(service.now, service.now - status.cover_age.total_seconds()))

    world.on_poll = poll
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.run)
        await play(plan, world, reader)
        settled = service.now
        if plan.quiet:
            reader.watch = lambda exchange, store: watch(exchange, store, _SLOW_POLLS)
            reader.leave()
            await anyio.sleep(plan.quiet * 3600.0)
        reader.end()
    away = [later - earlier for earlier, later in itertools.pairwise(polls) if earlier >= (reader.entered or 0.0)]
    world.counts += service.strikes()
    world.counts["event"] += len(reader.deliveries)
    world.counts["call"] += service.calls
    was_set = any(op.what == "wall" for op in plan.ops)
    is_too_late = plan.late > plan.allowance
    spans = world.spans()
    return History(
        spans=spans,
        exempt=world.exempt(spans, reader.entered or 0.0),
        hidden={index for index in spans if service.hides(index)},
        start=plan.start,
        began=world.began or 0.0,
        entered=reader.entered,
        told=[
            attrs.evolve(told(one.event), time=one.time, turn=one.turn, acked=one.acked) for one in reader.deliveries
        ],
        claims=[] if (plan.boots and was_set) or plan.profile.rights == "after_paging" or is_too_late else claims,
        dates_updates=not is_too_late,
        garbled=world.garbled,
        # A page that the program did not live to write down is requested again, and is in order then.
        garbage=[] if any(op.what in _LOSES_PAGES for op in plan.ops) else world.garbage,
        longest_outage=max((later - earlier for earlier, later in itertools.pairwise(polls)), default=0.0),
        is_gap_due=plan.is_windowed and max(away, default=0.0) > 5 * DAY + 3600.0,
        steady=not was_set,
        # None does if the only one that goes on was set.
        knows_time=not (plan.boots and was_set),
        lives=reader.lives,
        refused=[call.time for call in service.listed if call.fault == "throttled_huge"],
        polls=[call.time for call in service.listed],
        storms=world.storms,
        interval=plan.interval,
        late=plan.late,
        settled=settled,
        # A 400 may mean that the service wants the index in another form.
        finds=plan.profile.lookup_missing != "400" and plan.profile.index_type != "str",
        quiet=service.now if plan.quiet else None,
    )


_TO_THE_READER: Final[Mapping[str, Callable[[Reader, Op], None]]] = {
    "leave": lambda reader, op: reader.leave(op.amount),
    "kill": lambda reader, op: reader.kill(op.amount),
    "kill_waits": lambda reader, op: reader.kill(op.amount, waits=op.which),
    "kill_pages": lambda reader, op: reader.kill(op.amount, pages=op.which),
    "kill_overdue": lambda reader, op: reader.kill_overdue(),
    "cancel": lambda reader, op: reader.cancel(op.which),
    "disk_full": lambda reader, op: reader.fill_disk(op.which),
    "disk_free": lambda reader, op: reader.free_disk(),
    "pause": lambda reader, op: reader.pause(op.amount),
    "break": lambda reader, op: reader.begin_anew(),
    "batches": lambda reader, op: reader.switch(),
}


async def play(plan: Plan, world: World, reader: Reader | None = None) -> None:
    """Carry out each operation at its time, and wait until a reader must have been told of all."""
    for op in sorted(plan.ops, key=lambda op: op.at):
        await anyio.sleep(max(0.0, op.at - anyio.current_time()))
        if op.what not in _TO_THE_READER:
            world.happen(op)
        elif reader is not None:
            _TO_THE_READER[op.what](reader, op)
    await anyio.sleep(max(0.0, plan.calm - anyio.current_time()))
    world.calm()
    if reader is not None:
        reader.calm()
    await anyio.sleep(plan.settled - anyio.current_time())


async def follow_naively(
    world: World, client: FreightExchange, path: str, row: Callable[[dict[str, Any]], None], *, windowed: bool
) -> None:
    """Run the loop that comes to mind first: list what was updated since the last poll, until a page is short.

    It advances on time, whether the poll succeeded or not. It is never stopped.
    """

    async def poll(exchange: FreightExchange) -> None:
        last = world.service.now
        while True:
            now, page = world.service.now, 0
            body: dict[str, Any] = {"type": "all", "rowsperpage": _NAIVE_PAGE}
            if windowed:
                body["secondsSinceUpdate"] = min(max(1, int(now - last) + 1), 432_000)
            last = now
            try:
                while True:
                    reply = await exchange.request("POST", path, body={**body, "offset": page}, repeatable=True)
                    (rows,) = reply.values() if isinstance(reply, dict) and reply else ((),)
                    rows = [*rows.values()] if isinstance(rows, dict) else [*(rows or ())]
                    for one in rows:
                        row(one)
                    page += 1
                    # A service that repeats its last page would keep the loop running.
                    if len(rows) < _NAIVE_PAGE or page > _NAIVE_PAGES:
                        break
            except (FreightExchangeError, ValueError, TypeError, KeyError, AttributeError):
                world.counts["a poll failed"] += 1
            # In the schedules of days it polls less often, to end in time.
            await anyio.sleep(max(world.plan.interval, world.plan.settled / _NAIVE_POLLS))

    async with client as exchange, anyio.create_task_group() as tasks:
        tasks.start_soon(poll, exchange)
        await play(world.plan, world)
        tasks.cancel_scope.cancel()


def plain(value: object) -> str:
    """Return a value in one spelling, whether it is a number, a text or missing."""
    if value is None:
        return ""
    try:
        return f"{Decimal(int(value) if isinstance(value, bool) else str(value)).normalize():f}"
    except ArithmeticError:
        return str(value)
