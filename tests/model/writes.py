"""Model of writes: each kind, under faults of the write, of a login and of the look-up, on a drawn service.

The audit log of the sandbox says what was carried out. A client that repeats what it got no answer to stands beside it.
"""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any, Final, Literal

import anyio
import anyio.lowlevel
import attrs
import httpx
from tests.model.runner import Result
from tests.model.support import BEGAN, FAULTS, LOGIN_FAULTS, Cargo, Fault, Profile, Sandbox, in_virtual_time

from freight_exchange import (
    FreightExchange,
    FreightExchangeError,
    OutcomeUnknownError,
    Packaging,
    RateRequestDraft,
    RequestType,
    Route,
    RouteDraft,
)

__all__ = ["GENERAL", "KINDS", "Pace", "Plan", "World", "draw_writes", "make_all", "naive", "repeat_all", "run"]

Kind = Literal["submit", "publish", "approve", "decline", "create_route", "update_route", "raw"]
KINDS: Final[tuple[Kind, ...]] = ("submit", "publish", "approve", "decline", "create_route", "update_route", "raw")
_BY_SHIPPER: Final = ("publish", "approve", "decline")
_OFFERING: Final = ("submit", "raw")

ADDRESSES: Final[Mapping[Kind, tuple[str, str]]] = {
    "submit": ("POST", "quote/submitoffer"),
    "raw": ("POST", "quote/submitoffer"),
    "publish": ("POST", "quote/submitrequest"),
    "approve": ("POST", "quote/approveoffer"),
    "decline": ("POST", "quote/approveoffer"),
    "create_route": ("POST", "route"),
    "update_route": ("PUT", "route"),
}
_LISTINGS: Final[Mapping[Kind, str]] = {
    "submit": "quote/bid", "raw": "quote/bid", "publish": "quote/offer", "approve": "quote/offer",
    "decline": "quote/offer", "create_route": "route", "update_route": "route",
}  # fmt: skip

GENERAL: Final = tuple(name for name, factory in FAULTS.items() if factory.path is None)
CUTS: Final = tuple(name for name in GENERAL if FAULTS[name].cut is not None)
_CONTRADICTIONS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "reply_of_another_request": KINDS[:-1],
    "reply_with_another_amount": ("submit",),
    "reply_with_another_currency": ("submit",),
    "approval_of_another_offer": ("approve",),
}
"""Faults that strike only writes: a listing that names other records is no evidence."""
_LIES: Final = {"empty_200", "maintenance_200"}
"""Replies that are success where the document shows none, sent by a service that did nothing."""
_LASTING: Final = {"throttled_huge", "throttled_date", "unavailable_forever", "unauthorized_forever"}
"""Faults after which the service cannot be read. The date is years ahead of the machine's wall clock."""
_SLOW: Final = "pool_exhausted"
"""Fault whose strikes cost a call all its time."""

_APART: Final = {"get_body", "late_visibility", "amount_rounding", "bid_default"}
_KNOBS: Final = tuple(knob for knob in Profile.knobs() if knob.name not in _APART)

_LONG_AGO: Final = 100_000.0
_NAIVE_ATTEMPTS: Final = 4
_ROUTE: Final = 301
"""Route that exists from the start."""


@attrs.frozen
class Pace:
    """Times of a schedule in seconds, virtual ones or real ones.

    Attributes:
        deadlines, settles: Of the writes and of their look-ups; each write draws its own.
        pause: Before each write, so that the service has shown the earlier ones, and the client has ended its waits.
        turn: By which a caller leaves later, for each turn of the loop.
        margin: By which a call may outlive its deadline.
        aftermath: In which a call that its caller left ends.
        longest: After which a look-up hangs.
    """

    deadlines: tuple[float, ...] = (60.0, 60.0, 20.0, 5.0, 0.2)
    settles: tuple[float, ...] = (30.0, 60.0)
    pause: float = 4000.0
    turn: float = 0.1
    margin: float = 0.05
    aftermath: float = 120.0
    longest: float = 3600.0


@attrs.frozen
class Strike:
    """Fault, whether the struck call takes effect, and its number of occurrences (`None`: unlimited)."""

    name: str
    processed: bool
    times: int | None = 1

    def rules(self, method: str, path: str) -> tuple[Fault, ...]:
        times = None if FAULTS[self.name].times is None else self.times
        return FAULTS[self.name](method=method, path=path, processed=self.processed, times=times)


@attrs.frozen(kw_only=True)
class Write:
    """Write of a schedule.

    Attributes:
        number: Number that tells its records from those of other writes.
        strike, login, reading: Faults of the write, of a login before it and of the look-up after it.
        baseline: Whether the client reads what was there before.
        known: Whether the client has read the record that it answers or updates.
        twin: Whether an equal record stands before.
        earlier: Whether the account has a bid with another amount or currency.
        meddling: When another account selects the other offer, or changes the route.
        leaves: Turns of the event loop after which the caller cancels the call.
        pickled: Whether the error is pickled before it is reconciled.
    """

    number: int
    kind: Kind
    amount: Decimal
    strike: Strike | None
    login: Strike | None
    reading: Strike | None
    baseline: bool
    known: bool
    twin: bool
    earlier: bool
    meddling: Literal["never", "before", "after"]
    deadline: float
    settle: float
    leaves: int | None
    pickled: bool


@attrs.frozen
class Plan:
    """Writes of a schedule, and the service that they meet."""

    profile: Profile
    writes: tuple[Write, ...]


def draw(seed: int) -> Plan:
    """Draw the schedule of a seed."""
    random = Random(f"writes {seed}")
    quirks: dict[str, Any] = {
        knob.name: random.choice(knob.values) for knob in random.sample(_KNOBS, random.choice((0, 0, 1, 2, 4)))
    }
    if random.random() < 0.3:
        quirks["late_visibility"] = random.choice((1.0, 5.0, 5.0, 20.0, 29.0, 45.0))
    if random.random() < 0.05:
        quirks["amount_rounding"] = random.choice(("cents", "whole"))
    if random.random() < 0.5:
        quirks["bid_default"] = "active"
    return Plan(Profile(**quirks), draw_writes(random, random.choice((2, 3, 4)), GENERAL, CUTS, Pace()))


def draw_writes(
    random: Random,
    count: int,
    faults: tuple[str, ...],
    cuts: tuple[str, ...],
    pace: Pace,
) -> tuple[Write, ...]:
    """Draw so many writes; half of their faults are cuts."""

    def strike(names: tuple[str, ...], most: tuple[int, ...]) -> Strike:
        name = random.choice(names)
        processed = random.choice(FAULTS[name].phases)
        # A fault before processing may strike the retries too; one after it struck a write that is done by then.
        return Strike(name, processed, 1 if processed else random.choice(most))

    def one(number: int) -> Write:
        kind = random.choice(KINDS)
        contradictions = tuple(name for name, kinds in _CONTRADICTIONS.items() if kind in kinds)
        place = random.choices(("write", "login", "none"), (85, 10, 5))[0]
        reading = strike(faults, (1, 1, 2, 3)) if random.random() < 0.25 else None
        if reading is not None and random.random() < 0.05:
            reading = attrs.evolve(reading, times=None)
        names = cuts if random.random() < 0.5 else (*faults, *contradictions)
        return Write(
            number=number,
            kind=kind,
            amount=10 * number + Decimal(random.randrange(100_000, 900_000)) / random.choice((1, 10, 100, 1000)),
            strike=strike(names, (1, 1, 2, 5)) if place == "write" else None,
            login=strike((*faults, *LOGIN_FAULTS), (1, 2, 5)) if place == "login" else None,
            reading=reading,
            baseline=random.random() < 0.6,
            known=random.random() < 0.7,
            twin=random.random() < 0.05,
            earlier=random.random() < 0.1,
            meddling=random.choice(("before", "after")) if random.random() < 0.1 else "never",
            deadline=random.choice(pace.deadlines),
            settle=random.choice(pace.settles),
            leaves=random.randrange(60) if random.random() < 0.1 else None,
            pickled=random.random() < 0.2,
        )

    return tuple(one(number) for number in range(count))


class World:
    """Sandbox of a schedule, with the records that its writes need.

    Attributes:
        secrets: Passwords, and the tokens that were sent.
    """

    def __init__(self, plan: Plan, seed: int, pace: Pace = Pace()) -> None:
        self.pace = pace
        self.profile = plan.profile
        self.sandbox = Sandbox(plan.profile, seed=seed, began=BEGAN)
        self.exchange = self.sandbox.exchange
        self.shipper = self.exchange.add_account("ships@canary.example", "Seekrit-Lantern-41")
        self.forwarder = self.exchange.add_account("carries@canary.example", "Seekrit-Harbour-87")
        self.secrets = {self.shipper.password, self.forwarder.password}
        self.requests: dict[int, int] = {}
        self.offers: dict[int, int] = {}
        self.rivals: dict[int, int] = {}
        self._hook = Fault(name="hook", when=self._note)
        past = self.sandbox.now() - _LONG_AGO
        other = self.exchange.publish(self.shipper, past, Cargo(commodityname="Cotton", quantity=7))
        self.exchange.offer(self.forwarder, other, past, amount=Decimal("777.70"))
        for write in plan.writes:
            self._prepare(write, past)
        self.calm()

    def _prepare(self, write: Write, past: float) -> None:
        exchange, own = self.exchange, self.forwarder
        request = self.requests[write.number] = exchange.publish(
            self.shipper, past, Cargo(commodityname=f"Green tea {write.number}", origin="Shenzhen")
        )
        self.rivals[write.number] = exchange.offer(self.sandbox.rival, request, past, amount=990)
        if write.kind in ("approve", "decline"):
            self.offers[write.number] = exchange.offer(own, request, past, amount=write.amount)
        if write.kind in _OFFERING and write.twin:
            exchange.offer(own, request, past, amount=write.amount)
        if write.kind in _OFFERING and write.earlier:
            more, currency = (50, 840) if write.number % 2 else (0, 978)
            exchange.offer(own, request, past, amount=write.amount + more, currency=currency)
        if write.kind == "publish" and write.twin:
            exchange.publish(self.shipper, past, _cargo(write))
        if write.kind == "create_route" and write.twin:
            exchange.act(self.sandbox.rival, "POST", "route", _route(write), past)

    def calm(self) -> None:
        """Disarm all faults."""
        self.exchange.faults.clear()
        self.sandbox.strike(self._hook)

    def arm(self, strike: Strike | None, method: str, path: str) -> None:
        if strike is not None:
            self.sandbox.strike(*strike.rules(method, path))

    def meddle(self, write: Write) -> None:
        """Select the other offer, or change the vessel of the route, from another account."""
        now = self.sandbox.now()
        if write.kind == "update_route":
            body = {"index": _ROUTE, **_route(write), "vessel": "Somebody Else"}
            self.exchange.act(self.sandbox.rival, "PUT", "route", body, now)
        elif write.kind in (*_OFFERING, "approve", "decline"):
            self.exchange.select(self.rivals[write.number], now)

    def done(self, write: Write, since: int) -> list[Any]:
        """Return the calls of a write that were carried out after the call of this number."""
        return [call for call in self._calls(write, since) if call.processed]

    def is_sent(self, write: Write, since: int) -> bool:
        return bool(self._calls(write, since))

    def _calls(self, write: Write, since: int) -> list[Any]:
        calls: list[Any] = self.sandbox.audit_log.calls_to(*ADDRESSES[write.kind])
        return [call for call in calls if call.number > since]

    def _note(self, call: Any) -> bool:
        _, _, token = call.headers.get("authorization", "").partition(" ")
        if token:
            self.secrets.add(token)
        return False


# What the writes carry, in the words of the wire


def _cargo(write: Write) -> Cargo:
    digits = int(write.amount * 1000) % 1000
    return Cargo(
        commodityname=f"Lamps {write.number} {digits}", origin="Shenzhen", destination="Hamburg",
        quantity=1 + digits % 9, packaging="pallet", length=Decimal("1.2"), width=1 + Decimal(digits) / 500,
        height=Decimal("0.75"), weight=Decimal("210.5"),
    )  # fmt: skip


def _route(write: Write) -> dict[str, object]:
    return {
        "origin": "Ningbo", "destination": "Felixstowe", "cycutoff": "2031-04-02 17:00:00",
        "cfscutoff": "2031-04-01 12:00:00", "departure": "2031-04-04 06:00:00", "arrival": "2031-05-06 14:00:00",
        "carrier": 2, "carrierId": 2, "vessel": f"Anchor Prudence {write.number}", "voyageId": f"{write.number}02W",
        "timezone": "Asia/Shanghai",
    }  # fmt: skip


def body(world: World, write: Write) -> dict[str, object]:
    """Return the complete body of a write."""
    match write.kind:
        case "submit" | "raw":
            return {"requestIndex": world.requests[write.number], "offer": float(write.amount), "currencyIndex": 840}
        case "publish":
            cargo = _cargo(write)
            sizes = {name: float(getattr(cargo, name)) for name in ("length", "width", "height", "weight")}
            words = ("commodityname", "requesttype", "origin", "destination", "arrival", "packaging", "quantity")
            return {name: getattr(cargo, name) for name in words} | sizes | {"incoterm": "FOB", "hazardous": 0}
        case "approve" | "decline":
            return {"offerIndex": world.offers[write.number], "approved": int(write.kind == "approve")}
        case "create_route":
            return _route(write)
        case "update_route":
            return {"index": _ROUTE, **_route(write)}


async def _prepared(
    world: World, write: Write, exchange: FreightExchange
) -> tuple[Callable[[], Awaitable[object]], list[Any] | None]:
    """Return the write as a call, and the earlier records if the client reads them."""
    # What a client reads before it writes is not struck, and has the time that it needs.
    patient, exchange = exchange.with_options(deadline=60), exchange.with_options(deadline=write.deadline)
    number = write.number
    match write.kind:
        case "submit":
            before = await _read(patient.bids.list().collect) if write.baseline else None
            return lambda: exchange.bids.submit(world.requests[number], amount=write.amount, currency=840), before
        case "raw":
            return lambda: exchange.request(*ADDRESSES["raw"], body=body(world, write)), None
        case "publish":
            draft = _draft(write)
            before = await _read(patient.offers.list().collect) if write.baseline else None
            return lambda: exchange.requests.publish(draft), before
        case "approve" | "decline":
            # An offer that was read names its request, to which the reply is compared.
            listings = await _read(patient.offers.list().collect) if write.known else None
            offers = {offer.id: offer for listing in listings or () for offer in listing.offers}
            answer = exchange.offers.approve if write.kind == "approve" else exchange.offers.decline
            return lambda: answer(offers.get(world.offers[number], world.offers[number])), None
        case "create_route":
            before = await _read(patient.routes.list().collect) if write.baseline else None
            return lambda: exchange.routes.create(RouteDraft(**_route_fields(write))), before
        case "update_route":
            before = await _read(patient.routes.list().collect) if write.known else None
            return lambda: exchange.routes.update(Route(index=_ROUTE, **_route_fields(write))), before


async def _read(collect: Callable[[], Awaitable[list[Any]]]) -> list[Any] | None:
    with contextlib.suppress(FreightExchangeError):
        return await collect()
    return None


def _draft(write: Write) -> RateRequestDraft:
    cargo = _cargo(write)
    same = ("origin", "destination", "quantity", "length", "width", "height", "weight", "incoterm")
    return RateRequestDraft(
        commodity=cargo.commodityname,
        type=RequestType.SHIPPING,
        arrival=datetime.fromisoformat(cargo.arrival),
        packaging=Packaging.PALLET,
        hazardous=False,
        **{name: getattr(cargo, name) for name in same},
    )


def _route_fields(write: Write) -> dict[str, Any]:
    row = _route(write)
    names = {"cy_cutoff": "cycutoff", "cfs_cutoff": "cfscutoff", "departure": "departure", "arrival": "arrival"}
    same = ("origin", "destination", "carrier", "vessel", "timezone")
    times = {name: datetime.fromisoformat(str(row[wire])) for name, wire in names.items()}
    return {name: row[name] for name in same} | times | {"voyage_id": row["voyageId"]}


# A schedule


def run(seed: int) -> Result:
    """Make the writes of a seed, and judge what the client was told."""
    plan = draw(seed)
    world = World(plan, seed)

    async def work() -> Result:
        client = world.sandbox.client
        async with client(world.shipper) as shipper, client(world.forwarder) as forwarder:
            return await make_all(world, plan, shipper, forwarder)

    return in_virtual_time(seed, "trio" if seed % 2 else "asyncio", work)


async def make_all(world: World, plan: Plan, shipper: FreightExchange, forwarder: FreightExchange) -> Result:
    """Make the writes of a schedule one after the other."""
    result = Result([], Counter())
    for write in plan.writes:
        await anyio.sleep(world.pace.pause)
        exchange = shipper if write.kind in _BY_SHIPPER else forwarder
        # A password that a fault rejected is not tried again by itself.
        exchange.reset_login()
        await _Attempt(world, write, exchange, result).make()
    result.counts.update(
        f"strike {name}, {'after' if done else 'before'}" for name, _, done in world.exchange.faults.fired
    )
    return result


@attrs.define
class _Attempt:
    """One write, from what is there before to the verdict."""

    world: World
    write: Write
    exchange: FreightExchange
    result: Result
    since: int = 0
    until: int = 0

    async def make(self) -> None:
        """Make the write, and judge what the client was told."""
        world, write = self.world, self.write
        send, baseline = await _prepared(world, write, self.exchange)
        if write.meddling == "before":
            world.meddle(write)
        if write.login is not None:
            world.exchange.expire_tokens()
            world.arm(write.login, "POST", "login")
        world.arm(write.strike, *ADDRESSES[write.kind])
        self.since = world.sandbox.audit_log.count
        outcome, error = await self._sent(send)
        self.until = world.sandbox.audit_log.count
        world.calm()
        if isinstance(error, OutcomeUnknownError):
            if write.meddling == "after":
                world.meddle(write)
            world.arm(write.reading, "GET", _LISTINGS[write.kind])
            outcome = await self._reconciled(error, baseline)
            world.calm()
        elif outcome == "cancelled":
            # The send that its caller left ends in its own time, and the client goes on working.
            await anyio.sleep(world.pace.aftermath)
            self.until = world.sandbox.audit_log.count
            with contextlib.suppress(FreightExchangeError):
                await self.exchange.carriers.list()
        self._judge(outcome)

    async def _sent(self, send: Callable[[], Awaitable[object]]) -> tuple[str, Exception | None]:
        """Send, unless the caller leaves first."""
        caught: Exception | None = None
        outcome = "cancelled"
        began = anyio.current_time()

        async def sending() -> None:
            nonlocal caught, outcome
            try:
                await send()
                outcome = "success"
            except Exception as error:  # noqa: BLE001  # judged
                caught, outcome = error, f"error {type(error).__name__}"
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sending)
            if self.write.leaves is None:
                await anyio.sleep(self.write.deadline + 2 * self.world.pace.margin)
                outcome = "hang"
            else:
                for _ in range(self.write.leaves):
                    await anyio.lowlevel.checkpoint()
                if self.write.leaves % 2 == 0:
                    # Half of them leave a little later, when the clock has moved.
                    await anyio.sleep(self.write.leaves * self.world.pace.turn)
            tasks.cancel_scope.cancel()
        if anyio.current_time() - began > self.write.deadline + self.world.pace.margin:
            self._flaw("outlived its deadline")
        self._examine(caught)
        return outcome, caught

    async def _reconciled(self, error: OutcomeUnknownError[Any], baseline: list[Any] | None) -> str:
        write = self.write
        with anyio.move_on_after(self.world.pace.longest):
            try:
                doubt = pickle.loads(pickle.dumps(error)) if write.pickled else error
                verdict = await doubt.reconcile(self.exchange, timedelta(seconds=write.settle), baseline=baseline)
            except Exception as refusal:  # noqa: BLE001  # judged
                self._examine(refusal)
                return f"refused {type(refusal).__name__}"
            return type(verdict).__name__
        return "hang"

    def _examine(self, error: Exception | None) -> None:
        if error is None:
            return
        if not isinstance(error, FreightExchangeError):
            self._flaw(f"raised {error!r}, which is not the package's")
        shown = [str(error), repr(error), *traceback.format_exception(error)]
        if any(secret in text for secret in self.world.secrets for text in shown):
            self._flaw("shows a secret in its error")
        if isinstance(error, OutcomeUnknownError) and any(
            secret.encode() in pickle.dumps(error) for secret in self.world.secrets
        ):
            self._flaw("keeps a secret in its pickled error")

    def _flaw(self, what: str) -> None:
        self.result.flaws.append(f"{self.write.kind} {self.write.number}: {what}; {self.write}")

    # The verdict

    def _judge(self, outcome: str) -> None:
        if (wrong := self._wrong(outcome)) is not None:
            self._flaw(f"{outcome}: {wrong}")
        self.result.counts[f"{self.write.kind}: {outcome.partition(' ')[0]}"] += 1
        if outcome.partition(" ")[0] in ("success", "error", "cancelled", "hang"):
            return
        if self._hidden() is not None or self.write.kind == "raw":
            self.result.counts["outcome hidden"] += 1
        elif outcome in ("Applied", "NotApplied", "Conflict"):
            self.result.counts["outcome decided"] += 1
        else:
            self.result.counts["outcome undecided"] += 1

    @property
    def _done(self) -> list[Any]:
        return self.world.done(self.write, self.since)

    @property
    def _overridden(self) -> bool:
        """The last change is another account's."""
        after = self.write.meddling == "after" or (self.write.meddling == "before" and not self._done)
        return after and self.write.kind not in ("publish", "create_route")

    @property
    def _beyond(self) -> bool:
        """The service shows its writes later than the settle time. They may be believed absent."""
        return self.world.profile.late_visibility > self.write.settle

    def _wrong(self, outcome: str) -> str | None:
        write, done = self.write, self._done
        if len(done) > 1:
            return "carried out twice"
        if self.world.is_sent(write, self.until):
            return "sent while it was looked for"
        match outcome:
            case "hang":
                return "never ended"
            case "success":
                has_no_reply = write.kind in ("decline", "create_route", "update_route")
                # The caller of a raw write reads its reply.
                lied = write.strike is not None and (
                    write.kind == "raw" or (write.strike.name in _LIES and has_no_reply)
                )
                # A reply to a publication or a new route has a new index, and a service may change any other field: it
                # permutes dimensions, and moves dates. So nothing in it contradicts what was sent.
                is_compared = write.kind not in ("publish", "create_route")
                if done and is_compared and self._is_contradicted():
                    return "believed a reply about something else"
                return None if done or lied else "not carried out"
            case "Applied":
                equal = write.twin and not (write.baseline and write.kind in ("submit", "publish", "create_route"))
                return None if done or equal else "not carried out"
            case "NotApplied":
                nothing = write.kind == "decline" and self.world.profile.decline_outcome == "unchanged"
                return "carried out" if done and not (nothing or self._beyond) else None
            case "Conflict":
                is_meant = self._overridden or (self._beyond and write.meddling != "never")
                return None if is_meant else "nothing stands in its place"
            case _ if outcome.startswith("error"):
                return "carried out, but the error claims that nothing happened" if done else None
        return None

    def _is_contradicted(self) -> bool:
        """Return whether the reply to the write visibly describes something else."""
        write, profile = self.write, self.world.profile
        fired = {name for name, call, done in self.world.exchange.faults.fired if done and call > self.since}
        # What a decline returns is not documented.
        if write.kind in ("decline", "raw") or not fired & _CONTRADICTIONS.keys():
            return False
        if write.kind == "approve" and "reply_of_another_request" in fired:
            return write.known
        is_visible = profile.route_write in ("collection", "record") and profile.optional_fields == "present"
        return is_visible or "route" not in write.kind

    def _hidden(self) -> str | None:
        """Return why no reader of the listings could prove the outcome within the settle time; `None` if one can."""
        write, profile, done = self.write, self.world.profile, bool(self._done)
        reading = write.reading
        if reading is not None and (
            reading.times is None or reading.name in _LASTING or (reading.name == _SLOW and reading.times > 2)
        ):
            return "the service cannot be read"
        if profile.nothing_found == "404_bare":
            return "an empty listing reads as a wrong address"
        if profile.rows_limit is not None and profile.over_limit == "500":
            return "a page of the usual size fails"
        if profile.offset_ignored:
            return "every page is the first one"
        if self._beyond:
            return "shown later than the settle time"
        if profile.poison != "none":
            return "a record is broken for good"
        elsewhere = profile.selected_offer_shape == "entry"
        match write.kind:
            case "submit" if done and _is_rounded(profile, write.amount):
                return "the amount is rounded"
            case "submit" if done and write.baseline and write.meddling != "never" and profile.bid_default == "active":
                return "the plain listing leaves it out"
            case "submit" if done and write.twin and write.baseline and _hides_twins(profile):
                return "a bid alike is in its place"
            case "submit" if not done and (write.twin or (write.earlier and not write.baseline)):
                return "a bid that stood before may be it"
            case "decline" if done and profile.decline_outcome == "removed":
                return "the offer is gone: declined or withdrawn"
            case "decline" if write.meddling != "never" and elsewhere:
                return "another offer is listed alone"
            case "approve" if self._overridden and elsewhere and not write.known:
                return "another offer is listed alone"
            case "create_route" | "update_route" if (
                profile.date_form != "plain" or profile.optional_fields != "present"
            ):
                return "the route is not shown whole"
            case "update_route" if not write.known:
                return "the route was never read before"
            case "publish" if write.twin:
                return "a request alike is listed"
        return None


def _is_rounded(profile: Profile, amount: Decimal) -> bool:
    step = {"none": None, "cents": Decimal("0.01"), "whole": Decimal(1)}[profile.amount_rounding]
    return step is not None and amount != amount.quantize(step, ROUND_HALF_UP)


def _hides_twins(profile: Profile) -> bool:
    """Return whether a second, equal bid cannot be seen: it replaces the first one, or its page looks the same."""
    return profile.second_offer == "replaced" or profile.rows_clamp == 1


# The client that comes to mind first


def naive(seed: int) -> bool:
    """Return whether a client that repeats what got no reply carries a write out twice."""
    plan = draw(seed)
    world = World(plan, seed)

    async def work() -> bool:
        async with world.sandbox.http_client() as client:
            return await repeat_all(world, plan, client, world.sandbox.url)

    # On trio, httpx leaves a generator behind where a body cannot be decoded.
    return in_virtual_time(seed, "asyncio", work)


async def repeat_all(world: World, plan: Plan, client: httpx.AsyncClient, url: str) -> bool:
    """Make all writes by the naive client, and return whether one is carried out twice."""
    return any([await _repeated(world, write, client, url) > 1 for write in plan.writes])


async def _repeated(world: World, write: Write, client: httpx.AsyncClient, url: str) -> int:
    account = world.shipper if write.kind in _BY_SHIPPER else world.forwarder
    headers = {"Authorization": f"Bearer {world.exchange.token(account, world.sandbox.now())}"}
    world.arm(write.strike, *ADDRESSES[write.kind])
    since = world.sandbox.audit_log.count
    method, path = ADDRESSES[write.kind]
    for _ in range(_NAIVE_ATTEMPTS):
        with contextlib.suppress(httpx.TransportError), anyio.move_on_after(world.pace.deadlines[0]):
            with contextlib.suppress(httpx.DecodingError):
                await client.request(method, f"{url}/{path}", json=body(world, write), headers=headers)
            break
    world.calm()
    return len(world.done(write, since))
