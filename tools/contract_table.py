"""Run the contract tests and print what they prove, as Markdown: operations by proofs, and knobs by replies.

python tools/contract_table.py            # run tests/contract, then print
python tools/contract_table.py --last     # print the result of the last run
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "contract.json"

TITLES = {
    "typed": "typed result",
    "http": "over real HTTP",
    "document": "against JSON typed by hand",
    "knobs": "under every knob",
}
UNITS = {"typed": "", "http": " backends", "document": " sides", "knobs": " values"}


def cell(column: str, proved: int, due: int) -> str:
    if not proved:
        return ""
    count = f"{proved}" if proved == due else f"{proved} of {due}"
    return f"{'yes' if proved == due else 'PART'}{UNITS[column] and f', {count}{UNITS[column]}'}"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield f"| # | Operation and address | Call | {' | '.join(TITLES.values())} |"
    yield f"|---|---|---|{'---|' * len(TITLES)}"
    for row in rows:
        cells = [cell(column, *row["cells"][column]) for column in TITLES]
        yield f"| {row['operation']} | `{row['address']}` | `{row['call']}` | {' | '.join(cells)} |"


def knob_table(knobs: dict[str, list[str]]) -> Iterator[str]:
    yield "| Knob | Value | The reply that it changes |"
    yield "|---|---|---|"
    for knob, values in groupby(knobs.items(), key=lambda item: item[0].partition("=")[0]):
        for name, replies in values:
            cell = ", ".join(f"`{reply}`" for reply in replies)
            yield f"| `{knob}` | `{name.partition('=')[2]}` | {cell} |"


def main(arguments: list[str]) -> int:
    code = 0
    if "--last" not in arguments:
        REPORT.unlink(missing_ok=True)
        run = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/contract"], cwd=ROOT, stdout=sys.stderr)
        code = run.returncode
    if not REPORT.exists():
        print("the contract tests have left no report", file=sys.stderr)
        return code or 1
    report = json.loads(REPORT.read_text())
    print("\n".join(table(report["rows"])))
    print()
    print("\n".join(knob_table(report["knobs"])))
    whole = all(proved == due for row in report["rows"] for proved, due in row["cells"].values())
    return code or int(not (whole and all(report["knobs"].values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
