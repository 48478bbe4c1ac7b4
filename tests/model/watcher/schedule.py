"""Schedule of a run, drawn from a seed: the service's quirks, and one operation after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Literal

import attrs

from freight_sandbox import Profile

__all__ = ["BETWEEN", "DAY", "FAULTY", "Op", "Plan", "draw", "settling"]

DAY = 86_400.0

FAULTY = (
    "unavailable",
    "server_error",
    "bad_gateway",
    "request_timeout",
    "reset_after_send",
    "reset_after_processing",
    "reset_mid_reply",
    "fin_no_bytes",
    "truncated_length",
    "truncated_chunks",
    "garbage_status",
    "refused",
    "stall",
    "slow",
    "html_200",
    "empty_200",
    "maintenance_200",
    "array_200",
    "half_json",
    "throttled",
    "throttled_seconds",
    "throttled_huge",
    "unavailable_retry_after",
    "unauthorized_once",
    "tokens_revoked",
)
"""Names of transient faults of the sandbox, after which a page or a login is requested again."""

BETWEEN = ("publish", "update", "touch", "withdraw", "reorder", "burst")
"""Operations between two pages of a scan."""


@attrs.frozen(kw_only=True)
class Op:
    """One operation of a schedule.

    Attributes:
        at: Seconds of the loop's clock since the run began.
        what: `publish`, `burst`, `update`, `revert`, `touch`, `withdraw`, `poison`, `alike`: to requests. `reorder`,
            `clamp`, `respell`, `late`, `fault`, `lie`, `beyond`, `hole`: to what the service shows. `stop`, `cancel`,
            `disk`, `slow`, `break`, `batches`: to the program. `suspend`, `wall`: to the machine's clocks.
        which: Picks a request, or counts to the moment at which it strikes.
        amount: Seconds, or rows.
        name: Of the fault, or how the program is stopped.
        page: Not at `at`, but right before the first page with at least this number that is asked for afterwards.
    """

    at: float
    what: str
    which: int = 0
    amount: float = 0.0
    name: str = ""
    page: int | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """Plan of a run.

    Attributes:
        boot: Whether the machine's boot time is reported and goes on (`steady`), is another after each restart of the
            program (`reboots`), or is not reported (`unreported`).
        ages: Ages of the requests that are listed at the start, in seconds, the oldest first.
        quiet: Time at which the last failure is over.
        end: Time at which the run ends.
        reported: Whether every withdrawal must have been reported by then.
    """

    seed: int
    backend: Literal["asyncio", "trio"] = "asyncio"
    sqlite: bool = False
    profile: Profile = attrs.field(factory=Profile)
    late: float = 0.0
    start: Literal["now", "backfill"] | float = "now"
    interval: float = 30.0
    allowance: float = 60.0
    boot: Literal["steady", "reboots", "unreported"] = "steady"
    ages: tuple[float, ...] = ()
    ops: tuple[Op, ...] = ()
    quiet: float
    end: float
    reported: bool = False


def draw(seed: int) -> Plan:
    """Draw the plan of a seed."""
    random = Random(f"watcher {seed}")
    flavour = random.random()
    if flavour < 0.03:
        return _withdrawals(seed, random)
    return _failing(seed, random, scarce=flavour > 0.9)


def settling(interval: float, late: float) -> float:
    """Return the seconds within which a watcher catches up once the service is healthy."""
    # A failed scan costs an interval for each of its requests, widened by up to two.
    return 7.0 * interval + late + 60.0


def _silence(ops: tuple[Op, ...]) -> float:
    """Return the seconds for which the service's Retry-After may forbid requests, an hour at most."""
    return 3600.0 if any(op.name == "throttled_huge" for op in ops) else 0.0


def _withdrawals(seed: int, random: Random) -> Plan:
    """Draw requests that appear and disappear while nothing else changes, long enough for every depth of scan."""
    interval = 1800.0
    ops: list[Op] = []
    at = 0.0
    for _ in range(random.randint(2, 6)):
        at += random.uniform(10.0, 2 * interval)
        ops.append(Op(at=at, what=random.choice(("publish", "publish", "withdraw")), which=random.getrandbits(16)))
    ops.append(Op(at=at + random.choice((60.0, 3 * interval, 16 * interval)), what="withdraw", which=_NEWEST))
    quiet = ops[-1].at + 1.0
    return Plan(
        seed=seed,
        backend="trio" if random.random() < 0.5 else "asyncio",
        profile=Profile(
            order=random.choice(("newest", "oldest", "index", "updated", "random")),
            lookup_missing=random.choice(("empty", "404")),
            since_lookup=random.choice(("ignored", "applied_if_sent")),
            token_lifetime=10**7,
        ),
        interval=interval,
        ages=tuple(sorted((random.uniform(0, 4 * DAY) for _ in range(random.randint(0, 4))), reverse=True)),
        ops=tuple(ops),
        quiet=quiet,
        end=quiet + 27.5 * 3600.0,
        reported=True,
    )


_NEWEST = -1


def _failing(seed: int, random: Random, *, scarce: bool) -> Plan:
    """Draw all kinds of operations in any order, with more of the others where failures are rare."""
    interval = random.choice((15.0, 15.0, 30.0, 60.0))
    allowance = random.choice((60.0, 60.0, 120.0))
    late = random.choice((0.0, 0.0, 5.0, 30.0, 55.0, min(90.0, allowance - 5.0)))
    clamp = random.choice((None, None, None, 1, 2, 3, 5, 10))
    # With small pages, each further row costs every scan a further page.
    rows, most = {None: (25, 110), 1: (3, 2), 2: (5, 4), 3: (8, 6), 5: (12, 10), 10: (24, 14)}[clamp]
    latency = random.choice((0.0, 0.0, 0.0, 0.2, 2.0))
    boot: Literal["steady", "reboots", "unreported"] = random.choice(("steady", "steady", "reboots", "unreported"))
    start: Literal["now", "backfill"] | float = random.choice(
        ("now", "now", "backfill", random.choice((120.0, 3600.0, 2 * DAY)))
    )
    ages = sorted((_age(random) for _ in range(random.randint(0, rows))), reverse=True)
    drawing = _Drawing(random, interval, set_back=boot == "steady", most=most)
    ops = tuple(drawing.ops(random.randint(4, 12), scarce=scarce))
    quiet = max((drawing.now, *(op.at for op in ops))) + 1.0
    return Plan(
        seed=seed,
        backend="trio" if random.random() < 0.5 else "asyncio",
        sqlite=random.random() < 0.2,
        profile=Profile(
            order=random.choice(("newest", "oldest", "index", "updated", "random")),
            rows_clamp=clamp,
            clamp_stride=random.choice(("clamped", "clamped", "asked")),
            past_end=random.choice(("empty", "empty", "400", "404", "last_page")),
            nothing_found=random.choice(("empty", "empty", "404")),
            lookup_missing=random.choice(("empty", "404", "400")),
            collection_shape=random.choice(("object", "list", "gaps", "shuffled")),
            empty_collection=random.choice(("object", "list", "null", "bare_object", "bare_list", "bare_null")),
            number_form=random.choice(("plain", "string", "padded", "exponent")),
            latency=latency,
            token_lifetime=random.choice((10**7, 10**7, 10**7, 90)),
        ),
        late=late,
        start=start,
        interval=interval,
        allowance=allowance,
        boot=boot,
        ages=tuple(ages),
        ops=ops,
        quiet=quiet,
        end=quiet + settling(interval, late) + 200.0 * latency + _silence(ops),
    )


def _age(random: Random) -> float:
    return random.choice((random.uniform(0, 120), random.uniform(0, 7200), random.uniform(0, 6.2 * DAY)))


class _Drawing:
    """Builder of operations, each some time after the previous one."""

    def __init__(self, random: Random, interval: float, *, set_back: bool, most: int) -> None:
        self._random = random
        self._interval = interval
        self._set_back = set_back
        self._most = most
        self._long = 0
        self.now = random.uniform(0.0, 2.5) * interval

    def ops(self, count: int, *, scarce: bool) -> Iterator[Op]:
        weights = _PLAIN if scarce else _FAILING
        kinds = self._random.choices(list(weights), list(weights.values()), k=count)
        yield from itertools.chain.from_iterable(self._drawn(kind) for kind in kinds)

    def _drawn(self, kind: str) -> Iterator[Op]:
        self.now += self._random.choice((0.0, 0.3, 1.0, 1.0, 2.5)) * self._random.random() * self._interval
        special: Callable[[], Iterator[Op]] | None = getattr(self, f"_{kind}", None)
        if special is None:
            yield self._op(kind)
        else:
            yield from special()

    def _op(
        self, what: str, amount: float = 0.0, name: str = "", *, which: int | None = None, page: int | None = None
    ) -> Op:
        chosen = self._random.getrandbits(16) if which is None else which
        return Op(at=round(self.now, 3), what=what, which=chosen, amount=amount, name=name, page=page)

    def _between(self) -> Iterator[Op]:
        for _ in range(self._random.choice((1, 1, 2, 4))):
            yield self._op(
                self._random.choice(BETWEEN), self._random.randint(2, 6), page=self._random.choice((0, 1, 1, 2, 3))
            )

    def _burst(self) -> Iterator[Op]:
        yield self._op("burst", min(self._most, self._random.choice((2, 4, 8, 25, 110))))

    def _flip(self) -> Iterator[Op]:
        which = self._random.getrandbits(16)
        yield self._op("update", which=which)
        self.now += self._random.choice((0.1, 1.2, 2.5)) * self._interval
        yield self._op("revert", which=which)

    def _alike(self) -> Iterator[Op]:
        if self._random.random() < 0.7:
            yield self._op("burst", min(self._most, 6))
            self.now += self._random.choice((0.6, 1.2, 2.5, 25.0)) * self._interval
        yield self._op("alike")

    def _beyond(self) -> Iterator[Op]:
        # Only a listing of several pages can seem to end too early.
        yield self._op("burst", min(self._most, 12))
        yield self._op("beyond")

    def _clamp(self) -> Iterator[Op]:
        yield self._op("clamp", self._random.choice((0, 3, 5, 10, 20)))

    def _fault(self) -> Iterator[Op]:
        name = self._random.choice(FAULTY)
        yield self._op("fault", self._random.choice((1, 1, 1, 2, 3, 7)), name, which=self._random.choice((0, 0, 1, 2)))

    def _storm(self) -> Iterator[Op]:
        lasts = self._random.choice((30.0, 200.0, 3600.0, 4 * 3600.0))
        yield self._op("storm", lasts, self._random.choice(("unavailable", "refused", "throttled_seconds")))
        yield self._during(lasts)
        self.now += lasts if lasts < 3600.0 else 120.0
        if lasts >= 3600.0:
            # The machine sleeps for the rest, since hours of polling every twenty seconds would show nothing new.
            yield self._op("suspend", lasts)
            self.now += 1.0
        yield self._op("calm")

    def _during(self, lasts: float) -> Op:
        op = self._op(self._random.choice(("publish", "update", "touch", "burst")), self._random.randint(1, 5))
        return attrs.evolve(op, at=round(op.at + self._random.random() * min(lasts, 120.0), 3))

    def _stop(self) -> Iterator[Op]:
        mode = self._random.choice(
            ("leave", "die", "die_await", "die_await", "die_store", "die_store", "die_statement")
        )
        down = self._random.choice((0.0, 0.0, 1.0, 120.0, 1800.0, 9 * 3600.0, self._random.uniform(0, 6.4) * DAY))
        if self._long and down > 7200.0:
            down = 60.0
        self._long += down > 7200.0
        stop = self._op("stop", down, mode, which=self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34)))
        yield stop
        wait = min(down, 1.5 * self._interval)
        yield attrs.evolve(stop, at=round(stop.at + wait, 3), amount=down - wait, name="overdue")
        for _ in range(self._random.choice((0, 1, 1, 3)) if down > 1.0 else 0):
            op = self._op(self._random.choice(("publish", "update", "touch", "withdraw", "burst")), 3)
            yield attrs.evolve(op, at=round(op.at + self._random.random() * down, 3))
        self.now += down

    def _cancel(self) -> Iterator[Op]:
        yield self._op("cancel", which=self._random.choice((0, 1, 2, 3, 5, 8, 13, 21)))

    def _disk(self) -> Iterator[Op]:
        lasts = self._random.choice((1.0, 1.0, 2.5 * self._interval))
        yield self._op("disk", lasts, which=self._random.choice((0, 1, 2, 3, 5)))
        # A page that is requested again after a failure may have changed meanwhile.
        yield from self._flip()

    def _slow(self) -> Iterator[Op]:
        lasts = self._random.choice((0.3, 2.0, 5.0, 40.0)) * self._interval
        yield self._op("slow", lasts)
        # A reader is slow only while it has an unacknowledged event.
        yield self._op("publish")
        self.now += 1.2 * self._interval
        self.now += lasts * self._random.random()

    def _hole(self) -> Iterator[Op]:
        yield self._op("hole", self._random.choice((2.0, 5.0, 20.0)) * self._interval)

    def _suspend(self) -> Iterator[Op]:
        lasts = self._random.choice((30.0, 600.0, 8 * 3600.0, self._random.uniform(0, 5.5) * DAY))
        if self._long and lasts > 7200.0:
            lasts = 300.0
        self._long += lasts > 7200.0
        yield self._op("suspend", lasts)

    def _wall(self) -> Iterator[Op]:
        step = self._random.choice((5.0, 600.0, 7200.0, 1.0 * DAY, 3.0 * DAY))
        back = self._set_back and self._random.random() < 0.5
        yield self._op("wall", -step if back else step)


_CHANGES = {
    "publish": 8.0,
    "burst": 3.0,
    "update": 5.0,
    "flip": 3.0,
    "alike": 2.0,
    "touch": 2.0,
    "withdraw": 2.0,
    "poison": 1.0,
    "between": 6.0,
    "reorder": 1.0,
    "clamp": 1.0,
    "respell": 0.5,
    "late": 0.7,
}
_PLAIN = _CHANGES | {"batches": 0.5, "hole": 0.5, "fault": 1.0}
_FAILING = _CHANGES | {
    "fault": 6.0,
    "storm": 1.0,
    "lie": 1.0,
    "beyond": 2.0,
    "hole": 0.4,
    "stop": 5.0,
    "cancel": 2.0,
    "disk": 1.0,
    "slow": 1.0,
    "break": 1.0,
    "batches": 0.7,
    "suspend": 1.0,
    "wall": 1.0,
}
