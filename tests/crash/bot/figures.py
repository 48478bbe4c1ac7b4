"""Figures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import attrs
from tests.crash.bot.checker import CheckResult

__all__ = ["AT_RANDOM", "TOO_LATE", "Outcome", "table"]

AT_RANDOM: Final = "at random"
TOO_LATE: Final = "too late"


@attrs.frozen(kw_only=True)
class Outcome:
    """End of a run.

    Attributes:
        planned: Planned number of kills at each point.
        kills: By the point that was hit; `at random`, and `too late` where the point was not reached.
        on_the_way: Kills with an offer between `sending` and its result.
        in_doubt: Kills with an offer that the bot was looking for.
        faults: Number of strikes of each fault.
        errors: Output of the bots on standard error, and exit statuses of those that were not killed.
    """

    result: CheckResult
    planned: Counter[str]
    kills: Counter[str]
    on_the_way: int
    in_doubt: int
    faults: Counter[str]
    errors: str
    seconds: float

    @property
    def unhit(self) -> Counter[str]:
        """Return the failpoints at which fewer kills struck than were planned."""
        return self.planned - self.kills


def table(outcomes: Iterable[Outcome]) -> str:
    """Format the figures of all runs together."""
    return "\n".join(f"{name:<44} {value}" for name, value in _rows([*outcomes]))


def _rows(outcomes: list[Outcome]) -> Iterator[tuple[str, object]]:
    results = [outcome.result for outcome in outcomes]
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
    yield "requests published", sum(result.published for result in results)
    yield "offers made", sum(result.offered for result in results)
    yield "offers too many", sum(result.duplicates for result in results)
    yield "requests missed", sum(len(result.missed) for result in results)
    yield "wrong amounts", sum(len(result.wrong) for result in results)
    yield "in doubt, parked or waiting at the end", sum(len(result.unended) for result in results)
    yield "dead letters", sum(len(result.dead) for result in results)
    yield "the ledger astray", sum(len(result.astray) for result in results)
    yield "deliveries claimed again", sum(result.retries for result in results)
    yield "offers in doubt", sum(result.doubted for result in results)
    yield "  found to be taken", sum(result.taken for result in results)
    yield "  proven not to be, and made again", sum(result.not_taken for result in results)
    yield "selections", sum(result.selected for result in results)
    yield "  reported again after a kill", sum(result.reported_again for result in results)
    yield "  never reported, or reported wrongly", sum(len(result.unreported) for result in results)
    yield "seconds", round(sum(outcome.seconds for outcome in outcomes))
