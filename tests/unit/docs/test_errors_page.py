"""Tests of the page about errors and exit statuses against the classes and tables of the code."""

from __future__ import annotations

import re

from tests.unit.blocks import ROOT

from freight_exchange import errors
from freight_exchange.bot.runtime.process.process import HUNG_STATUS, STATUSES
from freight_exchange.cli.exit_status import EXIT_RULES, Status

PAGE = (ROOT / "docs" / "errors.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of the first table below a heading, by the first cell of each row."""
    below = PAGE[PAGE.index(f"\n{heading}") :]
    table = below[below.index("|---") :].split("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]
    return {first.strip("` "): rest for first, *rest in cells}


def test_each_error_is_on_the_page() -> None:
    assert [*rows("## Errors")] == sorted([*rows("## Errors")], key=list(rows("## Errors")).index)
    assert {*rows("## Errors")} == {*errors.__all__}


def test_page_lists_which_errors_may_have_taken_effect() -> None:
    for name, (_, effect, *_) in rows("## Errors").items():
        expected = "perhaps" if getattr(errors, name).may_have_taken_effect else "no"
        assert effect == expected or name == "FreightExchangeError"


def test_page_lists_with_which_status_an_error_ends_a_command() -> None:
    for name, (*_, statuses) in rows("## Errors").items():
        kind = getattr(errors, name)
        possible: set[int] = set()
        for rule in EXIT_RULES:
            if issubclass(kind, rule.error_type):
                possible.add(rule.status)
                if rule.applies is EXIT_RULES[0].applies:
                    break
        assert {*map(int, re.findall(r"\d+", statuses))} == possible, name


def test_each_exit_status_of_a_command_is_on_the_page() -> None:
    assert [*map(int, rows("## Exit statuses of commands"))] == sorted(Status)


def test_each_exit_status_of_a_bot_is_on_the_page() -> None:
    *numbers, by_signal = rows("## Exit statuses of a bot")
    assert {*map(int, numbers)} == {0, 1, HUNG_STATUS} | {status for _, status in STATUSES}
    assert by_signal == "128 + signal number"
