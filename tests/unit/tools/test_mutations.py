"""Tests of the mutation lists: they quote the current source, and name existing tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.mutation_lists import Mutation
from tools.mutations import PARTS, ROOT, default_tests, list_mutations

MUTATIONS = [pytest.param(mutation, id=mutation.name) for part in PARTS for mutation in list_mutations(part)]
TESTS = {test for part in PARTS for test in default_tests(part)} | {
    test for part in PARTS for mutation in list_mutations(part) for test in mutation.tests
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutation_replaces_text_that_occurs_once(mutation: Mutation) -> None:
    for name, old, new in mutation.edits:
        assert (ROOT / "src" / "freight_exchange" / name).read_text().count(old) == 1, f"{name}: {old!r}"
        assert old != new


@pytest.mark.parametrize("test", sorted(TESTS))
def test_mutation_names_tests_that_exist(test: str) -> None:
    path, *names = test.partition("[")[0].split("::")
    assert Path(ROOT, path).exists()
    for name in names:
        assert re.search(rf"^ *(?:class|(?:async )?def) {name}\b", Path(ROOT, path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("part", PARTS)
def test_names_of_mutations_are_unique(part: str) -> None:
    names = [mutation.name for mutation in list_mutations(part)]
    assert len(set(names)) == len(names)
