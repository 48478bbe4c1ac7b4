"""Run the project's checks: all of them (`make test`), or those named on the command line.

The checks run in two lanes, one for each of two cores: most of the tests, whose output streams, and beside them all
that reads or builds the code and then the tests of feeds and bots, whose output is held back so that the two never mix.
"""

from __future__ import annotations

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

# Folders that come later are judged as soon as they are there.
TYPED = [name for name in ("src", "tests", "tools", "examples", "benchmarks") if (ROOT / name).is_dir()]

FEEDS = ("tests/unit/feed", "tests/unit/bot")
STREAMED = {"tests": [PYTHON, "-m", "pytest", *(f"--ignore={folder}" for folder in FEEDS)]}
BESIDE = {
    "lint": [PYTHON, "-m", "ruff", "check", "."],
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "mypy": [PYTHON, "-m", "mypy", *TYPED],
    "pyright": [PYTHON, "-m", "pyright", "--pythonpath", PYTHON],
    "floors": [str(SCRIPTS / "lint-imports"), "--no-logo"],
    "wheel": [PYTHON, "tools/wheel_test.py"],
    "feeds": [PYTHON, "-m", "pytest", "-q", *FEEDS],
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
    if unknown := set(names) - (STREAMED | BESIDE).keys():
        print(
            f"no such check: {', '.join(sorted(unknown))}; there are {', '.join(STREAMED | BESIDE)}",
            file=sys.stderr,
        )
        return 2
    beside = {name: command for name, command in BESIDE.items() if not names or name in names}
    streamed = {name: command for name, command in STREAMED.items() if not names or name in names}
    with ThreadPoolExecutor(1) as lane:
        reading: Future[list[Outcome]] = lane.submit(run_lane, beside)
        tested = [run(name, command, stream=True) for name, command in streamed.items()]
        read = reading.result()
    for outcome in read:
        show(outcome)
    outcomes = [*tested, *read]
    print("\n" + "\n".join(outcome.line for outcome in outcomes))
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
