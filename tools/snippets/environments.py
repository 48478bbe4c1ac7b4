"""Environments that contain only the packages of a page, and processes in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Final, Protocol, Self

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.snippets.pages import ROOT

__all__ = ["ForkServer", "Interpreter", "Process", "Subprocesses", "install", "link_environment"]

_PACKAGE: Final = "freight-exchange"


def link_environment(folder: Path, requirements: Iterable[str]) -> Path:
    """Make a virtual environment of links to installed packages, and return its interpreter."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in _closure(requirements):
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # a page may name packages that its blocks do not use
        if name == _PACKAGE:
            for package in ("freight_exchange", "freight_sandbox"):
                (site / package).symlink_to(ROOT / "src" / package)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            # A file of paths would add what an editable install and the other packages here have.
            if not top.endswith(".pth") and not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
    return python


def _closure(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that these requirements install."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {known for owner, known in found if owner == name}:
            found.add((name, extra))
            needed = [Requirement(text) for text in _requires(name, extra)]
            waiting += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def _requires(name: str, extra: str) -> list[str]:
    if name == _PACKAGE:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        found: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
        return found
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def install(folder: Path, requirements: Iterable[str], wheel: Path) -> Path:
    """Make a virtual environment, install the wheel and the other requirements, and return its interpreter."""
    venv.create(folder, symlinks=True, with_pip=True)
    python = folder / "bin" / "python"
    texts = [text.replace(_PACKAGE, str(wheel), 1) if text.startswith(_PACKAGE) else text for text in requirements]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *texts], check=True)
    return python


class Process(Protocol):
    """Running snippet."""

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to it."""

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""


class Interpreter(Protocol):
    """Interpreter that starts snippets."""

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path) -> Process:
        """Start `python ARGUMENTS` in the folder; its output goes to `output`."""


class Subprocesses:
    """Snippets as separate processes.

    Args:
        python: The interpreter of the environment.
    """

    def __init__(self, python: Path) -> None:
        self._python = python

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path) -> Process:
        with output.open("wb") as file:
            process = subprocess.Popen(
                [self._python, *arguments],
                cwd=folder,
                env={**_clean_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return _Child(process)


class _Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def stop(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait()


class ForkServer:
    """Snippets as forks of one process, one at a time; modules (`-m`) as separate processes.

    Args:
        python: The interpreter of the environment.
    """

    def __init__(self, python: Path) -> None:
        self._ordinary = Subprocesses(python)
        self._process = subprocess.Popen(
            [python, ROOT / "tools" / "snippets" / "fork_server.py"],
            env=_clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A snippet that did not end belongs to the same session.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path) -> Process:
        if arguments[0] == "-m":
            # pytest rewrites plugins before their first import.
            return self._ordinary.start(arguments, folder, environment, output)
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        order = {
            "arguments": [*arguments],
            "folder": str(folder),
            "output": str(output),
            "environment": {**environment},
        }
        orders.write(f"{json.dumps(order)}\n")
        orders.flush()
        return _Fork(int(answers.readline()), answers)


class _Fork:
    def __init__(self, number: int, answers: IO[str]) -> None:
        self._number = number
        self._answers = answers

    def stop(self, number: signal.Signals) -> None:
        os.kill(self._number, number)

    def wait(self) -> int:
        return int(self._answers.readline())


def _clean_environment() -> dict[str, str]:
    """Return the environment without variables that would add packages or options."""
    dropped = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "FREIGHT_EXCHANGE")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
