"""Test that the page about observability prints the trace that it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.unit.blocks import ROOT

PAGE = ROOT / "docs" / "observability.md"


def test_trace_of_one_offer_is_as_printed(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (code,) = re.findall(r'```python title="show_trace.py"\n(.*?)```', page, re.DOTALL)
    (block,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    (tmp_path / "show_trace.py").write_text(code)
    command = [sys.executable, "-W", "error", "show_trace.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (block, "")
