"""Interleaved rounds, medians, and ratios taken round by round: machines are noisy, ratios less so."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

from benchmarks import imports

# The allocator would otherwise map and unmap the receive buffer on every call in a small process, which flatters the
# bigger one.
ENVIRONMENT = os.environ | {"MALLOC_MMAP_THRESHOLD_": "67108864", "MALLOC_TRIM_THRESHOLD_": "67108864"}
PAIRS = [
    ("httpx, one record", "this SDK, one record"),
    ("httpx2, one record", "this SDK on httpx2, one record"),
    ("httpx, page of 100", "this SDK, page of 100"),
]


def pinned(core: int) -> list[str]:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "-c", str(cores[core])] if len(cores) > core else []


def measured(name: str, port: str, calls: int) -> float:
    command = [*pinned(1), sys.executable, "-m", "benchmarks.client", name, port, str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return float(done.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=1500)
    options = parser.parse_args()
    print("| what | median | ratio to the line above |\n|---|---|---|")
    print("\n".join(imports.run(options.rounds)))
    server = subprocess.Popen(
        [*pinned(0), sys.executable, "-m", "benchmarks.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    try:
        for peer, ours in PAIRS:
            rounds = [
                (measured(peer, port, options.calls), measured(ours, port, options.calls))
                for _ in range(options.rounds)
            ]
            ratio = median(our / their for their, our in rounds)
            print(f"| {peer}: CPU a call | {median(their for their, _ in rounds):.0f} us | 1 |")
            print(f"| {ours}: CPU a call | {median(our for _, our in rounds):.0f} us | {ratio:.2f} |")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
