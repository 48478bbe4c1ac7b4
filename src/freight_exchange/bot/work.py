"""Work: claim deliveries that are due, call their handlers, and record the results."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from random import Random
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import attrs

from freight_exchange.bot.context import Context, make_context
from freight_exchange.bot.failpoints import reach
from freight_exchange.bot.handler import BotEvent, Delivery, Handler, subject
from freight_exchange.bot.outcomes import IN_DOUBT, Drop, ProcessEnd, Verdict, decide, describe, describe_end
from freight_exchange.bot.tasks import failures_in
from freight_exchange.feed.events import OfferEvent, RequestEvent, load_event
from freight_exchange.feed.sources import FIELDS
from freight_exchange.hooks import HandlerRun
from freight_exchange.store import work

if TYPE_CHECKING:
    from freight_exchange.bot.run import Run, Session
    from freight_exchange.store.database import Database

_logger = logging.getLogger("freight_exchange.bot")

_MAX_SLEEP: Final = 60.0
"""While the machine is suspended, the loop's clock stands still and the store's does not."""
_MIN_SLEEP: Final = 0.01
_SHARED_SLEEP: Final = 1.0
"""Longest wait for deliveries that another process has routed, returned or replayed."""
_CUT_OFF_SLEEP: Final = 5.0
"""Pause between deliveries while the exchange does not answer this replica: others may reach it."""
_CANCELLATION_GRACE: Final = 5.0
_OUTAGE_LIMIT: Final = 3600.0
"""Seconds of transient errors, while the service answers other calls, before a delivery is given up."""
_MIN_RETRIES: Final = 1
"""Minimum number of retries after interruptions, even for a handler without `retries`: the process may have ended
before the first call."""


@attrs.define(eq=False)
class _Settlement:
    """Result of a delivery to record; `is_recorded` is `False` if another replica has taken the delivery over."""

    claimed: work.Claimed
    verdict: Verdict
    merged: Sequence[int]
    is_recorded: bool | None = None


class Worker:
    """Calls the handlers of due deliveries of a session, up to `concurrency` at a time."""

    def __init__(self, run: Run, session: Session) -> None:
        self._run = run
        self._session = session
        self._store = run.store
        self._metrics = run.metrics
        self._handlers = session.rows
        self._logged = set[Hashable]()
        self._random = Random()
        self._running = 0
        self._settling = anyio.Lock()
        self._unsettled: list[_Settlement] = []
        self._outage_began: dict[tuple[int, int], float] = {}

    async def run(self) -> None:
        """Claim deliveries and call their handlers until the bot stops and the last one has ended."""
        async with anyio.create_task_group() as calls:
            while not self._run.stopping:
                wakeup = self._store.waiter("work")
                is_slow = self._store.is_shared and self._metrics.is_cut_off
                free = (1 if is_slow else self._run.options.concurrency) - self._running
                claimed, due = await self._claim(free) if free > 0 else ([], _MAX_SLEEP)
                for one in claimed:
                    self._running += 1
                    calls.start_soon(self._deliver, one)
                if is_slow:
                    await anyio.sleep(_CUT_OFF_SLEEP)
                elif free <= 0 or not claimed:
                    with anyio.move_on_after(due):
                        await wakeup.wait()

    async def _claim(self, free: int) -> tuple[list[work.Claimed], float]:
        """Claim up to `free` deliveries; return them, and the seconds until another one may be due."""
        reach("before claim")
        store, rows = self._store, [*self._handlers]
        longest = _MAX_SLEEP if store.is_inline else _SHARED_SLEEP

        def claim(db: Database) -> tuple[list[work.Claimed], float]:
            claimed = work.claim(db, store.binding, store.me, rows, free, in_doubt=IN_DOUBT)
            due = None if claimed else work.next_due(db, rows)
            return claimed, longest if due is None else max(_MIN_SLEEP, min(due, longest))

        claimed: list[work.Claimed] = []
        due = longest
        with anyio.CancelScope(shield=True):
            claimed, due = await store.run(claim)
        if claimed:
            reach("after claim")
        return claimed, due

    async def _deliver(self, claimed: work.Claimed) -> None:
        handler = self._handlers[claimed.handler]
        try:
            delivery = _load(claimed, handler.id)
            if delivery.attempts > max(handler.retries, _MIN_RETRIES) + 1:
                # The process ended during each attempt.
                error = delivery.error or "the process ended during each attempt"
                verdict = Verdict(ending="dead", state="dead", error=error, refund=True)
                self._log_end(delivery, handler, verdict, None)
                await self._settle(claimed, delivery, verdict)
                return
            run = HandlerRun(
                feed=self._run.options.feed.name, handler=handler.id, kind=delivery.kind, event=delivery.event_id,
                request=delivery.subject, attempt=delivery.attempts,
            )  # fmt: skip
            with self._run.exchange._options.hooks.span(run):
                await self._attempt(claimed, delivery, handler, run)
        except BaseException as error:
            self._session.note(error)
            raise
        finally:
            self._running -= 1
            self._store.wake("work")

    async def _attempt(self, claimed: work.Claimed, delivery: Delivery, handler: Handler, run: HandlerRun) -> None:
        context = make_context(delivery, self._run)
        try:
            error = await self._call(handler, delivery, context)
            is_open = context.has_written and await self._store.run(
                work.has_open_effect, self._store.binding, [delivery.event_id, *delivery.merged]
            )
        except BaseException:
            # The bot ends, or has lost its place in the store.
            with anyio.CancelScope(shield=True):
                await self._settle(claimed, delivery, Verdict(ending="released", state="ready", refund=True))
            raise
        verdict = self._decide(delivery, handler, error, is_open=is_open)
        run.ending, run.error = verdict.ending, error
        self._log_end(delivery, handler, verdict, error)
        # A handler that is done must not be called again because of a cancellation.
        with anyio.CancelScope(shield=True):
            await self._settle(claimed, delivery, verdict)

    async def _call(self, handler: Handler, delivery: Delivery, context: Context) -> Exception | None:
        """Call a handler in a task of its own, so that its own cancellations end there, and return its error."""
        results: list[Exception | None] = []

        async def call() -> None:
            try:
                with anyio.fail_after(handler.timeout):
                    # The filter may have changed since the delivery was made, or have failed then.
                    if not handler.matches(delivery.event):
                        raise Drop("the handler's filter excludes it")
                    await handler.function(subject(delivery.event), context, **self._run.arguments[handler.id])
                context.check_answered()
                results.append(None)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything; it is decided on, stored and logged
                results.append(error)
            except BaseException as error:
                if not _is_failure(error, active):
                    raise
                results.append(RuntimeError(f"the handler failed while it was cancelled: {describe(error)}"))
            finally:
                context.close()
                tasks.cancel_scope.cancel()

        async def warn() -> None:
            await anyio.sleep(handler.timeout + _CANCELLATION_GRACE)
            _logger.critical(
                "%s exceeded its timeout and ignores the cancellation; the bot waits for it",
                active,
                extra=delivery.log_fields,
            )

        began = anyio.current_time()
        self._observe_latency(delivery)
        with self._metrics.in_flight.track(delivery) as active:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    tasks.start_soon(warn)
            finally:
                self._metrics.observe("handler", handler.id, anyio.current_time() - began)
        return results[0] if results else RuntimeError("the handler was cancelled by its own code")

    def _observe_latency(self, delivery: Delivery) -> None:
        if delivery.attempts == 1 and delivery.error is None and isinstance(delivery.event, RequestEvent | OfferEvent):
            waited = self._store.now - delivery.event.observed_between[1].timestamp()
            self._metrics.observe("latency", delivery.name, max(waited, 0.0))

    def _decide(self, delivery: Delivery, handler: Handler, error: Exception | None, *, is_open: bool) -> Verdict:
        key, now = (delivery.event_id, delivery.handler), self._store.now
        since = self._outage_began.get(key, now)
        verdict = decide(
            error, attempts=delivery.attempts, retries=handler.retries, is_open=is_open,
            outage=now - since, has_recovered=self._session.last_scan() > since + _OUTAGE_LIMIT, random=self._random,
        )  # fmt: skip
        if verdict.ending == "transient":
            self._outage_began[key] = since
        else:
            self._outage_began.pop(key, None)
        return verdict

    def _log_end(self, delivery: Delivery, handler: Handler, verdict: Verdict, error: Exception | None) -> None:
        """Log the end of an attempt; the traceback of a failure once, by handler, type and place in the code."""
        level, line = describe_end(delivery, handler, verdict, error)
        extra = delivery.log_fields
        if error is None or level < logging.WARNING:
            _logger.log(level, "%s", line, extra=extra)
            return
        place = [(frame.f_code.co_filename, number) for frame, number in walk_tb(error.__traceback__)][-1:]
        key = (handler.id, type(error), *place)
        is_new = key not in self._logged
        self._logged.add(key)
        _logger.log(level, "%s", line, exc_info=error if is_new else None, extra=extra)
        if not is_new:
            _logger.debug("traceback of handler %s", handler.id, exc_info=error, extra=extra)

    async def _settle(self, claimed: work.Claimed, delivery: Delivery, verdict: Verdict) -> None:
        own = _Settlement(claimed, verdict, delivery.merged if verdict.state == "done" else ())
        reach("before settle")
        self._unsettled.append(own)
        # Deliveries that end during a commit share the next one.
        async with self._settling:
            if own.is_recorded is None:
                await self._commit(own)
        if own.is_recorded:
            self._metrics.deliveries[delivery.name, verdict.ending] += 1 + len(own.merged)
        reach("after settle")

    async def _commit(self, own: _Settlement) -> None:
        shared, self._unsettled = self._unsettled, []

        def settle(db: Database) -> list[bool]:
            return [
                work.settle(
                    db, self._store.me, one.claimed, one.verdict.state, delay=one.verdict.delay,
                    error=one.verdict.error, refund=one.verdict.refund, merged=one.merged,
                )
                for one in shared
            ]  # fmt: skip

        try:
            recorded = await self._store.run(settle)
        except BaseException:
            # The others try themselves.
            self._unsettled = [one for one in shared if one is not own] + self._unsettled
            raise
        for one, is_recorded in zip(shared, recorded, strict=True):
            one.is_recorded = is_recorded


def _load(claimed: work.Claimed, handler: str) -> Delivery:
    """Make the delivery of a claim, with later updates merged into it."""
    stored = claimed.stored
    kind = stored.kind.removeprefix("earlier:")
    event: Any = load_event(kind, stored.payload)
    merged: list[int] = []
    updates = [event]
    for later in claimed.later:
        if later.kind != "updated":
            break
        merged.append(later.id)
        updates.append(load_event(later.kind, later.payload))
    return Delivery(
        event_id=claimed.event, handler=claimed.handler, name=handler, kind=kind, subject=claimed.subject,
        attempts=claimed.attempts, error=claimed.error, merged=tuple(merged),
        event=cast("BotEvent", merge_updates(updates) if merged else event),
    )  # fmt: skip


def merge_updates(updates: Sequence[RequestEvent]) -> RequestEvent:
    """Merge updates that wait into one, from the first one's previous request to the last one's request."""
    first, last = updates[0], updates[-1]
    # `differing` includes changes of updates that the handler's filter excluded. `changed` includes changes that were
    # reversed later, which an earlier attempt may have seen.
    before = first.previous
    differing = (
        () if before is None else (name for name in FIELDS if getattr(before, name) != getattr(last.request, name))
    )
    changed = (name for update in updates for name in update.changed)
    return attrs.evolve(
        last,
        previous=before,
        changed=tuple(dict.fromkeys((*differing, *changed))),
        observed_between=(first.observed_between[0], last.observed_between[1]),
    )


def _is_failure(error: BaseException, active: object) -> bool:
    """Return whether a handler failed while it was cancelled. Other `BaseException`s end the bot."""
    others = failures_in(error)
    if all(isinstance(other, Exception) for other in others):
        return bool(others)
    _logger.critical("%s ends the bot: %s", active, describe(error))
    if ends := next((other for other in others if isinstance(other, SystemExit | KeyboardInterrupt)), None):
        raise ProcessEnd(ends) from error
    return False
