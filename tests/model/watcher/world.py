"""Service of a run: its requests, quirks and failures, and a record of its replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import httpx
from tests.model.watcher.clocks import Clocks
from tests.model.watcher.history import UNREADABLE, History, weight
from tests.model.watcher.lateness import Lateness
from tests.model.watcher.schedule import Op, Plan

from freight_exchange import FreightExchange
from freight_exchange.testing import FAULTS, Cargo, Fault
from freight_sandbox import Call, Exchange, Profile, Reply
from freight_sandbox.memory import transport
from freight_sandbox.records import Request, Table

__all__ = ["LISTING", "World"]

LISTING = "quote/getrequests"

_URL = "http://127.0.0.1/api"
_BETWEEN_LIES = 400.0


class _Holed(Table[Request]):
    """Requests that listings omit for a while, and look-ups still find."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self.now = now
        self.holes: dict[int, float] = {}

    def recent(self, at: float = float("inf"), since: float = float("-inf")) -> Iterator[Request]:
        found = super().recent(at, since)
        if not self.holes:
            return found
        now = self.now()
        return (request for request in found if self.holes.get(request.index, 0.0) <= now)


class _Service(Exchange):
    """Exchange that reports every call to the world, before and after."""

    world: World

    def handle(self, call: Call, now: float) -> Reply:
        if call.path != LISTING:
            return super().handle(call, now)
        page = _page_of(call)
        self.world.before(page, now)
        return self.world.after(page, super().handle(call, now), now)


class World:
    """Service of one run.

    Args:
        plan: Plan to follow.
        clocks: Clocks of the machine and of the service.
        lowered: Whether the service may cut pages to fewer rows than it has been seen to give.
    """

    def __init__(self, plan: Plan, clocks: Clocks, *, lowered: bool = False) -> None:
        self.plan = plan
        self.clocks = clocks
        # The audit log holds the notes as the shipper wrote them.
        self.exchange = _Service(attrs.evolve(plan.profile, published_notes="as_sent"), seed=plan.seed)
        self.exchange.world = self
        self._requests = _Holed(clocks.now)
        # Nothing is published yet, so another table can replace the empty one.
        self.exchange.requests = self._requests
        self.lateness = Lateness(plan.late)
        self.history = History(
            audit_log=self.exchange.audit_log,
            shown_at=self.lateness.at,
            start=plan.start,
            # A wall clock that is set forward looks like a suspended machine, so the feed reports a needless gap.
            steady=plan.boot == "steady" and not any(op.what == "wall" and op.amount > 0 for op in plan.ops),
            reported=plan.reported,
        )
        self.happened: dict[str, int] = {}
        self._lowered = lowered
        self._longest = 0
        self._between: list[Op] = []
        self._lies: list[int] = []
        self._lied = 0
        self._last_end = float("-inf")
        self._cargoes: dict[int, list[Cargo]] = {}
        self._poisoned = False
        self._number = 0
        began = clocks.now()
        for age in plan.ages:
            self._publish(began - age)

    def client(self) -> FreightExchange:
        pool = httpx.AsyncClient(transport=transport(self.exchange, clock=self.clocks.now), trust_env=False)
        holder = self.exchange.forwarder
        return FreightExchange(_URL, email=holder.email, password=holder.password, http_client=pool)

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    # Operations

    def happen(self, op: Op) -> None:
        """Apply an operation now, or between two pages."""
        if op.page is not None:
            self._between.append(op)
        else:
            self._do(op, self.clocks.now())

    def calm(self) -> None:
        """End all failures: the service works, and no request changes."""
        self.exchange.faults.clear()
        self._between.clear()
        self._lies.clear()

    def _do(self, op: Op, now: float) -> None:
        self.count(f"{op.what} between pages" if op.page is not None else op.what)
        match op.what:
            case "publish":
                self._publish(now)
            case "burst":
                for _ in range(int(op.amount)):
                    self._publish(now)
            case "update" | "revert" | "touch" | "withdraw" | "poison" | "hole":
                self._change(op, now)
            case "alike":
                self._change_alike(now, 4 + op.which % 3)
            case "reorder":
                self.exchange.reorder()
            case "clamp" | "respell":
                self._turn(op)
            case "late":
                self.lateness.turn(now, self.plan.late if op.which % 2 else 0.0)
            case "fault":
                path = "login" if op.name.startswith("login") else LISTING
                times = int(op.amount)
                self.exchange.faults.add(*FAULTS[op.name](path=path, times=times, skip=op.which))
            case "storm":
                self.exchange.faults.add(*FAULTS[op.name](path=LISTING, times=None))
            case "calm":
                self.exchange.faults.clear()
            case "lie":
                self._lies.append(op.which)
            case "beyond":
                self._arm_false_end(op)
            case "suspend":
                self.clocks.slept += op.amount
            case "wall":
                self.clocks.stepped += op.amount
            case _:
                raise ValueError(f"unknown operation: {op.what}")

    def _publish(self, now: float) -> None:
        cargo = self._cargo()
        index = self.exchange.publish(self.exchange.shipper, now, cargo)
        self._cargoes[index] = [cargo]

    def _cargo(self, before: Cargo | None = None) -> Cargo:
        """Publish a new request."""
        self._number += 1
        number = self._number
        if before is None:
            notes = None if number % 3 == 0 else "fragile"
            return Cargo(
                commodityname=f"Tea {number}", quantity=1 + number % 7, weight=Decimal(number) / 4, notes=notes
            )
        match number % 4:
            case 0:
                return attrs.evolve(before, destination=f"Port {number}")
            case 1:
                return attrs.evolve(before, weight=Decimal(number) / 8)
            case 2:
                return attrs.evolve(before, quantity=1000 + number)
            case _:
                return attrs.evolve(before, commodityname=f"Tea {number}", hazardous=1 - before.hazardous)

    def _change(self, op: Op, now: float) -> None:
        there = [index for index in self._cargoes if index not in self.history.holes]
        if not there:
            return
        index = there[-1] if op.which < 0 else there[op.which % len(there)]
        cargoes = self._cargoes[index]
        match op.what:
            case "update":
                self._become(index, now, self._cargo(cargoes[0]))
            case "revert":
                self._become(index, now, cargoes[-2] if len(cargoes) > 1 else self._cargo(cargoes[0]))
            case "poison":
                self._number += 1
                self._poisoned = True
                self._become(index, now, attrs.evolve(cargoes[0], weight=UNREADABLE + self._number))
            case "touch":
                self.exchange.touch(index, now)
            case "withdraw":
                del self._cargoes[index]
                self.exchange.withdraw(index, now)
            case _:
                self._requests.holes[index] = now + op.amount
                self.history.holes.add(index)

    def _change_alike(self, now: float, count: int) -> None:
        """Change only the notes of the last requests: add notes that none of them has, or remove all.

        A schema change of the service looks the same.
        """
        there = [index for index in self._cargoes if index not in self.history.holes][-count:]
        notes = None if any(self._cargoes[index][-1].notes for index in there) else "keep upright"
        for index in there:
            if self._cargoes[index][-1].notes != notes:
                self._become(index, now, attrs.evolve(self._cargoes[index][-1], notes=notes))

    def _become(self, index: int, now: float, cargo: Cargo) -> None:
        self._cargoes[index] = [*self._cargoes[index][-3:], cargo]
        self.exchange.update(index, now, cargo)

    def _turn(self, op: Op) -> None:
        profile = self.exchange.profile
        if op.what == "clamp":
            rows = int(op.amount)
            if rows and not self._lowered:
                rows = max(rows, self._longest)
            self.exchange.profile = attrs.evolve(profile, rows_clamp=rows or None)
        elif not self._poisoned:
            # An unreadable record is rightly reported again if its spelling changes.
            knobs = {knob.name: (knob.default, *knob.values) for knob in Profile.knobs()}
            self.exchange.profile = attrs.evolve(
                profile,
                number_form=knobs["number_form"][op.which % 4],
                collection_shape=knobs["collection_shape"][op.which // 4 % 4],
                hazardous_form=knobs["hazardous_form"][op.which // 16 % 3],
            )

    def _arm_false_end(self, op: Op) -> None:
        """Answer one request of an existing page with an error; a second one there would count as the end."""
        status = 404 if op.which % 2 else 400

        def due(call: Call) -> bool:
            page = _page_of(call)
            return page is not None and page > 0 and self.clocks.loop() - self._last_end > _BETWEEN_LIES

        def note(exchange: Exchange, now: float) -> None:
            # By the loop's clock: a scan that is suspended for hours is still the same scan.
            self._last_end = self.clocks.loop()

        def answer(good: Reply, now: float, random: object) -> Reply:
            return Reply(status, (("content-type", "application/json"),), b'{"message":"No records found."}')

        self.exchange.faults.add(Fault(name="false end", when=due, processed=False, mutate=answer, change=note))

    # Replies

    def before(self, page: int | None, now: float) -> None:
        """Run right before the reply to a listing or a look-up; `page` is `None` for a look-up."""
        if page is not None:
            due = [op for op in self._between if op.page is not None and op.page <= page]
            for op in due:
                self._between.remove(op)
                self._do(op, now)
        late = max(0.0, now - self.lateness.visible_until(now))
        profile: Profile = self.exchange.profile
        if abs(late - profile.late_visibility) > 1e-5:
            self.exchange.profile = attrs.evolve(profile, late_visibility=late)

    def after(self, page: int | None, reply: Reply, now: float) -> Reply:
        """Return the reply as the service's faults change it."""
        if reply.status != 200:
            return reply
        # A look-up shows a record as the listing does, but it is not a page.
        listed = page is not None
        if listed:
            self._longest = max(self._longest, reply.body.count(b'"refId"'))
        if not ((listed and self._lies) or self._poisoned):
            return reply
        try:
            payload = json.loads(reply.body, parse_float=str)
            records = payload["raterequests"]
        except (ValueError, TypeError, KeyError):
            return reply
        if not records:
            return reply
        rows: dict[Any, Any] = records if isinstance(records, dict) else dict(enumerate(records))
        if self._poisoned:
            for row in rows.values():
                row["weight"] = weight(row["weight"])
        lied = bool(listed and rows and self._lies)
        if lied:
            self._lie(rows, now)
        if not (lied or self._poisoned):
            return reply
        payload["raterequests"] = rows if isinstance(records, dict) else list(rows.values())
        return attrs.evolve(reply, body=json.dumps(payload).encode())

    def _lie(self, rows: dict[Any, Any], now: float) -> None:
        """Make one record unreadable in this reply only."""
        which = self._lies.pop()
        key = sorted(rows, key=str)[which % len(rows)]
        row = rows[key]
        index = int(row["index"])
        self._lied += 1
        self.count("row unreadable once")
        self.history.lies.setdefault(index, []).append(now)
        if which % 3:
            row["weight"] = f"Undefined offset {self._lied}"
        else:
            rows[key] = f"Undefined index of {index}: {self._lied}"


def _page_of(call: Call) -> int | None:
    """Return the number of the requested page; `None` for a look-up."""
    try:
        body = json.loads(call.body)
    except ValueError:
        return None
    return None if "index" in body else int(body.get("offset", 0))
