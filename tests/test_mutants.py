"""Tests of the mutants and of the list of behaviours: each can be made, and names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import mutants

FOLDER = Path(__file__).parent
REASONS = {"mechanism", "service", "detail", "wording", "cost"}


def test_every_mutant_can_be_made() -> None:
    mutants.check()


def test_name_must_be_defined_once(tmp_path: Path) -> None:
    for module in ("one", "two"):
        (tmp_path / f"{module}.py").write_text("class Call:\n    def send(self): ...\n\n\nLIMIT = 3\n")
    assert mutants.find("one/Call.send", tmp_path) == (tmp_path / "one.py", ("Call.send", 2, 4, True))
    assert mutants.find("two/LIMIT", tmp_path) == (tmp_path / "two.py", ("LIMIT", 6, 0, False))
    for name, places in {"Call.send": "one.py, two.py", "Call": "no module", "send": "no module"}.items():
        with pytest.raises(mutants.MutantError, match=f"{name} is defined in {places}"):
            mutants.find(name, tmp_path)


def test_every_mutant_has_tests() -> None:
    for name, tests in mutants.TESTS.items():
        assert tests, name
        for path, *parts in (test.split("::") for test in tests):
            assert (mutants.ROOT / path).exists(), f"{name}: {path}"
            for part in (part.partition("[")[0] for part in parts):
                assert re.search(rf"\b(class|def) {part}\b", (mutants.ROOT / path).read_text()), (
                    f"{name}: {path}::{part}"
                )


def test_every_behaviour_has_a_mutant_of_its_promise_or_a_reason() -> None:
    promise, named = "", set[str]()
    for line in (FOLDER / "behaviours.md").read_text().splitlines():
        if line.startswith("## "):
            promise = line[3:].lower()
        elif line.startswith("- "):
            behaviour, _, successor = line.partition(" → ")
            assert behaviour.endswith("."), line
            if successor.startswith("dropped: "):
                assert successor.removeprefix("dropped: ") in REASONS, line
            else:
                assert mutants.MUTANTS[successor].promise == promise, line
                named.add(successor)
    assert named == mutants.MUTANTS.keys()
