"""Breaks the watcher on purpose, one rule at a time, and shows which check goes red.

Each mutation is made in a copy of the tree: the seeded schedules of `tests/model/watcher` run until one is judged
wrong, and the tests of the feed until one fails. Prints a table; exits with 1 if a mutation survives both, or if the
code that it changes is not there any more. `--only WORD` makes those whose name holds the word.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# A script's own folder is on the path, the tree's root is not, and what follows needs it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.mutating import SURVIVED, Check, Mutation, by_tests, one, run, table

_SCHEDULES = """
import logging, sys
logging.disable(logging.CRITICAL)
from tests.model.watcher import draw, run
for seed in range(int(sys.argv[1])):
    flaws = run(draw(seed)).flaws
    if flaws:
        print(f"seed {seed}: {flaws[0].kind}")
        sys.exit(1)
"""

MUTATIONS = (
    Mutation(
        "1 no overlap: nothing is allowed for late showing",
        (
            ("feed/core/watermark.py", "wanted = elapsed + allowance + scan_time", "wanted = elapsed + scan_time"),
            ("feed/core/watermark.py", "return elapsed + allowance <= window", "return elapsed <= window"),
        ),
    ),
    one("1 no check after the scan", "feed/core/watermark.py", "return elapsed + allowance <= window", "return True"),
    one(
        "1 the cover is taken at the scan's end",
        "feed/journal.py",
        "        covered = complete and self._covers(look, received)\n",
        "        covered = complete and self._covers(look, received)\n"
        "        look.began = received if covered else look.began\n",
    ),
    one(
        "1 the wall clock alone tells the cover's age",
        "platform/clock.py",
        "return max(steady, wall)",
        "return max(0.0, wall)",
        "tests/unit/platform/test_clock.py",
    ),
    one(
        "2 no sweep",
        "paging/window_walk.py",
        "        if self.number == 0:\n            # Alone,",
        "        if True:\n            # Alone,",
    ),
    one(
        "2 the page size is not learned",
        "paging/window_walk.py",
        "            self._sizes.clamped(self._operation, len(keys))\n",
        "",
        "tests/unit/feed/test_scanner.py",
    ),
    one(
        "2 a burst behind a short page is taken for the page size",
        "paging/window_walk.py",
        "if self._suspected != len(keys):",
        "if False:",
        "tests/unit/feed/test_scanner.py",
    ),
    one(
        "3 a short page ends the listing, whatever was learned",
        "paging/window_walk.py",
        "elif rows < longest or not rows:",
        "elif rows < self.size:",
    ),
    one(
        "3 an error past page 0 ends the scan at once",
        "feed/core/scanner.py",
        "if self._end is None or self._end == self._agreed:",
        "if True:",
    ),
    one(
        "4 the cover advances on a partial scan",
        "feed/journal.py",
        "covered = complete and self._covers(look, received)",
        "covered = self._covers(look, received)",
    ),
    one(
        "4 rows count only when the scan is complete",
        "feed/fetch.py",
        "        while look.unwritten is not None:\n",
        "        if look.unwritten is not None and not look.scanner.ended:\n"
        "            look.unwritten = None\n"
        "        while look.unwritten is not None:\n",
    ),
    one(
        "4 whole scans are made again, not pages",
        "feed/core/scanner.py",
        "if may_pass(error) and self.attempts < _ATTEMPTS:",
        "if False:",
        "tests/unit/feed/test_scanner.py",
    ),
    one(
        "4 what a deep scan has read is thrown away when a page fails",
        "feed/poller.py",
        "return look is self._deep and scanner.pages > 0 and stuck and may_pass(error)",
        "return False",
        "tests/unit/feed/test_watcher_trouble.py::test_a_first_scan_of_many_pages_is_read_to_its_end_under_a_limit_of_rate",
    ),
    one(
        "5 no ladder",
        "feed/core/schedule.py",
        "return next((rung for rung in rungs if now - last.get(rung.name, -rung.every) >= rung.every), NARROW)",
        "return NARROW",
    ),
    one(
        "5 no deep scan after a restart",
        "feed/core/planner.py",
        "self.fresh = True",
        "self.fresh = False",
        "tests/unit/feed/test_watcher_look_ups.py",
    ),
    one(
        "5 a deep scan that failed is made again at once",
        "feed/core/planner.py",
        "self._rests[rung.name] = _Rest(time + seconds, seconds)",
        "self._rests[rung.name] = _Rest(time, seconds)",
        "tests/unit/feed/test_watcher_plan.py::test_a_look_that_failed_rests_and_the_next_shallower_that_is_due_is_made",
    ),
    one(
        "5 a deep scan waits for as long as narrow ones are due",
        "feed/poller.py",
        "self._narrow, self._turn_of_deep = look, True",
        "self._narrow, self._turn_of_deep = look, False",
        "tests/unit/feed/test_watcher_trouble.py::test_a_deep_scan_goes_on_while_narrow_ones_take_all_the_time_there_is",
    ),
    one(
        "2 who leaves a sweep is told another page size than its pages have",
        "paging/single_pass.py",
        "self.size = self.fitting = rows",
        "self.size = rows",
        "tests/unit/paging/test_walk.py",
    ),
    one(
        "7 a machine that was saved counts on its own clocks",
        "feed/journal.py",
        "updated_after=max(listed, min(listed + behind.by, behind.until))",
        "updated_after=listed",
        "tests/unit/feed/test_watcher_honesty.py::test_a_machine_that_was_saved_takes_nothing_for_withdrawn_that_is_out_of_the_window",
    ),
    one(
        "7 what some requests gain that others have is the service's doing",
        "feed/core/schema_drift.py",
        "    return fields & doubtful",
        "    return fields",
    ),
    one("7 what cannot be read is dropped", "feed/core/classify.py", "for error in broken:", "for error in ():"),
    Mutation(
        "7 a set of hashes instead of the last one",
        (
            ("feed/core/classify.py", "before.digest == digests[index]:\n", "digests[index] in before.digest:\n"),
            (
                "feed/core/classify.py",
                "        digest=digest,\n",
                "        digest=digest if before is None else before.digest + digest,\n",
            ),
        ),
    ),
    one(
        "7 withdrawn without a look-up",
        "feed/confirm_withdrawn.py",
        "elif (record := await self._source.find(row.index)) is None:",
        "elif (record := None) is None:",
    ),
    one(
        "7 withdrawn after one scan that lacks it",
        "feed/core/lookups.py",
        "SCANS_THAT_MISS: Final = 2",
        "SCANS_THAT_MISS = 1",
        "tests/unit/feed/test_watcher_rules.py",
    ),
    one(
        "7 a look-up that failed is not made again",
        "feed/confirm_withdrawn.py",
        "self._lookups.failed(row.index)",
        "self._lookups.done(row.index)",
        "tests/unit/feed/test_watcher_look_ups.py",
    ),
    one(
        "7 a look-up that fails is a failure of the scan",
        "feed/confirm_withdrawn.py",
        "            elif may_pass(error) or is_of_login(error):\n                _logger",
        "            elif may_pass(error) or is_of_login(error):\n                raise\n                _logger",
        "tests/unit/feed/test_watcher_look_ups.py",
    ),
    one(
        "7 a bare 404 is believed at once",
        "feed/core/lookups.py",
        "_DENIALS: Final = 3",
        "_DENIALS: Final = 1",
        "tests/unit/feed/test_watcher_honesty.py::test_a_bare_404_is_believed_only_once_it_was_said_again_and_again",
    ),
    one(
        "7 a scan that lacks something calls for another as wide as itself",
        "feed/core/planner.py",
        "self._doubt = _Doubt(own, began) if doubtful else None",
        "self._doubt = _Doubt(window, began) if doubtful else None",
        "tests/unit/feed/test_watcher_honesty.py::test_requests_that_vanish_steadily_do_not_make_every_scan_a_deep_one",
    ),
    one(
        "7 what the window proves to be updated may be a change of shape",
        "feed/core/schema_drift.py",
        "if before.last_seen < sight.sent - sight.window:",
        "if False:",
        "tests/unit/feed/test_classify.py",
    ),
    one(
        "7 a deep look does not ask what was updated lately before it finds a change of shape",
        "feed/journal.py",
        "if sight.lately is None and (meaning.excused or meaning.schema.at != sight.schema.at):",
        "if False:",
        "tests/unit/feed/test_watcher_honesty.py::test_updates_that_only_a_deep_scan_sees_are_no_change_of_shape",
    ),
    one(
        "7 another version's digest is another state",
        "feed/core/classify.py",
        "for change in changes[index] if change.fields]",
        "for change in changes[index]]",
        "tests/unit/feed/test_watcher_honesty.py::test_another_version_that_writes_other_digests_tells_nothing_again",
    ),
    one(
        "7 absence counts where the window proves nothing",
        "feed/journal.py",
        "updated_after=max(listed, min(listed + behind.by, behind.until))",
        "updated_after=-1e17",
    ),
    one(
        "8 memory bounded by count",
        "store/sqlite/feed_sql.py",
        "    return found\n",
        "    return {index: found[index] for index in sorted(found)[-8:]}\n",
    ),
    one(
        "8 no tombstone",
        "store/sqlite/feed_sql.py",
        "    connection.executemany(_ADD_TOMBSTONE, old)\n",
        "",
        "tests/unit/feed/test_watcher_pruning.py",
    ),
    one(
        "9 a restart primes again",
        "feed/journal.py",
        "else State.load(store.state)\n",
        "else attrs.evolve(State.load(store.state), primed=False)\n",
    ),
    one(
        "9 a failed first scan has primed",
        "feed/journal.py",
        "            after = attrs.evolve(after, schema=meaning.schema, lacking=doubt)\n",
        "            after = attrs.evolve(after, schema=meaning.schema, lacking=doubt, primed=True)\n",
    ),
    one(
        "9 what a start is to hand out may slide out of the window",
        "feed/journal.py",
        "return is_covered(look.window, state.since_entered(received) + within, 0.0)",
        "return True",
        "tests/unit/feed/test_watcher_trouble.py::test_the_oldest_that_a_start_is_to_hand_out_do_not_slide_out_of_the_window",
    ),
    one("10 no gap", "feed/journal.py", "if not state.primed or lost <= since:", "if True:"),
    one(
        "10 a machine that was saved tells no gap",
        "feed/journal.py",
        "        now = max(now, furthest) if math.isfinite(furthest) else now\n",
        "",
        "tests/unit/feed/test_watcher_trouble.py::test_a_machine_that_was_saved_for_days_tells_the_gap",
    ),
    one(
        "11 Retry-After is ignored",
        "feed/core/pacer.py",
        "pause = max(pause, min(retry_after, LONGEST_HONOURED))",
        "pass",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "11 Retry-After holds back only the call that received it",
        "transport/throttle.py",
        "if request.kind is not Kind.WRITE:",
        "if False:",
        "tests/unit/transport/test_quiet_time.py",
    ),
    one(
        "11 a page that fails is repeated at once in trouble too",
        "feed/core/pacer.py",
        "if self.failures or self._owed > sent or",
        "if",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "7 a request that comes back is not said to have returned",
        "feed/core/classify.py",
        "returned=not before.digest",
        "returned=False",
        "tests/unit/feed/test_watcher_updates.py",
    ),
    one(
        "11 a poll may take as long as it likes",
        "feed/poller.py",
        "deadline = _NARROW_DEADLINE if look is self._narrow else math.inf",
        "deadline = math.inf",
        "tests/unit/feed/test_watcher_trouble.py::test_rule_11_a_poll_has_a_deadline_of_its_own",
    ),
    one(
        "11 no jitter",
        "feed/core/pacer.py",
        "self._interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)",
        "self._interval",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "11 all begin at once",
        "feed/core/pacer.py",
        "now + self._random.random() * self._interval",
        "now",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "11 a failed request costs nothing but the interval that every scan takes",
        "feed/core/pacer.py",
        "max(1, self._owed) * self._interval",
        "self._interval",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "11 pauses in trouble are shorter than the interval",
        "feed/core/pacer.py",
        "widened = 1 + self._random.random() * min",
        "widened = 0.5 * min",
        "tests/unit/feed/test_pacer.py",
    ),
    one(
        "11 retries of calls multiply with those of pages",
        "client.py",
        "attempts=1)), strict",
        "attempts=3)), strict",
        "tests/unit/feed/test_feed.py",
    ),
    one(
        "6 one type alone is watched",
        "endpoints/updated_requests.py",
        "SearchType.ALL",
        "SearchType.PENDING",
        "tests/unit/feed/test_feed_acks.py",
    ),
    one(
        "3 what an ignored offset hides is taken to be absent",
        "feed/journal.py",
        "if complete and state.primed and not look.scanner.offset_ignored:",
        "if complete and state.primed:",
        "tests/unit/feed/test_watcher_honesty.py",
    ),
    one(
        "feed: two pull it at a time",
        "feed/feed.py",
        "        if self._pulling:\n",
        "        if False:\n",
        "tests/unit/feed/test_feed_acks.py",
    ),
    one(
        "feed: a lease that ends between two polls",
        "feed/feed.py",
        "lease = max(_SHORTEST_LEASE, _INTERVALS_A_LEASE * self._interval)",
        "lease = self._interval / 2",
        "tests/unit/feed/test_hold.py",
    ),
    one(
        "feed: a reader who always leaves too soon is not told",
        "feed/poller.py",
        "        if look.left < _MOST_LEFT:\n",
        "        if True:\n",
        "tests/unit/feed/test_watcher_trouble.py::test_a_reader_who_always_leaves_before_a_page_comes_is_told_and_held_to_a_pace",
    ),
    one(
        "feed: what is in hand is forgotten on a break",
        "feed/feed.py",
        "        self._queue.extendleft(reversed(self._in_hand.values()))\n",
        "",
    ),
)


def _by_schedules(runs: int) -> Check:
    def check(tree: Path, _: Sequence[Mutation]) -> str:
        code, output = run(tree, [sys.executable, "-c", _SCHEDULES, str(runs)])
        if code == 0:
            return SURVIVED
        said = output.strip().splitlines() or ["?"]
        return said[-1][:60]

    return check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=600, help="the schedules for each mutation, at most")
    parser.add_argument("--only", default="", help="make those mutations whose name holds this")
    parser.add_argument("--without-tests", action="store_true", help="the schedules alone")
    parser.add_argument("--one-is-enough", action="store_true", help="the tests only for what no schedule notices")
    arguments = parser.parse_args()
    checks = {"the schedules": _by_schedules(arguments.runs)}
    if not arguments.without_tests:
        checks["a test"] = by_tests("tests/unit/paging", "tests/unit/feed")
    some = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    return table(some, checks, one_is_enough=arguments.one_is_enough)


if __name__ == "__main__":
    sys.exit(main())
