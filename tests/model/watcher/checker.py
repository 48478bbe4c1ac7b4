"""Checker of a run: what was missed, repeated, reported in the wrong order or claimed without proof.

It compares the service's audit log with the events that the consumer received, and does not depend on the feed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import attrs
from tests.model.watcher.history import Delivery, Gap, History, Note, State, state_of

__all__ = ["FIVE_DAYS", "Flaw", "check"]

FIVE_DAYS = 432_000.0
"""Seconds for which the service lists an update (service document, 8)."""

_MARGIN = 700.0


@attrs.frozen
class Flaw:
    """Flaw of a run.

    Its kind is `missed`, `duplicate`, `order`, `stood`, `withdrawn`, `unreported`, `lost`, `watermark`, `gap` or
    `schema`.
    """

    kind: str
    what: str


@attrs.define
class _Span:
    """State of a request, and the time from which it was visible; `content` is `None` after a withdrawal."""

    content: State | None
    since: float
    updates: list[float]


def check(history: History) -> list[Flaw]:
    """Return all flaws of a run."""
    checker = _Checker(history)
    return [*checker.deliveries(), *checker.watermarks(), *checker.gaps()]


class _Checker:
    def __init__(self, history: History) -> None:
        self._history = history
        self._spans: dict[int, list[_Span]] = defaultdict(list)
        for change in history.audit_log.changes:
            spans = self._spans[change.request]
            content = None if change.state.state == "withdrawn" else state_of(change.state)
            if spans and spans[-1].content == content:
                spans[-1].updates.append(change.time)
            else:
                spans.append(_Span(content, history.shown_at(change.time), [change.time]))
        self._baseline: dict[int, set[State]] = defaultdict(set)
        self._began = history.audit_log.calls[0].time if history.audit_log.calls else 0.0
        for index, own in self._spans.items():
            for span, later in zip(own, [*own[1:], None], strict=True):
                # A request that was listed at some time between the first request and the entry may have been seen.
                stood = history.entered is not None and span.since <= history.entered
                if stood and span.content is not None and (later is None or later.since > self._began):
                    self._baseline[index].add(span.content)

    # Deliveries

    def deliveries(self) -> Iterator[Flaw]:
        kept: set[int] = set()
        for (kind, index, content), again in _by_key(self._history.deliveries).items():
            once = list(_distinct(again))
            yield from (_lost(delivery) for delivery in once if not delivery.acked and self._came_no_more(delivery))
            if kind == "schema_changed":
                yield Flaw("schema", f"a change of the schema was reported that never was: {content}")
            elif kind in ("gap", "unreadable") or index is None:
                yield from (_duplicate(delivery) for delivery in once[1:])
            else:
                kept.update(map(id, once))
        reported: dict[int, list[Delivery]] = defaultdict(list)
        for delivery in self._history.deliveries:
            if delivery.index is not None and id(delivery) in kept:
                reported[delivery.index].append(delivery)
        for index in self._spans:
            own = reported.pop(index, [])
            yield from self._sequence(index, own)
            yield from self._stood_before(index, own)
            yield from self._last_word(index, own)
        yield from (Flaw("order", f"request {index} is reported and never was") for index in reported)

    def _came_no_more(self, delivery: Delivery) -> bool:
        """Return whether an unacknowledged delivery was not repeated although the consumer has restarted since."""
        return any(later.turn > delivery.turn for later in reversed(self._history.deliveries))

    def _sequence(self, index: int, reported: Sequence[Delivery]) -> Iterator[Flaw]:
        """Check that each delivery has a later state than the one before."""
        spans, place, before = self._spans[index], -1, None
        news = 0
        for delivery in reported:
            news += delivery.kind == "new"
            found = _after(spans, place, delivery.kind, delivery.content, delivery.time)
            if found is not None:
                place = found
            elif delivery.kind == "withdrawn":
                yield Flaw("withdrawn", f"request {index} was reported withdrawn at {delivery.time:.3f}, and was there")
            elif before is not None and before.content == delivery.content:
                yield _duplicate(delivery)
            else:
                yield Flaw("order", f"request {index} went back to {delivery.content} at {delivery.time:.3f}")
            before = delivery
        if news > 1:
            yield Flaw("duplicate", f"request {index} was new {news} times")

    def _stood_before(self, index: int, reported: Sequence[Delivery]) -> Iterator[Flaw]:
        """Check that a start from now on delivers no older request that was not updated since."""
        history = self._history
        if history.start != "now" or index in history.holes or index in history.lies:
            return
        for delivery in reported:
            spans = [
                span for span in self._spans[index] if span.content == delivery.content and span.since <= delivery.time
            ]
            updates = [history.shown_at(update) for span in spans for update in span.updates]
            if delivery.kind == "new" and updates and max(updates) < self._began:
                yield Flaw("stood", f"request {index} was new at {delivery.time:.3f}, and was there before the feed")

    def _last_word(self, index: int, reported: Sequence[Delivery]) -> Iterator[Flaw]:
        """Check that the last reported state of a request is its final state."""
        final = self._spans[index][-1]
        last = reported[-1] if reported else None
        if final.content is None:
            if self._history.reported and last is not None and last.kind != "withdrawn" and not self._baseline[index]:
                yield Flaw("unreported", f"request {index} was withdrawn at {final.updates[0]:.3f} without an event")
            return
        if last is not None and last.kind != "withdrawn" and last.content == final.content:
            return
        unreadable = {
            delivery.content
            for delivery in self._history.deliveries
            if delivery.kind == "unreadable" and delivery.index == index
        }
        if final.content in unreadable or self._excused(index, final, alone=last is None, unreadable=bool(unreadable)):
            return
        yield Flaw(
            "missed", f"request {index}: {final.content}, since {final.since:.3f}; the last that was reported is {last}"
        )

    def _excused(self, index: int, span: _Span, *, alone: bool, unreadable: bool, by: float = float("inf")) -> bool:
        """Return whether a state may go unreported until a time; `alone` means that no other state was reported."""
        history = self._history
        updates = [update for update in span.updates if history.shown_at(update) <= by]
        if index in history.holes:
            return True
        if unreadable and any(when >= span.since for when in history.lies.get(index, ())):
            return True
        if history.entered is None:
            return False
        if alone and self._is_baseline(index, span.content):
            return True
        return all(self._beyond_reach(update) for update in updates)

    def _is_baseline(self, index: int, content: State | None) -> bool:
        """Return whether a state was known at the start, so that neither it nor the same state later is reported."""
        history = self._history
        if history.entered is None or history.start == "backfill" or content not in self._baseline[index]:
            return False
        if history.start == "now":
            return True
        updates = (update for span in self._spans[index] if span.content == content for update in span.updates)
        since = history.entered - history.start
        return all(update < since for update in updates if history.shown_at(update) <= self._began)

    def _beyond_reach(self, update: float) -> bool:
        assert self._history.entered is not None
        if update <= self._history.entered - FIVE_DAYS:
            return True
        return any(gap.since <= update <= gap.until for gap in self._history.gaps)

    # Claims

    def watermarks(self) -> Iterator[Flaw]:
        """Yield a flaw for each change that was visible before the watermark advanced, and is not committed."""
        changes = sorted(
            ((span.since, index, place) for index, spans in self._spans.items() for place, span in enumerate(spans))
        )
        written = _Written(self._spans)
        done = 0
        for note in self._history.notes:
            if note.kind != "watermark":
                written.note(note)
                continue
            due: dict[int, int] = {}
            # A change that becomes visible at that moment may do so between that scan's pages.
            while done < len(changes) and changes[done][0] < note.until:
                _, index, place = changes[done]
                due[index] = place
                done += 1
            for index, place in due.items():
                if not self._is_written(index, place, note, written):
                    span = self._spans[index][place]
                    yield Flaw(
                        "watermark",
                        f"at {note.time:.3f} all before {note.until:.3f} was claimed, and request {index}, which"
                        f" showed {span.content} since {span.since:.3f}, was not written down",
                    )

    def _is_written(self, index: int, place: int, note: Note, written: _Written) -> bool:
        spans = self._spans[index]
        span = spans[place]
        reached = written.reached.get(index, -1)
        if (
            span.content is None
            or reached >= place
            or any(later.content is None for later in spans[place + 1 :] if later.since <= note.time)
        ):
            return True
        later = [other.content for other in spans[place:] if other.since <= note.time]
        if reached >= 0 and spans[reached].content in later:
            return True
        if any(content in written.unreadable[index] for content in later):
            return True
        alone = reached < 0
        if alone and any(self._is_baseline(index, content) for content in later):
            return True
        return self._excused(index, span, alone=alone, unreadable=bool(written.unreadable[index]), by=note.until)

    def gaps(self) -> Iterator[Flaw]:
        for gap in self._history.gaps:
            if self._history.steady and not _is_due(gap):
                yield Flaw("gap", f"{gap} was reported, but was not a gap")


class _Written:
    """Progress of each request that is committed up to a time."""

    def __init__(self, spans: dict[int, list[_Span]]) -> None:
        self._spans = spans
        self.reached: dict[int, int] = {}
        self.unreadable: dict[int, set[State | None]] = defaultdict(set)

    def note(self, note: Note) -> None:
        if note.index is None:
            return
        if note.kind == "unreadable":
            self.unreadable[note.index].add(note.content)
            return
        place = self.reached.get(note.index, -1)
        # The latest state that matches; `_sequence` checks the order.
        while True:
            found = _after(self._spans.get(note.index, ()), place, note.kind, note.content, note.time)
            if found is None:
                break
            place = self.reached[note.index] = found


def _after(spans: Sequence[_Span], place: int, kind: str, content: State | None, time: float) -> int | None:
    """Return the next state after a position that a delivery can match."""
    wanted = None if kind == "withdrawn" else content
    for later in range(place + 1, len(spans)):
        if spans[later].content == wanted and spans[later].since <= time:
            return later
    return None


def _by_key(deliveries: Iterable[Delivery]) -> dict[tuple[str, int | None, State | None], list[Delivery]]:
    found: dict[tuple[str, int | None, State | None], list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.kind, delivery.index, delivery.content].append(delivery)
    return found


def _distinct(again: Sequence[Delivery]) -> Iterator[Delivery]:
    """Yield the deliveries of one event without those that were repeated because they were not acknowledged."""
    for place, delivery in enumerate(again):
        following = again[place + 1] if place + 1 < len(again) else None
        if delivery.acked or following is None or following.turn <= delivery.turn:
            yield delivery


def _lost(delivery: Delivery) -> Flaw:
    return Flaw("lost", f"{delivery} was not acknowledged, and never came again")


def _duplicate(delivery: Delivery) -> Flaw:
    return Flaw("duplicate", f"{delivery} came before, and nothing had changed")


def _is_due(gap: Gap) -> bool:
    return gap.time - gap.since > FIVE_DAYS - 1.0 and gap.until <= gap.time - FIVE_DAYS + _MARGIN
