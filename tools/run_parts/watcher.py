"""Watcher and common polling loops under random schedules of failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tests.model.watcher import Ran, RunSummary, draw, run
from tests.model.watcher.clocks import BEGAN
from tools.run_parts import Part

__all__ = ["PART"]


def _lines(ran: Ran) -> Iterator[tuple[float, str]]:
    history = ran.history
    for change in history.audit_log.changes:
        visible_from = history.shown_at(change.time) - BEGAN
        yield (
            change.time,
            f"request {change.request} {change.what}, shown from {visible_from:.3f} on: {change.state.cargo}",
        )
    for call in history.audit_log.calls:
        yield call.time, f"{call.method} {call.path} {dict(call.parameters)} -> {call.status} {call.fault or ''}"
    for note in history.notes:
        about = f"covered up to {note.until - BEGAN:.3f}" if note.kind == "watermark" else f"{note.kind} {note.index}"
        yield note.time, f"written down: {about}"
    for gap in history.gaps:
        yield gap.time, f"written down: a gap from {gap.since - BEGAN:.3f} to {gap.until - BEGAN:.3f}"
    for delivery in history.deliveries:
        yield delivery.time, f"handed out: {delivery}"


class WatcherRuns(Part[RunSummary]):
    chunk = 100

    def run_chunk(self, seeds: range, only: str) -> RunSummary:
        logging.disable(logging.CRITICAL)
        return RunSummary.of(seeds)

    def merge(self, total: RunSummary | None, chunk: RunSummary) -> RunSummary:
        if chunk.failed:
            print(f"seeds with a flaw: {sorted(chunk.failed)}", flush=True)
        return super().merge(total, chunk)

    def is_clean(self, total: RunSummary) -> bool:
        print(total.report())
        return not total.failed and total.naive_share >= 0.2

    def replay(self, seed: int, only: str) -> bool:
        ran = run(draw(seed))
        print(ran.plan)
        for time, line in sorted(_lines(ran)):
            print(f"{time - BEGAN:14.3f}  {line}")
        for flaw in ran.flaws:
            print(f"{flaw.kind}: {flaw.what}")
        print(f"{len(ran.flaws)} flaws")
        return not ran.flaws


PART = WatcherRuns()
