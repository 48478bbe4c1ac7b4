"""Follow the tutorial step by step, as a reader does: type its commands, save its files, press its keys.

`python tools/tutorial.py` begins in a folder with a clone of the project and nothing else, and prints the time from
there to the bot's first offer. The exit status is 1 unless the output that the page shows appears.

Comments before the blocks of the page name the steps: `terminal: NAME` types the lines and waits for the end of each
(`stays`: not of the last one; `again`: repeats the last one until it shows the output that follows); `run: file` saves;
`shows: NAME` waits for those lines, in which `…` stands for any text; `press: NAME, quit` or `stop` sends the signal of
Ctrl-\\ or Ctrl-C.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

__all__ = ["PAGE", "Step", "follow", "steps_of"]

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "tutorial.md"
FIRST_OFFER: Final = "offered 1347.84"
TIMEOUT: Final = 100.0
KEYS: Final = {"quit": signal.SIGQUIT, "stop": signal.SIGINT}

_STEP: Final = re.compile(
    r"<!-- (?P<what>terminal|run|shows|press): (?P<words>[a-z, ]+) -->"
    r"(?:\n```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)```)?",
    re.DOTALL,
)


class Step(NamedTuple):
    """Step with its kind, its terminal and options, and its block."""

    what: str
    words: tuple[str, ...]
    title: str | None
    text: str

    @property
    def commands(self) -> list[str]:
        return self.text.splitlines()


def steps_of(page: str) -> list[Step]:
    """Return the steps of the page, in order."""
    return [
        Step(match["what"], tuple(match["words"].split(", ")), match["title"], match["text"] or "")
        for match in _STEP.finditer(page)
    ]


class Terminal:
    """Terminal with a shell: receives commands, and keeps the output."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.output = ""
        self._looked_at = 0
        self._typed = 0
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            start_new_session=True,
            preexec_fn=_restore_signals,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The shell and what runs in it are a session of their own.
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join()
        for end in (self._shell.stdin, self._shell.stdout):
            assert end is not None
            end.close()

    def type(self, command: str, *, wait: bool, may_fail: bool = False) -> None:
        assert self._shell.stdin is not None
        self._typed += 1
        ended = f"[command {self._typed} ended: "
        self._shell.stdin.write(f'{command}\necho "{ended}$?]"\n')
        if wait:
            self.until(lambda: ended in self.output, command)
            assert may_fail or f"{ended}0]" in self.output, f"{command} failed"

    def has_shown(self, lines: list[str]) -> int:
        """Return the end of these lines, in this order and after the last match; 0 if they did not appear."""
        at = self._looked_at
        for line in lines:
            pattern = ".*".join(map(re.escape, line.split("…")))
            if (found := re.compile(pattern).search(self.output, at)) is None:
                return 0
            at = found.end()
        return at

    def shows(self, lines: list[str]) -> None:
        """Wait until these lines have appeared."""
        self.until(lambda: self.has_shown(lines) > 0, "\n".join(lines))
        self._looked_at = self.has_shown(lines)

    def repeats(self, command: str, lines: list[str]) -> None:
        """Type the command until it shows these lines."""
        began = time.monotonic()
        while not self.has_shown(lines) and time.monotonic() - began < TIMEOUT:
            self.type(command, wait=True, may_fail=True)

    def press(self, key: signal.Signals) -> None:
        """Send a key to the program in the shell, and wait for the end of the program."""
        for child in _children(self._shell.pid):
            os.kill(child, key)
        self.until(lambda: f"[command {self._typed} ended: " in self.output, f"the end after {key.name}")

    def until(self, true: Callable[[], bool], what: str) -> None:
        began = time.monotonic()
        while not true():
            assert time.monotonic() - began < TIMEOUT, f"it did not come to this:\n{what}"
            time.sleep(0.02)

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self.output += line


def _restore_signals() -> None:
    """Restore default handlers in the shell, which inherits ignored signals from a run in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _children(parent: int) -> Iterator[int]:
    on_step = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    yield from map(int, on_step.stdout.split())


def follow(
    steps: list[Step], folder: Path, environment: Mapping[str, str], *, on_step: Callable[[str], None] = lambda _: None
) -> float:
    """Follow the page, and return the seconds from its beginning to the first offer.

    Args:
        steps: The steps of the page.
        folder: Folder in which the reader begins.
        environment: Environment of the terminals.
        on_step: Called with each step.
    """
    began, first = time.monotonic(), 0.0
    here = folder / "first-bot"
    terminals: dict[str, Terminal] = {}
    with ExitStack() as stack:
        stack.push(lambda kind, error, _: _tell(error, terminals))
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            name = step.words[0]
            on_step(f"{time.monotonic() - began:6.1f} s  {step.what} {step.title or name}")
            if step.what == "run":
                assert step.title is not None
                (here / step.title).write_text(step.text)
                continue
            if name not in terminals:
                terminals[name] = stack.enter_context(Terminal(folder, environment))
            if step.what == "terminal":
                *before, last = step.commands
                for command in before:
                    terminals[name].type(command, wait=True)
                if "again" in step.words and following is not None:
                    terminals[name].repeats(last, following.text.splitlines())
                else:
                    terminals[name].type(last, wait="stays" not in step.words)
            elif step.what == "shows":
                terminals[name].shows(step.text.splitlines())
                if FIRST_OFFER in step.text:
                    first = time.monotonic() - began
            else:
                terminals[name].press(KEYS[step.words[1]])
    return first


def _tell(error: BaseException | None, terminals: Mapping[str, Terminal]) -> None:
    """Print the output of each terminal after a failure."""
    for name, terminal in terminals.items() if error is not None else ():
        assert error is not None
        error.add_note(f"--- terminal {name}\n{terminal.output}")


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = os.environ | {"PYTHONPATH": ""}
        # The reader's own interpreter, and none of this tree's environments.
        environment["PATH"] = os.pathsep.join(
            part for part in environment["PATH"].split(os.pathsep) if not part.startswith(str(ROOT))
        )
        environment.pop("VIRTUAL_ENV", None)
        empty = folder / "empty"
        empty.mkdir()
        (empty / "freight-exchange").symlink_to(ROOT)  # the reader's clone
        began = time.monotonic()
        seconds = follow(steps_of(PAGE.read_text()), empty, environment, on_step=lambda line: print(line, flush=True))
        print(f"{time.monotonic() - began:6.1f} s  all of it")
        print(f"\nfrom a clone to the bot's first offer: {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
