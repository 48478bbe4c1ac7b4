"""The code broken on purpose: a copy of the tree, a text in the place of another, and the check that goes red."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 3600.0
_NO_SUCH_TEST = 4
"""The status of a run whose tests are not there: it is no test that failed."""

SURVIVED = "-"
"""What a check says that notices nothing."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A rule taken away: in each of these files, this text in the place of that.

    Attributes:
        name: What is taken away.
        edits: File, old text and new text.
        by: The tests that are to notice it; all, where none are named.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    by: tuple[str, ...] = ()


Check = Callable[[Path, Sequence[Mutation]], str]
"""Judges the tree in this folder, as far as these mutations need it: what it noticed, or `SURVIVED`."""


def one(name: str, file: str, old: str, new: str, *by: str) -> Mutation:
    """A mutation of one place."""
    return Mutation(name, ((file, old, new),), by)


def table(mutations: Sequence[Mutation], checks: dict[str, Check], *, one_is_enough: bool = False) -> int:
    """Make each mutation, and print by what in these checks it is caught; 1 if one is caught by none.

    Args:
        mutations: What to break.
        checks: What is to notice it.
        one_is_enough: Whether what one check has noticed is not given to the next ones.
    """
    left, caught = [*mutations], set[str]()
    with tempfile.TemporaryDirectory() as folder:
        tree = _copy(Path(folder))
        print("| Mutation | Check | Caught by | s |\n|---|---|---|---|", flush=True)
        for name, check in checks.items():
            if left and (said := check(tree, left)) != SURVIVED:
                # A check that is red already would seem to catch everything.
                print(f"the tree fails as it is: {name}: {said}")
                return 1
            for mutation in left:
                began = time.monotonic()
                try:
                    with _made(tree, mutation):
                        said = check(tree, [mutation])
                except LookupError as error:
                    said = SURVIVED
                    print(f"not made: {error}", flush=True)
                if said != SURVIVED:
                    caught.add(mutation.name)
                print(f"| {mutation.name} | {name} | {said} | {time.monotonic() - began:.0f} |", flush=True)
            if one_is_enough:
                left = [mutation for mutation in left if mutation.name not in caught]
    survived = [mutation.name for mutation in mutations if mutation.name not in caught]
    print(f"{len(mutations)} mutations, {len(survived)} survived or could not be made", *survived, sep="\n- ")
    return int(bool(survived))


def main(about: str | None, mutations: Sequence[Mutation], tests: Sequence[str]) -> int:
    """A script that makes these mutations, or those that are named, and runs these tests on each."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", default="", help="make those mutations whose name holds this")
    only = parser.parse_args().only
    return table([mutation for mutation in mutations if only in mutation.name], {"a test": by_tests(*tests)})


def by_tests(*tests: str) -> Check:
    """Runs the tests that are named for the mutations, or else these, until one fails: which."""

    def check(tree: Path, mutations: Sequence[Mutation]) -> str:
        named = dict.fromkeys(test for mutation in mutations for test in mutation.by or tests)
        code, output = run(tree, [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *named])
        if code == 0:
            return SURVIVED
        if code == _NO_SUCH_TEST:
            raise LookupError(f"there are no such tests: {[*named]}")
        failed = [line for line in output.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
        return failed[0].split(" ", 1)[1].split(" - ")[0].rpartition("/")[2] if failed else output.strip()[-60:]

    return check


def run(tree: Path, command: list[str]) -> tuple[int, str]:
    """The status and the output of a command in that tree."""
    environment = {"PYTHONPATH": f"{tree / 'src'}:{tree}", "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, check=False, capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return 1, "hung"
    return done.returncode, done.stdout + done.stderr


def _copy(where: Path) -> Path:
    tree = where / "tree"
    tree.mkdir()
    for name in ("src", "tests", "tools", "examples", "docs"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    return tree


@contextmanager
def _made(tree: Path, mutation: Mutation) -> Iterator[None]:
    """Make the mutation, and take it back."""
    before: dict[Path, str] = {}
    after: dict[Path, str] = {}
    for name, old, new in mutation.edits:
        file = tree / "src" / "freight_exchange" / name
        before.setdefault(file, file.read_text())
        text = after.get(file, before[file])
        if text.count(old) != 1:
            raise LookupError(f"{name} holds {text.count(old)} times what is to be changed")
        after[file] = text.replace(old, new)
    try:
        for file, text in after.items():
            file.write_text(text)
        yield
    finally:
        for file, text in before.items():
            file.write_text(text)
