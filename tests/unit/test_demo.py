"""`make demo` is the main job, end to end, over real HTTP, with a watcher that is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_trades_watches_through_a_kill_and_ends_well() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "demo.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    transcript = done.stdout
    for step in (
        "logged in as",
        "publishes",
        "sees",
        "offers USD",
        "declines offer",
        "approves offer",
        "selected; call",
        "creates route",
        "Ever Patient",
    ):
        assert step in transcript, transcript
    lines = [tuple(part.strip() for part in line.split(" | ", 1)) for line in transcript.splitlines() if " | " in line]
    starts = [place for place, line in enumerate(lines) if line[0] == "watcher" and "is watching" in line[1]]
    (killed,) = (place for place, line in enumerate(lines) if line[0] == "watcher" and "is killed" in line[1])
    assert starts[0] < killed < starts[1]
    assert len({lines[place][1].split()[1] for place in starts}) == 2
    # Counted here once more, from what the two of them say: the closing lines are to be true.
    published = [_reference(what) for who, what in lines[starts[0] :] if who == "shipper" and "publishes" in what]
    told = [_reference(what) for who, what in lines if who == "watcher" and what.startswith("new ")]
    meanwhile = [_reference(what) for _, what in lines[killed : starts[1]] if "publishes" in what]
    assert meanwhile
    assert sorted(told) == sorted(published)
    closing = {who: int(what) for who, what in lines if who in ("published", "seen", "missed", "repeated")}
    assert closing == {"published": len(published), "seen": len(published), "missed": 0, "repeated": 0}


def _reference(line: str) -> str:
    return next(word.rstrip(":") for word in line.split() if word.startswith("FX"))
