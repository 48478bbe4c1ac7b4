"""Test of the tutorial: its commands are typed, and its output appears.

It runs all steps except the installation; `tools/tutorial.py` runs that too, and measures it.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

from tools.tutorial import PAGE, follow, steps_of

STEPS = steps_of(PAGE.read_text())


def test_all_that_the_page_has_its_reader_do_is_done() -> None:
    page = PAGE.read_text()
    assert page.count("```") == 2 * sum(bool(step.text) for step in STEPS)
    assert [step.title for step in STEPS if step.what == "run"] == ["rates.csv", "bot.py", "shipper.py", "test_bot.py"]
    assert {"one", "two", "three"} == {step.words[0] for step in STEPS if step.what == "terminal"}
    assert len([step for step in STEPS if step.what == "press"]) == 2


def test_tutorial_gives_the_measured_time() -> None:
    kept = (PAGE.parent / "data" / "tutorial.txt").read_text()
    (seconds,) = re.findall(r"to the bot's first offer: (\d+) s", kept)
    installed = next(round(float(line.split()[0])) for line in kept.splitlines() if line.endswith("shows one"))
    text = " ".join(PAGE.read_text().split())
    measured = f"{seconds} seconds after the first command, including {installed} seconds for the installation"
    assert f"the first offer {measured}" in text


def test_the_tutorial_to_the_letter(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    steps = [
        step._replace(
            text=step.text.replace("8765", port)
            .replace("freight-exchange sandbox", f"freight-exchange sandbox --port {port}")
            .replace(". .venv/bin/activate\n", "")
        )
        for step in STEPS
        if "install" not in step.words
    ]
    (tmp_path / "first-bot").mkdir()
    began = steps[0]._replace(text=f"cd first-bot\n{steps[0].text}")
    # What is installed here comes before the machine's own packages.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # This project's own tests load a plugin that the reader does not have.
    environment = {"PATH": path, "PYTHONWARNINGS": "error", "PYTEST_ADDOPTS": "-p no:asyncio"}
    follow([began, *steps[1:]], tmp_path, os.environ | environment)
