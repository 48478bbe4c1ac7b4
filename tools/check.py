"""Run the project's checks: all of them (`make test`), the quick ones (`--fast`), or those that are named.

The tests run in three workers and show their progress. The checks that read or build the code run at the same time;
their output follows at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
SCRIPTS = Path(sysconfig.get_path("scripts"))

# A folder that does not exist yet is checked as soon as it does.
TYPED = [name for name in ("src", "tests", "tools", "examples", "benchmarks") if (ROOT / name).is_dir()]
# Folder with the code blocks of the pages, for the type checkers.
SNIPPETS = "build/snippets"

# A third of a worker's time is waits for processes and sockets: three workers keep two cores busy.
PYTEST = [PYTHON, "-m", "pytest", "-n", "3", "--dist", "worksteal"]
QUICK = [
    *(
        f"tests/unit/{folder}"
        for folder in ("endpoints", "errors", "models", "paging", "platform", "transport", "wire")
    ),
    *(f"tests/unit/test_{module}.py" for module in ("cargo", "hooks", "options", "package", "settings")),
]
# The contract fills a table: its tests run in one process, which then has all cells.
CONTRACT = "tests/contract"
STREAMED = {"tests": [*PYTEST, f"--ignore={CONTRACT}"]}
BESIDE = {
    "lint": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "snippets": [PYTHON, "-m", "tools.snippets.pages", SNIPPETS],
    "mypy": [PYTHON, "-m", "mypy", *TYPED, SNIPPETS],
    "pyright": [PYTHON, "-m", "pyright", "--pythonpath", PYTHON],
    "layers": [str(SCRIPTS / "lint-imports"), "--no-logo"],
    "wheel": [PYTHON, "tools/wheel_test.py"],
    "contract": [PYTHON, "-m", "pytest", "-q", CONTRACT],
}
FAST = {
    "tests": [*PYTEST, "-q", *QUICK],
    "lint": BESIDE["lint"],
    "format": BESIDE["format"],
    "layers": BESIDE["layers"],
    "mypy": [PYTHON, "-m", "mypy", "src"],
}


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    code: int
    seconds: float
    output: str

    @property
    def line(self) -> str:
        verdict = "ok" if self.code == 0 else f"FAILED (exit {self.code})"
        return f"{self.name:<8} {self.seconds:6.1f} s  {verdict}"


def run(name: str, command: list[str], *, stream: bool) -> Outcome:
    start = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        # Workers must collect the same tests: some are named by the order of a set.
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=False,
        text=True,
        stdout=None if stream else subprocess.PIPE,
        stderr=None if stream else subprocess.STDOUT,
    )
    return Outcome(name, done.returncode, time.monotonic() - start, done.stdout or "")


def run_lane(checks: dict[str, list[str]]) -> list[Outcome]:
    return [run(name, command, stream=False) for name, command in checks.items()]


def show(outcome: Outcome) -> None:
    print(f"\n--- {outcome.name}\n{outcome.output.rstrip()}", flush=True)


def main(names: list[str]) -> int:
    checks = FAST if names == ["--fast"] else {**STREAMED, **BESIDE}
    names = [] if checks is FAST else names
    if unknown := set(names) - checks.keys():
        print(f"no such check: {', '.join(sorted(unknown))}; the checks are {', '.join(checks)}", file=sys.stderr)
        return 2
    wanted = {name: command for name, command in checks.items() if not names or name in names}
    streamed = {name: wanted.pop(name) for name in STREAMED if name in wanted}
    with ThreadPoolExecutor(1) as lane:
        reading: Future[list[Outcome]] = lane.submit(run_lane, wanted)
        tested = [run(name, command, stream=True) for name, command in streamed.items()]
        read = reading.result()
    for outcome in read:
        show(outcome)
    outcomes = [*tested, *read]
    print("\n" + "\n".join(outcome.line for outcome in outcomes))
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
