"""Count the states of the protocol of a fleet, and find the shortest schedule to two offers without each guard.

`python tools/fleet_model.py` prints them; `--requests 2` takes minutes. Exits with 1 if a guard is missing from
the protocol, or not needed by it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# A script's own folder is on the path; the root of the tree, which has the model, is not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.model.fleet.protocol import GUARDS, REMOVED
from tests.model.fleet.search import format_schedule, search


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, choices=(1, 2), default=1)
    requests = parser.parse_args(arguments).requests
    found = search(requests=requests, take_overs=3 - requests, decisions=2 - requests)
    print(f"all guards: {found.states:,} states, {int(found.violation is not None)} violations, {found.stuck} stuck")
    is_good = found.violation is None and not found.stuck
    for removed in REMOVED:
        without = search(GUARDS - {*removed})
        print(f"\nwithout {' and '.join(guard.name for guard in removed)}: {without.violation or 'no violation'}")
        print(format_schedule(without.schedule))
        is_good = is_good and without.violation is not None
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
