"""Tests of the checker of feeds: each broken promise is found in a history made by hand, and a sound one has none."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from tests.model.feed_checker import Claim, History, Span, Told, check

_A, _B = ("a",), ("b",)


def _history(**other: Any) -> History:
    """Make the sound history of a request that is published at 100, changed at 200 and read every 30 seconds."""
    history = History(
        spans={1: [Span(_A, 100.0, [100.0]), Span(_B, 200.0, [200.0])]},
        exempt=set(),
        hidden=set(),
        start="now",
        began=0.0,
        entered=1.0,
        told=[_told(110.0, "new", _A), _told(210.0, "updated", _B, previous=_A)],
        claims=[Claim(215.0, 209.0)],
        garbled=set(),
        garbage=[],
        longest_outage=30.0,
        is_gap_due=False,
        steady=True,
        lives=[0.0],
        refused=[],
        polls=[30.0 * number for number in range(20)],
        storms=[],
        interval=30.0,
        late=0.0,
        finds=True,
        settled=400.0,
        quiet=None,
    )
    return attrs.evolve(history, **other)


def _told(time: float, kind: str, content: tuple[str, ...], **other: Any) -> Told:
    other.setdefault("between", (time - 40.0, time))
    return Told(**{"time": time, "kind": kind, "content": content, "index": 1, "turn": 1, "acked": "yes", **other})


_GONE = {1: [Span(_A, 100.0, [100.0]), Span(None, 200.0, [200.0])]}
_NEW = _told(110.0, "new", _A)
_UPDATED = _told(210.0, "updated", _B, previous=_A)

_BROKEN: dict[str, dict[str, Any]] = {
    "stuck": {"entered": None},
    "missed": {"told": [_NEW], "claims": []},
    "false claim": {"told": [_NEW, attrs.evolve(_UPDATED, time=220.0)]},
    "repeated": {"told": [_NEW, _UPDATED, attrs.evolve(_UPDATED, time=240.0)]},
    "out of order": {"told": [_NEW, _UPDATED, _told(240.0, "updated", _A, previous=_B)]},
    "invented": {"told": [_NEW, _UPDATED, _told(240.0, "new", _A, index=2)]},
    "false withdrawal": {"told": [_NEW, _UPDATED, _told(240.0, "withdrawn", _B)]},
    "untold": {"spans": _GONE, "told": [_NEW], "claims": [], "quiet": 100_000.0},
    "lost": {"told": [attrs.evolve(_NEW, acked="no"), attrs.evolve(_UPDATED, turn=2)]},
    "wrong kind": {"told": [_told(110.0, "updated", _A), _UPDATED]},
    "not new": {"spans": {1: [Span(_A, -50.0, [-50.0])]}, "told": [_told(10.0, "new", _A, between=(None, 10.0))],
                "claims": []},
    "no change": {"told": [_NEW, attrs.evolve(_UPDATED, previous=_B)]},
    "wrong previous": {"told": [_NEW, attrs.evolve(_UPDATED, previous=("c",))]},
    "wrong time": {"told": [_NEW, attrs.evolve(_UPDATED, between=(205.0, 210.0))]},
    "false gap": {"told": [_NEW, _UPDATED, _told(300.0, "gap", ("x",), index=None, between=(0.0, 290.0))]},
    "no gap": {"is_gap_due": True},
    "silent": {"garbage": [(150.0, "Undefined index")]},
    "restless": {"storms": [(100.0, 130.0)], "polls": [float(second) for second in range(100, 130)]},
}  # fmt: skip


def test_sound_history_has_no_flaw() -> None:
    assert check(_history()) == []


@pytest.mark.parametrize("flaw", _BROKEN)
def test_broken_promise_is_found(flaw: str) -> None:
    found = {text.partition(":")[0] for text in check(_history(**_BROKEN[flaw]))}
    assert flaw in found


def test_call_during_a_retry_after_is_found() -> None:
    (flaw,) = check(_history(refused=[60.0]))
    assert flaw.startswith("restless")
    assert check(_history(refused=[60.0], lives=[0.0, 80.0])) == []


def test_unacknowledged_event_that_comes_again_is_sound() -> None:
    told = [attrs.evolve(_NEW, acked="no"), attrs.evolve(_NEW, time=120.0, turn=2), attrs.evolve(_UPDATED, turn=2)]
    assert check(_history(told=told)) == []


@pytest.mark.parametrize(
    "other",
    [
        {"spans": {1: [Span(_A, -50.0, [-50.0])]}, "told": [], "claims": []},
        {"told": [_NEW], "exempt": {1}, "claims": []},
        {"told": [], "hidden": {1}, "claims": []},
        {"spans": _GONE, "told": [_NEW], "claims": []},
        {"told": [_NEW], "garbled": {1}, "claims": []},
    ],
    ids=["older than the feed", "exempt", "hidden", "withdrawn lately", "garbled"],
)
def test_what_need_not_be_told_is_no_flaw(other: dict[str, Any]) -> None:
    assert check(_history(**other)) == []
