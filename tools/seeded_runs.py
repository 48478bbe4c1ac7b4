"""Make seeded runs against simulated services and print what went wrong.

    python tools/seeded_runs.py --part paging                   # listings against random paging servers
    python tools/seeded_runs.py --part watcher                  # the watcher under schedules of failures
    python tools/seeded_runs.py --part servers --only shuffle   # the watcher against one quirk of a server

`--replay SEED` makes one run again and prints its details. `--list` prints the values of `--only`. Exits with 1 if
anything is wrong. After Ctrl-C it prints the total so far.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

# A script's own folder is on the path, but not the root of the tree.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

if TYPE_CHECKING:
    from tools.run_parts import Part

__all__ = ["PARTS", "part", "run_all"]

PARTS: Final = ("paging", "watcher", "servers")


def part(name: str) -> Part[Any]:
    """Import a part."""
    found: Part[Any] = importlib.import_module(f"tools.run_parts.{name}").PART
    return found


def run_all(name: str, seeds: range, *, only: str = "", processes: int = 1) -> bool:
    """Make the runs of these seeds, print the total, and return whether nothing is wrong."""
    one = part(name)
    chunks = [range(start, min(start + one.chunk, seeds.stop)) for start in range(seeds.start, seeds.stop, one.chunk)]
    total: Any = None
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with multiprocessing.Pool(processes, _ignore_interrupts) as pool:
        try:
            for chunk in pool.imap_unordered(partial(_run_chunk, name, only), chunks):
                total = one.merge(total, chunk)
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            print("interrupted; the total so far:")
    if total is None:
        return True
    clean = one.is_clean(total)
    seconds = time.monotonic() - started
    print(f"{seconds:.0f} s, {len(seeds) / seconds:.1f} runs a second", flush=True)
    return clean


def _run_chunk(name: str, only: str, seeds: range) -> Any:
    return part(name).run_chunk(seeds, only)


def _ignore_interrupts() -> None:
    """Leave signals to the parent: it ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; the others count up from it")
    parser.add_argument("--only", default="", help="one transport, quirk or scenario")
    parser.add_argument("--list", action="store_true", help="print the values of --only")
    parser.add_argument("--replay", type=int, metavar="SEED", help="make this one run and print its details")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    choices = part(arguments.part).choices
    if arguments.list:
        print(*choices, sep="\n")
        return 0
    if arguments.only and arguments.only not in choices:
        parser.error(f"--only must be one of: {', '.join(choices) or 'nothing'}")
    if arguments.replay is not None:
        return int(not part(arguments.part).replay(arguments.replay, arguments.only))
    seeds = range(arguments.seed, arguments.seed + arguments.runs)
    return int(not run_all(arguments.part, seeds, only=arguments.only, processes=arguments.processes))


if __name__ == "__main__":
    sys.exit(main())
