"""Model of `exchange.watch()`: a service in motion, a program that fails, and the naive loop beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final, Literal

import anyio
import attrs
from tests.model.reader import Delivery, Reader
from tests.model.runner import Result
from tests.model.support import (
    LISTING_FAULTS,
    LOGIN_FAULTS,
    Backend,
    Cargo,
    Disk,
    Fault,
    Profile,
    Service,
    disk,
    in_virtual_time,
    is_hidden,
)
from tests.model.watcher_checker import Claim, History, Span, State, Told, check

from freight_exchange import FreightExchange, FreightExchangeError

__all__ = ["draw", "naive", "run"]

_LISTING: Final = "quote/getrequests"
_DAY: Final = 86_400.0
_BETWEEN_FALSE_ENDS: Final = 400.0
HIDDEN_BETWEEN: Final = 1_000_000
"""Seed from which on the service hides rows after it has cut the pages, which leaves short and empty ones."""
_SLOW_POLLS: Final = timedelta(hours=1)
"""Interval of the program in the quiet hours at the end of a long schedule."""


# Schedules


@attrs.frozen(kw_only=True)
class Op:
    """One operation.

    Attributes:
        at: Seconds since the beginning, by the loop's clock.
        which: Picks a request, or counts the steps until it strikes.
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
        ages: Ages of the requests that are there at the beginning.
        calm: Time of the last failure.
        settled: Time at which all but withdrawals must have been told.
        is_long: Whether quiet hours follow, after which all must have been told.
    """

    seed: int
    backend: Backend
    profile: Profile
    late: float
    start: Literal["now", "backfill"] | float
    interval: float
    allowance: float
    boots: bool
    ages: tuple[float, ...]
    ops: tuple[Op, ...]
    calm: float
    settled: float
    is_long: bool


def draw(seed: int) -> Plan:
    """Draw the schedule of a seed."""
    random = Random(f"watcher {seed}")
    interval = random.choice((15.0, 30.0, 30.0, 60.0))
    allowance = random.choice((60.0, 60.0, 120.0))
    late = random.choice((0.0, 0.0, 5.0, 30.0, 55.0))
    latency = random.choice((0.0, 0.0, 0.0, 0.0, 0.2, 1.0))
    start: Literal["now", "backfill"] | float = random.choice(
        ("now", "now", "backfill", random.choice((120.0, 3600.0, 2 * _DAY)))
    )
    drawing = _Drawing(random, interval)
    ops = tuple(drawing.ops(random.randint(4, 12)))
    calm = max((drawing.now, *(op.at for op in ops))) + 1.0
    # A client obeys a Retry-After for an hour at most, whatever it says.
    silence = 3700.0 if any(op.name in ("throttled_huge", "throttled_date") for op in ops) else 0.0
    # After a long storm a client may pause for some minutes more.
    storm = 300.0 if any(op.what == "storm" for op in ops) else 0.0
    # What follows many hidden rows is only found by the deeper scans, which come every five minutes.
    behind = 600.0 if seed >= HIDDEN_BETWEEN else 0.0
    return Plan(
        seed=seed,
        backend="trio" if random.random() < 0.2 else "asyncio",
        profile=_profile(random, latency, hides_between=seed >= HIDDEN_BETWEEN),
        late=late,
        start=start,
        interval=interval,
        allowance=allowance,
        boots=random.random() < 0.2,
        ages=tuple(sorted((_age(random) for _ in range(random.choice((0, 3, 12, 40)))), reverse=True)),
        ops=ops,
        calm=calm,
        settled=calm + 7 * interval + late + 60.0 + 100 * latency + silence + storm + behind,
        is_long=random.random() < 0.25,
    )


def _profile(random: Random, latency: float, *, hides_between: bool) -> Profile:
    """Draw the points that the document leaves open, as one service would decide them."""
    return Profile(
        published_notes="as_sent",
        order=random.choice(("newest", "oldest", "index", "updated", "random")),
        # The documented default is 20 rows: no service cuts pages to fewer.
        rows_clamp=random.choice((None, None, 20, 20, 25, 50)),
        clamp_stride=random.choice(("clamped", "asked")),
        past_end=random.choice(("empty", "empty", "400", "404", "416", "last_page")),
        nothing_found=random.choice(("empty", "empty", "404")),
        lookup_missing=random.choice(("empty", "404", "400")),
        since_lookup=random.choice(("ignored", "applied", "applied_if_sent")),
        index_type=random.choice(("any", "any", "str", "int")),
        hidden=random.choice(("rows", "runs") if hides_between else ("none", "none", "none", "rows")),
        rights="after_paging" if hides_between else "before_paging",
        collection_shape=random.choice(("object", "list", "gaps", "shuffled")),
        empty_collection=random.choice(("object", "list", "null", "bare_object", "bare_list", "bare_null")),
        number_form=random.choice(("plain", "string", "padded", "exponent")),
        hazardous_form=random.choice(("int", "string", "bool")),
        extra_keys=random.random() < 0.2,
        latency=latency,
        token_lifetime=random.choice((10**7, 10**7, 10**7, 90)),
    )


def _age(random: Random) -> float:
    return random.choice((random.uniform(0, 120), random.uniform(0, 7200), random.uniform(0, 6.2 * _DAY)))


class _Drawing:
    """Builder of operations, each some time after the one before."""

    def __init__(self, random: Random, interval: float) -> None:
        self._random = random
        self._interval = interval
        self._is_long = False
        self.now = random.uniform(0.0, 2.5) * interval

    def ops(self, count: int) -> Iterator[Op]:
        for kind in self._random.choices([*_WEIGHTS], [*_WEIGHTS.values()], k=count):
            self.now += self._random.choice((0.0, 0.3, 1.0, 1.0, 2.5)) * self._random.random() * self._interval
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
            what = self._pick("publish", "update", "touch", "withdraw", "reorder", "burst")
            yield self._op(what, self._random.randint(2, 6), page=self._pick(0, 1, 1, 2, 3))

    def _burst(self) -> Iterator[Op]:
        yield self._op("burst", self._pick(2, 4, 8, 25, 60))

    def _flip(self) -> Iterator[Op]:
        which = self._random.getrandbits(16)
        yield self._op("update", which=which)
        self.now += self._pick(0.1, 1.2, 2.5) * self._interval
        yield self._op("revert", which=which)

    def _false_end(self) -> Iterator[Op]:
        # Only a listing of several pages can seem to end too early.
        yield self._op("burst", 40)
        yield self._op("false_end")

    def _fault(self) -> Iterator[Op]:
        name = self._pick(*LISTING_FAULTS) if self._random.random() < 0.85 else self._pick(*LOGIN_FAULTS)
        if name in LOGIN_FAULTS:
            # A login is only asked for again once the token is refused.
            yield self._op("fault", 1, "tokens_revoked", which=0)
        yield self._op("fault", self._pick(1, 1, 1, 2, 3, 7), name, which=self._pick(0, 0, 1, 2))

    def _storm(self) -> Iterator[Op]:
        lasts = self._pick(30.0, 200.0, 3600.0, 4 * 3600.0)
        yield self._op("storm", lasts, self._pick("unavailable", "refused", "throttled_seconds"))
        what = self._pick("publish", "update", "touch", "burst")
        yield self._op(what, 3, at=round(self.now + self._random.random() * min(lasts, 120.0), 3))
        self.now += lasts if lasts < 3600.0 else 120.0
        if lasts >= 3600.0:
            # The machine sleeps for the rest: hours of refused polls would show nothing new.
            yield self._op("suspend", lasts)
            self.now += 1.0
        yield self._op("end_storm")

    def _lie(self) -> Iterator[Op]:
        yield self._op("publish")
        yield self._op("lie", self._pick(1, 1, 3))

    def _stop(self) -> Iterator[Op]:
        how = self._pick("leave", "kill", "kill_waits", "kill_waits", "kill_pages", "kill_pages")
        down = self._pick(0.0, 0.0, 1.0, 120.0, 1800.0, 9 * 3600.0, self._random.uniform(0, 6.4) * _DAY)
        down = self._once(down, 60.0)
        yield self._op(how, down, which=self._pick(0, 1, 2, 3, 5, 8, 13, 21, 34))
        # A program that has not come to that step yet is killed anyway.
        yield self._op("kill_overdue", at=round(self.now + min(down, 1.5 * self._interval), 3))
        for _ in range(self._pick(0, 1, 1, 3) if down > 1.0 else 0):
            what = self._pick("publish", "update", "touch", "withdraw", "burst")
            yield self._op(what, 3, at=round(self.now + self._random.random() * down, 3))
        self.now += down

    def _cancel(self) -> Iterator[Op]:
        yield self._op("cancel", which=self._pick(0, 1, 2, 3, 5, 8, 13, 21))

    def _disk(self) -> Iterator[Op]:
        yield self._op("disk_full", which=self._pick(0, 0, 1, 2, 5))
        yield from self._flip()
        yield self._op("disk_free")

    def _pause(self) -> Iterator[Op]:
        lasts = self._pick(0.3, 2.0, 5.0, 40.0) * self._interval
        yield self._op("pause", lasts)
        # A reader is slow only with an event in hand.
        yield self._op("publish")
        self.now += 1.2 * self._interval + lasts * self._random.random()

    def _suspend(self) -> Iterator[Op]:
        lasts = self._pick(30.0, 600.0, 8 * 3600.0, self._random.uniform(0, 5.5) * _DAY)
        yield self._op("suspend", self._once(lasts, 300.0))

    def _wall(self) -> Iterator[Op]:
        yield self._op("wall", self._pick(5.0, 600.0, 7200.0, _DAY, 3 * _DAY) * self._pick(1, -1))

    def _once(self, lasts: float, otherwise: float) -> float:
        """Return the time, or another if the schedule has a long time already."""
        if lasts <= 7200.0:
            return lasts
        self._is_long, was_long = True, self._is_long
        return otherwise if was_long else lasts


_WEIGHTS: Final = {
    "publish": 8.0, "burst": 3.0, "update": 5.0, "flip": 3.0, "touch": 2.0, "withdraw": 3.0, "between": 6.0,
    "reorder": 1.0, "respell": 0.5, "no_longer_late": 0.5, "fault": 7.0, "storm": 1.0, "lie": 1.0, "false_end": 1.5,
    "stop": 6.0, "cancel": 2.0, "disk": 1.0, "pause": 1.0, "break": 1.0, "batches": 0.7, "suspend": 1.0, "wall": 1.0,
}  # fmt: skip


# The service in motion


class World:
    """Service of a run, which follows a plan, and the truth about its requests."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        profile = attrs.evolve(plan.profile, late_visibility=plan.late)
        self.service = Service(profile, plan.seed, _LISTING, before=self._before, after=self._lie)
        self.exchange = self.service.sandbox.exchange
        self.counts = self.service.counts
        self.on_poll: Callable[[], None] = lambda: None
        self.garbled: set[int] = set()
        self.began: float | None = None
        self._late_until = float("inf")
        self._between: list[Op] = []
        self._lies: list[Op] = []
        self._last_end = float("-inf")
        self._cargoes: dict[int, list[Cargo]] = {}
        self._number = 0
        for age in plan.ages:
            self._publish(self.service.now - age)

    def happen(self, op: Op) -> None:
        """Carry out an operation now, or between two pages."""
        if op.page is not None:
            self._between.append(op)
        else:
            self._do(op)

    def calm(self) -> None:
        self.service.calm()
        self._between.clear()
        self._lies.clear()

    def _do(self, op: Op) -> None:
        self.counts[f"{op.what} between pages" if op.page is not None else op.what] += 1
        now = self.service.now
        match op.what:
            case "publish":
                self._publish(now)
            case "burst":
                for _ in range(int(op.amount)):
                    self._publish(now)
            case "update" | "revert" | "touch" | "withdraw" if self._cargoes:
                self._change(op, now)
            case "reorder":
                self.exchange.reorder()
            case "respell":
                forms: tuple[Any, ...] = ("plain", "string", "padded", "exponent")
                self.exchange.profile = attrs.evolve(self.exchange.profile, number_form=forms[op.which % 4])
            case "no_longer_late":
                self._late_until = min(self._late_until, now)
                self.exchange.profile = attrs.evolve(self.exchange.profile, late_visibility=0.0)
            case "fault":
                self.service.strike(op.name, times=int(op.amount), skip=op.which)
            case "storm":
                self.service.strike(op.name, times=None)
            case "end_storm":
                self.service.calm()
            case "lie":
                self._lies += [op] * int(op.amount)
                self.service.changes_replies = True
            case "false_end":
                self._end_too_early(op)
            case "suspend":
                self.service.sandbox.machine.suspend(op.amount)
            case "wall":
                self.service.sandbox.machine.set_wall_clock(by=op.amount)
            case _:
                pass

    def _publish(self, now: float) -> None:
        cargo = self._cargo()
        self._cargoes[self.exchange.publish(self.exchange.shipper, now, cargo)] = [cargo]

    def _cargo(self, before: Cargo | None = None) -> Cargo:
        self._number += 1
        number = self._number
        if before is None:
            notes = None if number % 3 == 0 else "fragile"
            return Cargo(
                commodityname=f"Tea {number}", quantity=1 + number % 7, weight=Decimal(number) / 4, notes=notes
            )
        changes: tuple[dict[str, Any], ...] = (
            {"destination": f"Port {number}"},
            {"weight": Decimal(number) / 8},
            {"quantity": 1000 + number},
            {"notes": f"call {number}"},
            {"commodityname": f"Tea {number}", "hazardous": 1 - before.hazardous},
        )
        return attrs.evolve(before, **changes[number % 5])

    def _change(self, op: Op, now: float) -> None:
        there = [*self._cargoes]
        index = there[op.which % len(there)]
        cargoes = self._cargoes[index]
        match op.what:
            case "touch":
                self.exchange.touch(index, now)
                return
            case "withdraw":
                del self._cargoes[index]
                self.exchange.withdraw(index, now)
                return
            case "revert" if len(cargoes) > 1:
                cargo = cargoes[-2]
            case _:
                cargo = self._cargo(cargoes[0])
        self._cargoes[index] = [*cargoes[-3:], cargo]
        self.exchange.update(index, now, cargo)

    def _end_too_early(self, op: Op) -> None:
        """Refuse one page that exists. A second refusal of it would be the end of the listing by all signs."""

        def is_due(call: Any) -> bool:
            page = self.service.page_of(call) if call.path == _LISTING else None
            return page is not None and page > 0 and anyio.current_time() - self._last_end > _BETWEEN_FALSE_ENDS

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

    def _lie(self, page: int | None, rows: dict[Any, Any]) -> bool:
        """Garble one row of a page, so that not even its identifier can be read."""
        if page is None or not rows or not self._lies:
            return False
        op = self._lies.pop()
        key = sorted(rows, key=str)[op.which % len(rows)]
        self.garbled.add(int(Decimal(str(rows[key]["index"]))))
        self.counts["row garbled"] += 1
        rows[key] = f"Undefined index: {len(self.garbled)} {self.counts['row garbled']}"
        return True

    # The truth

    def spans(self) -> dict[int, list[Span]]:
        """Return the states of each request, with the times from which the service showed them."""
        found: dict[int, list[Span]] = {}
        for change in self.exchange.audit_log.changes:
            spans = found.setdefault(change.request, [])
            content = None if change.state.state == "withdrawn" else _truth(change.state.cargo)
            if spans and spans[-1].content == content:
                spans[-1].updates.append(change.time)
            else:
                shown = max(change.time, min(change.time + self.plan.late, self._late_until))
                spans.append(Span(content, shown, [change.time]))
        return found


def _truth(cargo: Any) -> State:
    return _state(cargo.commodityname, cargo.destination, cargo.quantity, cargo.weight, cargo.hazardous, cargo.notes)


def _state(*values: object) -> State:
    return tuple(_plain(value) for value in values)


def _plain(value: object) -> str:
    """Return a value in one spelling, whether it is a number, a text or missing."""
    if value is None:
        return ""
    if isinstance(value, bool | int | Decimal):
        return f"{Decimal(int(value) if isinstance(value, bool) else value).normalize():f}"
    return str(value)


def _content(request: Any) -> State:
    return _state(
        request.commodity, request.destination, request.quantity, request.weight, request.hazardous, request.notes
    )


# A run


_TO_THE_READER: Final[dict[str, Callable[[Reader, Op], None]]] = {
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


def run(seed: int) -> Result:
    """Follow the schedule of a seed, and judge what the feed's reader was told."""
    plan = draw(seed)
    with disk() as folder:
        history, counts = in_virtual_time(seed, plan.backend, lambda: _watched(plan, folder))
    return Result(check(history), counts)


async def _watched(plan: Plan, folder: Disk) -> tuple[History, Counter[str]]:
    world = World(plan)
    claims: list[Claim] = []

    def watch(exchange: FreightExchange, store: Any) -> Any:
        start = plan.start if isinstance(plan.start, str) else timedelta(seconds=plan.start)
        allowance = timedelta(seconds=plan.allowance)
        return exchange.watch(store=store, start=start, interval=timedelta(seconds=plan.interval), allowance=allowance)

    def watch_slowly(exchange: FreightExchange, store: Any) -> Any:
        return exchange.watch(store=store, interval=_SLOW_POLLS, allowance=timedelta(seconds=plan.allowance))

    reader = Reader(world.service, folder, world.service.sandbox.client, watch, reboots=plan.boots)
    outages = _Outages(world.service)

    def claim() -> None:
        outages.note()
        if reader.feed is not None and reader.entered is not None:
            status = reader.feed.status()
            is_claim = status.cover_age is not None and status.state != "priming" and status.unacknowledged == 0
            if is_claim and status.cover_age < timedelta(days=5):
                claims.append(Claim(world.service.now, world.service.now - status.cover_age.total_seconds()))

    world.on_poll = claim
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader.run)
        await _play(plan, world, reader)
        settled = world.service.now
        if plan.is_long:
            reader.watch = watch_slowly
            reader.leave()
            await anyio.sleep(26 * 3600.0)
        reader.end()
    world.counts += world.service.strikes()
    world.counts["event"] += len(reader.deliveries)
    world.counts["call"] += len(world.exchange.audit_log.calls)
    return _history(plan, world, reader, claims, outages, settled), world.counts


class _Outages:
    """Times between two polls."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._last = service.now
        self.times: list[tuple[float, float]] = []

    def note(self) -> None:
        self.times.append((self._last, self._service.now))
        self._last = self._service.now


def _history(
    plan: Plan, world: World, reader: Reader, claims: list[Claim], outages: _Outages, settled: float
) -> History:
    spans = world.spans()
    return History(
        spans=spans,
        hidden={index for index in spans if is_hidden(plan.profile, index)},
        start=plan.start,
        began=world.began or 0.0,
        entered=reader.entered,
        told=[_told(delivery) for delivery in reader.deliveries],
        claims=[] if _are_clocks_doubtful(plan) or plan.profile.rights == "after_paging" else claims,
        garbled=world.garbled,
        outages=outages.times,
        steady=not any(op.what == "wall" for op in plan.ops),
        settled=settled,
        # A 400 may mean that the service wants the index in another form.
        finds=plan.profile.lookup_missing != "400" and plan.profile.index_type != "str",
        quiet=world.service.now if plan.is_long else None,
    )


def _are_clocks_doubtful(plan: Plan) -> bool:
    """Return whether no clock tells the program how long it was down: the only one that goes on was set."""
    return plan.boots and any(op.what == "wall" for op in plan.ops)


def _told(delivery: Delivery) -> Told:
    event = delivery.event
    told = Told(time=delivery.time, kind=event.kind, turn=delivery.turn, acked=delivery.acked)
    match event.kind:
        case "new" | "updated" | "withdrawn":
            told.index, told.content, told.returned = event.request.index, _content(event.request), event.returned
            told.previous = None if event.previous is None else _content(event.previous)
            earliest, latest = event.observed_between
            told.between = None if earliest is None else earliest.timestamp(), latest.timestamp()
        case "gap":
            told.content = str(event.since), str(event.until)
            told.between = event.since.timestamp(), event.until.timestamp()
        case _:
            told.content = (str(getattr(event, "raw", event)),)
    return told


async def _play(plan: Plan, world: World, reader: Reader | Naive) -> None:
    """Carry out each operation at its time, and wait until the reader must have been told of all."""
    for op in sorted(plan.ops, key=lambda op: op.at):
        await anyio.sleep(max(0.0, op.at - anyio.current_time()))
        if op.what not in _TO_THE_READER:
            world.happen(op)
        elif isinstance(reader, Reader):
            _TO_THE_READER[op.what](reader, op)
    await anyio.sleep(max(0.0, plan.calm - anyio.current_time()))
    world.calm()
    if isinstance(reader, Reader):
        reader.calm()
    await anyio.sleep(plan.settled - anyio.current_time())


# The naive loop


class Naive:
    """Loop that lists the updates since its last poll, and remembers what it has seen. It is never stopped."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.told: dict[int, State] = {}
        self.before: set[int] = set()

    async def run(self, exchange: FreightExchange) -> None:
        interval, last = self._world.plan.interval, self._world.service.now
        while True:
            now = self._world.service.now
            since = timedelta(seconds=min(max(1.0, now - last), 5 * _DAY))
            last = now
            try:
                async for request in exchange.requests.search(since=since):
                    if request.index is not None:
                        self.told[request.index] = _content(request)
            except FreightExchangeError:
                self._world.counts["a poll failed"] += 1
            await anyio.sleep(interval)


def naive(seed: int) -> bool:
    """Return whether the naive loop misses the final state of a request under the schedule of a seed."""
    plan = draw(seed)
    return in_virtual_time(seed, plan.backend, lambda: _naively_watched(plan))


async def _naively_watched(plan: Plan) -> bool:
    world = World(plan)
    began = world.service.now
    async with world.service.sandbox.client() as exchange, anyio.create_task_group() as tasks:
        loop = Naive(world)
        tasks.start_soon(loop.run, exchange)
        await _play(plan, world, loop)
        tasks.cancel_scope.cancel()
    return any(
        spans[-1].content is not None
        and spans[-1].updates[-1] > began
        and not is_hidden(plan.profile, index)
        and loop.told.get(index) != spans[-1].content
        for index, spans in world.spans().items()
    )
