"""Mutations of the bot and its offer ledger."""

from __future__ import annotations

from typing import Final

from tools.mutation_lists import Mutation, one

__all__ = ["MUTATIONS", "TESTS"]

TESTS: Final = ("tests/unit/bot",)
"""Tests that run where a mutation names none."""

MUTATIONS: Final = (
    one(
        "ledger: none, nothing is written down",
        "bot/offers/repository.py",
        "is_written = await self._unit_of_work.write(\n"
        "            step, lambda store: store.put_effect(record.to_effect(), expected_state=expected_state)\n"
        "        )",
        "is_written = True",
        "tests/unit/bot/offers/test_crashes.py::test_crash_at_failpoint_changes_nothing_for_shipper",
    ),
    one(
        "ledger: what was being sent at a crash is sent again",
        "bot/offers/sender.py",
        'record = await self._repository.advance(record, "unknown", unknown_since=record.at)\n'
        "            self.start_resolving(record, wait=wait)\n",
        'record = await self._repository.advance(record, "intent")\n                continue\n'
        "            self.start_resolving(record, wait=wait)\n",
        "tests/unit/bot/offers/test_in_doubt.py::TestDoubt::test_offer_sent_before_crash_is_found_late",
    ),
    one(
        "ledger: a lost answer is taken for a refusal to serve",
        "bot/offers/sender.py",
        "await self._mark_in_doubt(record, str(error))\n"
        "            raise in_doubt_error(record) from error\n        except Bad",
        'await self._repository.advance(record, "intent", step="withdrawn")\n            raise\n        except Bad',
        "tests/unit/bot/offers/test_crashes.py::test_crash_at_failpoint_changes_nothing_for_shipper",
    ),
    one(
        "ledger: a key for each handler",
        "bot/offers/record.py",
        "return offer_key(self.request, self.revision)",
        'return f"{offer_key(self.request, self.revision)}:{self.handler}"',
        "tests/unit/bot/offers/test_ledger.py",
    ),
    one(
        "ledger: own bids that it does not know are not looked at",
        "bot/offers/ledger.py",
        "if not allow_existing and await self._existing_bids.has_unknown_bid(\n"
        "            draft.request, is_newer=is_newer, has_known_bid=has_known_bid\n        ):",
        "if False:",
        "tests/unit/bot/offers/test_rejected.py::test_offer_waits_for_own_bids_and_costs_no_attempts",
    ),
    one(
        "ledger: one who asks while it is on its way does not wait",
        "bot/offers/ledger.py",
        "        if pending is not None:\n",
        "        if False:\n",
        "tests/unit/bot/offers/test_ledger.py::TestOtherPrice",
    ),
    one(
        "ledger: a caller that leaves cancels the send",
        "bot/offers/sender.py",
        "        self._tasks.start_soon(run)\n        return await pending.wait()\n",
        "        await run()\n        return await pending.wait()\n",
        "tests/unit/bot/offers/test_in_doubt.py::TestDoubt::test_handler_that_does_not_wait_is_called_again",
    ),
    one(
        "ledger: what cannot be proven is taken for not taken",
        "bot/offers/in_doubt.py",
        "                    checks = record.checks + 1\n",
        '                    await self._close(record, "intent", why="not seen")\n'
        "                    return\n"
        "                    checks = record.checks + 1\n",
        "tests/unit/bot/offers/test_in_doubt.py::TestDoubt::test_person_may_decide_while_check_is_recorded",
    ),
    one(
        "ledger: a service that shows offers late is sent another after each look",
        "bot/offers/in_doubt.py",
        "case NotApplied() if record.resends < _MAX_RESENDS:",
        "case NotApplied() if True:",
        "tests/unit/bot/offers/test_in_doubt.py::TestDoubt::test_offer_listed_late_is_sent_four_times_at_most",
    ),
    one(
        "ledger: another price is sent while the first is in doubt",
        "bot/offers/ledger.py",
        "            if other.state in UNSETTLED:\n",
        "            if False:\n",
        "tests/unit/bot/offers/test_revisions.py::TestConcurrentRevisions",
    ),
    one(
        "ledger: what it made itself counts for another offer that is looked for",
        "bot/offers/in_doubt.py",
        "return merge_bids(record.baseline, [bid for bid in others if bid is not None])",
        "return [*record.baseline]",
        "tests/unit/bot/offers/test_revisions.py::TestConcurrentRevisions",
    ),
    one(
        "ledger: a new store believes the first listing",
        "bot/offers/existing_bids.py",
        "        if not is_newer or self._is_restored:\n",
        "        if False:\n",
        "tests/unit/bot/offers/test_existing_bids.py",
    ),
    one(
        "ledger: a gateway's page is a refusal",
        "bot/offers/sender.py",
        "if not is_service_reply(error):",
        "if False:",
        "tests/unit/bot/offers/test_rejected.py::TestRejected",
    ),
    one(
        "ledger: a handler may leave its offer behind, and be done",
        "bot/delivery/worker.py",
        "offer_error = None if context is None else await self._await_offers(delivery, context)",
        "offer_error = None",
        "tests/unit/bot/offers/test_cancelled.py::TestDuringDoubt::test_timeout_is_no_failure",
    ),
    one(
        "ledger: every state in the answer counts as its effect",
        "bot/offers/own_updates.py",
        '_OFFER_FIELDS: Final = ("status", "notes")',
        '_OFFER_FIELDS: Final = ("status", "notes", "quantity")',
        "tests/unit/bot/offers/test_own_updates.py",
    ),
    one(
        "ledger: a request that turns back is not reported",
        "bot/offers/ledger.py",
        "and record.own_update in (None, number):",
        ":",
        "tests/unit/bot/offers/test_own_updates_run.py::TestOwnUpdate",
    ),
    one(
        "ledger: an offer in doubt costs an attempt",
        "bot/delivery/retry_policy.py",
        "delay=pause, error=IN_DOUBT, refund_attempt=True",
        "delay=pause, error=IN_DOUBT, refund_attempt=False",
        "tests/unit/bot/delivery/test_retry_policy.py",
    ),
    one(
        "ledger: the bot hears its own offers as updates",
        "bot/offers/ledger.py",
        "        if not event.changed:\n            return False\n",
        "        return False\n",
        "tests/unit/bot/offers/test_own_updates.py",
    ),
    one(
        "deliveries: attempts are not counted at the claim",
        "store/sqlite/work_sql.py",
        "SET state = 'claimed', attempts = attempts + 1",
        "SET state = 'claimed', attempts = max(1, attempts)",
        "tests/unit/bot/delivery/test_suspects.py::test_killer_is_dead_after_its_retries",
    ),
    one(
        "deliveries: two of one request at a time",
        "store/sqlite/work_sql.py",
        "<= :now {{handler_filter}} AND {_IS_CLAIMABLE}",
        "<= :now {{handler_filter}}",
        "tests/unit/bot/delivery/test_cancellation.py",
        "tests/unit/bot/delivery/test_dispatcher.py",
    ),
    one(
        "deliveries: being cancelled is a failure",
        "bot/delivery/worker.py",
        'Decision(ending="released", state="ready", delay=delay, refund_attempt=True))',
        'Decision(ending="failed", state="ready", delay=delay))',
        "tests/unit/bot/runtime/test_drain.py::TestDrain::test_cancelled_handlers_are_called_again",
    ),
    one(
        "deliveries: an update swallows any event after it",
        "bot/delivery/worker.py",
        '            if later.kind != "updated":\n                break\n',
        "",
        "tests/unit/bot/delivery/test_updates.py",
    ),
    one(
        "deliveries: nothing is ever given up",
        "bot/delivery/retry_policy.py",
        "if delivery.attempts > handler.retries:",
        "if False:",
        "tests/unit/bot/delivery/test_retries.py",
    ),
    one(
        "deliveries: one that ends the process is tried for ever",
        "bot/delivery/worker.py",
        "if delivery.attempts > max(handler.retries, _MIN_RETRIES) + 1:",
        "if False:",
        "tests/unit/bot/delivery/test_suspects.py::test_killer_is_dead_after_its_retries",
    ),
    one(
        "deliveries: suspects are handed over together",
        "bot/delivery/dispatcher.py",
        "                0 if running_suspects else 1 :\n",
        "                0:0\n",
        "tests/unit/bot/delivery/test_suspects.py",
    ),
    one(
        "deliveries: a handler may hang",
        "bot/delivery/worker.py",
        "with anyio.fail_after(handler.timeout):",
        "with anyio.fail_after(None):",
        "tests/unit/bot/delivery/test_retries.py::test_timeout_is_a_failure_and_delays_no_other",
    ),
    one(
        "deliveries: one that floods is not held back",
        "bot/delivery/retry_policy.py",
        "delay = max(error.delay, _MIN_DELAY)",
        "delay = error.delay",
        "tests/unit/bot/delivery/test_retry_policy.py",
    ),
    one(
        "deliveries: no bound",
        "bot/delivery/dispatcher.py",
        "free = self._concurrency - self._running",
        "free = 1000",
        "tests/unit/bot/delivery/test_cancellation.py",
        "tests/unit/bot/delivery/test_dispatcher.py",
    ),
    one(
        "deliveries: the wait for what is due may be nothing",
        "bot/delivery/dispatcher.py",
        "max(wait, _MIN_SLEEP)",
        "wait",
        "tests/unit/bot/delivery/test_cancellation.py",
        "tests/unit/bot/delivery/test_dispatcher.py",
        "tests/unit/bot/delivery/test_retries.py",
    ),
    one(
        "deliveries: the oldest event first, however often it was put off",
        "store/sqlite/work_sql.py",
        'ORDER BY not_before, "index", event, handler',
        "ORDER BY event, handler",
        "tests/unit/bot/delivery/test_retries.py::test_postponed_deliveries_starve_no_newer_one",
    ),
    one(
        "deliveries: every cancellation of a handler's task counts as the bot's",
        "bot/delivery/cancellation.py",
        "return self._task is not None and self._task.cancelling() > self._before",
        "return count_cancellations() > 0",
        "tests/unit/bot/delivery/test_cancellation.py",
        "tests/unit/bot/delivery/test_dispatcher.py",
        "tests/unit/bot/offers/test_crashes.py",
    ),
    one(
        "deliveries: an undelivered cancellation is left for the bot",
        "bot/delivery/cancellation.py",
        "        await anyio.lowlevel.cancel_shielded_checkpoint()\n",
        "        pass\n",
        "tests/unit/bot/delivery/test_cancellation.py",
        "tests/unit/bot/delivery/test_dispatcher.py",
        "tests/unit/bot/offers/test_crashes.py",
    ),
    one(
        "retry policy: trouble is given up as soon as requests are listed",
        "bot/delivery/worker.py",
        "self._last_scan() > since + _OUTAGE_LIMIT",
        "self._last_scan() > since",
        "tests/unit/bot/delivery/test_outages.py",
    ),
    one(
        "retry policy: what an error says is kept as it is",
        "bot/outcomes.py",
        'return text.encode("utf-8", "backslashreplace").decode()',
        "return text",
        "tests/unit/bot/test_outcomes.py",
    ),
    one(
        "drain: it goes on claiming",
        "bot/delivery/dispatcher.py",
        "while not self._stopping:",
        "while True:",
        "tests/unit/bot/runtime/test_drain.py",
    ),
    Mutation(
        "drain: a second signal is one more of the first",
        (
            ("bot/runtime/process.py", "if len(received) > 1:", "if False:"),
            ("bot/runtime/process.py", "        if received:\n", "        if False:\n"),
        ),
        ("tests/unit/bot/runtime/test_process.py::TestSignals::test_second_ends_process_with_its_status",),
    ),
    one(
        "operation: alive is what breathes",
        "bot/runtime/session.py",
        'return self.phase != "stopped" and self.health.is_young()',
        "return True",
        "tests/unit/bot/runtime/test_health.py",
    ),
    one(
        "liveness: a bot that hears nothing is alive for nearly four intervals",
        "bot/runtime/health.py",
        "LIVE_INTERVALS: Final = 3\n",
        "LIVE_INTERVALS: Final = 3.9\n",
        "tests/unit/bot/runtime/test_health.py::test_feed_without_replies_is_not_live_and_recovers",
    ),
    one(
        "intake: a gap is acknowledged at once",
        "bot/delivery/routing.py",
        "leave.append(number_of(event))",
        "deliveries[number_of(event)] = matching",
        "tests/unit/bot/delivery/test_gaps.py",
    ),
    one(
        "doubts: the last look reads the plain view alone",
        "endpoints/reconcile/reconcile.py",
        "Extent.COMPLETE if looked >= until else Extent.GLANCE",
        "Extent.GLANCE",
        "tests/unit/endpoints/test_reconcile_views.py",
    ),
    one(
        "doubts: absence begins with the plain view alone",
        "endpoints/reconcile/reconcile.py",
        "Extent.UNTIL_DOUBT if agreed is None",
        "Extent.GLANCE if agreed is None",
        "tests/unit/endpoints/test_reconcile_views.py",
    ),
    one(
        "doubts: a glance begins absence",
        "endpoints/reconcile/reconcile.py",
        " and not (extent is Extent.GLANCE and isinstance(found, NotApplied))",
        "",
        "tests/unit/endpoints/test_reconcile_views.py",
    ),
    one(
        "doubts: a plain pass counts bids that look alike",
        "endpoints/reconcile/evidence.py",
        "((whole and self.readers.strict) or not before[wanted])",
        "(self.readers.strict or not before[wanted])",
        "tests/unit/endpoints/test_reconcile_views.py",
    ),
    one(
        "selections: told by every look",
        "bot/events/selected_bids.py",
        "        if store.effect(key) is not None:\n            return False\n",
        "",
        "tests/unit/bot/events/test_selected_bids.py",
        "tests/unit/bot/events/test_selection_handlers.py",
    ),
    one(
        "selections: the retries inside a look cost nothing",
        "bot/events/selected_bids.py",
        "(1 + owed + meter.take_extra())",
        "(1 + owed)",
        "tests/unit/feed/test_watcher_pace.py",
    ),
    Mutation(
        "selections: what is told is not remembered",
        (
            (
                "bot/events/selected_bids.py",
                'await self._unit_of_work.write("reported", mark)',
                "await anyio.sleep(0)",
            ),
            (
                "bot/events/selected_bids.py",
                "        key = _key_of(bid.index)\n",
                '        key = f"{_key_of(bid.index)}:{now}"\n',
            ),
        ),
        tests=(
            "tests/unit/bot/events/test_selected_bids.py",
            "tests/unit/bot/events/test_selection_handlers.py",
        ),
    ),
    one(
        "trial: what comes after a crash lasts",
        "testing/trial.py",
        "        if self.has_crashed:\n            # Nothing",
        "        if False:\n            # Nothing",
        "tests/unit/testing/test_trial.py::test_nothing_is_durable_after_crash",
    ),
)
