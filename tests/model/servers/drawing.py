"""Schedules of servers with quirks, markets and watchers, drawn from seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Literal

import attrs
from tests.model.servers.market import Content, Market
from tests.model.servers.quirks import FORMS, PICKS, Cache, Empty, Failure, Freeze, Quirks, Replicas, Span

__all__ = ["QUIRKS", "Schedule", "Session", "draw"]

_DAY: Final = 86_400.0
_HOUR: Final = 3600.0
_TOWNS: Final = ("Los Angeles", "Rotterdam", "Santos", "Durban")


@attrs.frozen
class Session:
    """Run of the watcher: its start, its end, and the way in which it ends."""

    start: float
    end: float
    ending: Literal["break", "cancel"]
    same_machine: bool


@attrs.frozen
class Schedule:
    """Schedule drawn from a seed.

    Attributes:
        active: Time at which changes and passing quirks end.
        end: Time at which the watcher is checked.
        wall_jumps: Steps of the watcher's wall clock: the time and the seconds of each.
        pauses: Longest time for which the reader keeps an event, in seconds.
    """

    seed: int
    names: tuple[str, ...]
    quirks: Quirks
    market: Market
    active: float
    end: float
    interval: timedelta
    start: str | timedelta
    sessions: tuple[Session, ...]
    wall_jumps: tuple[tuple[float, float], ...]
    wall_drift: float
    pauses: float

    def wall(self, at: float) -> float:
        """Return the watcher's wall clock in seconds since the start of the schedule."""
        return at * (1 + self.wall_drift) + sum(by for since, by in self.wall_jumps if since <= at)


@attrs.define
class _Drawing:
    """Builder of a schedule."""

    chance: random.Random
    active: float
    quirks: Quirks = attrs.field(factory=Quirks)
    wall_jumps: tuple[tuple[float, float], ...] = ()
    wall_drift: float = 0.0
    restarts: int = 0
    pauses: float = 0.0
    rates: dict[str, float] = attrs.field(
        factory=lambda: {"publish": 4.0, "change": 4.0, "back": 0.5, "touch": 1.0, "remove": 2.0}
    )

    def span(self, least: float, most: float) -> Span:
        start = self.chance.uniform(0, self.active)
        return Span(start, min(start + self.chance.uniform(least, most), self.active))

    def spans(self, least: float, most: float, *, at_most: int = 3) -> list[Span]:
        return [self.span(least, most) for _ in range(self.chance.randint(1, at_most))]

    def sides(self) -> tuple[bool, bool]:
        return self.chance.choice([(True, True), (True, False), (False, True)])

    def until(self) -> float:
        return self.chance.choice([self.active, float("inf")])

    def set(self, **changes: object) -> None:
        self.quirks = attrs.evolve(self.quirks, **changes)  # type: ignore[arg-type]  # each quirk knows its fields


def _cache(drawing: _Drawing) -> None:
    chance = drawing.chance
    listings, lookups = drawing.sides()
    ttl = chance.choice([30, 60, 120, 300, 600, 1200, 1800, 3600])
    drawing.set(cache=Cache(ttl, listings, lookups, chance.choice(["body", "page"]), drawing.until()))


def _replicas(drawing: _Drawing) -> None:
    chance = drawing.chance
    lags = [0.0] + [chance.choice([5, 30, 50, 90, 300, 900, 3600]) * chance.uniform(0.5, 1) for _ in range(2)]
    chance.shuffle(lags)
    pick = chance.choice(PICKS)
    drawing.set(replicas=Replicas(tuple(lags[: chance.randint(2, 3)]), pick, drawing.until()))


def _freeze(drawing: _Drawing) -> None:
    moves = drawing.chance.random() < 0.5
    drawing.set(freezes=tuple(Freeze(span, *drawing.sides(), moves) for span in drawing.spans(60, 5400)))


def _empty(drawing: _Drawing) -> None:
    form = drawing.chance.choice(FORMS)
    spans = drawing.spans(20, 2700)
    drawing.set(empties=tuple(Empty(span, *drawing.sides(), 1.0, form) for span in spans))


def _partial(drawing: _Drawing) -> None:
    share = drawing.chance.choice([0.05, 0.3, 0.6, 0.9])
    spans = drawing.spans(20, 5400)
    drawing.set(empties=(*drawing.quirks.empties, *(Empty(s, *drawing.sides(), share, "object") for s in spans)))


def _failure(drawing: _Drawing) -> None:
    chance = drawing.chance
    drawing.set(
        failures=tuple(
            Failure(
                span,
                chance.choice(["503", "429", "429 retry", "refused", "timeout", "400", "html", "token"]),
                chance.choice([1.0, 1.0, 0.3, 0.05]),
            )
            for span in drawing.spans(60, 7200)
        )
    )


def _shuffle(drawing: _Drawing) -> None:
    drawing.set(shuffled=True)


def _clamp(drawing: _Drawing) -> None:
    chance = drawing.chance
    hours = sorted({0.0, *(chance.uniform(0, drawing.active) for _ in range(chance.randint(0, 4)))})
    drawing.set(clamps=tuple((hour, chance.choice([4, 7, 10, 20, 50, 1000])) for hour in hours))


def _rights(drawing: _Drawing) -> None:
    drawing.rates["hide"] = drawing.rates["show"] = 2.0


def _flap(drawing: _Drawing) -> None:
    drawing.rates["flap"] = 4.0


def _texts(drawing: _Drawing) -> None:
    drawing.set(texts=drawing.chance.choice(["always", "at times"]))


def _cases(drawing: _Drawing) -> None:
    drawing.set(cases=drawing.chance.choice(["always", "at times"]))


def _service_clock(drawing: _Drawing) -> None:
    chance = drawing.chance
    moments = [chance.uniform(0, drawing.active) for _ in range(2)]
    jumps = [(moment, chance.choice([-1, 1]) * chance.choice([5, 61, 600, 3600])) for moment in moments]
    drift = chance.choice([0.0, 0.0, 1e-4, -1e-4, 2e-3, -2e-3])
    drawing.set(jumps=tuple(jumps[: chance.randint(0 if drift else 1, 2)]), drift=drift)


def _watcher_clock(drawing: _Drawing) -> None:
    chance = drawing.chance
    drawing.wall_jumps = tuple(
        (chance.uniform(0, drawing.active), chance.choice([-1, 1]) * chance.choice([1, 60, 3600, 86_400, 500_000]))
        for _ in range(chance.randint(1, 3))
    )
    drawing.wall_drift = chance.choice([0.0, 1e-3, -1e-3])


def _restore(drawing: _Drawing) -> None:
    drawing.rates["restore"] = 0.5


def _windows(drawing: _Drawing) -> None:
    chance = drawing.chance
    drawing.set(
        windows=chance.choice(["minutes down", "minutes up", "hours down", "hours up", "ignored", "an hour", "capped"]),
        cap=chance.choice([3600, 7200, 43_200]),
        lookups_have_windows=chance.random() < 0.5,
    )


def _touch(drawing: _Drawing) -> None:
    drawing.rates["touch"] = 10.0


def _releases(drawing: _Drawing) -> None:
    drawing.set(releases=True)


def _duplicates(drawing: _Drawing) -> None:
    drawing.set(duplicates=True)


def _past_end(drawing: _Drawing) -> None:
    drawing.set(past_end=drawing.chance.choice(["again", "refused"]))
    _clamp(drawing)


def _slow(drawing: _Drawing) -> None:
    drawing.set(latency=drawing.chance.choice([2.0, 6.0]))


def _tokens(drawing: _Drawing) -> None:
    drawing.set(token_lifetime=drawing.chance.choice([1, 60, 600]))


def _restarts(drawing: _Drawing) -> None:
    drawing.restarts = drawing.chance.randint(1, 4)


def _slow_reader(drawing: _Drawing) -> None:
    drawing.pauses = drawing.chance.choice([5.0, 300.0, 1500.0])


def _busy(drawing: _Drawing) -> None:
    for kind in drawing.rates:
        drawing.rates[kind] *= drawing.chance.choice([2, 5])


# Drawn in the order of their names: another order gives each seed another schedule.
QUIRKS: Final[dict[str, Callable[[_Drawing], None]]] = {
    "cache": _cache,
    "replicas": _replicas,
    "freeze": _freeze,
    "empty": _empty,
    "partial": _partial,
    "transient failure": _failure,
    "shuffle": _shuffle,
    "clamp": _clamp,
    "rights": _rights,
    "flap": _flap,
    "texts": _texts,
    "cases": _cases,
    "service clock": _service_clock,
    "watcher clock": _watcher_clock,
    "restore": _restore,
    "windows": _windows,
    "touch": _touch,
    "releases": _releases,
    "duplicates": _duplicates,
    "past end": _past_end,
    "slow": _slow,
    "tokens": _tokens,
    "restarts": _restarts,
    "slow reader": _slow_reader,
    "busy": _busy,
}


def draw(seed: int, only: tuple[str, ...] = (), *, longer: float = 0.0) -> Schedule:
    """Draw a schedule with all kinds of quirks, or `only` these; `longer` adds quiet time at its end."""
    chance = random.Random(f"schedule {seed}")
    drawing = _Drawing(chance, active=chance.uniform(0.5, 3) * _HOUR)
    names = only or tuple(sorted(chance.sample(sorted(QUIRKS), chance.choice([1, 1, 2, 2, 3, 4, 6]))))
    for name in names:
        QUIRKS[name](drawing)
    quirks = drawing.quirks
    active = drawing.active
    interval = chance.choices([30, 60, 120, 300, 600], [2, 4, 10, 54, 30])[0]
    # The deepest look that may be needed is the hourly one: once to see what is there, twice for an absence.
    delay = 2 * quirks.stale_in_quiet(active) + 2 * drawing.pauses
    start: str | timedelta = chance.choice(["now", "backfill", "within"])
    if start == "within":
        start = timedelta(seconds=chance.choice([600, 7200]))
    end = active + delay + 3.5 * _HOUR + 20 * interval + longer
    return Schedule(
        seed=seed,
        names=names,
        quirks=quirks,
        market=_play(chance, drawing),
        active=active,
        end=end,
        interval=timedelta(seconds=interval),
        start=start,
        sessions=_sessions(chance, drawing, end),
        wall_jumps=drawing.wall_jumps,
        wall_drift=drawing.wall_drift,
        pauses=drawing.pauses,
    )


def _sessions(chance: random.Random, drawing: _Drawing, end: float) -> tuple[Session, ...]:
    found: list[Session] = []
    start = 0.0
    for until in sorted(chance.uniform(0, drawing.active) for _ in range(drawing.restarts)):
        if until <= start:
            continue
        found.append(Session(start, until, chance.choice(["break", "cancel"]), chance.random() < 0.7))
        start = until + chance.choice([0.1, 10, 600, 3000]) * chance.random()
    return (*found, Session(start, end, "cancel", True))


def _play(chance: random.Random, drawing: _Drawing) -> Market:
    market = Market(drawing.quirks.service_clock)
    serial = iter(range(1_000_000))

    def content() -> Content:
        return Content(
            notes=f"revision {next(serial)}",
            quantity=chance.randint(1, 3),
            destination=chance.choice(_TOWNS),
            incoterm=chance.choice(["FOB", "EXW", None]),
            status=chance.choice(["Available", "Available", "Pending"]),
        )

    for _ in range(chance.choice([0, 3, 10, 30])):
        market.publish(-4 * _DAY, content(), stamp=-(chance.random() ** 3) * 4 * _DAY)
    back: list[tuple[float, int, Content]] = []
    at = 0.0
    kinds, weights = list(drawing.rates), list(drawing.rates.values())
    per_hour = sum(weights) * chance.choice([1, 1, 3])
    while True:
        at += chance.expovariate(per_hour / _HOUR) if chance.random() < 0.8 else chance.uniform(0, 3)
        while back and back[0][0] < at:
            when, index, old = back.pop(0)
            if index in market.now:
                market.update(when, index, old)
        if at >= drawing.active:
            return market
        kind = chance.choices(kinds, weights)[0]
        if kind == "restore":
            market.restore(at, 3600)
            back.clear()
        elif kind == "publish" or not market.now:
            market.publish(at, content())
        else:
            index = chance.choice(sorted(market.now))
            old = market.now[index].content
            match kind:
                case "change":
                    market.update(at, index, content())
                case "back":
                    market.update(at, index, content())
                    back.append((at + chance.uniform(1, 1200), index, old))
                    back.sort()
                case "touch":
                    market.update(at, index, old)
                case "remove":
                    market.remove(at, index)
                case "hide" | "show":
                    market.hide(at, index, hidden=kind == "hide")
                case _:
                    row = market.now[index]
                    market.remove(at, index)
                    again = at + chance.choice([20, 200, 2000]) * chance.random()
                    if again < drawing.active:
                        at = again
                        market.put_back(at, attrs.evolve(row, stamp=chance.choice([row.stamp, market.clock(at)])))
