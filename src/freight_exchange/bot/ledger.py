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
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.failpoints import Failpoints, no_failpoints
from freight_exchange.bot.outcomes import IN_DOUBT, RetryLater
from freight_exchange.bot.own_bids import OwnBids, Reading
from freight_exchange.bot.writes import (
    AnswerWrite,
    OfferWrite,
    Plan,
    Recorded,
    Write,
    already_offered_error,
    changed_error,
    decide,
    dump_result,
    in_doubt_error,
    load_baseline,
    load_offer,
    load_write,
    outcome_of,
    rejected_error,
    unknown_prices,
)
from freight_exchange.errors import (
    FencedError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    OfferInDoubtError,
    StoreAwayError,
    ValidationError,
)
from freight_exchange.errors.transient import READ_ERRORS, retry_delay
from freight_exchange.models import Applied, Bid, Conflict, Listing, NotApplied, RequestStatus, StillUnknown
from freight_exchange.options import RetryPolicy
from freight_exchange.platform import clock
from freight_exchange.platform.clock import SendLimit
from freight_exchange.store import effects, fleet
from freight_exchange.store.effects import OPEN, Effect
from freight_exchange.store.errors import ConflictError, StoreRefusedError
from freight_exchange.store.fleet import ORPHAN_AGE

if TYPE_CHECKING:
    from freight_exchange.bot.work import Delivery
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Reconciliation
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database
    from freight_exchange.store.fleet import Adopted, Joined

__all__ = ["SEND_WINDOW", "Gate", "Ledger"]

_logger = logging.getLogger("freight_exchange.bot")

SEND_WINDOW: Final = 10.0
"""Seconds in which a write may be sent, from before its `sending` is committed."""

_POLL: Final = 5.0
_TRIES: Final = 4
_MAX_WAIT: Final = 10.0
"""Seconds for which a handler waits behind the brake. Longer waits would count against its timeout."""
_LONGEST_PAUSE: Final = 60.0
_RECORD_PAUSE: Final = 1.0
_MAX_CHECKS: Final = 3
_MAX_RESENDS: Final = 3
_CHECK_FACTOR: Final = 4
"""If the service shows writes later than `settle`, absence proves nothing. So each resend is checked four times as long
as the one before, and there are at most three."""
_MAX_SETTLE: Final = 3600.0
_CONCURRENCY: Final = 100
"""Limit of proofs at a time. They share their readings."""
_LOOKUP_DEADLINE: Final = 5.0
_WORDS: Final = {"confirmed": "confirmed", "refused": "rejected", "unknown": "doubtful", "absent": "not taken"}
"""Outcomes in metrics and names of failpoints, by state."""


class Gate:
    """Slots for writes, and one brake for all of them.

    While the service takes no writes as such, as by 429, 401, a page of 404 or 503, one probe goes first, after a pause
    that doubles from one second to a minute. All others wait behind it, before anything is recorded.

    Args:
        slots: Number of writes in flight.
    """

    def __init__(self, slots: int) -> None:
        self._slots = anyio.Semaphore(slots)
        self._probe = anyio.Lock()
        self._pause = self._until = 0.0
        self._braked_at = -math.inf

    async def enter(self) -> Pass:
        """Wait behind the brake and for a slot.

        Raises:
            RetryLater: The brake holds for longer than a handler may wait.
        """
        while True:
            is_probe = self._pause > 0 and await self._become_probe()
            try:
                await self._slots.acquire()
            except BaseException:
                if is_probe:
                    self._probe.release()
                raise
            if is_probe or not self._pause:
                return Pass(anyio.current_time(), is_probe=is_probe)
            # The brake has come on while this waited for its slot.
            self._slots.release()

    async def _become_probe(self) -> bool:
        """Wait for the turn to be the probe, and return `False` if the brake is off by then."""
        remaining = anyio.current_effective_deadline() - anyio.current_time()
        with anyio.move_on_after(min(_MAX_WAIT, remaining / 2)):
            await self._probe.acquire()
            try:
                if self._pause:
                    await anyio.sleep_until(self._until)
                    return True
            except BaseException:
                self._probe.release()
                raise
            self._probe.release()
            return False
        # Jitter, or all that wait would come back in the same moment.
        wait = max(self._until - anyio.current_time(), 1.0) * random.uniform(1.0, 1.5)
        raise RetryLater(wait, "the service takes no writes at the moment, and one at a time is tried")

    def leave(self, entered: Pass, trouble: FreightExchangeError | None, *, is_answered: bool) -> None:
        """Give the slot back.

        Args:
            entered: The result of `enter`.
            trouble: The error of the write, if it is not the service's answer to it.
            is_answered: Whether the service has answered the write.
        """
        self._slots.release()
        if is_answered:
            self._pause = 0.0
        elif trouble is not None and entered.at >= self._braked_at:
            # Writes that were in flight together make one pause.
            self._pause = min(2 * self._pause or 1.0, _LONGEST_PAUSE)
            self._braked_at = anyio.current_time()
            self._until = self._braked_at + max(self._pause, retry_delay(trouble) or 0.0)
        if entered.is_probe:
            self._probe.release()


@attrs.frozen
class Pass:
    """Permission to send one write: when it was given, and whether as the probe."""

    at: float
    is_probe: bool


class _Changed(Exception):
    """What a plan was made from has changed before the effect began."""


class Ledger:
    """Writes of a bot that happen at most once.

    Args:
        store: The store, joined.
        exchange: The client.
        settle: Seconds that the service may take to show a write.
        interval: Interval of the feed, which is the pace of all readings.
        slots: Number of writes in flight.
        reach: Called at each failpoint.

    Attributes:
        bids: The account's bids.
        outcomes: Number of outcomes in this process, by `offer` or `answer`, and by `confirmed`, `rejected`, `doubtful`
            or `not taken`.
    """

    def __init__(
        self,
        store: Store,
        exchange: FreightExchange,
        *,
        settle: float,
        interval: float,
        slots: int = 4,
        reach: Failpoints = no_failpoints,
    ) -> None:
        self._store = store
        self._exchange = exchange
        self._settle = settle
        self._interval = interval
        self._reach = reach
        self._gate = Gate(slots)
        self._checks = anyio.CapacityLimiter(_CONCURRENCY)
        self._wake = anyio.Event()
        self._sending = set[int]()
        self._certain_from: dict[tuple[int, int], float] = {}
        """Time on the loop's clock, by effect and version, from which the settle time of a doubt counts."""
        self._denied: dict[tuple[int, int], float] = {}
        """Time of the first look-up that lacked an offer, by request and offer."""
        self._answers_from = self._prove_from = -math.inf
        self.bids = OwnBids(store, exchange, interval=interval, settle=settle, wake=self.wake)
        self.outcomes: Counter[tuple[str, str]] = Counter()

    async def start(self, joined: Joined) -> None:
        """Begin after a join: require a reading of the bids if the ledger may lack some, and take over parked doubts."""
        wait = self._settle + ORPHAN_AGE if joined.is_restored else 0.0
        if joined.is_restored:
            self._answers_from = anyio.current_time() + wait
            _logger.critical(
                "the store lacks its last commits, as an earlier copy was put back: no offer is made and no answer is"
                " given for %.0f s, until your bids have been read",
                wait,
            )
        await self.bids.start(must_read=joined.must_read, wait=wait)
        await self._store.run(effects.take_parked, self._store.binding, self._store.me)
        self.wake()

    def adopt(self, found: Adopted) -> None:
        """Look for the effects that a beat has adopted, once none of them can arrive any more."""
        arrived = anyio.current_time() + ORPHAN_AGE
        for number in found.effects:
            self._certain_from[number, -1] = arrived
        if found.effects or found.orphans:
            self.wake()

    def wake(self) -> None:
        """Make the resolver look at once."""
        self._wake.set()

    async def held(self, subject: int | None) -> bool:
        """Return whether a request has an effect that may or may not have been carried out."""
        return subject is not None and any(one.is_open for one in await self._known(subject))

    async def doubts(self) -> list[Effect]:
        """Return the effects in doubt of all replicas, the oldest first. One that is being sent is none yet."""
        found = await self._store.run(effects.open_effects, self._store.binding)
        return [one for one in found if one.state != "sending" or self._store.now - one.at > SEND_WINDOW]

    # Sending

    async def once(self, write: Write, by: Delivery | None = None) -> Any:
        """Carry out a write at most once, and return its result, or that of an earlier time.

        A handler's cancellation takes effect before the write is recorded, or after its outcome is.

        Raises:
            AlreadyOfferedError, AlreadyApprovedError, OfferChangedError, OfferRejectedError: It was not sent.
            OfferInDoubtError: It is not known whether it was carried out.
            RetryLater: It cannot be sent at present, and the handler has not failed.
            FencedError: Another replica has the delivery.
            FreightExchangeError: It was not sent.
        """
        for _ in range(_TRIES):
            try:
                return await self._once(write, by)
            except (_Changed, ConflictError):
                # Another handler or replica was faster: the next look finds its effect.
                continue
        raise RetryLater(1.0, f"{write} meets others at each try")

    async def _once(self, write: Write, by: Delivery | None) -> Any:
        known, event, at = await self._store.run(self._read, write, by)
        plan = write.plan(known, event, is_bound=by is not None)
        if isinstance(plan, Recorded):
            return self._recorded(write, plan.effect)
        if isinstance(write, OfferWrite):
            plan = await self._compared(write, plan, known, at)
        elif isinstance(write, AnswerWrite):
            plan = await self._looked_up(write, plan, known)
        if plan.effect.state == "confirmed":
            with anyio.CancelScope(shield=True):
                return write.result(await self._begin(write, plan, by))
        entered = await self._gate.enter()
        done: Effect | None = None
        error: FreightExchangeError | None = None
        try:
            with anyio.CancelScope(shield=True):
                done, error = await self._carry_out(write, plan, by)
        finally:
            is_answered = done is not None and done.state in ("confirmed", "refused")
            self._gate.leave(entered, error, is_answered=is_answered)
        assert done is not None
        if done.state == "confirmed":
            return write.result(done)
        if done.state == "refused":
            rejected = rejected_error(write, done)
            rejected.request_closed = isinstance(write, OfferWrite) and await self._is_closed(write.request)
            raise rejected from error
        if done.state == "absent" and not isinstance(error, OfferInDoubtError):
            assert error is not None
            raise error
        raise in_doubt_error(done) from error

    def _read(self, db: Database, write: Write, by: Delivery | None) -> tuple[list[Effect], int | None, float]:
        """Return the effects on the request, and the event that orders the write, with its time."""
        binding = self._store.binding
        known = [] if write.request is None else effects.of_subject(db, binding, write.request)
        event = effects.latest_event(db, binding) if by is None else by.event_id
        return known, event, effects.time_of_event(db, event)

    def _recorded(self, write: Write, effect: Effect) -> Any:
        """Return the result of an effect in place of a second write."""
        if isinstance(write, OfferWrite) and not write.is_same_as(effect):
            asked, stands = write.price_text, load_offer(effect).price_text
            _logger.warning(
                "%s stands at %s; the different price or terms, %s, are not sent; pass a new revision to quote again",
                load_write(effect),
                stands,
                asked,
                extra={"request": write.request, "asked": asked, "stands": stands},
            )
        return write.result(effect)

    async def _compared(self, write: OfferWrite, plan: Plan, known: Sequence[Effect], at: float) -> Plan:
        """Compare an offer with the account's bids on the request: with what the ledger lacks, it is not sent.

        A first price needs no newer reading than the start's. A second one needs one from after its event.
        """
        placed = [one for one in known if one.kind == "offer" and one.state == "confirmed"]
        is_allowed = write.allow_existing or plan.effect.facts.get("allowed", False)
        needs_new = bool(placed) or is_allowed
        reading = await self.bids.since(max(at, self._store.now - self._interval) if needs_new else 0.0)
        listed = reading.on(write.request)
        unknown = unknown_prices(listed, placed)
        if unknown and not is_allowed:
            if not unknown[write.price]:
                raise already_offered_error(write, "the bot's store lacks")
            _logger.warning("%s stands already, and is taken over: %s", write, write.price_text, extra=_fields(write))
            found = reading.record(write.request, write.price)
            return attrs.evolve(plan, effect=_confirmed(plan.effect, dump_result(found)))
        before = [*listed, *(price for one in placed if (price := load_offer(one).price) not in listed)]
        baseline = [[None if amount is None else str(amount), currency] for amount, currency in before]
        return attrs.evolve(plan, effect=plan.effect.with_facts(baseline=baseline))

    async def _looked_up(self, write: AnswerWrite, plan: Plan, known: Sequence[Effect]) -> Plan:
        """Compare an answer with the request as the service shows it now."""
        if (remaining := self._answers_from - anyio.current_time()) > 0:
            raise RetryLater(
                remaining,
                "the store was restored, and the service may not show an answer yet that the store lacks: answers wait"
                f" {remaining:.0f} s for that",
            )
        key = write.request, write.offer
        listing = await self._listing(write)
        if listing is None:
            # One reading proves no absence: a replica of the service may lag.
            now = anyio.current_time()
            first = self._denied.setdefault(key, now)
            if now < first + self._settle:
                raise RetryLater(min(self._interval, self._settle), f"{write} waits: the offer is not listed")
            self._denied.pop(key)
            raise changed_error(write, "is not listed any more")
        self._denied.pop(key, None)
        offer = write.find(listing)
        facts = {} if offer is None else {"amount": None if offer.amount is None else str(offer.amount)}
        effect = plan.effect.with_facts(**facts, currency=None if offer is None else offer.currency)
        if write.is_shown(listing, known):
            effect = _confirmed(effect, dump_result(listing))
        return attrs.evolve(plan, effect=effect)

    async def _listing(self, write: AnswerWrite) -> Listing | None:
        """Return the request, or `None` if it or the offer is not listed. A selected offer may be listed alone."""
        try:
            listing = await self._exchange.offers.get(write.request)
        except NotFoundError as error:
            if error.call_path == "login":
                raise
            return None
        selected = listing.selected
        is_decided = selected is not None and (write.approved or selected.id == write.offer)
        return listing if is_decided or write.find(listing) is not None else None

    async def _begin(self, write: Write, plan: Plan, by: Delivery | None) -> Effect:
        """Record the effect in one transaction with the conditions under which it may begin.

        Raises:
            FencedError: This replica does not live, or has lost the delivery.
            _Changed: The effects on the request are no longer those of the plan.
        """
        step = plan.effect.state

        def begin(db: Database) -> tuple[Effect, int]:
            writes = fleet.note_write(db, self._store.me, self._store.writes)
            if by is not None and not effects.is_claimed(db, by.event_id, by.handler, self._store.me):
                raise FencedError(f"{write} was not sent: this replica no longer has its delivery")
            if isinstance(write, OfferWrite) and not effects.has_read(db, self._store.binding):
                raise _Changed
            known, event, _ = self._read(db, write, by)
            again = write.plan(known, event, is_bound=by is not None)
            if isinstance(again, Recorded) or _identity(again) != _identity(plan):
                raise _Changed
            handler = None if by is None else by.handler
            effect = attrs.evolve(plan.effect.with_facts(handler=handler), event=event, at=db.now, owner=self._store.me)
            begun = effects.begin(db, self._store.binding, effect, replaces=plan.replaces)
            if begun is None:
                raise _Changed
            return begun, writes

        self._reach(f"before {step}")
        effect, writes = await self._store.run(begin)
        self._store.writes = max(self._store.writes, writes)
        self._reach(f"after {step}")
        return effect

    async def _carry_out(
        self, write: Write, plan: Plan, by: Delivery | None
    ) -> tuple[Effect, FreightExchangeError | None]:
        """Begin, send and finish a write; return the effect with its outcome, and the error of the send."""
        # Noted before `sending` is committed, so that it ends before the wait of a replica that adopts the effect.
        limit = SendLimit(clock.now(), SEND_WINDOW)
        effect = await self._begin(write, plan, by)
        self._sending.add(effect.id)
        try:
            self._reach("before send")
            try:
                reply = await write.send(self._exchange._limited(send_limit=limit))
            except FreightExchangeError as error:
                self._reach("after send")
                return await self._failed(write, effect, error), error
            except BaseException as error:
                # Cancelled by force, or a bug: it may have been sent.
                await self._failed(write, effect, OfferInDoubtError(type(error).__name__))
                raise
            self._reach("after send")
            done = await self._finish(effect, "confirmed", result=dump_result(reply))
            price = f": {write.price_text}" if isinstance(write, OfferWrite) else ""
            done_word = "submitted" if isinstance(write, OfferWrite) else "carried out"
            _logger.info("%s was %s%s", write, done_word, price, extra=_fields(write))
            return done, None
        finally:
            self._sending.discard(effect.id)

    async def _failed(self, write: Write, effect: Effect, error: FreightExchangeError) -> Effect:
        """Record the outcome of a send that raised."""
        match state := outcome_of(error, write.refusals):
            case "unknown":
                self._certain_from[effect.id, effect.version] = anyio.current_time()
                done = await self._finish(effect, state, since=self._store.now)
                _logger.warning(
                    "%s may or may not have been carried out: %s; checking", write, error, extra=_fields(write)
                )
                self.wake()
            case "refused":
                done = await self._finish(effect, state, refusal=error.message, status=error.status)
            case _:
                done = await self._finish(effect, state)
                # Logged here, as the handler may have been cancelled meanwhile.
                _logger.warning("%s was not sent: %s", write, error, extra=_fields(write))
        return done

    async def _finish(self, effect: Effect, state: str, **facts: Any) -> Effect:
        """Record the outcome of a send, whoever owns the effect by now; return the effect as it is stored.

        While the store is away this repeats for the send window. After that `sending` stays, and the beat of this or of
        another replica finds it.

        Raises:
            OfferInDoubtError: The store stays away.
        """
        changed = attrs.evolve(effect.with_facts(**facts), state=state, at=self._store.now, owner=self._store.me)
        # A certain outcome applies even if the effect counts as absent meanwhile, but was not sent again.
        replaces = ("sending",) if state == "unknown" else OPEN if state == "absent" else (*OPEN, "absent")

        def finish(db: Database) -> Effect | None:
            if effects.finish(db, changed, replaces=replaces):
                return changed
            return effects.find(db, self._store.binding, effect.key)

        step = "withdrawn" if state == "absent" else _WORDS[state] if state != "unknown" else state
        until = anyio.current_time() + SEND_WINDOW
        while True:
            self._reach(f"before {step}")
            try:
                stored = await self._store.run(finish)
                break
            except (StoreAwayError, StoreRefusedError, ConflictError) as error:
                _logger.warning("the outcome of %s is not recorded yet: %s", effect.key, error)
                if anyio.current_time() >= until:
                    raise in_doubt_error(effect) from error
                await anyio.sleep(_RECORD_PAUSE)
        self._reach(f"after {step}")
        if stored is changed:
            kind = "offer" if effect.kind == "offer" else "answer"
            self.outcomes[kind, "not taken" if state == "absent" else _WORDS[state]] += state != "absent"
            return changed
        if state == "confirmed" and (stored is None or (stored.version, stored.state) != (effect.version, "confirmed")):
            _logger.critical(
                "%s was carried out, after it had counted as absent: look for a second one at the service",
                load_write(effect),
                extra={"request": effect.subject},
            )
            return changed
        return changed if stored is None or state == "confirmed" else stored

    async def _is_closed(self, request: int) -> bool:
        """Return whether the service lists a request as awarded, or not at all; `False` if that is not known."""
        exchange = self._exchange.with_options(deadline=_LOOKUP_DEADLINE, retries=RetryPolicy(attempts=1))
        try:
            found = await exchange.requests.get(request)
        except NotFoundError:
            return True
        except FreightExchangeError:
            return False
        return found.status not in (None, RequestStatus.AVAILABLE)

    # Doubts

    async def run(self) -> None:
        """Read the bids when that is wanted, and resolve all doubts of this replica, at the feed's pace; never ends.

        Raises:
            LoginRejectedError: The service rejected the email or password.
        """
        while True:
            self._wake = anyio.Event()
            doubts = await self._own_doubts()
            if not doubts and not self.bids.is_wanted:
                with anyio.move_on_after(_POLL):
                    await self._wake.wait()
                continue
            await anyio.sleep(self.bids.delay)
            if self.bids.is_wanted or any(one.kind == "offer" for one in doubts):
                if not await self.bids.read():
                    continue
            else:
                self.bids.skip()
            await self._look(await self._own_doubts(), self.bids.last)
            if all(one.state == "parked" for one in doubts) and not self.bids.is_wanted:
                with anyio.move_on_after(_LONGEST_PAUSE):
                    await self._wake.wait()

    async def _own_doubts(self) -> list[Effect]:
        found = await self._store.run(effects.open_effects, self._store.binding, self._store.me)
        doubts = [one for one in found if one.id not in self._sending]
        now, kept = anyio.current_time(), dict[tuple[int, int], float]()
        for one in doubts:
            adopted = self._certain_from.get((one.id, -1))
            key = one.id, one.version
            kept[key] = max(self._certain_from.get(key, now), -math.inf if adopted is None else adopted)
        self._certain_from = {key: at for key, at in self._certain_from.items() if key[0] in self._sending} | kept
        return doubts

    async def _look(self, doubts: Sequence[Effect], reading: Reading) -> None:
        """Resolve what a reading shows, and prove the absence of what it lacks after the settle time."""
        now, proofs = anyio.current_time(), list[tuple[Effect, bool]]()
        for effect in doubts:
            if effect.kind == "offer" and (bid := await self._found(effect, reading)) is not None:
                await self._resolve(effect, "confirmed", "it was found among your bids", result=dump_result(bid))
                continue
            settle = min(self._settle * _CHECK_FACTOR ** effect.facts["resends"], _MAX_SETTLE)
            certain = self._certain_from.get((effect.id, effect.version), math.inf)
            is_due = now >= max(certain + settle, self._prove_from)
            if is_due or effect.kind != "offer":
                proofs.append((effect, is_due))
        if any(is_due for _, is_due in proofs):
            # It reads five views completely: what becomes due meanwhile shares the next one.
            self._prove_from = now + 2 * max(self._interval, self._settle)
        # Begun together, so that they share each of their readings.
        async with anyio.create_task_group() as tasks:
            for proof in proofs:
                tasks.start_soon(self._prove, *proof)

    async def _found(self, effect: Effect, reading: Reading) -> Bid | None:
        """Return the bid of an offer in doubt, if a reading certainly shows it."""
        write = load_offer(effect)
        listed, before = [*reading.on(effect.subject)], await self._baseline(effect)
        # A row that moves may come twice, so an equal price is counted in complete readings only.
        if write.price not in listed or write.price in [(bid.amount, bid.currency) for bid in before]:
            return None
        return reading.record(write.request, write.price)

    async def _baseline(self, effect: Effect) -> list[Bid]:
        """Return the account's bids on the request that are not this offer, whether or not they are listed."""
        assert effect.subject is not None
        known = await self._known(effect.subject)
        others = [one for one in known if one.kind == "offer" and one.state == "confirmed" and one.id != effect.id]
        prices = load_baseline(effect)
        missing = Counter(load_offer(one).price for one in others) - Counter(prices)
        return [Bid(index=effect.subject, amount=a, currency=c) for a, c in [*prices, *missing.elements()]]

    async def _prove(self, effect: Effect, is_due: bool) -> None:
        """Conclude from complete readings."""
        baseline = await self._baseline(effect) if effect.kind == "offer" else None
        try:
            async with self._checks:
                result = await self._exchange.reconcile(
                    load_write(effect).on_wire, settle=timedelta(0), baseline=baseline
                )
        except READ_ERRORS as error:
            if isinstance(error, LoginRejectedError):
                raise
            _logger.warning(
                "%s cannot be checked yet: %s; retrying", load_write(effect), error, extra={"request": effect.subject}
            )
            return
        await self._conclude(effect, result, is_due=is_due)

    async def _conclude(self, effect: Effect, result: Reconciliation, *, is_due: bool) -> None:
        resends, checks = effect.facts["resends"], effect.facts.get("checks", 0) + 1
        record = result.record if isinstance(result, Applied) else _decided_listing(effect, result)
        if record is not None:
            await self._resolve(effect, "confirmed", "the service shows it", result=dump_result(record))
        elif not is_due:
            return
        elif isinstance(result, Conflict):
            await self._resolve(effect, "absent", "another answer was given")
        elif isinstance(result, NotApplied) and resends < _MAX_RESENDS:
            await self._resolve(effect, "absent", "it was not carried out", resends=resends + 1)
        elif effect.state == "parked":
            return
        elif isinstance(result, NotApplied) or checks >= _MAX_CHECKS:
            await self._resolve(effect, "parked", "no check can prove the outcome", checks=checks)
        else:
            await self._resolve(effect, "unknown", "", checks=checks)

    async def _resolve(self, effect: Effect, state: str, why: str, **facts: Any) -> None:
        """Record the result of a look, unless a person or another replica was faster."""
        at = effect.at if state == effect.state else self._store.now
        since = effect.facts.get("since") or effect.at
        changed = attrs.evolve(effect.with_facts(**{"since": since, **facts}), state=state, at=at)
        await self._close(effect, changed, why, owner=self._store.me)

    async def _close(self, effect: Effect, changed: Effect, why: str, *, owner: int | None = None) -> bool:
        def close(db: Database) -> tuple[bool, bool | None]:
            if not effects.finish(db, changed, replaces=(effect.state,), owner=owner):
                return False, None
            if changed.is_open:
                return True, None
            return True, effects.release(db, self._store.binding, changed, error=IN_DOUBT, now=db.now)

        self._reach("before resolved")
        is_done, is_sent_again = await self._store.run(close)
        self._reach("after resolved")
        if not is_done or (changed.is_open and changed.state == effect.state):
            return is_done
        write, fields = load_write(effect), {"request": effect.subject}
        if changed.state == "parked":
            _logger.critical(
                "%s is parked: %s; look at the service's own pages, and resolve it by hand", write, why, extra=fields
            )
            return True
        self.outcomes["offer" if effect.kind == "offer" else "answer", _WORDS[changed.state]] += 1
        if changed.state == "confirmed":
            _logger.warning("%s is no longer in doubt: %s", write, why, extra=fields)
        elif is_sent_again:
            _logger.warning("%s is no longer in doubt: %s; its handler is called again", write, why, extra=fields)
        else:
            then = (
                "another handler waits, and may send it; if it does not"
                if is_sent_again is None
                else "nothing sends it"
            )
            _logger.error(
                "%s is no longer in doubt: %s; %s: make it by hand if you still want it", write, why, then, extra=fields
            )
        return True

    async def resolve(self, request: int, *, taken: bool, revision: int = 0, offer: int | None = None) -> None:
        """Resolve a doubt, or undo a refusal, by a person's decision.

        Args:
            request: Index of the request.
            taken: Whether the service has it.
            revision: Number of the price of an offer of this bot.
            offer: Identifier of another party's offer, to decide about its approval or decline.

        Raises:
            ValidationError: It is neither in doubt nor refused, it may still arrive, or an argument is invalid.
        """
        known = await self._known(request)
        if offer is None:
            found = [one for one in known if one.kind == "offer" and one.revision == revision]
        else:
            found = [one for one in known if one.kind != "offer" and one.facts["offer"] == offer]
        found = [one for one in found if one.is_open or one.state == "refused"]
        if not found:
            what = f"the offer on request {request}" if offer is None else f"an answer to offer {offer}"
            raise ValidationError(f"{what} is not in doubt, nor was it refused", field="request")
        # A refused answer may stay as it is.
        effect = min(found, key=lambda one: one.state == "refused")
        changed = decide(effect, taken=taken)
        remaining = effect.at + ORPHAN_AGE - self._store.now
        if effect.state == "sending" and remaining > 0 and not (taken and effect.id not in self._sending):
            raise ValidationError(
                f"{load_write(effect)} is being sent, or may still arrive for {remaining:.0f} s: look at the service's"
                " own pages after that, and resolve it then",
                field="taken",
            )
        with anyio.CancelScope(shield=True):
            word = "carried out" if taken else "not carried out"
            done = await self._close(effect, attrs.evolve(changed, at=self._store.now), f"a person decided: {word}")
        if not done:
            raise ValidationError(f"{load_write(effect)} has changed meanwhile: look at it again", field="request")
        self.wake()

    async def _known(self, request: int) -> list[Effect]:
        return await self._store.run(effects.of_subject, self._store.binding, request)


def _confirmed(effect: Effect, result: Any) -> Effect:
    return attrs.evolve(effect.with_facts(result=result), state="confirmed")


def _identity(plan: Plan) -> tuple[Any, ...]:
    """Return what must not change between a plan and the transaction that begins its effect."""
    replaced = None if plan.replaces is None else (plan.replaces.id, plan.replaces.version, plan.replaces.state)
    return plan.effect.key, replaced


def _fields(write: Write) -> dict[str, object]:
    """Return the fields of log records about a write."""
    return {"request": write.request}


def _decided_listing(effect: Effect, result: Reconciliation) -> Listing | None:
    """Return the request that decides a decline because it shows the approval of another offer.

    The service may then list the approved offer alone, and refuses an approval of the declined one.
    """
    if effect.kind != "decline" or not isinstance(result, StillUnknown):
        return None
    found = (listing for listing in result.candidates if isinstance(listing, Listing))
    return next(
        (one for one in found if one.selected is not None and one.selected.id not in (None, effect.facts["offer"])),
        None,
    )
