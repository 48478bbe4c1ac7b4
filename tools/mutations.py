"""Break the code on purpose, one rule at a time, and print which test fails.

Each mutation is made in a copy of the tree. The tests that must catch it run until one fails. Exits with 1 if a
mutation survives or if the text that it replaces is not in the source any more.

    python tools/mutations.py --part bot                 # all mutations of the bot
    python tools/mutations.py --part fleet --only fence  # those of a fleet whose name contains the word
    python tools/mutations.py --part watcher --first-only # seeded schedules, then tests for what they miss
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# A script's own folder is on the path, but not the root of the tree.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tools.mutation_lists import Mutation

__all__ = ["PARTS", "ROOT", "default_tests", "list_mutations"]

ROOT: Final = Path(__file__).resolve().parent.parent
PARTS: Final = ("client", "watcher", "bot", "offers", "fleet")
_TIMEOUT: Final = 3600.0
_PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
    # On a busy machine, a test that times out would look like one that catches the mutation.
    *("-o", "faulthandler_timeout=900"),
)
_NO_SUCH_TEST: Final = 4
_SURVIVED: Final = "-"
_SCHEDULES: Final = """
import logging, sys
logging.disable(logging.CRITICAL)
from tests.model.watcher import draw, run
for seed in range(int(sys.argv[1])):
    flaws = run(draw(seed)).flaws
    if flaws:
        print(f"seed {seed}: {flaws[0].kind}")
        sys.exit(1)
"""

Check = Callable[[Path, Sequence[Mutation]], str]
"""Run the checks that belong to these mutations in the tree, and return the first failure or `_SURVIVED`."""


def list_mutations(part: str) -> tuple[Mutation, ...]:
    """List the mutations of a part."""
    mutations: tuple[Mutation, ...] = importlib.import_module(f"tools.mutation_lists.{part}").MUTATIONS
    return mutations


def default_tests(part: str) -> tuple[str, ...]:
    """List the tests for mutations that name none."""
    tests: tuple[str, ...] = importlib.import_module(f"tools.mutation_lists.{part}").TESTS
    return tests


def _run_table(mutations: Sequence[Mutation], checks: dict[str, Check], *, first_only: bool) -> int:
    """Make each mutation, print what catches it, and return the exit status.

    Args:
        mutations: Mutations to make.
        checks: Checks by their name in the table.
        first_only: Skip the remaining checks for a mutation that one check has caught.
    """
    remaining, caught = [*mutations], set[str]()
    with tempfile.TemporaryDirectory() as folder:
        tree = _copy_tree(Path(folder))
        print("| Mutation | Check | Caught by | s |\n|---|---|---|---|", flush=True)
        for name, check in checks.items():
            if remaining and (failure := check(tree, remaining)) != _SURVIVED:
                # A check that is already red would seem to catch everything.
                print(f"the unchanged tree fails: {name}: {failure}")
                return 1
            for mutation in remaining:
                started = time.monotonic()
                try:
                    with _mutated(tree, mutation):
                        failure = check(tree, [mutation])
                except LookupError as error:
                    failure = _SURVIVED
                    print(f"cannot make {mutation.name!r}: {error}", flush=True)
                if failure != _SURVIVED:
                    caught.add(mutation.name)
                print(f"| {mutation.name} | {name} | {failure} | {time.monotonic() - started:.0f} |", flush=True)
            if first_only:
                remaining = [mutation for mutation in remaining if mutation.name not in caught]
    survived = [mutation.name for mutation in mutations if mutation.name not in caught]
    print(f"{len(mutations)} mutations, {len(survived)} survived or cannot be made", *survived, sep="\n- ")
    return int(bool(survived))


def _check_by_tests(default: Sequence[str]) -> Check:
    def check(tree: Path, mutations: Sequence[Mutation]) -> str:
        tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests or default)
        code, output = _run(tree, [*_PYTEST, *tests])
        if code == 0:
            return _SURVIVED
        if code == _NO_SUCH_TEST:
            raise LookupError(f"no such tests: {[*tests]}")
        failed = [line for line in output.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
        if not failed:
            return output.strip()[-60:]
        test, bracket, case = failed[0].split(" ", 1)[1].split(" - ")[0].partition("[")
        return test.rpartition("/")[2] + bracket + case

    return check


def _check_by_schedules(runs: int) -> Check:
    def check(tree: Path, _: Sequence[Mutation]) -> str:
        code, output = _run(tree, [sys.executable, "-c", _SCHEDULES, str(runs)])
        return _SURVIVED if code == 0 else (output.strip().splitlines() or ["?"])[-1][:60]

    return check


def _run(tree: Path, command: list[str]) -> tuple[int, str]:
    """Run a command in the tree and return its status and output."""
    environment = {"PYTHONPATH": f"{tree / 'src'}:{tree}", "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, check=False, capture_output=True, text=True, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return 1, "timed out"
    return done.returncode, done.stdout + done.stderr


def _copy_tree(folder: Path) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for name in ("src", "tests", "tools", "examples", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    return tree


@contextmanager
def _mutated(tree: Path, mutation: Mutation) -> Iterator[None]:
    """Make the mutation, and restore the files afterwards."""
    before: dict[Path, str] = {}
    after: dict[Path, str] = {}
    for name, old, new in mutation.edits:
        file = tree / "src" / "freight_exchange" / name
        before.setdefault(file, file.read_text())
        text = after.get(file, before[file])
        if text.count(old) != 1:
            raise LookupError(f"{name} contains the text {text.count(old)} times")
        after[file] = text.replace(old, new)
    try:
        for file, text in after.items():
            file.write_text(text)
        yield
    finally:
        for file, text in before.items():
            file.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--only", metavar="WORD", default="", help="make the mutations whose name contains this")
    parser.add_argument("--runs", type=int, default=600, help="watcher: schedules for each mutation (default 600)")
    parser.add_argument("--without-schedules", action="store_true", help="watcher: run the tests alone")
    parser.add_argument("--without-tests", action="store_true", help="watcher: run the schedules alone")
    parser.add_argument("--first-only", action="store_true", help="watcher: test only what no schedule catches")
    arguments = parser.parse_args()
    mutations = [mutation for mutation in list_mutations(arguments.part) if arguments.only in mutation.name]
    checks: dict[str, Check] = {}
    if arguments.part == "watcher" and not arguments.without_schedules:
        checks["schedules"] = _check_by_schedules(arguments.runs)
    if not arguments.without_tests:
        checks["tests"] = _check_by_tests(default_tests(arguments.part))
    return _run_table(mutations, checks, first_only=arguments.first_only)


if __name__ == "__main__":
    sys.exit(main())
