"""Tests of the checker of the watcher's model: it finds each kind of flaw in a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs
import pytest
from tests.model.watcher import Op, Plan, run
from tests.model.watcher.checker import FIVE_DAYS, check
from tests.model.watcher.clocks import BEGAN
from tests.model.watcher.history import Delivery, Gap, History, Note

_OPS = (
    Op(at=20.0, what="publish"),
    Op(at=60.0, what="update", which=0),
    Op(at=100.0, what="revert", which=0),
    Op(at=140.0, what="publish"),
)


def _history(start: Literal["now", "backfill"] = "now") -> History:
    """Return the history of one request that was new, changed and changed back, and of another that was new."""
    ran = run(Plan(seed=0, start=start, ops=_OPS, quiet=150.0, end=300.0))
    assert not ran.flaws
    assert [delivery.kind for delivery in ran.history.deliveries] == ["new", "updated", "updated", "new"]
    return ran.history


def _forgotten(history: History) -> None:
    history.deliveries.pop()


def _stale(history: History) -> None:
    del history.deliveries[2]


def _repeated(history: History) -> None:
    history.deliveries.append(attrs.evolve(history.deliveries[-1], time=BEGAN + 290.0))


def _new_again(history: History) -> None:
    history.deliveries[1].kind = "new"


def _disordered(history: History) -> None:
    history.deliveries[1:3] = reversed(history.deliveries[1:3])


def _before_its_time(history: History) -> None:
    history.deliveries[-1].time = BEGAN + 100.0


def _withdrawn(history: History) -> None:
    last = history.deliveries[-1]
    history.deliveries.append(attrs.evolve(last, kind="withdrawn", time=BEGAN + 290.0))


def _never_again(history: History) -> None:
    history.deliveries[1].acked = False
    history.deliveries[3].turn += 1


def _claimed(history: History) -> None:
    written = next(note for note in history.notes if note.kind == "new")
    history.notes.remove(written)


def _claimed_too_much(history: History) -> None:
    history.notes.insert(0, Note(time=BEGAN + 21.0, kind="watermark", until=BEGAN + 21.0))


def _needless_gap(history: History) -> None:
    history.gaps.append(Gap(time=BEGAN + 50.0, since=BEGAN - 4 * 86_400.0, until=BEGAN + 50.0 - FIVE_DAYS + 600.0))


def _shape(history: History) -> None:
    event = Delivery(time=BEGAN + 50.0, turn=1, kind="schema_changed", index=None, content=("x",), acked=True)
    history.deliveries.append(event)


@pytest.mark.parametrize(
    ("tamper", "kind"),
    [
        (_forgotten, "missed"),
        (_stale, "missed"),
        (_repeated, "duplicate"),
        (_new_again, "duplicate"),
        (_disordered, "order"),
        (_before_its_time, "order"),
        (_withdrawn, "withdrawn"),
        (_never_again, "lost"),
        (_claimed, "watermark"),
        (_claimed_too_much, "watermark"),
        (_needless_gap, "gap"),
        (_shape, "schema"),
    ],
)
def test_each_kind_of_flaw_is_found(tamper: Callable[[History], None], kind: str) -> None:
    history = _history()
    tamper(history)
    assert kind in {flaw.kind for flaw in check(history)}


def test_unreported_withdrawal_is_found() -> None:
    ops = (*_OPS, Op(at=145.0, what="withdraw", which=-1))
    history = run(Plan(seed=0, ops=ops, quiet=150.0, end=200.0)).history
    history.reported = True
    history.deliveries = [delivery for delivery in history.deliveries if delivery.kind != "withdrawn"]
    history.deliveries.append(
        Delivery(time=BEGAN + 160.0, turn=1, kind="new", index=2, content=("Tea 3", *("",) * 7), acked=True)
    )
    assert "unreported" in {flaw.kind for flaw in check(history)}


def test_event_delivered_again_without_acknowledgement_is_no_duplicate() -> None:
    history = _history()
    last = history.deliveries[-1]
    history.deliveries.append(attrs.evolve(last, time=BEGAN + 290.0, turn=last.turn + 1))
    last.acked = False
    assert not check(history)


def test_the_baseline_need_not_be_reported_and_a_gap_excuses() -> None:
    ran = run(Plan(seed=0, ages=(500.0,), quiet=1.0, end=100.0))
    assert not ran.flaws
    assert not ran.history.deliveries
    ran.history.start = "backfill"
    assert "missed" in {flaw.kind for flaw in check(ran.history)}
    ran.history.steady = False
    ran.history.gaps.append(Gap(time=BEGAN, since=BEGAN - 1000.0, until=BEGAN))
    assert not check(ran.history)
