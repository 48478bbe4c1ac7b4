"""Mutants: promises broken on purpose, one clause each, with the tests that must notice.

    python -m tests.mutants                      # all, two at a time; exits with 1 if one survives
    python -m tests.mutants --only login --why   # those with the word in their name, with the output of pytest
    python -m tests.mutants --part calls --list

Functions and constants are found by name anywhere in `src`, so a moved or renamed module breaks nothing. In a copy of
the package, a decorator is put above the function, or a line below the constant. So imports, methods and subprocesses
all get the mutant.

To add one, name the broken behaviour, the function (`rule_of`, `Retry.__call__`, `outer.inner`; `sqlite/prepare` if
several modules have the name) and a change: a helper below, or any function from the original to the mutant. Name the
narrowest tests; without any, those of the part run. Check with `--why` that a test fails for the right reason, and add
a line to `behaviours.md`. If a function is renamed, `test_mutants.py` says which mutant misses it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import attrs

ROOT: Final = Path(__file__).resolve().parent.parent
_OWN_CODE: Final = Path(__file__).read_text()

Change = Callable[[Any], Any]
"""From an original function or constant to its mutant."""


@dataclass(frozen=True)
class Mutant:
    """One broken clause of a promise.

    Attributes:
        changes: Changes by the name of the function, method or constant.
        tests: Tests that must fail, below `tests/`; empty for those of the part.
    """

    name: str
    promise: str
    changes: dict[str, Change]
    tests: tuple[str, ...] = ()


class MutantError(Exception):
    """A mutant that cannot be made."""


# Changes


def returns(value: object) -> Change:
    """Return the value without doing anything."""

    async def wait(*_: object, **__: object) -> object:
        return value

    return lambda original: wait if inspect.iscoroutinefunction(original) else lambda *_, **__: value


def becomes(value: object) -> Change:
    """Replace a constant."""
    return lambda _: value


def swapped(old: str, new: str = "") -> Change:
    """Replace a part of an SQL statement."""

    def change(original: str) -> str:
        if original.count(old) != 1:
            raise MutantError(f"the statement has {old!r} {original.count(old)} times")
        return original.replace(old, new)

    return change


def given(**values: object) -> Change:
    """Call the original with other values of some parameters."""

    def change(original: Any) -> Any:
        signature = inspect.signature(original)
        if not values.keys() <= signature.parameters.keys():
            raise MutantError(f"{original.__qualname__} lacks one of the parameters {[*values]}")

        def call(*positional: Any, **named: Any) -> Any:
            bound = signature.bind(*positional, **named)
            bound.arguments.update(values)
            return original(*bound.args, **bound.kwargs)

        return call

    return change


def after(action: Callable[..., object]) -> Change:
    """Call `action` with the same arguments after the original."""
    return lambda original: lambda *args, **named: (original(*args, **named), action(*args, **named))[0]


def yields(convert: Callable[[Any], object]) -> Change:
    """Convert the result of the original."""

    def change(original: Any) -> Any:
        async def wait(*args: Any, **named: Any) -> object:
            return convert(await original(*args, **named))

        is_async = inspect.iscoroutinefunction(original)
        return wait if is_async else lambda *args, **named: convert(original(*args, **named))

    return change


def names(original: Any) -> dict[str, Any]:
    """Return the names in the module of the original."""
    return dict(original.__globals__)


def public(name: str) -> Any:
    """Return a public name of the package."""
    return getattr(importlib.import_module("freight_exchange"), name)


# Mutants

TWICE: Final = "never twice"
MISSED: Final = "never missed"
HANG: Final = "never a hang"
LEAKED: Final = "never leaked"
STORM: Final = "never a storm"
RECORDS: Final = "correct records"
FLEET: Final = "a fleet"
TOOLS: Final = "honest tools"


def _write_as_read(rule_of: Any) -> Any:
    return lambda error, kind, policy: rule_of(error, type(kind)("read") if kind.value == "write" else kind, policy)


def _unstopped(trace: Any) -> Any:
    def call(self: Any, event: str, info: Any) -> Any:
        self._call.stopped = False
        return trace(self, event, info)

    return call


def _unhanded(send: Any) -> Any:
    def call(self: Any, call: Any, request: Any) -> Any:
        call.handed = False
        return send(self, call, request)

    return call


def _unproven(translated: Any) -> Any:
    def translate(self: Any, error: Any, call: Any, trace: Any) -> Any:
        call.began, trace.failure = False, error
        return translated(self, error, call, trace)

    return translate


def _slot_lost(_: Any) -> Any:
    async def wait(self: Any, call: Any, request: Any, call_next: Any) -> Any:
        await self._slots.acquire()
        return await call_next(call, request)

    return wait


def _renewed_alone(renew: Any) -> Any:
    async def wait(self: Any, old: int, reason: Any) -> Any:
        self._lock = names(renew)["anyio"].Lock()
        return await renew(self, self._generation, reason)

    return wait


def _untied(self: Any) -> Any:
    yield


def _any_version(finish: Any) -> Any:
    def call(db: Any, effect: Any, **conditions: Any) -> Any:
        (version,) = db.run("SELECT version FROM effect WHERE id = :id", id=effect.id).fetchone()
        return finish(db, attrs.evolve(effect, version=version), **conditions)

    return call


def _without_statuses(is_shown: Any) -> Any:
    return lambda self, listing, known: is_shown(
        self, attrs.evolve(listing, offers=tuple(attrs.evolve(one, status=None) for one in listing.offers)), known
    )


def _shielded(call: Any) -> Any:
    async def wait(*args: Any, **named: Any) -> None:
        with names(call)["anyio"].CancelScope(shield=True):
            await call(*args, **named)

    return wait


def _shared_as_it_is(read: Any) -> Any:
    async def wait(self: Any, listing: Any, came: Any = None) -> Any:
        return await read(self, listing, 0)

    return wait


async def _read_once(read: Any, settle: float) -> Any:
    found = await read(True)
    return getattr(found, "result", found)


_WRITES: Final = "calls/test_writes.py"
_RECONCILE: Final = "calls/test_reconcile.py"
_CONNECTIONS: Final = "calls/test_connections.py"
_LOGIN: Final = "calls/test_login.py"
_SECRETS: Final = "calls/test_secrets.py"
_PAGING: Final = ("calls/test_paging.py", "model/test_paging.py")
_REQUESTS: Final = "watch/test_requests.py"
_READING: Final = "watch/test_reading.py"
_RULE: Final = f"{_REQUESTS}::test_rule"
_LEDGER: Final = "bot/test_ledger.py"
_DOUBTS: Final = "bot/test_doubts.py"
_ANSWERS: Final = "bot/test_answers.py"

# fmt: off
_CALLS: Final = (
    Mutant("write-sent-again-after-it-began", TWICE, {"Call.in_doubt": returns(False), "rule_of": _write_as_read}),
    Mutant("write-sent-again-after-a-failure-reply", TWICE, {"rule_of": _write_as_read}),
    Mutant("deadline-denies-a-write-that-began", TWICE, {"Call.in_doubt": returns(False)}),
    Mutant("write-of-a-foreign-transport-counts-as-unsent", TWICE,
           {"Network._translated": _unproven},
           (_WRITES, "calls/test_http_clients.py")),
    Mutant("given-up-write-begins", TWICE, {"_Trace.__call__": _unstopped},
           ("calls/test_http_clients.py", "calls/test_connections.py")),
    Mutant("send-limit-ignored", TWICE, {"SendLimit.is_over": returns(False)},
           (f"{_DOUBTS}::test_nothing_is_sent_after_the_window",)),
    Mutant("write-on-a-kept-connection", TWICE, {"Connections.send": given(fresh=False)}, (_CONNECTIONS,)),
    Mutant("kernel-sends-for-minutes", TWICE, {"_SOCKET_OPTIONS": becomes([])}, (_CONNECTIONS,)),
    Mutant("reply-about-another-write-is-its-success", TWICE, {"check_reply": returns(None)},
           (_WRITES, "calls/test_endpoints.py")),
    Mutant("middleware-sends-a-write-twice", TWICE, {"Network.__call__": _unhanded}, ("calls/test_hooks.py",)),
    Mutant("absence-proven-by-one-reading", TWICE, {"reconcile/_settle": lambda _: _read_once},
           (_RECONCILE,)),
    Mutant("absence-proven-beside-unreadable-rows", TWICE,
           {"SharedReadings.read": yields(lambda read: (read[0], True))}, (_RECONCILE,)),
    Mutant("one-view-of-the-bids-proves-absence", TWICE, {"_VIEWS": becomes((None,))}, (_RECONCILE,)),
    Mutant("rows-of-one-request-not-joined", TWICE, {"service/joined": lambda _: list},
           (f"{_RECONCILE}::test_answer_is_known_from_all_rows_of_its_request",)),
    Mutant("stale-reading-is-shared", TWICE, {"SharedReadings.read": _shared_as_it_is}, (_RECONCILE,)),
    Mutant("sweep-complete-without-agreement", TWICE, {"Sweep._end_round": given(agrees=True)}, _PAGING),
    Mutant("short-page-ends-a-listing", MISSED, {"Pass.take": after(
        lambda self, keys: setattr(self, "ended", self.ended or len(keys) < self.size)
    )}, _PAGING),
    Mutant("object-without-its-collection-is-empty", MISSED, {"wire/_collection": lambda read: lambda data, name:
           read({name: []} | data if isinstance(data, dict) else data, name)}, ("unit/test_decoding.py",)),
    Mutant("unreadable-row-hides-its-page", MISSED,
           {"decode_rows": yields(lambda rows: rows._replace(records=()) if rows.broken else rows)},
           ("unit/test_decoding.py",)),
    Mutant("no-deadline", HANG,
           {"Deadline.__call__": lambda _: lambda self, call, request, call_next: call_next(call, request)}),
    Mutant("ended-call-keeps-its-slot", HANG, {"Slots.__call__": _slot_lost}, ("calls/test_cancellation.py",)),
    Mutant("reply-of-any-size", HANG, {"json/MAX_BODY": becomes(10**12)}, ("calls/test_bodies.py",)),
    Mutant("login-for-each-caller", STORM, {"Token._renew": _renewed_alone}, (_LOGIN,)),
    Mutant("rejected-password-tried-again", STORM,
           {"Token._refused": after(lambda self, *_: setattr(self, "_held_until", 0.0))}, (_LOGIN,)),
    Mutant("retries-without-a-budget", STORM, {"rule_of": yields(lambda rule: rule._replace(cost=0))},
           ("calls/test_retries.py",)),
    Mutant("retry-after-ignored", STORM, {"retry/retry_after": returns(None)}),
    Mutant("calls-not-held-after-a-429", STORM, {"Brake._wait": returns(None)}, ("calls/test_retries.py",)),
    Mutant("secret-in-repr", LEAKED, {"Secret.__repr__": lambda _: lambda self: self._value}, (_SECRETS,)),
    Mutant("secret-cut-before-it-is-masked", LEAKED, {"Redactor.text": lambda _: lambda self, text, size="":
           self.masked(text[:8192])}, (_SECRETS, "calls/test_errors.py")),
    Mutant("earlier-token-forgotten", LEAKED,
           {"Redactor.__init__": after(lambda self: setattr(self, "_tokens", deque(maxlen=1)))}, (_SECRETS,)),
    Mutant("secret-kept-in-records", LEAKED, {"Redactor.without_secrets": lambda _: lambda self, value, content: value},
           (_SECRETS,)),
    Mutant("http-libraries-log-secrets", LEAKED, {"_mask_record": returns(True)}, (_SECRETS,)),
    Mutant("password-over-plain-http", LEAKED, {"config/_is_loopback": returns(True)}, ("unit/test_config.py",)),
    Mutant("number-read-as-a-float", RECORDS, {"codec/number": yields(lambda value: value and Decimal(float(value)))},
           ("unit/test_decoding.py",)),
)

_WATCH: Final = (
    Mutant("no-allowance-for-late-updates", MISSED,
           {"Poller.__init__": after(lambda self, *_: setattr(self, "_allowance", 0.0))},
           (f"{_RULE}[asyncio-an update that is shown within the allowance]",)),
    Mutant("window-not-checked-after-the-scan", MISSED, {"State.reaches": returns(True)},
           (f"{_REQUESTS}::test_scan_whose_window_slid_past_the_watermark_is_repeated_wider",)),
    Mutant("watermark-at-the-end-of-a-scan", MISSED, {"Poller._moved": lambda moved: lambda self, scan:
           (setattr(scan, "began", self._clock.read()), moved(self, scan))[1]},  # type: ignore[func-returns-value]
           (f"{_READING}::test_watermark_is_when_the_first_page_was_requested",)),
    Mutant("wall-clock-alone-gives-the-age", MISSED,
           {"max_elapsed": lambda _: lambda earlier, later: max(0.0, later.wall - earlier.wall)},
           ("unit/platform/test_clock.py",)),
    Mutant("partial-scan-moves-the-watermark", MISSED, {"Scan.is_complete": returns(True)},
           (f"{_READING}::test_scan_that_fails_half_way_moves_no_watermark_and_delivers_its_events",)),
    Mutant("page-committed-in-pieces", MISSED, {"SQLite.transaction": lambda _: _untied},
           tuple(f"model/test_models.py::test_no_promise_is_broken[watcher-{seed}]" for seed in (0, 15, 30))),
    Mutant("pages-read-once-while-rows-move", MISSED, {"MOST_PASSES": becomes(1)},
           (f"{_REQUESTS}::test_one_scan_misses_no_row_that_moves_while_pages_are_read",)),
    Mutant("short-snapshot-is-the-end", MISSED, {"Snapshot.take": after(
        lambda self, keys: self.__dict__.update(ended=True, is_cut=False)
    )}, (_REQUESTS,)),
    Mutant("no-deep-scans", MISSED, {"Poller._plan_deep": returns(None)},
           (f"{_RULE}[asyncio-an update that is shown later than the allowance, within five minutes]",)),
    Mutant("no-deep-scan-at-a-start", MISSED,
           {"Poller.__init__": after(lambda self, *_: self._done.update({"five days": 1e12}))},
           (f"{_REQUESTS}::test_restart_looks_five_days_back",)),
    Mutant("unreadable-request-untold", MISSED, {"Poller._compare": given(unreadable={})},
           (f"{_RULE}[asyncio-a row that cannot be read, once, and the others]",)),
    Mutant("gap-untold", MISSED, {"State.gap": returns(None)},
           (f"{_REQUESTS}::test_gap_after_six_days_down_is_told_once_with_its_bounds",)),
    Mutant("update-untold", MISSED, {"Requests.event": lambda event: lambda self, db, kind, *facts, **more:
           None if kind == "changed" else event(self, db, kind, *facts, **more)},
           (f"{_RULE}[asyncio-a change and its reversal]",)),
    Mutant("old-request-forgotten", TWICE, {"feeds/prune": after(
        lambda db, feed, **_: db.run("DELETE FROM item WHERE record IS NULL AND feed = :feed", feed=feed)
    )}, (f"{_REQUESTS}::test_request_that_is_forgotten_is_not_new_again",)),
    Mutant("restart-begins-anew", MISSED, {"State.load": lambda load: lambda cls, text, now: load(cls, None, now)},
           (f"{_REQUESTS}::test_gap_after_six_days_down_is_told_once_with_its_bounds",)),
    Mutant("withdrawn-without-a-look-up", RECORDS, {"Source.find": returns(()), "Poller._is_trusted": returns(True)},
           (f"{_RULE}[asyncio-no withdrawal of a request that a look-up finds]",)),
    Mutant("denial-without-a-control", RECORDS, {"Poller._is_trusted": returns(True)},
           (f"{_RULE}[asyncio-no withdrawal while look-ups do not find what is listed]",)),
    Mutant("offer-gone-without-a-control", RECORDS, {"Poller._is_trusted": returns(True)},
           ("watch/test_offers.py::test_rule[asyncio-no offer as gone while look-ups show no offers]",)),
    Mutant("partial-listing-withdraws", RECORDS, {"_FEW": becomes(10**9)},
           (f"{_RULE}[asyncio-no withdrawals for an hour where much is missing]",)),
    Mutant("filter-of-bids-trusted", RECORDS, {"SelectedBids.sightings": lambda sightings: lambda self, record, **place:
           sightings(self, attrs.evolve(record, status="Selected"), **place)}, ("watch/test_selected.py",)),
    Mutant("event-lost-by-a-reader-that-leaves", MISSED, {"EventStream.__aiter__": lambda _: lambda self: self},
           (f"{_READING}::test_new_loop_receives_the_unacknowledged_event_again",)),
    Mutant("feeds-in-step", STORM, {"pace/_JITTER": becomes(0.0),
           "Pace.begin": after(lambda self, now: setattr(self, "due", now))},
           (f"{_REQUESTS}::test_first_phase_and_interval_vary",)),
    Mutant("failures-cost-no-pause", STORM, {"Pace.record_failure": lambda _: lambda self, now, error, *, is_deep=False:
           (setattr(self, "quiet_until", now + 1.0), setattr(self, "due", now + 1.0), 1.0)[2]},  # type: ignore[func-returns-value]
           (f"{_REQUESTS}::test_outage_gets_no_more_requests_than_health",)),
    Mutant("retry-after-ignored-by-feeds", STORM, {
           "Pace.record_failure": lambda record: lambda self, now, error, *, is_deep=False:
           record(self, now, type("Plain", (Exception,), {})(), is_deep=is_deep)},
           (f"{_REQUESTS}::test_retry_after_holds_the_feed",)),
    Mutant("first-tries-an-interval-apart", HANG,
           {"Pace.__init__": after(lambda self, *_: setattr(self, "_has_answered", True))},
           (f"{_REQUESTS}::test_service_that_starts_late_is_found_within_half_a_minute",)),
)

_BOT: Final = (
    Mutant("sending-not-recorded", TWICE, {"effects/begin": lambda _: lambda db, binding, effect, *, replaces:
           attrs.evolve(effect, id=1)}, (f"{_LEDGER}::test_prices_are_ordered_by_their_events",)),
    Mutant("offer-of-a-crash-sent-again", TWICE, {"_check_none_open": returns(None)},
           (f"{_DOUBTS}::test_offer_sent_before_a_kill_is_found_late",)),
    Mutant("lost-reply-counts-as-unsent", TWICE,
           {"outcome_of": yields(lambda outcome: "absent" if outcome == "unknown" else outcome)},
           (f"{_DOUBTS}::TestOutcome::test_taken_offer_is_found_by_one_reading",)),
    Mutant("offer-for-each-handler", TWICE, {"OfferWrite.plan": given(is_bound=False)},
           (f"{_LEDGER}::test_prices_are_ordered_by_their_events",)),
    Mutant("other-price-sent-during-a-doubt", TWICE, {"_check_none_open": returns(None)},
           (f"{_DOUBTS}::TestOutcome::test_taken_offer_is_found_by_one_reading",)),
    Mutant("existing-bid-ignored", TWICE, {"unknown_prices": yields(lambda found: found - found)},
           (f"{_LEDGER}::TestBidsThatAreNotFromTheLedger",)),
    Mutant("unproven-offer-counts-as-absent", TWICE, {"Ledger._conclude": lambda conclude:
           lambda self, effect, result, *, is_due: conclude(self, effect, public("NotApplied")()
           if isinstance(result, public("StillUnknown")) else result, is_due=is_due)}, (f"{_DOUBTS}::TestPerson",)),
    Mutant("absent-offer-sent-for-ever", TWICE, {"_MAX_RESENDS": becomes(10**9)},
           (f"{_DOUBTS}::TestOutcome::test_offer_listed_late_is_sent_four_times_at_most",)),
    Mutant("result-written-over-a-newer-doubt", TWICE, {"effects/finish": _any_version},
           (f"{_DOUBTS}::test_late_reply_is_a_fact",)),
    Mutant("late-reply-dropped", TWICE, {"effects/finish": lambda finish: lambda db, effect, *, replaces, owner=None:
           finish(db, effect, replaces=replaces, owner=effect.owner)}, (f"{_DOUBTS}::test_late_reply_is_a_fact",)),
    Mutant("adopted-offer-looked-for-at-once", TWICE, {"Ledger.adopt": returns(None)},
           (f"{_DOUBTS}::test_offer_that_arrives_after_a_kill_is_found",)),
    Mutant("two-deliveries-of-a-request-at-once", TWICE, {"work/_CLAIM": swapped("other.event < one.event", "1 = 0")},
           ("bot/test_deliveries.py::test_events_of_request_come_in_order",)),
    Mutant("selection-told-again", TWICE,
           {"SelectedBids.sightings": lambda sightings: lambda self, record, **place: [
               attrs.evolve(one, key=f"{one.key}:{time.monotonic_ns()}") for one in sightings(self, record, **place)
           ]}, ("bot/test_selections.py",)),
    Mutant("changed-offer-approved", TWICE, {"AnswerWrite.is_shown": lambda is_shown: lambda self, listing, known:
           is_shown(attrs.evolve(self, seen=None), listing, known)},
           (f"{_ANSWERS}::test_offer_that_differs_from_what_was_seen_is_not_approved",)),
    Mutant("approval-by-a-person-ignored", TWICE, {"AnswerWrite.is_shown": _without_statuses},
           (f"{_ANSWERS}::test_approval_by_a_person_stands",)),
    Mutant("cancelled-delivery-costs-an-attempt", MISSED, {"Worker._settle": lambda settle:
           lambda self, one, delivery, verdict: settle(self, one, delivery, attrs.evolve(verdict, refund=False))},
           ("bot/test_stop.py::TestDrain::test_cancelled_handlers_are_called_again",)),
    Mutant("page-of-a-gateway-refuses-an-offer", MISSED, {"outcome_of": lambda outcome_of: lambda error, refusals:
           "refused" if isinstance(error, refusals) else outcome_of(error, refusals)},
           (f"{_DOUBTS}::TestOutcome::test_refusal_of_a_gateway_leaves_a_doubt",)),
    Mutant("outage-makes-dead-letters", MISSED, {"outcomes/_is_transient": returns(False)},
           ("bot/test_ledger_verdict.py",)),
    Mutant("attempt-not-counted-at-the-claim", HANG, {"work/_CLAIM": swapped("attempts + 1", "1")},
           ("bot/test_deliveries.py::test_delivery_is_repeated_after_a_crash_unless_it_was_settled",)),
    Mutant("handler-without-a-time-limit", HANG, {"Worker._call": _shielded}, ("bot/test_retries.py",)),
    Mutant("second-signal-waits", HANG, {"_Program._on_signal": returns(None)},
           ("bot/test_process.py::test_process_ends[a second SIGTERM-asyncio]",)),
    Mutant("watchdog-asleep", HANG, {"Watchdog.set_deadline": returns(None)},
           ("bot/test_process.py::test_process_ends[a handler in a thread-asyncio]",)),
    Mutant("dead-bot-looks-alive", HANG, {"Run._ages": returns([(0.0, 1.0)])},
           ("bot/test_first_minutes.py::test_bot_whose_scans_fail_is_not_live",)),
    Mutant("deliveries-without-a-limit", STORM, {"Worker._claim": given(free=1000)},
           ("bot/test_deliveries.py::test_no_more_handlers_run_than_concurrency",)),
    Mutant("writes-without-a-brake", STORM, {"Gate.report": given(trouble=None)},
           (f"{_DOUBTS}::test_one_probe_goes_before_all_writes",)),
    Mutant("doubts-looked-up-alone", STORM, {"SharedReadings.read": given(came=None)},
           (f"{_DOUBTS}::test_hundred_doubts_share_their_readings",)),
    Mutant("start-reads-selections-deeply", STORM, {"Pass.__init__": given(past_end=100)},
           ("bot/test_first_minutes.py::test_start_reads_the_bids_once_to_twenty_rows_past_the_end",)),
)

_STORE: Final = (
    Mutant("commit-before-the-disk", TWICE, {"SQLite._open": after(
        lambda self, *_: self.run("PRAGMA synchronous = OFF")
    )}, ("store/test_files.py",)),
    Mutant("commit-before-the-disk-of-the-database", TWICE, {"postgres/_BEGIN": swapped("commit = on", "commit = off")},
           ("store/test_postgres.py",)),
    Mutant("file-used-by-two-processes", TWICE, {"_take_lock": lambda take: lambda path, place:
           take(f"{path}.{time.monotonic_ns()}", place)}, ("store/test_files.py",)),
    Mutant("store-of-another-account-used", TWICE, {"_is_unused": returns(True)}, ("store/test_replicas.py",)),
    Mutant("reply-of-the-database-awaited-for-ever", HANG, {"_REPLY_TIMEOUT": becomes(600.0)},
           ("store/test_postgres.py",)),
    Mutant("frozen-process-keeps-its-locks", HANG,
           {"postgres/_BEGIN": lambda text: re.sub("idle_in_transaction_session_timeout = '[^']*'", "work_mem = '4MB'",
                                                   text)},
           ("store/test_postgres.py",)),
    Mutant("password-of-the-database-shown", LEAKED, {"Postgres._masked": lambda _: lambda self, text: text},
           ("store/test_postgres.py",)),
    Mutant("ended-replica-writes", FLEET, {"LIVING": becomes("1 = 1")}, ("store/test_machine.py",)),
    Mutant("ended-scanner-commits", FLEET, {"feeds/hold": returns(None)},
           ("store/test_replicas.py::test_a_reader_keeps_its_feed_while_its_pages_extend_the_lease",)),
    Mutant("feed-of-a-reader-taken", FLEET, {"fleet/take_feed": lambda take: lambda db, me, feed, **lease:
           (db.run("UPDATE feed SET lease_until = 0 WHERE owner IN (SELECT id FROM replica WHERE lease_until < {NOW})"),
            take(db, me, feed, **lease))[1]},
           ("store/test_replicas.py::test_a_reader_keeps_its_feed_while_its_pages_extend_the_lease",)),
    Mutant("pruned-events-untold", MISSED, {"feeds/last_pruned": returns((0, 0.0))},
           ("store/test_replicas.py::test_a_handler_that_was_away_longer_than_events_are_kept_learns_what_it_missed",)),
    Mutant("work-of-an-ended-replica-left", FLEET,
           {"fleet/adopt": lambda adopt: lambda db, me, *_: names(adopt)["Adopted"]()},
           ("fleet/test_fleet.py::test_work_of_a_replica_that_ended_is_taken_over",)),
    Mutant("wait-after-a-take-over-too-short", FLEET, {"ORPHAN_AGE": becomes(0.0)},
           ("bot/test_doubts.py", "store/test_machine.py")),
    Mutant("restored-rows-unnoticed", FLEET, {"fleet/beat": given(stamp="")}, ("store/test_replicas.py",)),
    Mutant("rejoin-reads-the-bids", STORM, {"Joined.must_read": returns(True)},
           ("store/test_replicas.py::test_a_rejoin_of_a_living_replica_reads_nothing",)),
    Mutant("restored-file-unnoticed", HANG, {"fleet/adopt": lambda adopt: lambda db, me, *_: adopt(db, me)},
           ("bot/test_ledger_prices.py::test_store_put_back_under_a_running_bot_makes_no_second_offer_and_no_hang",)),
    Mutant("restored-database-trusted", FLEET, {"Joined.must_read": returns(False)}, ("store/test_replicas.py",)),
)

_TOOLS: Final = (
    Mutant("write-without-confirmation", TOOLS, {"run/confirm": returns(None)}, ("cli/test_bids.py",)),
    Mutant("control-characters-on-the-terminal", TOOLS, {"text/clean": lambda _: lambda text: text},
           ("cli/test_show.py",)),
    Mutant("board-changed-by-another-site", TOOLS, {"_permit_change": returns(None)},
           ("sandbox/test_board.py",)),
    Mutant("crash-without-effect", TOOLS, {"Trial._reach": returns(None)}, ("unit/testing/test_trial.py",)),
    Mutant("offers-ranked-across-currencies", RECORDS, {"quotes/_rate": returns(Decimal(1))}, ("unit/test_quotes.py",)),
    Mutant("implausible-freight-priced", RECORDS, {"_density_warning": returns(None)}, ("unit/tariff",)),
)
# fmt: on

PARTS: Final[dict[str, tuple[tuple[str, ...], tuple[Mutant, ...]]]] = {
    "calls": (("calls/test_matrix.py", "calls/test_deadlines.py"), _CALLS),
    "watch": (("watch",), _WATCH),
    "bot": (("bot",), _BOT),
    "store": (("store", "fleet"), _STORE),
    "tools": (("cli", "sandbox", "unit/testing"), _TOOLS),
}
"""The parts of the package: tests of the mutants that name none, and the mutants."""

MUTANTS: Final = {one.name: one for _, mutants in PARTS.values() for one in mutants}
TESTS: Final = {
    one.name: [f"tests/{test}" for test in one.tests or tests] for tests, mutants in PARTS.values() for one in mutants
}

# Making


Definition = tuple[str, int, int, bool]
"""Name of a function or a constant; the line before which its change goes; indentation; whether it is a function."""


def find(target: str, source: Path) -> tuple[Path, Definition]:
    """Find a function, method or constant; raise `MutantError` unless exactly one module defines it."""
    folder, _, name = target.rpartition("/")
    found = [
        (file, definition)
        for file, text in _texts(source).items()
        if name.rpartition(".")[2] in text and (not folder or folder in file.relative_to(source).with_suffix("").parts)
        for definition in _definitions(text)
        if definition[0] == name
    ]
    if len(found) != 1:
        places = ", ".join(str(file.relative_to(source)) for file, _ in found) or "no module"
        raise MutantError(f"{target} is defined in {places}, not in one")
    return found[0]


@functools.lru_cache(maxsize=4)
def _texts(source: Path) -> dict[Path, str]:
    return {file: file.read_text() for file in sorted(source.rglob("*.py"))}


@functools.cache
def _definitions(text: str) -> list[Definition]:
    """List the functions and constants of a module, with the qualified names that Python gives them, but `<locals>`."""
    found: list[Definition] = []
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
    for scope, node in waiting:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.append((scope + name, node.lineno, node.col_offset, True))
                scope += f"{name}."
            case ast.ClassDef(name=name):
                scope += f"{name}."
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.append((scope + name, (node.end_lineno or 0) + 1, node.col_offset, False))
        if not isinstance(node, ast.expr):
            waiting += [(scope, child) for child in ast.iter_child_nodes(node)]
    return found


def mutate(source: Path, targets: Sequence[str], change: str) -> list[str]:
    """Change functions and constants in a copy of `src`, and list the changed modules.

    `change` is an expression for a function from a name to its change.
    """
    edits = sorted(((*find(target, source), target) for target in targets), key=lambda edit: -edit[1][1])
    for file, (name, number, indent, is_function), target in edits:
        word, call = name.rpartition(".")[2], f"__import__('_mutant').change({target!r})"
        line = f"@{call}" if is_function else f"{word} = {call}({word})"
        lines = file.read_text().splitlines(keepends=True)
        lines.insert(number - 1, f"{' ' * indent}{line}\n")
        file.unlink()  # other copies may have a link to it
        file.write_text("".join(lines))
    (source / "_mutants.py").write_text(_OWN_CODE)
    (source / "_mutant.py").write_text(f"import _mutants\nchange = _mutants.{change}\n")
    return [".".join(file.relative_to(source).with_suffix("").parts) for file, _, _ in edits]


def check() -> None:
    """Make each change once and import the changed modules.

    Raises:
        MutantError: A change cannot be made.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(ROOT / "src", Path(folder) / "src")
        targets = {target for one in MUTANTS.values() for target in one.changes}
        modules = mutate(source, sorted(targets), "probe")
        script = f"import importlib\nfor name in {modules}: importlib.import_module(name)"
        code, output = _run([sys.executable, "-c", script], source.parent)
    if code:
        raise MutantError(output)


def probe(target: str) -> Change:
    """Return a check that each change of a function or constant can be made, which changes nothing."""

    def change(original: Any) -> Any:
        for one in MUTANTS.values():
            if target in one.changes and one.changes[target](original) is original:
                raise MutantError(f"{one.name} does not change {target}")
        return original

    return change


# Judging


def judge(mutant: Mutant, base: Path) -> tuple[str, bool, str]:
    """Make a mutant and run its tests; return the first to fail, whether that kills it, and the output of pytest."""
    # All in links: tests find the package beside them, and start processes there.
    tree = shutil.copytree(base, base.with_name(mutant.name), copy_function=os.link)
    try:
        mutate(tree / "src", [*mutant.changes], f"MUTANTS[{mutant.name!r}].changes.__getitem__")
    except MutantError as error:
        return f"CANNOT BE MADE: {error}", False, ""
    code, output = _pytest(tree, ["-x", *TESTS[mutant.name]])
    shutil.rmtree(tree)
    return *_read(code, output), output


def _read(code: int, output: str) -> tuple[str, bool]:
    """Return the test that failed, and whether that kills the mutant."""
    if broken := re.search(r"mutants\.py:\d+: (Type|Attribute|Name|Key|Value|Mutant)Error", output):
        return f"CANNOT BE JUDGED: the mutant itself fails ({broken[0]})", False
    failed = re.search(r"^FAILED (?:[\w/]*/)?(.*?)(?: - .*)?$", output, re.MULTILINE)
    hung = re.search(r"^(?:[\w/]*/)?(\S+::.*?) +Timeout \(", output, re.MULTILINE)
    if code == 1 and (found := failed or hung):
        return found[1] + " (hangs)" * (failed is None), True
    return "SURVIVED" if code == 0 else f"CANNOT BE JUDGED: pytest ends with {code}: {output.strip()[-300:]}", False


def _pytest(tree: Path, arguments: Sequence[str]) -> tuple[int, str]:
    options = ("-v", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=60")
    return _run([sys.executable, "-m", "pytest", *options, *arguments], tree)


def _run(command: Sequence[str], tree: Path) -> tuple[int, str]:
    """Run a command in a tree, end the processes that it leaves, and return its status and output."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    # A file, since processes that are left would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=output, stderr=-2, start_new_session=True)
        code = process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return code, output.read()


def run(chosen: Sequence[Mutant], *, processes: int, is_verbose: bool) -> int:
    """Judge mutants, print a table, and return the exit status."""
    began = time.monotonic()
    needed = sorted({test for one in chosen for test in TESTS[one.name]})
    subprocess.run([sys.executable, "-m", "compileall", "-q", ROOT / "src"], check=False)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        base = shutil.copytree(ROOT, Path(folder) / "base", ignore=shutil.ignore_patterns(".*", "build", "site"))
        shares = [share for number in range(processes) if (share := needed[number::processes])]
        for code, output in pool.map(functools.partial(_pytest, base), shares):
            if code:
                _print(output, "The tests fail without a mutant.")
                return 1
        _print(f"The tests pass without a mutant: {time.monotonic() - began:.0f} s\n")
        _print("| Mutant | Promise | Killed by | s |", "|---|---|---|---|")

        def judge_one(one: Mutant) -> bool:
            started = time.monotonic()
            killer, is_killed, output = judge(one, base)
            _print(f"| {one.name} | {one.promise} | {killer} | {time.monotonic() - started:.0f} |")
            if is_verbose:
                _print(output)
            return is_killed

        survivors = [*pool.map(judge_one, chosen)].count(False)
    _print(f"\n{len(chosen) - survivors} of {len(chosen)} are killed: {time.monotonic() - began:.0f} s")
    return int(bool(survivors))


def _print(*lines: str) -> int:
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=[*PARTS], help="mutants of one part")
    parser.add_argument("--only", metavar="WORD", default="", help="mutants with this in their name or promise")
    parser.add_argument("--list", action="store_true", help="list them and their tests")
    parser.add_argument("--why", action="store_true", help="print the output of pytest for each")
    parser.add_argument("-j", type=int, metavar="N", default=2, help="mutants at a time (default 2)")
    options = parser.parse_args()
    chosen = [one for one in MUTANTS.values() if options.part is None or one in PARTS[options.part][1]]
    chosen = [one for one in chosen if options.only in f"{one.name} {one.promise}"]
    if options.list:
        return _print(*(f"{one.promise}: {one.name}: {' '.join(TESTS[one.name])}" for one in chosen))
    return run(chosen, processes=options.j, is_verbose=options.why)


if __name__ == "__main__":
    sys.exit(main())
