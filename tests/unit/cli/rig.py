"""What tests of the command line share: an exchange over real HTTP; the program, in this process and on a terminal."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import anyio.from_thread
import attrs
import pytest

from freight_exchange.cli import program
from freight_exchange.sandbox import Cargo, Exchange
from freight_exchange.sandbox.faces.tcp import serve_tcp
from freight_exchange.sandbox.model.state import Account

__all__ = ["COMMAND", "PATIENCE", "Done", "Shell", "on_a_terminal", "served", "shell", "until"]

COMMAND = (sys.executable, "-m", "freight_exchange.cli")
PATIENCE = 30.0
TILES = Cargo(
    commodityname="Ceramic tiles",
    destination="Long Beach",
    arrival="2027-03-01 00:00:00",
    quantity=20,
    packaging="pallet",
    weight=640,
)


@attrs.frozen
class Done:
    """What a command printed, and its status."""

    status: int
    out: str
    err: str


@attrs.define
class Shell:
    """A shell of an account at an exchange that is served over HTTP."""

    exchange: Exchange
    url: str
    home: Path
    _monkeypatch: pytest.MonkeyPatch
    _capture: pytest.CaptureFixture[str]
    environment: dict[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.become(self.exchange.forwarder)

    def become(self, account: Account) -> None:
        """Let the environment name that account."""
        self.set("FREIGHT_EXCHANGE_URL", self.url)
        self.set("FREIGHT_EXCHANGE_EMAIL", account.email)
        self.set("FREIGHT_EXCHANGE_PASSWORD", account.password)

    def set(self, name: str, value: str | None) -> None:
        """Set a variable of the environment, or take it away."""
        if value is None:
            self._monkeypatch.delenv(name, raising=False)
            self.environment.pop(name, None)
        else:
            self._monkeypatch.setenv(name, value)
            self.environment[name] = value

    def forget_who(self) -> None:
        """An environment that names no service and no account."""
        for name in ("URL", "EMAIL", "PASSWORD"):
            self.set(f"FREIGHT_EXCHANGE_{name}", None)

    def publish(self, cargo: Cargo = TILES) -> int:
        """Publish a request as the shipper; its index."""
        return self.exchange.publish(self.exchange.shipper, time.time(), cargo)

    def __call__(self, *arguments: str, typed: str | None = None, piped: str = "") -> Done:
        """Run a command in this process; with `typed`, as on a terminal where that is typed."""
        stdin = io.StringIO(piped if typed is None else typed)
        stdin.isatty = lambda: typed is not None  # type: ignore[method-assign]  # it is a terminal, for this once
        self._monkeypatch.setattr("sys.stdin", stdin)
        self._monkeypatch.setattr("sys.stderr.isatty", lambda: typed is not None, raising=False)
        self._monkeypatch.setattr("getpass.getpass", _typed_unseen)
        logger = logging.getLogger("freight_exchange")
        handlers, level = list(logger.handlers), logger.level
        self._capture.readouterr()
        try:
            status = program.run(arguments)
        finally:
            # A process would end here.
            logger.handlers[:] = handlers
            logger.setLevel(level)
        out, err = self._capture.readouterr()
        return Done(status, out, err)


def _typed_unseen(prompt: str = "", stream: object = None) -> str:
    sys.stderr.write(f"{prompt}\n")
    return sys.stdin.readline().rstrip("\n")


@pytest.fixture
def served() -> Iterator[tuple[Exchange, str]]:
    """An exchange that answers over real HTTP, from a thread of its own."""
    exchange = Exchange()
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve_tcp(exchange)) as face,
    ):
        yield exchange, face.url


@pytest.fixture
def shell(
    served: tuple[Exchange, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """A forwarder's shell."""
    exchange, url = served
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Shell(exchange, url, tmp_path, monkeypatch, capsys)


def on_a_terminal(
    arguments: Sequence[str], answers: Mapping[str, str], *, columns: int = 120, **environment: str
) -> tuple[int, str]:
    """Run the program on a terminal, and answer its prompts; the status, and the screen as text."""
    with terminal(arguments, columns=columns, **environment) as (process, screen):
        left = dict(answers)
        shown = ""
        ends = time.monotonic() + PATIENCE
        while (piece := _read(screen)) is not None:
            assert time.monotonic() < ends, shown
            shown += piece
            for prompt, answer in list(left.items()):
                if prompt in shown:
                    del left[prompt]
                    os.write(screen, f"{answer}\n".encode())
        assert not left, f"never asked: {left}; but: {shown}"
        return process.wait(PATIENCE), plain(shown)


@contextmanager
def terminal(
    arguments: Sequence[str], *, columns: int = 120, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program on a terminal: its process, and the descriptor of its screen and keyboard."""
    screen, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **environment},
    )
    os.close(theirs)
    try:
        yield process, screen
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def _take_terminal() -> None:
    ioctl(0, termios.TIOCSCTTY, 0)
    restore_signals()


def restore_signals() -> None:
    """Restore default handlers in a child process, which inherits ignored signals from tests run in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def _read(screen: int) -> str | None:
    ready, _, _ = select.select([screen], [], [], 0.1)
    if not ready:
        return ""
    try:
        return os.read(screen, 65536).decode(errors="replace") or None
    except OSError:
        # The last process has closed it.
        return None


def plain(shown: str) -> str:
    """What a screen shows in the end, without its colours: lines that were erased or written over are gone."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b.?", shown):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif (up := re.fullmatch(r"\x1b\[(\d*)A", part)) is not None:
            row = max(0, row - int(up[1] or 1))
        elif not part.startswith(("\x1b", "\r")):
            lines[row] += part
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def until(true: Any) -> None:
    """Wait until something is so that another process brings about."""
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.02)
