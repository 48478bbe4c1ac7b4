"""The ledger: writes to the service that happen at most once, through crashes, lost replies and other replicas.

    sending -> confirmed | refused | absent | unknown,    unknown -> confirmed | absent | parked

`sending` is committed before a byte leaves: the service may have the write. What has no certain outcome is in doubt,
and nothing else is sent about its request before readings of the service, or a person, have decided.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.failpoints import reach
from freight_exchange.bot.outcomes import IN_DOUBT, RetryLater
from freight_exchange.bot.own_bids import OwnBids, Reading
from freight_exchange.bot.writes import (
    AnswerWrite,
    OfferWrite,
    Plan,
    Price,
    Write,
    decided_by_person,
    in_doubt_error,
    load_offer,
    load_write,
    outcome_of,
    prices_of,
    rejected_error,
    result_of,
    unknown_prices,
)  # fmt: skip
from freight_exchange.endpoints.reconcile import SharedReadings
from freight_exchange.errors import (
    READ_ERRORS,
    AlreadyOfferedError,
    FencedError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OfferInDoubtError,
    StoreAwayError,
    ValidationError,
    is_from_login,
    is_transient,
    retry_delay,
)  # fmt: skip
from freight_exchange.models import Applied, Bid, Conflict, Listing, NotApplied, RequestStatus, StillUnknown
from freight_exchange.options import RetryPolicy
from freight_exchange.platform import clock
from freight_exchange.platform.clock import SendLimit
from freight_exchange.serialization import to_dict
from freight_exchange.store import effects, fleet
from freight_exchange.store.effects import Effect
from freight_exchange.store.errors import ConflictError, StoreRefusedError
from freight_exchange.store.fleet import ORPHAN_AGE
from freight_exchange.store.schema import OPEN

if TYPE_CHECKING:
    from freight_exchange.bot.handler import Delivery
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Reconciliation
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database
    from freight_exchange.store.fleet import Adopted, Joined

_logger = logging.getLogger("freight_exchange.bot")

SEND_WINDOW: Final = 10.0
"""Seconds in which a write may be sent, from before its `sending` is committed."""

_TRIES: Final = 4
_SLOTS: Final = 4
"""Number of writes in flight."""
_MAX_WAIT: Final = 10.0
"""Seconds for which a handler waits behind the brake. Longer waits would count against its timeout."""
_LONGEST_PAUSE: Final = 60.0
_RECORD_PAUSE: Final = 1.0
_PARKED_PAUSE, _PARKED_PROOF = 600.0, 3600.0
"""Seconds between two looks, and between two proofs, of doubts that wait for a person."""
_MAX_CHECKS: Final = 3
_MAX_RESENDS: Final = 3
_CHECK_FACTOR: Final = 4
"""If the service shows writes later than `settle`, absence proves nothing. So each resend is checked four times as long
as the one before, and there are at most three."""
_MAX_SETTLE: Final = 3600.0
_LOOKUP_DEADLINE: Final = 5.0
_OUTCOMES: Final = {"confirmed": "confirmed", "refused": "rejected", "unknown": "doubtful", "absent": "not taken"}
"""Outcomes in the metrics, by state."""
_STEPS: Final = {"confirmed": "confirmed", "refused": "rejected", "unknown": "unknown", "absent": "withdrawn"}
"""Failpoints, by state."""


class Gate:
    """Slots for writes, and one brake for all of them.

    While the service takes no writes as such, as by 429, 401, a page of 404 or 503, one probe goes first, after a pause
    that doubles from one second to a minute. All others wait behind it, before anything is recorded.
    """

    def __init__(self) -> None:
        self._slots = anyio.Semaphore(_SLOTS)
        self._probe = anyio.Lock()
        self._pause = self._until = 0.0
        self._braked_at = -math.inf

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[float]:
        """Wait behind the brake and for a slot, hold it during the block, and yield the time.

        `RetryLater` if that takes longer than a handler may wait.
        """
        async with AsyncExitStack() as probing:
            is_probe = False
            while True:
                if self._pause and not is_probe:
                    is_probe = await self._become_probe(probing)
                async with self._slots:
                    # The brake may have come on while this waited for its slot.
                    if is_probe or not self._pause:
                        yield anyio.current_time()
                        return

    async def _become_probe(self, probing: AsyncExitStack) -> bool:
        """Wait for the turn to be the probe, and return `False` if the brake is off by then."""
        remaining = anyio.current_effective_deadline() - anyio.current_time()
        with anyio.move_on_after(min(_MAX_WAIT, remaining / 2)):
            await probing.enter_async_context(self._probe)
            if self._pause:
                await anyio.sleep_until(self._until)
                return True
            await probing.aclose()
            return False
        # Jitter, or all that wait would come back in the same moment.
        wait = max(self._until - anyio.current_time(), 1.0) * random.uniform(1.0, 1.5)
        raise RetryLater(wait, "the service takes no writes at the moment, and one at a time is tried")

    def report(self, entered: float, trouble: FreightExchangeError | None, *, is_answered: bool) -> None:
        """Brake for the `trouble` of a write that entered at a time, until the service answers one."""
        if is_answered:
            self._pause = 0.0
        elif trouble is not None and entered >= self._braked_at:
            # Writes that were in flight together make one pause.
            self._pause = min(2 * self._pause or 1.0, _LONGEST_PAUSE)
            self._braked_at = anyio.current_time()
            self._until = self._braked_at + max(self._pause, retry_delay(trouble) or 0.0)


class _ChangedError(Exception):
    """Change of the facts of a plan before its effect began."""


class Ledger:
    """Writes of a bot that happen at most once.

    The service may take `settle` seconds to show a write, and `interval` seconds are the pace of all readings.

    Attributes:
        outcomes: Number of outcomes by `offer` or `answer`, and by `confirmed`, `rejected`, `doubtful` or `not taken`.
    """

    def __init__(self, store: Store, exchange: FreightExchange, *, settle: float, interval: float) -> None:
        self._store = store
        self._exchange = exchange
        self._settle = settle
        self._interval = interval
        self._gate = Gate()
        self._wake = anyio.Event()
        self._sending = set[int]()
        self._adopted: dict[int, float] = {}
        """Time on the loop's clock at which an adopted effect cannot arrive any more, by its number."""
        self._certain_from: dict[tuple[int, int], float] = {}
        """Time from which the settle time of a doubt counts, by number and version."""
        self._denied: dict[tuple[int, int], float] = {}
        """Time of the first look-up that lacked an offer, by request and offer."""
        self._copied: dict[int, tuple[float, Counter[Price]]] = {}
        """Time of a reading that has bids of the ledger several times, and these, by request."""
        self._answers_from = self._prove_from = self._prove_parked_from = -math.inf
        self._bids = OwnBids(store, exchange, interval=interval, settle=settle, wake=self.wake)
        self.outcomes: Counter[tuple[str, str]] = Counter()

    async def start(self, joined: Joined) -> None:
        """Begin after a join: require a reading of the bids if the ledger may lack some."""
        wait = 0.0
        if joined.is_restored:
            wait = self._settle + ORPHAN_AGE
            self._answers_from = anyio.current_time() + wait
            _logger.critical(
                "the store lacks its last commits, as an earlier copy was put back: no offer is made and no answer is"
                " given for %.0f s, until your bids have been read",
                wait,
            )
        await self._bids.start(must_read=joined.must_read, wait=wait)
        self.wake()

    def adopt(self, found: Adopted) -> None:
        """Look for the effects that a beat has adopted, once none of them can arrive any more."""
        self._adopted.update(dict.fromkeys(found.effects, anyio.current_time() + ORPHAN_AGE))
        if found.effects or found.orphans:
            self.wake()

    def wake(self) -> None:
        self._wake.set()

    def doubts(self, db: Database) -> list[Effect]:
        """Return the effects in doubt of all replicas, the oldest first. One that is being sent is none yet."""
        found = effects.open_effects(db, self._store.binding)
        return [one for one in found if one.state != "sending" or db.now - one.at > SEND_WINDOW]

    # Sending

    async def once(self, write: Write, by: Delivery | None = None) -> Any:
        """Carry out a write at most once, and return its result, or that of an earlier time.

        A handler's cancellation takes effect before the write is recorded, or after its outcome is.

        Raises:
            OfferInDoubtError: It is not known whether it was carried out.
            RetryLater: It cannot be sent at present, and the handler has not failed.
            FencedError: Another replica has the delivery.
            FreightExchangeError: It was not sent.
        """
        for _ in range(_TRIES):
            try:
                return await self._once(write, by)
            except (_ChangedError, ConflictError):
                # Another handler or replica was faster: the next try finds its effect, or waits for a reading.
                await self._bids.refresh()
        raise RetryLater(1.0, f"{write} meets others at each try")

    async def _once(self, write: Write, by: Delivery | None) -> Any:
        known, event, at = await self._store.run(self._read, write, by)
        plan = write.plan(known, event, is_bound=by is not None)
        if isinstance(plan, Effect):
            return self._recorded(write, plan)
        if isinstance(write, OfferWrite):
            plan = await self._compared(write, plan, known, at)
        else:
            plan = await self._looked_up(write, plan, known)
        if plan.effect.state == "confirmed":
            with anyio.CancelScope(shield=True):
                return result_of(await self._begin(write, plan, by))
        done, error = None, None
        async with self._gate.entered() as entered:
            with anyio.CancelScope(shield=True):
                done, error = await self._carry_out(write, plan, by)
                self._gate.report(entered, error, is_answered=done.state in ("confirmed", "refused"))
        assert done is not None
        match done.state:
            case "confirmed":
                return result_of(done)
            case "refused":
                rejected = rejected_error(write, done)
                rejected.request_closed = isinstance(write, OfferWrite) and await self._is_closed(write.request)
                raise rejected from error
            case "absent" if error is not None and not error.may_have_taken_effect:
                raise error
            case _:
                raise in_doubt_error(done) from error

    def _read(self, db: Database, write: Write, by: Delivery | None) -> tuple[list[Effect], int | None, float]:
        """Return the effects on the request, and the event that orders the write, with its time."""
        # Updates that are merged into one delivery are ordered by the last of them.
        event = effects.latest_event(db, self._store.binding) if by is None else max(by.event_id, *by.merged, 0)
        known = effects.of_subject(db, self._store.binding, write.request)
        return known, event, effects.time_of_event(db, event)

    def _recorded(self, write: Write, effect: Effect) -> Any:
        if isinstance(write, OfferWrite) and (stands := load_offer(effect)).on_wire != write.on_wire:
            _logger.warning(
                "%s stands at %s; the different price or terms, %s, are not sent; pass a new revision to quote again",
                stands,
                stands.price_text,
                write.price_text,
                extra={"request": write.request, "asked": write.price_text, "stands": stands.price_text},
            )
        return result_of(effect)

    async def _compared(self, write: OfferWrite, plan: Plan, known: Sequence[Effect], at: float) -> Plan:
        """Compare an offer with the account's bids on the request.

        A first price needs no newer reading than the start's. A second one needs one from after its event.
        """
        placed = [one for one in known if one.kind == "offer" and one.state == "confirmed"]
        is_allowed = write.allow_existing or plan.effect.facts["allowed"]
        is_first = not placed and not is_allowed
        # What was proven absent may have been listed since, if the service is slower than `settle`.
        proven = plan.replaces.at if plan.replaces is not None and plan.effect.facts["resends"] else -math.inf
        later = math.nextafter(proven, math.inf)
        read_at, before = self._copied.get(write.request, (-math.inf, None))
        wanted = later if is_first else max(at, self._store.now - self._interval, math.nextafter(read_at, math.inf))
        reading = await self._bids.since(wanted)
        self._copied.pop(write.request, None)
        listed = reading.prices.get(write.request, ())
        unknown = Counter[Any]() if is_allowed else unknown_prices(listed, placed)
        copies = Counter({price: count for price, count in unknown.items() if listed.count(price) > count})
        if copies and before is None:
            # A row that moves while pages are read comes twice: only what the next reading has too is another bid.
            self._copied[write.request] = reading.began, copies
            return await self._compared(write, plan, known, at)
        unknown -= copies - (before or copies)
        if unknown[write.price]:
            _logger.warning("%s stands already, and is taken over: %s", write, write.price_text, extra=_fields(write))
            return _confirmed(plan, reading.record(write.request, write.price))
        if unknown:
            raise AlreadyOfferedError(
                f"{write} was not sent: this account has one there that the bot's store lacks; a person or another bot"
                " made it, or the store was lost; pass allow_existing=True to offer anyway",
                request=write.request,
            )
        prices = [*listed, *(price for one in placed if (price := load_offer(one).price) not in listed)]
        baseline = [[None if amount is None else str(amount), currency] for amount, currency in prices]
        return attrs.evolve(plan, effect=plan.effect.with_facts(baseline=baseline))

    async def _looked_up(self, write: AnswerWrite, plan: Plan, known: Sequence[Effect]) -> Plan:
        now, key = anyio.current_time(), (write.request, write.offer)
        if (remaining := self._answers_from - now) > 0:
            raise RetryLater(remaining, "the store was restored, and the service may still show answers that it lacks")
        listing, is_shown = None, None
        try:
            listing = await self._exchange.offers.get(write.request)
            is_shown = write.is_shown(listing, known)
        except NotFoundError as error:
            if is_from_login(error):
                raise
        if listing is None or is_shown is None:
            # One reading proves no absence: a replica of the service may lag.
            if now < self._denied.setdefault(key, now) + self._settle:
                raise RetryLater(min(self._interval, self._settle), f"{write} waits: the offer is not listed")
            del self._denied[key]
            raise write.changed("is not listed any more")
        self._denied.pop(key, None)
        if is_shown:
            plan = _confirmed(plan, listing)
        if (offer := write.find(listing)) is None:
            return plan
        amount = None if offer.amount is None else str(offer.amount)
        return attrs.evolve(plan, effect=plan.effect.with_facts(amount=amount, currency=offer.currency))

    async def _begin(self, write: Write, plan: Plan, by: Delivery | None) -> Effect:
        """Record the effect in one transaction with the conditions under which it may begin.

        `FencedError` if this replica does not live or has lost the delivery, `_ChangedError` if the plan is outdated.
        """

        def begin(db: Database) -> tuple[Effect, int]:
            binding, me = self._store.binding, self._store.me
            writes = fleet.note_write(db, me, self._store.writes, self._store.stamp[0])
            if by is not None and not effects.is_claimed(db, by.event_id, by.handler, me):
                raise FencedError(f"{write} was not sent: this replica no longer has its delivery")
            effects.lock_subject(db, binding, write.request)
            known, event, _ = self._read(db, write, by)
            again = write.plan(known, event, is_bound=by is not None)
            is_read = isinstance(write, AnswerWrite) or effects.has_read(db, binding)
            if isinstance(again, Effect) or again.replaces != plan.replaces or again.effect.key != plan.effect.key:
                raise _ChangedError
            own = {} if by is None else {"handler": by.handler, "delivery": by.event_id}
            effect = plan.effect.with_facts(**own)
            begun = effects.begin(
                db, binding, attrs.evolve(effect, event=event, at=db.now, owner=me), replaces=plan.replaces
            )
            if begun is None or not is_read:
                raise _ChangedError
            return begun, writes

        reach(f"before {plan.effect.state}")
        effect, writes = await self._store.run(begin)
        self._store.writes = max(self._store.writes, writes)
        reach(f"after {plan.effect.state}")
        return effect

    async def _carry_out(
        self, write: Write, plan: Plan, by: Delivery | None
    ) -> tuple[Effect, FreightExchangeError | None]:
        # Noted before `sending` is committed, so that it ends before the wait of a replica that adopts the effect.
        limit = SendLimit(clock.now(), SEND_WINDOW)
        effect = await self._begin(write, plan, by)
        self._sending.add(effect.id)
        try:
            reach("before send")
            try:
                reply = await write.send(self._exchange._view(send_limit=limit))
            except FreightExchangeError as error:
                reach("after send")
                return await self._failed(write, effect, error), error
            except BaseException as error:
                # Cancelled by force, or a bug: it may have been sent.
                await self._failed(write, effect, OfferInDoubtError(type(error).__name__))
                raise
            reach("after send")
            done = await self._finish(effect, "confirmed", result=None if reply is None else to_dict(reply))
            what = f"submitted: {write.price_text}" if isinstance(write, OfferWrite) else "carried out"
            _logger.info("%s was %s", write, what, extra=_fields(write))
            return done, None
        finally:
            self._sending.discard(effect.id)

    async def _failed(self, write: Write, effect: Effect, error: FreightExchangeError) -> Effect:
        state = outcome_of(error, write.refusals)
        if state == "unknown":
            self._certain_from[effect.id, effect.version] = anyio.current_time()
        reasons = {"refusal": error.message, "status": error.status} if state == "refused" else {}
        done = await self._finish(effect, state, since=self._store.now, **reasons)
        # Logged here, as the handler may have been cancelled meanwhile.
        if state == "unknown":
            _logger.warning("%s may or may not have been carried out: %s; checking", write, error, extra=_fields(write))
            self.wake()
        elif state == "absent":
            _logger.warning("%s was not sent: %s", write, error, extra=_fields(write))
        return done

    async def _finish(self, effect: Effect, state: str, **facts: Any) -> Effect:
        """Record the outcome of a send, also for another owner; return the effect as it is stored.

        While the store is away this repeats for the send window. Then `sending` stays, the caller gets a doubt,
        and the beat of this or of another replica finds it.
        """
        changed = attrs.evolve(effect.with_facts(**facts), state=state, at=self._store.now, owner=self._store.me)
        # A certain outcome applies even if the effect counts as absent meanwhile, but was not sent again.
        replaces = {"unknown": ("sending",), "absent": OPEN}.get(state, (*OPEN, "absent"))

        def finish(db: Database) -> Effect | None:
            is_done = effects.finish(db, changed, replaces=replaces)
            return changed if is_done else effects.find(db, self._store.binding, effect.key)

        until, stored, has_logged = anyio.current_time() + SEND_WINDOW, None, False
        while True:
            reach(f"before {_STEPS[state]}")
            try:
                stored = await self._store.run(finish)
                break
            except (StoreAwayError, StoreRefusedError, ConflictError) as error:
                level, has_logged = logging.DEBUG if has_logged else logging.WARNING, True
                _logger.log(level, "the outcome of %s is not recorded yet: %s", load_write(effect), error)
                if anyio.current_time() >= until:
                    raise in_doubt_error(effect) from error
            await anyio.sleep(_RECORD_PAUSE)
        reach(f"after {_STEPS[state]}")
        if stored is changed:
            self._count(changed, 0 if state == "absent" else 1)
        elif state == "confirmed" and (stored is None or stored.version != effect.version):
            _logger.critical(
                "%s was carried out, after it had counted as absent: look for a second one at the service",
                load_write(effect),
                extra={"request": effect.subject},
            )
        return changed if stored is None or state == "confirmed" else stored

    async def _is_closed(self, request: int) -> bool:
        """Return whether the service lists a request as awarded, or not at all; `False` if that is not known."""
        exchange = self._exchange.with_options(deadline=_LOOKUP_DEADLINE, retries=RetryPolicy(attempts=1))
        try:
            found = await exchange.requests.get(request)
        except FreightExchangeError as error:
            return isinstance(error, NotFoundError)
        return found.status not in (None, RequestStatus.AVAILABLE)

    # Doubts

    async def run(self) -> None:
        """Read the bids when that is wanted, and resolve all doubts of this replica, at the feed's pace; never ends."""
        while True:
            self._wake = anyio.Event()
            doubts = await self._own_doubts()
            if not doubts and not self._bids.is_wanted:
                await self._wake.wait()
                continue
            await anyio.sleep(self._bids.delay)
            if not self._bids.is_wanted and all(one.kind != "offer" for one in doubts):
                self._bids.skip()
            elif not await self._bids.read():
                continue
            await self._look(await self._own_doubts(), self._bids.last)
            if doubts and all(one.state == "parked" for one in doubts) and not self._bids.is_wanted:
                with anyio.move_on_after(_PARKED_PAUSE):
                    await self._wake.wait()

    async def _own_doubts(self) -> list[Effect]:
        """Return this replica's doubts, and note from when on the settle time of each counts."""
        found = await self._store.run(effects.open_effects, self._store.binding, self._store.me)
        doubts, now = [one for one in found if one.id not in self._sending], anyio.current_time()
        known, adopted = self._certain_from, self._adopted
        self._adopted = {one.id: adopted[one.id] for one in found if one.id in adopted}
        self._certain_from = {key: at for key, at in known.items() if key[0] in self._sending}
        for one in doubts:
            key = one.id, one.version
            self._certain_from[key] = max(known.get(key, now), adopted.get(one.id, -math.inf))
        return doubts

    async def _look(self, doubts: Sequence[Effect], reading: Reading) -> None:
        """Resolve what a reading shows, and prove the absence of what it lacks after the settle time."""
        now, proofs = anyio.current_time(), list[tuple[Effect, bool]]()
        for effect in doubts:
            if effect.kind == "offer" and (bid := await self._found(effect, reading)) is not None:
                await self._resolve(effect, "confirmed", "it was found among your bids", result=to_dict(bid))
                continue
            settle = min(self._settle * _CHECK_FACTOR ** effect.facts["resends"], max(self._settle, _MAX_SETTLE))
            certain = self._certain_from.get((effect.id, effect.version), math.inf)
            is_parked = effect.state == "parked"
            is_due = now >= max(certain + settle, self._prove_parked_from if is_parked else self._prove_from)
            if is_due or (effect.kind != "offer" and not is_parked):
                proofs.append((effect, is_due))
        if any(is_due for _, is_due in proofs):
            # It reads five views completely: what becomes due meanwhile shares the next one.
            self._prove_from = now + 2 * max(self._interval, self._settle)
        if any(is_due and effect.state == "parked" for effect, is_due in proofs):
            self._prove_parked_from = now + _PARKED_PROOF
        readings = SharedReadings()
        async with anyio.create_task_group() as tasks:
            for proof in proofs:
                tasks.start_soon(self._prove, *proof, readings)

    async def _found(self, effect: Effect, reading: Reading) -> Bid | None:
        """Return the bid of an offer in doubt, if a reading certainly shows it."""
        write, before = load_offer(effect), await self._baseline(effect)
        # A row that moves may come twice, so an equal price is counted in complete readings only.
        is_new = write.price not in [(bid.amount, bid.currency) for bid in before]
        is_listed = write.price in reading.prices.get(write.request, ())
        return reading.record(write.request, write.price) if is_new and is_listed else None

    async def _baseline(self, effect: Effect) -> list[Bid]:
        """Return the account's bids on the request that are not this offer, whether or not they are listed."""
        request, prices = load_write(effect).request, prices_of(effect.facts.get("baseline", ()))
        placed = [one for one in await self._known(request) if one.kind == "offer" and one.state == "confirmed"]
        missing = Counter(load_offer(one).price for one in placed) - Counter(prices)
        return [Bid(index=request, amount=a, currency=c) for a, c in [*prices, *missing.elements()]]

    async def _prove(self, effect: Effect, is_due: bool, readings: SharedReadings) -> None:
        """Conclude from complete readings, which all proofs of a look share."""
        write, baseline = load_write(effect), await self._baseline(effect) if effect.kind == "offer" else None
        try:
            result: Reconciliation = await self._exchange._reconcile(
                write.on_wire, readings, settle=timedelta(0), baseline=baseline, has_settled=is_due
            )
        except READ_ERRORS as error:
            if isinstance(error, LoginRejectedError):
                raise
            _logger.warning("%s cannot be checked yet: %s; retrying", write, error, extra=_fields(write))
            if is_transient(error):
                return
            result = StillUnknown()
        await self._conclude(effect, result, is_due=is_due)

    async def _conclude(self, effect: Effect, result: Reconciliation, *, is_due: bool) -> None:
        resends, checks = effect.facts["resends"], effect.facts.get("checks", 0) + 1
        record = result.record if isinstance(result, Applied) else _decided_listing(effect, result)
        if record is not None:
            await self._resolve(effect, "confirmed", "the service shows it", result=to_dict(record))
        elif not is_due:
            return
        elif isinstance(result, Conflict):
            await self._resolve(effect, "absent", "another answer was given")
        elif isinstance(result, NotApplied) and resends < _MAX_RESENDS:
            await self._resolve(effect, "absent", "it was not carried out", resends=resends + 1)
        elif effect.state != "parked":
            is_last = isinstance(result, NotApplied) or checks >= _MAX_CHECKS
            why = "no check can prove the outcome" if is_last else ""
            await self._resolve(effect, "parked" if is_last else "unknown", why, checks=checks)

    async def _resolve(self, effect: Effect, state: str, why: str, **facts: Any) -> None:
        """Record the result of a look, unless a person or another replica was faster."""
        since = effect.facts.get("since") or effect.at
        changed = attrs.evolve(effect.with_facts(since=since, **facts), state=state, at=self._store.now)
        await self._close(effect, changed, why, owner=self._store.me)

    async def _close(self, effect: Effect, changed: Effect, why: str, owner: int | None = None) -> bool:
        """Record the end of a doubt, make the deliveries due that wait for it, and return whether that was done."""

        def close(db: Database) -> tuple[bool, bool | None]:
            is_done = effects.finish(db, changed, replaces=(effect.state,), owner=owner)
            if changed.is_open or not is_done:
                return is_done, None
            return True, effects.release(db, self._store.binding, changed, error=IN_DOUBT, now=db.now)

        reach("before resolved")
        is_done, is_sent_again = await self._store.run(close)
        reach("after resolved")
        if not (is_done and why):
            return is_done
        level, text = logging.WARNING, "%s is no longer in doubt: %s"
        if changed.state == "parked":
            level, text = logging.CRITICAL, "%s is parked: %s; look at the service's own pages, and resolve it by hand"
        else:
            self._count(changed)
        if changed.state == "absent" and is_sent_again:
            text += "; its handler is called again"
        elif changed.state == "absent":
            text += "; unless another handler that waits sends it, make it by hand if you still want it"
            level = logging.ERROR
        _logger.log(level, text, load_write(effect), why, extra={"request": effect.subject})
        return True

    async def resolve(self, request: int, *, taken: bool, revision: int = 0, offer: int | None = None) -> None:
        """Resolve a doubt, or undo a refusal, by a person's decision, as `Bot.resolve` describes."""
        known = [one for one in await self._known(request) if one.is_open or one.state == "refused"]
        if offer is None:
            found = [one for one in known if one.kind == "offer" and one.revision == revision]
        else:
            found = [one for one in known if one.kind != "offer" and one.facts["offer"] == offer]
        if not found:
            what = f"the offer on request {request}" if offer is None else f"an answer to offer {offer}"
            raise ValidationError(f"{what} is not in doubt, nor was it refused", field="request")
        # A refused answer may stay as it is.
        effect = min(found, key=lambda one: one.state == "refused")
        changed, write = decided_by_person(effect, taken=taken), load_write(effect)
        remaining = effect.at + ORPHAN_AGE - self._store.now if effect.state == "sending" else 0.0
        has_ended = effect.owner == self._store.me and effect.id not in self._sending
        if remaining > 0 and not (taken and has_ended):
            raise ValidationError(
                f"{write} is being sent, or may still arrive for {remaining:.0f} s: look at the service's own pages"
                " after that, and resolve it then",
                field="taken",
            )
        why = f"a person decided that it was {'' if taken else 'not '}carried out"
        with anyio.CancelScope(shield=True):
            if not await self._close(effect, attrs.evolve(changed, at=self._store.now), why):
                raise ValidationError(f"{write} has changed meanwhile: look at it again", field="request")
        self.wake()

    async def _known(self, request: int) -> list[Effect]:
        return await self._store.run(effects.of_subject, self._store.binding, request)

    def _count(self, effect: Effect, number: int = 1) -> None:
        self.outcomes["offer" if effect.kind == "offer" else "answer", _OUTCOMES[effect.state]] += number


def _confirmed(plan: Plan, record: Bid | Listing) -> Plan:
    return attrs.evolve(plan, effect=attrs.evolve(plan.effect.with_facts(result=to_dict(record)), state="confirmed"))


def _fields(write: Write) -> dict[str, object]:
    return {"request": write.request}


def _decided_listing(effect: Effect, result: Reconciliation) -> Listing | None:
    """Return the request that decides a decline because it shows the approval of another offer.

    The service may then list the approved offer alone, and refuses an approval of the declined one.
    """
    if effect.kind != "decline" or not isinstance(result, StillUnknown):
        return None
    for listing in result.candidates:
        if isinstance(listing, Listing) and listing.selected is not None:
            return listing if listing.selected.id not in (None, effect.facts["offer"]) else None
    return None
