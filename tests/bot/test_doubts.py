"""Tests of doubts: what has no certain outcome is looked for, by all together and at the feed's pace."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.processes import SETTLE, Delivery, Process, process, reads
from tests.bot.rig import (
    AMOUNT,
    HOUR,
    INTERVAL,
    OFFER,
    UNANSWERED,
    UNPROCESSED,
    amounts_on,
    blind,
    eventually,
    sent,
    strike,
)

from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    FencedError,
    FreightExchangeError,
    OfferInDoubtError,
    OfferRejectedError,
    StoreAwayError,
    ValidationError,
)
from freight_exchange.store import MemoryStore, effects, fleet
from freight_exchange.store.database import Database
from freight_exchange.testing import Fault, Profile, Sandbox
from freight_sandbox.faults import json_reply
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time

TAKEN = [
    "reset_after_processing", "server_error_after_commit", "reset_mid_reply", "stall", "half_json",
    "bad_request_after_commit",
]  # fmt: skip
ABSENT = ["reset_after_send", "server_error", "html_200", "garbage_status", "unavailable"]


class TestOutcome:
    @pytest.mark.parametrize("fault", TAKEN)
    async def test_taken_offer_is_found_by_one_reading(self, fault: str) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, fault)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(OfferInDoubtError):
                await run.offer(event)
            with pytest.raises(OfferInDoubtError):
                await run.offer(event, "1900")
            before = reads(sandbox)
            bid = await run.until_known(event)
            assert (bid.index, bid.amount, bid.currency) == (index, Decimal(AMOUNT), 840)
            assert reads(sandbox) - before <= 5
            assert run.ledger.outcomes == {("offer", "doubtful"): 1, ("offer", "confirmed"): 1}
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 1)

    @pytest.mark.parametrize("fault", ABSENT)
    async def test_absent_offer_is_sent_again_once(self, fault: str) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, fault, processed=False)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            await run.until_known(event)
            assert run.ledger.outcomes == {
                ("offer", "doubtful"): 1, ("offer", "not taken"): 1, ("offer", "confirmed"): 1,
            }  # fmt: skip
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 2)

    @pytest.mark.parametrize("late", [0.5, 4.0])
    async def test_offer_listed_within_the_settle_time_is_found(self, late: float) -> None:
        sandbox = Sandbox(Profile(late_visibility=late))
        index = sandbox.publish()
        await anyio.sleep(late)
        strike(sandbox, UNANSWERED)
        async with process(sandbox, MemoryStore()) as run:
            await run.until_known(await run.event(index))
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 1)

    async def test_settle_time_of_hours_is_kept(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, UNPROCESSED)
        async with process(sandbox, MemoryStore(), settle=3 * HOUR) as run:
            with pytest.raises(OfferInDoubtError):
                await run.offer(await run.event(index))
            await anyio.sleep(2.9 * HOUR)
            assert await run.held(index)
            await anyio.sleep(0.2 * HOUR)
            assert not await run.held(index)

    @pytest.mark.parametrize(("late", "most"), [(90.0, 3), (HOUR, 4)])
    async def test_offer_listed_late_is_sent_four_times_at_most(self, late: float, most: int) -> None:
        """Each proof of absence takes four times as long as the one before."""
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.profile = attrs.evolve(sandbox.exchange.profile, late_visibility=late)
        strike(sandbox, "server_error_after_commit", times=None)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with anyio.move_on_after(HOUR - 60):
                await run.until_known(event)
            assert sent(sandbox) <= most

    async def test_offer_listed_between_its_proof_and_a_late_resend_is_taken_over(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.profile = attrs.evolve(sandbox.exchange.profile, late_visibility=120.0)
        strike(sandbox, "server_error_after_commit")
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(OfferInDoubtError):
                await run.offer(event)
            await anyio.sleep(300)
            await run.until_known(event)
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 1)

    @pytest.mark.parametrize(
        ("size", "stands"), [(1_000, "rejected"), (9_000, "rejected"), (300_000, "in doubt")], ids=str
    )
    async def test_refusal_of_any_size_is_a_refusal(self, size: int, stands: str) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        refusal = json_reply(400, {"message": "Offers are closed.", "details": "x" * size})
        sandbox.strike(Fault(name="refused", path=OFFER, processed=False, times=None, mutate=refusal))
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            for _ in range(2):
                with pytest.raises(OfferRejectedError if stands == "rejected" else OfferInDoubtError):
                    await run.offer(event)
        assert sent(sandbox) == 1

    @pytest.mark.parametrize("is_listed", [True, False])
    async def test_refusal_of_a_closed_request_says_so(self, is_listed: bool) -> None:
        sandbox = Sandbox()
        index = sandbox.publish() if is_listed else 4711
        if is_listed:
            offer = sandbox.exchange.offer(sandbox.rival, index, sandbox.now(), amount=1)
            sandbox.exchange.select(offer, sandbox.now())
        async with process(sandbox, MemoryStore()) as run:
            with pytest.raises(OfferRejectedError) as caught:
                await run.offer(await run.event(index))
        assert caught.value.request_closed
        assert caught.value.request == index

    async def test_page_of_a_gateway_is_no_refusal(self) -> None:
        """An error page instead of the service: nothing was sent to it, and the next try may succeed."""
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, "not_found_page")
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(FreightExchangeError):
                await run.offer(event, "1700")
            await anyio.sleep(2)
            await run.offer(event, "1800")
        assert amounts_on(sandbox, index) == ["1800"]

    async def test_refusal_of_a_gateway_leaves_a_doubt(self) -> None:
        """Replies of the service are JSON. A page may hide that it has taken the offer."""
        sandbox = Sandbox()
        index = sandbox.publish()

        def page(good: Reply, now: float, random: Random) -> Reply:
            return attrs.evolve(good, status=400, body=b"<html>Bad Request</html>")

        sandbox.strike(Fault(name="page", path=OFFER, times=1, mutate=page))
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(OfferInDoubtError):
                await run.offer(event)
            await run.until_known(event)
        assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 1)

    @pytest.mark.parametrize(("other", "is_parked"), [("990", False), (AMOUNT, True)])
    async def test_bid_of_a_person_is_not_taken_for_the_offer(self, other: str, is_parked: bool) -> None:
        """An equal one may have been replaced by the offer, so a person has to decide."""
        sandbox = Sandbox()
        index = sandbox.publish()
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal(other))
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            await anyio.sleep(INTERVAL + SETTLE)
            strike(sandbox, UNPROCESSED)
            with anyio.move_on_after(HOUR / 2):
                await run.until_known(event, allow_existing=True)
            assert [one.state for one in await run.store.run(run.ledger.doubts)] == ["parked"] * is_parked
        assert amounts_on(sandbox, index) == [other, AMOUNT][: 2 - is_parked]

    @pytest.mark.parametrize("status", [403, 404])
    async def test_doubt_is_parked_if_a_listing_that_its_proof_needs_stays_refused(self, status: int) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        refusal = json_reply(status, {"message": "No rights to this listing."})
        is_view = lambda call: call.path == "quote/bid" and b"type" in (call.body or b"")  # noqa: E731
        sandbox.strike(Fault(name="refused", when=is_view, times=None, mutate=refusal))
        strike(sandbox, UNPROCESSED)
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(OfferInDoubtError):
                await run.offer(event)
            with anyio.fail_after(HOUR):
                while [one.state for one in await run.store.run(run.ledger.doubts)] != ["parked"]:  # noqa: ASYNC110 - no event
                    await anyio.sleep(1)
            sandbox.exchange.faults.clear()
            await anyio.sleep(1.5 * HOUR)
            assert await run.store.run(run.ledger.doubts) == []
        assert amounts_on(sandbox, index) == []


class TestPerson:
    async def parked(self, run: Process, sandbox: Sandbox, index: int) -> Delivery:
        """Bring an offer into a doubt that no reading resolves."""
        event = await run.event(index)
        strike(sandbox, UNPROCESSED)
        with pytest.raises(OfferInDoubtError):
            await run.offer(event)
        # It may be this offer, as the service rounds it.
        sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal("1840.00"))
        await run.set_delivery(event, state="ready", error="its offer is in doubt", owner=None, not_before=1e12)
        with anyio.fail_after(HOUR):
            while [one.state for one in await run.store.run(run.ledger.doubts)] != ["parked"]:  # noqa: ASYNC110 - no event
                await anyio.sleep(1)
        return event

    async def test_decides_that_the_offer_was_not_taken(self, caplog: pytest.LogCaptureFixture) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        async with process(sandbox, MemoryStore()) as run:
            event = await self.parked(run, sandbox, index)
            assert "is parked" in caplog.text
            await run.ledger.resolve(index, taken=False)
            # Its handler is called again at once, and may offer beside the other bid.
            state, due = await run.delivery(event)
            assert (state, due <= 0) == ("ready", True)
            await run.offer(await run.claim(event), allow_existing=False)
        assert amounts_on(sandbox, index) == ["1840.00", AMOUNT]

    async def test_decides_that_the_offer_was_taken(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        async with process(sandbox, MemoryStore()) as run:
            event = await self.parked(run, sandbox, index)
            await run.ledger.resolve(index, taken=True)
            assert (await run.offer(await run.claim(event))).amount == Decimal(AMOUNT)
            with pytest.raises(ValidationError, match="is not in doubt"):
                await run.ledger.resolve(index, taken=True)
        assert amounts_on(sandbox, index) == ["1840.00"]

    async def test_is_waited_for_calmly(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        async with process(sandbox, MemoryStore()) as run:
            event = await self.parked(run, sandbox, index)
            await anyio.sleep(2 * HOUR)
            before = reads(sandbox)
            await anyio.sleep(4 * HOUR)
            # A look every ten minutes, and a proof an hour.
            assert reads(sandbox) - before <= 4 * (6 * 4 + 5 * 12)
            # What is listed late is found.
            sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal(AMOUNT))
            await run.resolved(index, within=900)
            assert (await run.offer(await run.claim(event))).amount == Decimal(AMOUNT)
        assert sent(sandbox) == 1

    async def test_undoes_a_refusal(self) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        no = json_reply(400, {"message": "No."})
        sandbox.strike(Fault(name="refused", path=OFFER, processed=False, times=1, mutate=no))
        async with process(sandbox, MemoryStore()) as run:
            event = await run.event(index)
            with pytest.raises(OfferRejectedError):
                await run.offer(event)
            await run.ledger.resolve(index, taken=False)
            await run.offer(event)
        assert amounts_on(sandbox, index) == [AMOUNT]

    @pytest.mark.parametrize("taken", ["yes", 1, None])
    async def test_answers_by_true_or_false(self, taken: Any) -> None:
        sandbox = Sandbox()
        index = sandbox.publish()
        strike(sandbox, UNPROCESSED)
        async with process(sandbox, MemoryStore()) as run:
            with pytest.raises(OfferInDoubtError):
                await run.offer(await run.event(index))
            with pytest.raises(ValidationError, match="taken must be True or False"):
                await run.ledger.resolve(index, taken=taken)

    async def test_waits_while_an_offer_may_still_arrive(self) -> None:
        sandbox, store = Sandbox(), MemoryStore()
        index = sandbox.publish()
        async with process(sandbox, store, crash_at="before send") as run:
            await run.offer(await run.event(index))
        async with process(sandbox, store) as run:
            with pytest.raises(ValidationError, match=r"may still arrive for 2\d s"):
                await run.ledger.resolve(index, taken=False)


async def test_absence_makes_the_delivery_of_the_offer_due(caplog: pytest.LogCaptureFixture) -> None:
    """A dead letter is replayed, and a delivery that waits is due at once; a dropped one needs a person."""
    sandbox = Sandbox()
    indexes = [sandbox.publish() for _ in range(3)]
    strike(sandbox, UNPROCESSED, times=3)
    async with process(sandbox, MemoryStore()) as run:
        events = [await run.event(index) for index in indexes]
        for event, state in zip(events, ["ready", "dead", "done"], strict=True):
            with pytest.raises(OfferInDoubtError):
                await run.offer(event)
            await run.set_delivery(event, state=state, owner=None, not_before=run.store.now + HOUR)
            await anyio.sleep(60)
        for index in indexes:
            await run.resolved(index)
        found = [await run.delivery(event) for event in events]
    assert [(state, due <= 0) for state, due in found] == [("ready", True), ("ready", True), ("done", False)]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert f"request {indexes[2]} " in errors[0]
    assert "make it by hand" in errors[0]


@pytest.mark.parametrize("point", ["before send", "after send", "before confirmed"])
async def test_offer_sent_before_a_kill_is_found_late(point: str) -> None:
    """The service does not list it yet when the next process starts."""
    sandbox, store = Sandbox(Profile(late_visibility=3)), MemoryStore()
    index, event = sandbox.publish(), None
    async with process(sandbox, store):
        await anyio.sleep(INTERVAL)
    async with process(sandbox, store, crash_at=point) as run:
        event = await run.event(index)
        await run.until_known(event)
    assert event is not None
    async with process(sandbox, store) as run:
        await run.until_known(event)
    assert amounts_on(sandbox, index) == [AMOUNT]


async def test_offer_that_arrives_after_a_kill_is_found() -> None:
    """The kernel of the machine goes on sending what an ended process has written."""
    sandbox, store = Sandbox(), MemoryStore()
    index, event = sandbox.publish(), None
    async with process(sandbox, store, crash_at="before send") as run:
        event = await run.event(index)
        await run.until_known(event)
    assert event is not None
    async with process(sandbox, store, interval=2.0) as run, anyio.create_task_group() as tasks:

        async def arrive() -> None:
            await anyio.sleep(15)
            sandbox.exchange.offer(sandbox.forwarder, index, sandbox.now(), amount=Decimal(AMOUNT))

        tasks.start_soon(arrive)
        await run.until_known(event)
        await anyio.sleep(INTERVAL)
    assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 0)


# Calm


async def quote(run: Process, event: Delivery) -> None:
    """Offer again and again until the service takes it, as a handler does that tries a second after each error."""
    while True:
        try:
            await run.offer(await run.claim(event))
        except RetryLater as later:
            await anyio.sleep(later.delay)
        except OfferInDoubtError:
            await run.resolved(event.subject)
        except FreightExchangeError:
            await anyio.sleep(1)
        else:
            return


@pytest.mark.parametrize("settle", [5.0, 30.0])
async def test_hundred_doubts_share_their_readings(settle: float) -> None:
    """Only the address of offers fails, and does not recover."""
    sandbox = Sandbox()
    indexes = [sandbox.publish() for _ in range(100)]
    strike(sandbox, "unavailable_forever", times=None)
    minutes: list[int] = []
    async with process(sandbox, MemoryStore(), settle=settle) as run, anyio.create_task_group() as tasks:
        for index in indexes:
            tasks.start_soon(quote, run, await run.event(index))
        for _ in range(10):
            before = len(sandbox.audit_log.calls)
            await anyio.sleep(60)
            minutes.append(len(sandbox.audit_log.calls) - before)
        tasks.cancel_scope.cancel()
    # One proof of absence, of five views, serves all doubts.
    assert max(minutes) <= 60, minutes


async def test_bids_that_cannot_be_read_are_tried_at_the_feeds_pace() -> None:
    sandbox = Sandbox()
    strike(sandbox, UNANSWERED)
    async with process(sandbox, MemoryStore()) as run:
        event = await run.event(sandbox.publish())
        with pytest.raises(OfferInDoubtError):
            await run.offer(event)
        with blind(sandbox):
            before = len(sandbox.audit_log.calls)
            await anyio.sleep(4 * INTERVAL)
            # A reading that fails has three attempts. One follows an interval, and the next twice as long a pause.
            assert 0 < len(sandbox.audit_log.calls) - before <= 3 * 3
        await run.until_known(event)


@pytest.mark.parametrize("fault", ["throttled", "unauthorized_forever", "not_found_page", "unavailable_forever"])
async def test_one_probe_goes_before_all_writes(fault: str) -> None:
    """The address of offers refuses them as such. A hundred wait, and nearly nothing is sent."""
    sandbox = Sandbox()
    indexes = [sandbox.publish() for _ in range(100)]
    strike(sandbox, fault, times=None)
    async with process(sandbox, MemoryStore(), settle=30.0) as run, anyio.create_task_group() as tasks:
        for index in indexes:
            tasks.start_soon(quote, run, await run.event(index))
        await anyio.sleep(60)
        assert sent(sandbox) <= 12
        await anyio.sleep(240)
        assert sent(sandbox) <= 20
        sandbox.exchange.faults.clear()
        await anyio.sleep(900)
        tasks.cancel_scope.cancel()
    assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 100


async def test_rate_limit_of_the_service_refuses_few_writes() -> None:
    """It takes four offers a second, and answers the others with 429 and no `Retry-After`."""
    sandbox = Sandbox()
    indexes = [sandbox.publish() for _ in range(100)]

    def is_refused(call: Any) -> bool:
        taken = [one for one in sandbox.audit_log.calls_to("POST", OFFER) if one.status == 200]
        return call.path == OFFER and len(taken) >= 4 and taken[-4].time > sandbox.now() - 1

    too_many = json_reply(429, {"message": "Too many requests."})
    sandbox.strike(Fault(name="rate", when=is_refused, processed=False, times=None, mutate=too_many))
    async with process(sandbox, MemoryStore()) as run:
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for index in indexes:
                    tasks.start_soon(quote, run, await run.event(index))
    assert [amounts_on(sandbox, index) for index in indexes] == [[AMOUNT]] * 100
    assert sent(sandbox) <= 200


# Cancellation, fences, and other replicas


async def test_cancelled_handler_leaves_no_doubt() -> None:
    """From its record on, an offer is finished, also if the handler ends."""
    sandbox = Sandbox()
    index = sandbox.publish()
    strike(sandbox, "slow", seconds=3.0)
    async with process(sandbox, MemoryStore()) as run:
        event = await run.event(index)
        with anyio.move_on_after(1) as scope:
            await run.offer(event)
        assert scope.cancelled_caught or scope.cancel_called
        assert not await run.held(index)
        assert (await run.offer(event)).amount == Decimal(AMOUNT)
    assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], 1)


async def test_delivery_that_is_no_longer_held_sends_nothing() -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    async with process(sandbox, MemoryStore()) as run:
        event = await run.event(index)
        await run.set_delivery(event, state="done", owner=None)
        with pytest.raises(FencedError):
            await run.offer(event)
        ended = await run.event(index)
        await run.store.run(fleet.leave, run.store.me)
        await run.claim(ended)
        with pytest.raises(FencedError):
            await run.offer(ended)
    assert sent(sandbox) == 0


async def test_two_handlers_of_one_request_make_one_offer() -> None:
    sandbox, results = Sandbox(), list[Any]()
    index = sandbox.publish()
    strike(sandbox, "slow", seconds=2.0)
    async with process(sandbox, MemoryStore()) as run, anyio.create_task_group() as tasks:

        async def quote(event: Delivery, amount: str) -> None:
            results.append(await run.until_known(event, amount))

        first = await run.event(index)
        tasks.start_soon(quote, first, AMOUNT)
        tasks.start_soon(quote, first, "1900")
    # The first one has won.
    assert amounts_on(sandbox, index) == [str(results[0].amount)]
    assert results[0].amount == results[1].amount


LATE: dict[str, tuple[dict[str, Any], str, bool]] = {
    # Changes by another replica while the reply is on its way; the state in the end, and whether a person is alarmed.
    "adopted": ({"owner": 1}, "confirmed", False),
    "in doubt": ({"owner": 1, "state": "unknown"}, "confirmed", False),
    "parked": ({"owner": 1, "state": "parked"}, "confirmed", False),
    "found": ({"owner": None, "state": "confirmed"}, "confirmed", False),
    "counted as absent": ({"owner": None, "state": "absent"}, "confirmed", False),
    "sent again": ({"owner": 1, "version": 2}, "sending", True),
}


@pytest.mark.parametrize(("changes", "state", "is_alarm"), LATE.values(), ids=LATE)
async def test_late_reply_is_a_fact(
    changes: dict[str, Any], state: str, is_alarm: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = Sandbox()
    index = sandbox.publish()
    strike(sandbox, "slow", seconds=3.0)
    async with process(sandbox, MemoryStore()) as run:

        def change(db: Database) -> None:
            columns = ", ".join(f"{name} = :{name}" for name in changes)
            db.run(f"UPDATE effect SET {columns} WHERE subject = :subject", subject=index, **changes)

        async def interfere() -> None:
            await eventually(lambda: sent(sandbox))
            await run.store.run(change)

        event = await run.event(index)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(interfere)
            assert (await run.offer(event)).amount == Decimal(AMOUNT)
        (effect,) = await run.store.run(effects.of_subject, run.store.binding, index)
    assert effect.state == state
    assert any(record.levelno == logging.CRITICAL for record in caplog.records) == is_alarm
    assert amounts_on(sandbox, index) == [AMOUNT]


class Away(MemoryStore):
    """Store that cannot be reached while a flag is set."""

    is_away = False

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self.is_away and "finish" in function.__qualname__:
            raise StoreAwayError("the database is away")
        return await super().run(function, *args, **kwargs)


@pytest.mark.parametrize(("seconds", "calls"), [(5, 1), (600, 1)])
async def test_reply_is_recorded_once_the_store_is_back(seconds: float, calls: int) -> None:
    """After the send window the offer stays as being sent, and the beat finds it."""
    sandbox, store = Sandbox(), Away()
    index = sandbox.publish()
    async with process(sandbox, store) as run:
        event, store.is_away = await run.event(index), True

        async def recover() -> None:
            await anyio.sleep(seconds)
            store.is_away = False

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recover)
            assert (await run.until_known(event)).amount == Decimal(AMOUNT)
    assert (amounts_on(sandbox, index), sent(sandbox)) == ([AMOUNT], calls)


@pytest.mark.parametrize(("delay", "sends"), [(9.0, 1), (11.0, 0)])
async def test_nothing_is_sent_after_the_window(delay: float, sends: int) -> None:
    """The process is suspended between the record and the send."""
    sandbox = Sandbox()
    index = sandbox.publish()
    async with process(sandbox, MemoryStore(), middleware=(Delay(delay),)) as run:
        event = await run.event(index)
        if sends:
            await run.offer(event)
        else:
            with pytest.raises(FreightExchangeError):
                await run.offer(event)
        assert not await run.held(index)
    assert sent(sandbox) == sends


class Delay:
    """Middleware that delays offers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, request: Any, call_next: Any) -> Any:
        if request.path == OFFER:
            await anyio.sleep(self._seconds)
        return await call_next(request)
