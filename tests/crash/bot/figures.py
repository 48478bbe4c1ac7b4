"""Figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
from tests.crash.bot.judge import Verdict

__all__ = ["AT_RANDOM", "TOO_LATE", "Outcome", "table"]

AT_RANDOM: Final = "at random"
TOO_LATE: Final = "too late"


@attrs.frozen(kw_only=True)
class Outcome:
    """End of a run.

    Attributes:
        planned: How often each point was to be hit.
        kills: By the point that was hit; `at random`, and `too late` where the point was not reached.
        on_the_way: How many of them found an offer between `sending` and what came of it.
        in_doubt: How many found one that was being looked for.
        faults: How often each fault struck.
        errors: What the bots wrote to standard error, and how those ended that were not killed.
    """

    verdict: Verdict
    planned: Counter[str]
    kills: Counter[str]
    on_the_way: int
    in_doubt: int
    faults: Counter[str]
    errors: str
    seconds: float

    @property
    def unhit(self) -> Counter[str]:
        """The points at which fewer kills struck than were planned."""
        return self.planned - self.kills


def table(outcomes: Iterable[Outcome]) -> str:
    """The figures of all of them together."""
    return "\n".join(f"{name:<44} {value}" for name, value in _rows([*outcomes]))


def _rows(outcomes: list[Outcome]) -> Iterator[tuple[str, object]]:
    verdicts = [outcome.verdict for outcome in outcomes]
    kills = sum((outcome.kills for outcome in outcomes), Counter[str]())
    faults = sum((outcome.faults for outcome in outcomes), Counter[str]())
    on_the_way = sum(outcome.on_the_way for outcome in outcomes)
    share = on_the_way / kills.total() if kills else 0.0
    yield "kills", kills.total()
    for point, count in sorted(kills.items()):
        yield f"  {point}", count
    yield "kills with an offer between sending and its end", f"{on_the_way} ({share:.0%})"
    yield "kills with an offer in doubt", sum(outcome.in_doubt for outcome in outcomes)
    yield "faults that struck", faults.total()
    for fault, count in sorted(faults.items()):
        yield f"  {fault}", count
    yield "requests published", sum(verdict.published for verdict in verdicts)
    yield "offers made", sum(verdict.offered for verdict in verdicts)
    yield "offers too many", sum(verdict.duplicates for verdict in verdicts)
    yield "requests missed", sum(len(verdict.missed) for verdict in verdicts)
    yield "wrong amounts", sum(len(verdict.wrong) for verdict in verdicts)
    yield "in doubt, parked or waiting at the end", sum(len(verdict.unended) for verdict in verdicts)
    yield "dead letters", sum(len(verdict.dead) for verdict in verdicts)
    yield "the ledger astray", sum(len(verdict.astray) for verdict in verdicts)
    yield "deliveries claimed again", sum(verdict.retries for verdict in verdicts)
    yield "offers in doubt", sum(verdict.doubted for verdict in verdicts)
    yield "  found to be taken", sum(verdict.taken for verdict in verdicts)
    yield "  proven not to be, and made again", sum(verdict.not_taken for verdict in verdicts)
    yield "selections", sum(verdict.selected for verdict in verdicts)
    yield "  reported again after a kill", sum(verdict.reported_again for verdict in verdicts)
    yield "  never reported, or reported wrongly", sum(len(verdict.unreported) for verdict in verdicts)
    yield "seconds", round(sum(outcome.seconds for outcome in outcomes))
