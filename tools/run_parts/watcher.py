"""The watcher and common polling loops under random schedules of trouble."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tests.model.watcher import Ran, Tally, draw, run
from tests.model.watcher.clocks import BEGAN

__all__ = ["CHUNK", "choices", "is_clean", "merge", "replay", "run_chunk"]

CHUNK = 100


def choices() -> tuple[str, ...]:
    return ()


def run_chunk(seeds: range, _: str) -> Tally:
    logging.disable(logging.CRITICAL)
    return Tally.of(seeds)


def merge(total: Tally | None, chunk: Tally) -> Tally:
    if chunk.failed:
        print(f"seeds with a flaw: {sorted(chunk.failed)}", flush=True)
    if total is None:
        return chunk
    total.add(chunk)
    return total


def is_clean(total: Tally) -> bool:
    print(total.report())
    return not total.failed and total.naive_share >= 0.2


def replay(seed: int, _: str) -> bool:
    ran = run(draw(seed))
    print(ran.plan)
    for time, line in sorted(_lines(ran)):
        print(f"{time - BEGAN:14.3f}  {line}")
    for flaw in ran.flaws:
        print(f"{flaw.kind}: {flaw.what}")
    print(f"{len(ran.flaws)} flaws")
    return not ran.flaws


def _lines(ran: Ran) -> Iterator[tuple[float, str]]:
    history = ran.history
    for change in history.audit_log.changes:
        shown = history.shown_at(change.time) - BEGAN
        yield change.time, f"request {change.request} {change.what}, shown from {shown:.3f} on: {change.state.cargo}"
    for call in history.audit_log.calls:
        yield call.time, f"{call.method} {call.path} {dict(call.parameters)} -> {call.status} {call.fault or ''}"
    for note in history.notes:
        about = f"covered up to {note.until - BEGAN:.3f}" if note.kind == "cover" else f"{note.kind} {note.index}"
        yield note.time, f"written down: {about}"
    for gap in history.gaps:
        yield gap.time, f"written down: a gap from {gap.since - BEGAN:.3f} to {gap.until - BEGAN:.3f}"
    for delivery in history.deliveries:
        yield delivery.time, f"handed out: {delivery}"
