"""Model of `exchange.watch()`: requests come, change and go, and a program fails. A naive loop stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Final, Literal

import attrs
from tests.model.feed_checker import Span, State, Told, check
from tests.model.feeds import DAY, HIDDEN_BETWEEN, Drawing, Op, Plan, World, follow, follow_naively, plain
from tests.model.runner import Result
from tests.model.support import LISTING_FAULTS, Cargo, Profile, disk, in_virtual_time

from freight_exchange import FreightExchange

__all__ = ["draw", "naive", "run"]

_LISTING: Final = "quote/getrequests"


@attrs.frozen(kw_only=True)
class _Plan(Plan):
    """Plan with the ages of the requests that are there at the beginning, the oldest first."""

    ages: tuple[float, ...]
    is_windowed = True


def draw(seed: int) -> _Plan:
    """Draw the schedule of a seed."""
    random = Random(f"watcher {seed}")
    drawing = _Drawing(random, random.choice((15.0, 30.0, 30.0, 60.0)))
    start: Literal["now", "backfill"] | float = random.choice(
        ("now", "now", "backfill", random.choice((120.0, 3600.0, 2 * DAY)))
    )
    plan: _Plan = _Plan.draw(
        random,
        drawing,
        random.randint(4, 12),
        seed=seed,
        profile=_profile(random, hides_between=seed >= HIDDEN_BETWEEN),
        late=random.choice((0.0, 0.0, 0.0, 5.0, 5.0, 30.0, 55.0, 55.0, 400.0)),
        start=start,
        allowance=random.choice((60.0, 60.0, 120.0)),
        ages=tuple(sorted((_age(random) for _ in range(random.choice((0, 3, 12, 40)))), reverse=True)),
        # The deepest scans come once a day.
        quiet=26 if random.random() < 0.25 else 0,
    )
    if any(op.what == "slow_page" for op in plan.ops):
        # Only what is shown late, on a further page, can slide out of the window while that page is awaited.
        profile = attrs.evolve(plan.profile, rows_clamp=20)
        return attrs.evolve(plan, late=55.0, settled=plan.settled + 55.0, profile=profile)
    return plan


def _profile(random: Random, *, hides_between: bool) -> Profile:
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
        latency=random.choice((0.0, 0.0, 0.0, 0.0, 0.2, 1.0)),
        token_lifetime=random.choice((10**7, 10**7, 10**7, 90)),
    )


def _age(random: Random) -> float:
    return random.choice((random.uniform(0, 120), random.uniform(0, 7200), random.uniform(0, 6.2 * DAY)))


class _Drawing(Drawing):
    weights = {
        **Drawing.failures,

        "slow_page": 3.0,
        "publish": 8.0, "burst": 3.0, "update": 5.0, "flip": 3.0, "touch": 2.0, "withdraw": 3.0, "between": 6.0,
        "reorder": 1.0, "respell": 0.5, "no_longer_late": 0.5, "lie": 1.0,
    }  # fmt: skip
    market = ("publish", "publish", "update", "touch", "withdraw", "reorder", "burst")
    faults = LISTING_FAULTS
    bursts = (2, 4, 8, 25, 60)

    def _flip(self) -> Iterator[Op]:
        which = self._random.getrandbits(16)
        yield self._op("update", which=which)
        self.now += self._pick(0.1, 1.2, 2.5) * self.interval
        yield self._op("revert", which=which)

    def _lie(self) -> Iterator[Op]:
        yield self._op("publish")
        yield self._op("lie", self._pick(1, 1, 3))


class _World(World):
    """Requests of a run."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__(plan, _LISTING)
        self._cargoes: dict[int, list[Cargo]] = {}
        self._number = 0
        for age in plan.ages:
            self._publish(self.service.now - age)

    def act(self, op: Op, now: float) -> None:
        match op.what:
            case "publish":
                self._publish(now)
            case "burst":
                for _ in range(int(op.amount)):
                    self._publish(now)
            case "update" | "revert" | "touch" | "withdraw" if self._cargoes:
                self._change(op, [*self._cargoes][op.which % len(self._cargoes)], now)
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

    def _change(self, op: Op, index: int, now: float) -> None:
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

    def change(self, page: int | None, rows: dict[Any, Any]) -> bool:
        return self.garble(page, rows, lambda row: {int(Decimal(str(row["index"])))})

    def spans(self) -> dict[int, list[Span]]:
        found: dict[int, list[Span]] = {}
        for change in self.exchange.audit_log.changes:
            spans = found.setdefault(change.request, [])
            cargo = change.state.cargo
            content = None if change.state.state == "withdrawn" else _state(
                cargo.commodityname, cargo.destination, cargo.quantity, cargo.weight, cargo.hazardous, cargo.notes
            )  # fmt: skip
            if spans and spans[-1].content == content:
                spans[-1].updates.append(change.time)
            else:
                spans.append(Span(content, self.shown(change.time), [change.time]))
        return found


def _state(*values: object) -> State:
    return tuple(plain(value) for value in values)


def _content(request: Any) -> State:
    return _state(
        request.commodity, request.destination, request.quantity, request.weight, request.hazardous, request.notes
    )


def _told(event: Any) -> Told:
    match event.kind:
        case "new" | "updated" | "withdrawn":
            earliest, latest = event.observed_between
            return Told(
                kind=event.kind,
                index=event.request.index,
                content=_content(event.request),
                previous=None if event.previous is None else _content(event.previous),
                returned=event.returned,
                between=(None if earliest is None else earliest.timestamp(), latest.timestamp()),
            )
        case "gap":
            between = event.since.timestamp(), event.until.timestamp()
            return Told(kind="gap", content=(str(event.since), str(event.until)), between=between)
        case _:
            return Told(kind=event.kind, content=(str(getattr(event, "raw", event)),))


def run(seed: int) -> Result:
    """Follow the schedule of a seed, and judge what the feed's reader was told."""
    plan = draw(seed)
    start = plan.start if isinstance(plan.start, str) else timedelta(seconds=plan.start)
    allowance = timedelta(seconds=plan.allowance)

    def watch(exchange: FreightExchange, store: Any, interval: timedelta) -> Any:
        return exchange.watch(store=store, start=start, interval=interval, allowance=allowance)

    world = _World(plan)
    with disk() as folder:
        job = partial(follow, world, folder, world.service.sandbox.client, watch, _told)
        history = in_virtual_time(seed, plan.backend, job)
    return Result(check(history), world.counts)


def naive(seed: int) -> bool:
    """Return whether a loop that lists the updates since its last poll misses the final state of a request."""
    plan = draw(seed)
    return in_virtual_time(seed, plan.backend, partial(_naively, plan))


async def _naively(plan: _Plan) -> bool:
    world = _World(plan)
    began = world.service.now
    told: dict[int, State] = {}

    def row(record: dict[str, Any]) -> None:
        names = ("commodityname", "destination", "qty", "weight", "hazardous", "notes")
        told[int(record["index"])] = _state(*(record.get(name) for name in names))

    await follow_naively(world, world.service.sandbox.client(), _LISTING, row, windowed=True)
    return any(
        spans[-1].content is not None
        and spans[-1].updates[-1] > began
        and not world.service.hides(index)
        and told.get(index) != spans[-1].content
        for index, spans in world.spans().items()
    )
