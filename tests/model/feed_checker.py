"""Checker of both feeds: compares what a reader was told with what the service showed.

It knows the service's truth and the public promises, and nothing of how a feed works.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

__all__ = ["Claim", "History", "Span", "State", "Told", "check"]

State = tuple[str, ...]
"""Content of a request."""

FIVE_DAYS = 432_000.0
"""Seconds for which the service lists an update (service document, 8)."""

_KINDS = frozenset({"new", "updated", "answered", "withdrawn", "gap", "unreadable"})
_ROUNDING = 1.0
"""Seconds by which a time may be off: windows are whole seconds."""
_TICK = 0.001
_SCAN_TIME = 120.0
_HOUR = 3600.0
_BEHIND = 600.0
"""Seconds within which the deeper scans find what others could not."""
_OBEYED = 3500.0
"""Seconds for which a program obeys a service that asks it to wait for more than a day."""
_IN_A_STORM = 3.0
"""Most calls an interval while every call fails."""


@attrs.define
class Span:
    """State of a request and the time from which the service shows it; `content` is `None` once it is withdrawn."""

    content: State | None
    since: float
    updates: list[float]


@attrs.define(eq=False, kw_only=True)
class Told:
    """Event as the reader received it.

    Attributes:
        index: The request; `None` for a gap, or a row without an identifier.
        content: State of the request, or text that identifies another event.
        previous: State that the event gives as the one before.
        between: `observed_between`, or the bounds of a gap, as seconds since the epoch by the machine's clock.
        turn, acked: As in `Delivery`.
        again: Whether it was delivered again, as it was not acknowledged.
    """

    kind: str
    time: float = 0.0
    turn: int = 0
    acked: Literal["no", "maybe", "yes"] = "no"
    index: int | None = None
    content: State = ()
    previous: State | None = None
    returned: bool = False
    between: tuple[float | None, float] = (None, float("inf"))
    again: bool = False


@attrs.frozen
class Claim:
    """Claim of a status at a time, with nothing left to deliver: all that was shown before `until` was told."""

    time: float
    until: float


@attrs.define(kw_only=True)
class History:
    """Record of a run.

    Attributes:
        spans: States of each request in order.
        exempt: Requests about which nothing more need be told.
        hidden: Requests that the account may not see.
        start: The feed's `start`; a number is seconds.
        began: Time of the first request to the service.
        entered: Time at which the feed was entered; `None` if it never was.
        told: Events in order.
        claims: Claims in order.
        garbled: Requests that were shown as a row without an identifier for a moment.
        garbage: Rows without an identifier that the program has read for certain, and when.
        longest_outage: Longest time between two polls.
        is_gap_due: Whether the program was away for longer than the service looks back.
        steady: Whether a machine's clock has measured all of the run, so that times in events can be judged.
        knows_time: Whether a clock tells the program how long it was down.
        dates_updates: Whether the service shows updates within the time that the feed allows for.
        dates_absence: Whether the times of a withdrawal are judged too.
        lives: Times at which the program started.
        refused: Times of calls that were refused with a Retry-After of more than a day.
        polls: Times of all calls.
        storms: Beginning and end of the times in which every call failed, without those of a suspended machine.
        interval: Seconds between two scans.
        late: Seconds after which the service shows an update.
        settled: Time at which all but withdrawals must have been told.
        finds: Whether look-ups say clearly that a request is not there.
        quiet: Time at which withdrawals must have been told too; `None` if the run is too short for that.
    """

    spans: dict[int, list[Span]]
    exempt: set[int]
    hidden: set[int]
    start: Literal["now", "backfill"] | float
    began: float
    entered: float | None
    told: list[Told]
    claims: list[Claim]
    garbled: set[int]
    garbage: list[tuple[float, str]]
    longest_outage: float
    is_gap_due: bool
    steady: bool
    lives: list[float]
    refused: list[float]
    polls: list[float]
    storms: list[tuple[float, float]]
    interval: float
    late: float
    settled: float
    finds: bool
    quiet: float | None
    knows_time: bool = True
    dates_updates: bool = True
    dates_absence: bool = True


def check(history: History) -> list[str]:
    """Return the broken promises of a run, a sentence each."""
    if history.entered is None:
        return ["stuck: the feed was never entered"]
    return [*_Checker(history).flaws()]


class _Checker:
    def __init__(self, history: History) -> None:
        self._history = history
        self._entered = history.entered or 0.0
        self._events: dict[int, list[Told]] = defaultdict(list)
        """Events of each request, without those delivered again."""
        self._tellings: dict[int, list[Told]] = defaultdict(list)
        """The same with those. A state that comes back looks like an event that is delivered again."""
        self._places: dict[int, list[int]] = defaultdict(list)
        """Number of the state that each of these events tells."""
        self._gaps = [told for told in history.told if told.kind == "gap"]

    def flaws(self) -> Iterator[str]:
        yield from self._deliveries()
        for index, events in self._events.items():
            if index not in self._history.spans:
                yield f"invented: request {index} never was"
                continue
            yield from self._sequence(index, events)
            yield from self._words(index, events)
        for index in self._history.spans.keys() - self._history.hidden - self._history.exempt:
            yield from self._last_word(index)
            yield from self._last_withdrawal(index)
        for index in self._history.hidden & self._events.keys():
            yield f"invented: request {index} is hidden from the account"
        unreadable = {told.content for told in self._history.told if told.kind == "unreadable"}
        for time, text in self._history.garbage:
            if time > self._entered and (text,) not in unreadable:
                yield f"silent: the row {text!r} at {time:.3f} could not be read, and no event says so"
        yield from self._claimed()
        yield from self._false_gaps()
        yield from self._restless()

    # At least once, and no more after an acknowledgement

    def _deliveries(self) -> Iterator[str]:
        last: dict[tuple[str, int | None, State, State | None], Told] = {}
        for told in self._history.told:
            # An update that was undone between looks the same but for what was before.
            key = told.kind, told.index, told.content, told.previous
            if told.index is not None:
                self._tellings[told.index].append(told)
            before = last.get(key)
            if told.kind not in _KINDS:
                yield f"invented: an event of the kind {told.kind}: {told.content}"
            if before is not None and before.acked != "yes" and told.turn > before.turn:
                before.again = True
            elif told.kind in ("gap", "unreadable"):
                if before is not None:
                    yield f"repeated: {told.kind} {told.content} at {told.time:.3f}"
            elif told.index is not None:
                self._events[told.index].append(told)
            last[key] = told
        latest = self._history.told[-1].turn if self._history.told else 0
        for told in self._history.told:
            if told.acked == "no" and not told.again and told.turn < latest:
                yield f"lost: {told.kind} of {told.index} at {told.time:.3f} was not acknowledged, and never came again"

    def _sequence(self, index: int, events: Sequence[Told]) -> Iterator[str]:
        """Check that each event tells a later state than the one before."""
        spans, place, before = self._history.spans[index], -1, None
        for told in events:
            content = None if told.kind == "withdrawn" else told.content
            found = next(
                (
                    later
                    for later in range(place + 1, len(spans))
                    if spans[later].content == content and spans[later].since <= told.time
                ),
                None,
            )
            if found is not None:
                place = found
            elif told.kind == "withdrawn":
                # A program that cannot know how long it was down may look for what is listed no more.
                if self._history.knows_time:
                    yield f"false withdrawal: request {index} at {told.time:.3f}"
            elif before is not None and before.content == told.content:
                yield f"repeated: {told.kind} of {index} at {told.time:.3f}"
            else:
                yield f"out of order: request {index} went back to {told.content} at {told.time:.3f}"
            before = told
            self._places[index].append(place)
        if sum(told.kind == "new" for told in events) > 1:
            yield f"repeated: request {index} was new more than once"

    def _words(self, index: int, events: Sequence[Told]) -> Iterator[str]:
        """Check what the events say of themselves: their kind, the state before and the time of the change."""
        spans, before = self._history.spans[index], None
        for told, place in zip(events, self._places[index], strict=True):
            if before is None and told.kind == "updated" and spans[0].since > self._entered:
                yield f"wrong kind: the first word about {index} at {told.time:.3f} is an update"
            if before is None and told.kind == "new" and self._is_known_to_be_old(spans):
                yield f"not new: request {index} at {told.time:.3f} was there before the feed"
            if told.kind == "updated" and not told.returned and told.previous == told.content:
                yield f"no change: update of {index} at {told.time:.3f}"
            if before is not None and told.previous is not None and told.previous != before.content:
                yield f"wrong previous: request {index} at {told.time:.3f}"
            # What stood in a row that could not be read is told when the row is read, with the time of its scan.
            is_dated = (
                self._history.steady
                and self._history.dates_updates
                and index not in self._history.garbled
                and (told.kind != "withdrawn" or self._history.dates_absence)
            )
            if is_dated and place >= 0 and not self._is_in_time(told, spans[place:]):
                yield f"wrong time: {told.kind} of {index} at {told.time:.3f}, observed between {told.between}"
            before = told

    def _is_known_to_be_old(self, spans: Sequence[Span]) -> bool:
        """Return whether the first scan must have seen a request as older than the feed."""
        start, began = self._history.start, self._history.began
        if start == "backfill":
            return False
        # The window of a scan is wider than `start` by the time that it may take.
        limit = began if start == "now" else began - float(start) - _SCAN_TIME
        updates = [update for span in spans if span.since <= self._history.settled for update in span.updates]
        return max(updates) < limit and spans[0].since < began

    def _is_in_time(self, told: Told, spans: Sequence[Span]) -> bool:
        earliest, latest = told.between
        content = None if told.kind == "withdrawn" else told.content
        updates = [time for span in spans if span.content == content for time in (span.since, *span.updates)]
        return any(
            (earliest is None or earliest - _ROUNDING <= update) and update <= latest + _ROUNDING for update in updates
        )

    # Nothing missed

    def _last_word(self, index: int) -> Iterator[str]:
        """Check that the last that was told of a listed request is its state: promptly, and after some quiet hours."""
        history, spans = self._history, self._history.spans[index]
        final = spans[-1]
        for limit in (history.settled, history.quiet):
            # What could not be read is told as unreadable, and again once it is read, if it is listed then.
            is_told_otherwise = index in history.garbled and (limit == history.settled or bool(self._gaps))
            if limit is None or final.content is None or is_told_otherwise:
                continue
            told = [event for event in self._tellings[index] if event.time <= limit]
            if told and told[-1].kind != "withdrawn" and told[-1].content == final.content:
                continue
            if not self._may_be_untold(final, any_told=bool(told), spans=spans):
                yield f"missed: request {index}, {final.content} since {final.since:.3f}; last told: {told[-1:]}"
                return

    def _last_withdrawal(self, index: int) -> Iterator[str]:
        """Check that the withdrawal of a request that the feed knew is told after some quiet hours."""
        history, spans, events = self._history, self._history.spans[index], self._events[index]
        if (
            spans[-1].content is not None
            or history.quiet is None
            or not history.finds
            or not events
            or events[-1].kind == "withdrawn"
        ):
            return
        # A scan that reaches back to the last update proves it, and the deepest one comes once a day.
        earliest = events[-1].between[0]
        if history.steady and earliest is not None and earliest > history.quiet - FIVE_DAYS + _HOUR:
            yield f"untold: the withdrawal of {index} at {spans[-1].updates[0]:.3f}"

    def _may_be_untold(self, span: Span, *, any_told: bool, spans: Sequence[Span], by: float = float("inf")) -> bool:
        """Return whether a state is known from before the feed, or was never listed while the program could look."""
        if not self._history.knows_time and self._history.longest_outage > FIVE_DAYS:
            # No gap can be known either.
            return True
        updates = [update for update in span.updates if update + self._history.late <= by]
        if not any_told and self._is_from_before(span, spans):
            return True
        listed = self._entered - FIVE_DAYS + _ROUNDING
        return all(update <= listed or any(self._is_in(gap, update) for gap in self._gaps) for update in updates)

    def _is_from_before(self, span: Span, spans: Sequence[Span]) -> bool:
        """Return whether the feed may have found the state when it was entered, and was not to report it."""
        history = self._history
        if history.start == "backfill":
            return False
        for place, other in enumerate(spans):
            ended = spans[place + 1].since if place + 1 < len(spans) else float("inf")
            if other.content != span.content or other.since > self._entered or ended < history.began:
                continue
            if history.start == "now":
                return True
            # A repeated update without a change, while the feed is entered, is no event.
            until = history.began if other.since <= history.began else self._entered
            last = max((update for update in other.updates if update <= until), default=other.since)
            if last < self._entered - float(history.start):
                return True
        return False

    def _is_in(self, gap: Told, update: float) -> bool:
        since, until = gap.between
        # What is shown later than a feed allows for is found within some minutes, unless the program is away by then.
        early = _ROUNDING if self._history.dates_updates else self._history.late + _BEHIND
        return not self._history.steady or (since is not None and since - early <= update <= until + _ROUNDING)

    # No claim in vain

    def _claimed(self) -> Iterator[str]:
        """Check each claim against what was told by then."""
        for claim in self._history.claims:
            for index, spans in self._history.spans.items():
                if index in self._history.hidden | self._history.garbled | self._history.exempt:
                    continue
                shown = [place for place, span in enumerate(spans) if span.since < claim.until - _TICK]
                if not shown or self._is_told(index, shown[-1], claim):
                    continue
                yield (
                    f"false claim: at {claim.time:.3f} all before {claim.until:.3f} was told, but not request {index},"
                    f" {spans[shown[-1]].content} since {spans[shown[-1]].since:.3f}"
                )
                return

    def _is_told(self, index: int, place: int, claim: Claim) -> bool:
        spans = self._history.spans[index]
        now = [span for span in spans[place:] if span.since <= claim.time]
        if any(span.content is None for span in now):
            return True
        told = [(event, at) for event, at in zip(self._events[index], self._places[index], strict=True)
                if event.time <= claim.time]  # fmt: skip
        last = [event.content for event in self._tellings[index] if event.time <= claim.time][-1:]
        if told and (told[-1][1] >= place or any([span.content] == last for span in now)):
            return True
        return any(self._may_be_untold(span, any_told=bool(told), spans=spans, by=claim.until) for span in now)

    # Gaps

    def _false_gaps(self) -> Iterator[str]:
        if self._history.is_gap_due and self._history.steady and not self._gaps:
            yield f"no gap: the program was away for {self._history.longest_outage:.0f} s, and no event says so"
        for gap in self._gaps if self._history.steady else ():
            longest = self._history.longest_outage
            if longest < FIVE_DAYS - _HOUR:
                yield f"false gap: at {gap.time:.3f}, and no outage was longer than {longest:.0f} s"

    # Calm

    def _restless(self) -> Iterator[str]:
        """Check that a program obeys the service that asks for a pause, and calls a failing one no more often."""
        history = self._history
        for refused in history.refused:
            following = next((poll for poll in history.polls if poll > refused), float("inf"))
            same_life = not any(refused < life <= following for life in history.lives)
            if same_life and following < refused + _OBEYED:
                yield f"restless: a call at {following:.3f}, though the one at {refused:.3f} was refused for a day"
        for began, ended in history.storms:
            calls = sum(began < poll <= ended for poll in history.polls)
            lives = sum(began - history.interval < life <= ended for life in history.lives)
            if calls > _IN_A_STORM * (1 + lives + (ended - began) / history.interval):
                yield f"restless: {calls} calls in the {ended - began:.0f} seconds of a storm from {began:.3f}"
