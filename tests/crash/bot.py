"""Forwarder's bot that is killed again and again while it makes offers: real processes, real HTTP, real faults.

The market and the kills are drawn from a seed; only the timing depends on the machine. The bot's program is
`bot_program.py`.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs
from tests.crash.processes import TRANSIENT_FAULTS, Forks, fork_server

from freight_exchange.testing import FAILPOINTS, FAULTS, Cargo, Profile, Sandbox
from freight_sandbox.server import serve

__all__ = ["FLAWS", "PORTS", "WINDOW", "BotTrial", "Kill", "check", "draw_kills", "effects", "price"]

WINDOW: Final = ("after sending", "before send", "after send", "before confirmed")
"""Failpoints at which an effect may be in flight, and only the exchange knows."""
FLAWS: Final = (
    *("requests missed", "offers too many", "wrong amounts", "offers without an end", "deliveries without an end"),
    *("selections never reported", "selections reported wrongly", "unexpected ends"),
)
"""Counts that must be zero."""

_BASE: Final = {"Los Angeles": Decimal("310.25"), "Oakland": Decimal("335.40"), "Long Beach": Decimal("298.75")}
PORTS: Final = tuple(_BASE)

_ROUTINE: Final = {"route", "claim", "sending", "send", "confirmed", "settle"}
_LEDGER_ALONE: Final = {"unknown", "resolved", "withdrawn", "rejected", "adopt"}
_SUBMIT: Final = "quote/submitoffer"
_REFUSALS: Final = ("unauthorized_once", "tokens_revoked")
"""Faults that strike once in a life: a client whose fresh token is refused logs in again after half a minute."""
_LONGEST_LIFE: Final = 10.0
_MOST_TRIES: Final = 3
_MOST_WAITING: Final = 40
"""Requests without an offer above which shippers wait. On a slow machine, a bot that dies early makes no offer."""
_TIMEOUT: Final = 90.0


def price(quantity: int, destination: str) -> Decimal:
    """Return the price on which the bot and the checker agree; different requests have different prices."""
    return _BASE[destination] + quantity * Decimal("17.35")


@attrs.frozen
class Kill:
    """Kill at the n-th visit of a failpoint or, without a failpoint, after some seconds."""

    point: str | None
    visit: int = 1
    seconds: float = 0.0

    @property
    def step(self) -> str:
        """Return the step that the failpoint precedes or follows; empty without a failpoint."""
        return "" if self.point is None else self.point.split()[1]


def draw_kills(
    random: Random, points: Iterable[str] = FAILPOINTS, *, more: int = 4, at_random: int = 2, ledger: bool = True
) -> list[Kill]:
    """Draw kills: each failpoint once, `more` of them while an effect is in flight, and some at random times."""
    plan = [
        Kill(point, visit=random.randint(1, 3) if point.split()[1] in _ROUTINE else 1)
        for point in [*points, *(random.choice(WINDOW) for _ in range(more))]
        if ledger or point.split()[1] not in _LEDGER_ALONE
    ]
    plan += [Kill(None, seconds=random.uniform(0.1, 1.5)) for _ in range(at_random)]
    random.shuffle(plan)
    return plan


def effects(store: Path, *, kinds: str = "'offer'", table: str = "effect") -> Counter[str]:
    """Count the states in a file that a dead bot left, in a copy: opening the file itself would recover it."""
    if not store.exists():
        return Counter()
    copy = store.with_name("copy.db")
    for end in ("", "-wal", "-shm"):
        copy.with_name(f"copy.db{end}").unlink(missing_ok=True)
    shutil.copy(store, copy)
    if (log := store.with_name(f"{store.name}-wal")).exists():
        shutil.copy(log, copy.with_name("copy.db-wal"))
    with closing(sqlite3.connect(copy)) as connection:
        # A price for a request that was awarded meanwhile is dead if a fault struck the look-up that shows the award.
        query = (
            f"SELECT state FROM effect WHERE kind IN ({kinds})"
            if table == "effect"
            else "SELECT CASE WHEN error LIKE '%request is closed%' THEN 'done' ELSE state END FROM delivery"
        )
        try:
            return Counter(state for (state,) in connection.execute(query))
        except sqlite3.OperationalError:
            return Counter()  # it was killed before it had made its tables


def check(log: Any, reports: Sequence[Mapping[str, Any]] = ()) -> Counter[str]:
    """Count what the exchange received, and what is wrong with it.

    An amount is right if the request cost so much at some time before the offer.

    Args:
        log: Audit log of the exchange.
        reports: Selections that the bot's handler received, with the number of its run.
    """
    offered = Counter(record.offer.request for record in log.offers)
    amounts: dict[int, list[Decimal]] = {}
    for record in log.offers:
        amounts.setdefault(record.offer.request, []).append(record.offer.amount)
    published = [publication.request for publication in log.publications]
    prices: dict[int, list[tuple[float, Decimal]]] = {}
    for change in log.changes:
        cargo = change.state.cargo
        prices.setdefault(change.request, []).append((change.time, price(cargo.quantity, cargo.destination)))
    selected = {change.request for change in log.changes if change.what == "selected"}
    told = Counter((report["run"], report["request"]) for report in reports)
    return Counter({
        "requests": len(published),
        "offers": offered.total(),
        "selections": len(selected),
        "requests missed": sum(not offered[request] for request in published),
        # Each change of a request may bring another price. An equal one after it is an offer sent twice.
        "offers too many": sum(
            sum(one == other for one, other in pairwise(sent)) + max(0, len(sent) - len(prices[request]))
            for request, sent in amounts.items()
        ),
        "wrong amounts": sum(
            record.offer.amount
            not in {amount for at, amount in prices.get(record.offer.request, ()) if at <= record.time}
            for record in log.offers
        ),
        "selections never reported": len(selected - {request for _, request in told}),
        # An event may be delivered again by a later run, not twice by one.
        "selections reported wrongly": sum(count - 1 for count in told.values())
        + sum(request not in selected for _, request in told)
        + sum(not report["contact"] for report in reports),
    })  # fmt: skip


class BotTrial:
    """Exchange under faults, shippers at work, and a bot that is killed and started again.

    Args:
        directory: Directory of the store.
        seed: Seed of all choices.
        backend: Event loop of the bot.
        ledger: Whether the bot's handler offers through the ledger; else by the client, as people write it.

    Attributes:
        counts: Counts of events, and of errors.
        points: Kills at each failpoint; `at random`, and `too late` where a point was not reached.
    """

    def __init__(self, directory: Path, seed: int, backend: str, *, ledger: bool = True) -> None:
        self._random = Random(seed)
        self._backend = backend
        self._ledger = ledger
        self._store = directory / "store.db"
        self._journal = directory / "journal"
        self._errors = directory / "errors"
        self._log = directory / "log"
        profile = Profile(
            order=self._random.choice(("newest", "oldest", "index", "updated")),
            rows_clamp=self._random.choice((None, 10, 40)),
            late_visibility=self._random.choice((0.0, 0.1)),
        )
        self._exchange = Sandbox(profile, seed=seed).exchange
        self._run_number = 0
        self._refused_in = 0
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()

    async def run(self, plan: Sequence[Kill]) -> Counter[str]:
        """Run the bot until each kill of the plan has struck and all requests are offered on; return the counts."""
        async with serve(self._exchange) as face, fork_server("bot_program", self._errors) as forks:
            async with anyio.create_task_group() as market:
                market.start_soon(self._trade)
                market.start_soon(self._strike)
                for kill in plan:
                    for _ in range(_MOST_TRIES):
                        if await self._kill(forks, face.url, kill):
                            break
                market.cancel_scope.cancel()
            self._exchange.faults.clear()
            # A short trial on a fast machine may have none so far.
            self._select()
            await self._rest(forks, face.url)
        self.counts["kills"] = self.points.total()
        self.counts["faults that struck"] = len(self._exchange.faults.fired)
        self.counts["unexpected ends"] += bool(self._errors.read_text())
        return self.counts + self._check()

    def _check(self) -> Counter[str]:
        counts = check(self._exchange.audit_log, self._reports())
        if self._ledger:
            offers, deliveries = effects(self._store), effects(self._store, table="delivery")
            # One that was not carried out, and is out of date by now, stays as it is.
            ended = offers["confirmed"] + offers["refused"] + offers["absent"]
            counts["offers without an end"] = offers.total() - ended
            counts["deliveries without an end"] = deliveries.total() - deliveries["done"]
        return counts

    def _reports(self) -> list[dict[str, Any]]:
        # A last line that was cut off was not written.
        lines = self._journal.read_bytes().split(b"\n")[:-1] if self._journal.exists() else []
        return [json.loads(line) for line in lines]

    def _is_done(self) -> bool:
        counts = self._check()
        # Without the ledger, what was offered twice may be selected and reported in ways that have no end.
        open_ends = FLAWS[3:6] if self._ledger else ()
        return not any(counts[flaw] for flaw in ("requests missed", *open_ends))

    # The market

    async def _trade(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.8))
            draw = self._random.random()
            if draw < 0.7:
                log = self._exchange.audit_log
                if len(log.publications) - check(log)["offers"] <= _MOST_WAITING:
                    self._publish(hazardous=self._random.random() < 0.1)
            elif draw < 0.85:
                self._update()
            else:
                self._select()

    def _publish(self, *, hazardous: bool = False) -> None:
        exchange = self._exchange
        cargo = attrs.evolve(self._cargo(), hazardous=int(hazardous))
        exchange.publish(exchange.shipper, time.time(), cargo)

    def _update(self) -> None:
        open_requests = [state for state in self._states().values() if state.state == "open"]
        if open_requests:
            changed = self._random.choice(open_requests)
            cargo = attrs.evolve(self._cargo(), hazardous=changed.cargo.hazardous)
            self._exchange.update(changed.index, time.time(), cargo)

    def _select(self) -> None:
        states = self._states()
        pending = [
            record.offer.index
            for record in self._exchange.audit_log.offers
            if states[record.offer.request].state == "open"
        ]
        if pending:
            self._exchange.select(self._random.choice(pending), time.time())

    def _states(self) -> dict[int, Any]:
        return {change.request: change.state for change in self._exchange.audit_log.changes}

    def _cargo(self) -> Cargo:
        return Cargo(quantity=self._random.randint(1, 50), destination=self._random.choice(PORTS))

    async def _strike(self) -> None:
        while True:
            await anyio.sleep(self._random.uniform(0.1, 0.6))
            if self._exchange.faults.waiting:
                continue
            name, path = self._random.choice((*TRANSIENT_FAULTS, *_REFUSALS)), self._random.choice((None, _SUBMIT))
            if name in _REFUSALS:
                if self._refused_in == self._run_number:
                    continue
                self._refused_in = self._run_number
                path = path or "quote/getrequests"
            self._arm(name, path)

    def _arm(self, name: str, path: str | None) -> None:
        factory = FAULTS[name]
        self._exchange.faults.add(*factory(path=path, processed=self._random.choice(factory.phases)))

    def _provoke(self, kill: Kill) -> None:
        """Give the bot a reason to reach the failpoint of the kill."""
        match kill.step:
            case "unknown" | "resolved":
                self._arm("reset_after_processing", _SUBMIT)
            case "withdrawn":
                self._arm("throttled_huge", _SUBMIT)
            case _:
                pass
        for _ in range(kill.visit):
            self._publish(hazardous=kill.step == "rejected")

    # The bot

    async def _kill(self, forks: Forks, url: str, kill: Kill) -> bool:
        """Run the bot once, and end it by SIGKILL; return whether the kill struck where it was planned."""
        self._provoke(kill)
        process = await self._start(forks, url, kill)
        status = await forks.end(process, _LONGEST_LIFE if kill.point is not None else kill.seconds)
        is_hit = (status is None) == (kill.point is None)
        self.counts["unexpected ends"] += await forks.kill(process) != -signal.SIGKILL
        self.points[(kill.point or "at random") if is_hit else "too late"] += 1
        left = effects(self._store)
        self.counts["kills with an offer in flight"] += bool(left["sending"])
        self.counts["kills with an offer in doubt"] += bool(left["unknown"])
        if (left["sending"] or left["unknown"]) and self._random.random() < 0.5:
            # The worst that a shipper can do: another handler gets a request while its offer is not known.
            self._update()
        return is_hit

    async def _rest(self, forks: Forks, url: str) -> None:
        """Run the bot without kills until nothing new comes and every call could have been repeated."""
        process = await self._start(forks, url, Kill(None))
        calls: int | None = None
        with anyio.move_on_after(_TIMEOUT):
            while calls is None or self._exchange.audit_log.count < calls + 5:
                if await forks.end(process, 0.2) is not None:
                    break
                if calls is None and self._is_done():
                    calls = self._exchange.audit_log.count
        self.counts["unexpected ends"] += await forks.kill(process, signal.SIGTERM) != 0

    async def _start(self, forks: Forks, url: str, kill: Kill) -> int:
        self._run_number += 1
        return await forks.start({
            "url": url,
            "store": str(self._store),
            "journal": str(self._journal),
            "log": str(self._log),
            "run": self._run_number,
            "backend": self._backend,
            "ledger": self._ledger,
            "point": kill.point,
            "visit": kill.visit,
        })  # fmt: skip
