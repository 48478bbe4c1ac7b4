"""`make demo` is the main job, end to end, over real HTTP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_trades_and_ends_well() -> None:
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
