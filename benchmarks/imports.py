"""What importing costs: this package beside its five dependencies, each import in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

FIVE = "httpx, anyio, attrs, cattrs, tenacity"
PROBE = "import time; started = time.perf_counter(); import {}; print(time.perf_counter() - started)"


# An import is timed from byte code, as it is from the second start on: the first, uncounted round writes it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(modules: str) -> float:
    command = [sys.executable, "-c", PROBE.format(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return float(done.stdout)


def run(rounds: int) -> list[str]:
    """Rows of the report."""
    theirs, ours = [], []
    for _ in range(rounds + 1):
        theirs.append(seconds(FIVE))
        ours.append(seconds("freight_exchange"))
    ratios = [our / their for our, their in zip(ours[1:], theirs[1:], strict=True)]
    return [
        f"| importing the five dependencies | {median(theirs[1:]) * 1e3:.0f} ms | 1 |",
        f"| importing freight_exchange | {median(ours[1:]) * 1e3:.0f} ms | {median(ratios):.2f} |",
    ]
