"""Mutations of the shipper's side: the feed of offers, the answers to them, comparisons and tariffs."""

from __future__ import annotations

from typing import Final

from tools.mutation_lists import one

__all__ = ["MUTATIONS", "TESTS"]

TESTS: Final = ("tests/unit/offer_feed", "tests/unit/bot/answers")
"""Tests that run where a mutation names none."""

_POLLER: Final = "tests/unit/offer_feed/scanning/test_poller.py"
_GONE: Final = "tests/unit/offer_feed/scanning/test_confirm_gone.py"
_UNREADABLE: Final = "tests/unit/offer_feed/scanning/test_unreadable_parts.py"
_ANSWERS: Final = "tests/unit/bot/answers/test_answers.py"
_SECOND: Final = "tests/unit/bot/answers/test_second_approval.py"
_DOUBTS: Final = "tests/unit/bot/answers/test_answer_doubts.py"

MUTATIONS: Final = (
    one(
        "feed: one scan that lacks an offer is enough for a look-up",
        "offer_feed/core/scan.py",
        "SCANS_THAT_LACK = 2",
        "SCANS_THAT_LACK = 1",
        _GONE,
    ),
    one(
        "feed: rivals of an approved offer are gone",
        "offer_feed/core/compare.py",
        "return frozenset(listed) if selected is None else frozenset(listed & {selected.id})",
        "return frozenset(listed)",
        _POLLER,
    ),
    one(
        "feed: a listing that lacks most is believed at once",
        "offer_feed/scanning/journal.py",
        "is_doubtful = doubt is not None and doubts.is_open(doubt, time)",
        "is_doubtful = False",
        _GONE,
    ),
    one(
        "feed: what the last scan listed begins no new doubt",
        "offer_feed/core/scan.py",
        "len(absent - absent_before)",
        "0",
        _GONE,
    ),
    one(
        "feed: an offer that cannot be read is absent",
        "offer_feed/core/scan.py",
        "        if index not in scan.uncertain\n",
        "",
        _UNREADABLE,
    ),
    one(
        "feed: what a scan lacks is not looked for behind hidden pages",
        "offer_feed/scanning/sweeper.py",
        "return is_overdue or self._hides_rows or not self._listed <= scan.requests",
        "return is_overdue",
        _POLLER,
    ),
    one(
        "feed: a sweep that fails proves absence",
        "offer_feed/scanning/sweeper.py",
        "            scan.is_uncertain = True\n",
        "",
        _POLLER,
    ),
    one(
        "feed: one bare 404 denies a request",
        "feed/core/absence/lookups.py",
        "_DENIALS: Final = 3",
        "_DENIALS: Final = 1",
        _GONE,
    ),
    one(
        "feed: look-ups that find no offer at all are believed",
        "offer_feed/scanning/confirm_gone.py",
        "self._trust.is_given = _shows_an_offer(listing) or await self._finds_listed_offer(scan)",
        "self._trust.is_given = True",
        _GONE,
    ),
    one(
        "feed: a look-up that fails comes first again",
        "offer_feed/scanning/confirm_gone.py",
        "sorted(due, key=lambda index: self._failures.get(index, 0))",
        "sorted(due)",
        _GONE,
    ),
    one(
        "feed: an offer without an identifier is not reported",
        "offer_feed/scanning/unreadable_parts.py",
        "return [*page.broken, *flaws, *(error for listing in page.records for error in _unidentified(listing))]",
        "return [*page.broken, *flaws]",
        _UNREADABLE,
    ),
    one(
        "answers: a second approval is not looked for in the ledger",
        "bot/answers/ledger.py",
        'if approval is not None and approval.state == "confirmed":',
        "if False:",
        _SECOND,
    ),
    one(
        "answers: a changed offer is approved",
        "bot/answers/checks.py",
        "    if changed:\n",
        "    if False:\n",
        _ANSWERS,
    ),
    one(
        "answers: an offer that a person approved is not looked for",
        "bot/answers/checks.py",
        "    if listing.selected is not None:\n",
        "    if False:\n",
        _SECOND,
    ),
    one(
        "answers: the other of two replicas writes over the first",
        "bot/answers/repository.py",
        "step, lambda store: put_version(store, record, replaces=replaces)",
        "step, lambda store: put_version(store, record, replaces=replaces) or True",
        "tests/unit/bot/answers/test_taken_over.py",
    ),
    one(
        "answers: a decline stays in doubt once another offer is approved",
        "bot/answers/in_doubt.py",
        "return listing.selected is not None and listing.selected.id not in (None, offer)",
        "return False",
        _DOUBTS,
    ),
    one(
        "answers: an absent approval is not given back to its handler",
        "bot/answers/in_doubt.py",
        'record = await self._repository.advance(record, "intent", step="resolved", resends=resends, **RESOLVED)',
        'record = await self._repository.advance(record, "rejected", step="resolved", resends=resends, **RESOLVED)',
        _ANSWERS,
    ),
    one(
        "quotes: offers are ranked in their own currencies",
        "quotes.py",
        "converted.append((offer, code, EXACT.multiply(amount, factors[code])))",
        "converted.append((offer, code, amount))",
        "tests/unit/test_quotes.py",
    ),
    one(
        "tariff: an implausible density is priced",
        "tariff/pricing.py",
        "    if gross.warning is not None:\n",
        "    if False:\n",
        "tests/unit/tariff",
    ),
    one(
        "tariff: a minimum does not hold",
        "tariff/pricing.py",
        "return amount if rule.minimum is None else max(",
        "return amount if True else max(",
        "tests/unit/tariff",
    ),
    one(
        "tariff: the lowest break that is reached applies",
        "tariff/pricing.py",
        "    rule = max(reached, key=lambda rule: rule.start)\n",
        "    rule = min(reached, key=lambda rule: rule.start)\n",
        "tests/unit/tariff",
    ),
)
