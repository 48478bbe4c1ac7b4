"""Bots against an adversary: hostile servers, operators and deploys; `only` is a scenario."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable
from typing import Final

from tests.model.bot_adversary import CheckResult, run, scenario_names
from tools.run_parts import Part

__all__ = ["PART"]

_COLUMNS: Final = (
    "runs",
    "offers too many",
    "wrong prices",
    "deliveries lost",
    "storms",
    "in doubt (honest)",
    "beside another's bid",
)


def _run(name: str, seed: int) -> CheckResult:
    try:
        return run(name, seed)
    except Exception:  # noqa: BLE001 - the next line says why
        # A run that breaks its own world is a finding too, and must not end the others.
        return CheckResult(name, seed, lost=1, flaws=traceback.format_exc().splitlines())


def _table(names: Iterable[str], results: list[CheckResult]) -> str:
    """Return the results as a Markdown table."""
    lines = [" | ".join(("scenario", *_COLUMNS)), " | ".join("-" * len(each) for each in ("scenario", *_COLUMNS))]
    for name in (*names, "all"):
        mine = [each for each in results if name in (each.scenario, "all")]
        sums = (
            len(mine),
            sum(each.too_many for each in mine),
            sum(each.wrong for each in mine),
            sum(each.lost for each in mine),
            sum(each.storms for each in mine),
            sum(each.doubts for each in mine),
            sum(each.beside for each in mine),
        )
        lines.append(" | ".join((name, *map(str, sums))))
    return "\n".join(f"| {line} |" for line in lines)


class BotRuns(Part[list[CheckResult]]):
    chunk = 4
    choices = tuple(scenario_names())

    def run_chunk(self, seeds: range, only: str) -> list[CheckResult]:
        logging.disable(logging.CRITICAL)
        names = (only,) if only else self.choices
        return [_run(names[seed % len(names)], seed) for seed in seeds]

    def add(self, total: list[CheckResult], chunk: list[CheckResult]) -> None:
        total.extend(chunk)

    def is_clean(self, total: list[CheckResult]) -> bool:
        print(_table(sorted({result.scenario for result in total}), total))
        bad = sorted((each.scenario, each.seed, each.flaws) for each in total if each.is_bad)
        for name, seed, flaws in bad:
            print(f"\n{name}, seed {seed}:", *flaws, sep="\n  ")
        return not bad

    def replay(self, seed: int, only: str) -> bool:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
        return self.is_clean([run(name, seed) for name in ((only,) if only else self.choices)])


PART = BotRuns()
