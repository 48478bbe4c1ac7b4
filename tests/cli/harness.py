"""Helpers of the command line's tests: the program in this process, as a child process, and on a terminal."""

from __future__ import annotations

import contextlib
import json
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fcntl import ioctl
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from freight_exchange.cli.app import run
from freight_sandbox import Cargo, Exchange
from freight_sandbox.records import Account

TIMEOUT = 30.0
TILES = Cargo(
    commodityname="Ceramic tiles",
    destination="Long Beach",
    arrival="2027-03-01 00:00:00",
    quantity=20,
    packaging="pallet",
    weight=640,
)
DRAFT: dict[str, Any] = {
    "commodity": "Ceramic tiles",
    "type": "shipping",
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "arrival": "2036-03-01",
    "packaging": "pallet",
    "quantity": 20,
    "length": 1.2,
    "width": "1.0",
    "height": 0.9,
    "weight": 640,
    "incoterm": "fob",
    "hazardous": False,
}
ROUTE = {
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "cy_cutoff": "2036-02-01 17:00",
    "cfs_cutoff": "2036-01-31 12:00",
    "departure": "2036-02-03 06:00",
    "arrival": "2036-02-19 08:00",
    "carrier": 1,
    "vessel": "Ever Sandbox",
    "voyage_id": "017E",
    "timezone": "Asia/Hong_Kong",
}
SUBMIT = ("bids", "submit", "1", "--amount", "1840.50", "--currency", "USD")


def locate_program() -> tuple[str, ...]:
    """Return the program."""
    return (sys.executable, "-m", "freight_exchange")


@attrs.frozen
class Result:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the printed table by column title; columns are two blanks apart."""
        lines = self.out.splitlines()
        length = max(map(len, lines))
        is_used = [any(line[at : at + 1].strip() for line in lines) for at in range(length)]
        starts = [at for at in range(length) if is_used[at] and not any(is_used[max(0, at - 2) : at])]
        ends = [*starts[1:], length]
        titles, *rows = ([line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in lines)
        return [dict(zip(titles, row, strict=True)) for row in rows]

    @property
    def objects(self) -> list[Any]:
        """Return the printed JSON lines."""
        return [json.loads(line, parse_float=Decimal) for line in self.out.splitlines()]


@attrs.define
class Shell:
    """Shell of an account at an exchange served over HTTP; call it to run a command in this process."""

    exchange: Exchange
    url: str
    home: Path
    _monkeypatch: pytest.MonkeyPatch
    _capture: pytest.CaptureFixture[str]

    def __attrs_post_init__(self) -> None:
        self.use_account(self.exchange.forwarder)

    def use_account(self, account: Account) -> None:
        """Set the environment to an account."""
        self.set("FREIGHT_EXCHANGE_URL", self.url)
        self.set("FREIGHT_EXCHANGE_EMAIL", account.email)
        self.set("FREIGHT_EXCHANGE_PASSWORD", account.password)
        self.set("FREIGHT_EXCHANGE_TRUST_ENV", "")

    def set(self, name: str, value: str | None) -> None:
        """Set a variable of the environment; `None` removes it."""
        if value is None:
            self._monkeypatch.delenv(name, raising=False)
        else:
            self._monkeypatch.setenv(name, value)

    def clear_environment(self) -> None:
        """Remove service and account from the environment."""
        for name in ("URL", "EMAIL", "PASSWORD"):
            self.set(f"FREIGHT_EXCHANGE_{name}", None)

    def publish(self, cargo: Cargo = TILES) -> int:
        """Publish a request as the shipper and return its index."""
        return self.exchange.publish(self.exchange.shipper, time.time(), cargo)

    def __call__(
        self, *arguments: str, typed: str | None = None, piped: str = "", columns: int | None = None
    ) -> Result:
        """Run a command, with `typed` as input from a terminal or `piped` from a pipe.

        The output is a pipe, or a terminal of so many columns.
        """
        self._monkeypatch.setattr("sys.stdout.isatty", lambda: columns is not None, raising=False)
        self.set("TERM", "xterm")
        self.set("COLUMNS", str(columns or 160))
        writer, reader = pty.openpty() if typed is not None else os.pipe()[::-1]
        os.write(writer, (piped if typed is None else f"{typed}\x04").encode())
        if typed is None:
            os.close(writer)
        stdin = open(reader)  # noqa: PTH123, SIM115  # a descriptor
        self._monkeypatch.setattr("sys.stdin", stdin)
        self._monkeypatch.setattr("sys.stderr.isatty", lambda: typed is not None, raising=False)
        self._monkeypatch.setattr("getpass.getpass", _read_password)
        logger = logging.getLogger("freight_exchange")
        handlers, level = list(logger.handlers), logger.level
        self._capture.readouterr()
        try:
            status = run(arguments)
        finally:
            stdin.close()
            if typed is not None:
                os.close(writer)
            logger.handlers[:] = handlers
            logger.setLevel(level)
        out, err = self._capture.readouterr()
        return Result(status, out, err)


def _read_password(prompt: str = "", stream: object = None) -> str:
    sys.stderr.write(f"{prompt}\n")
    return sys.stdin.readline().rstrip("\n")


@attrs.frozen
class Terminal:
    """Program on a pseudo-terminal."""

    process: subprocess.Popen[bytes]
    _descriptor: int

    def read(self) -> str | None:
        """Return new output, empty if there is none within 0.1 s, or `None` at the end."""
        ready, _, _ = select.select([self._descriptor], [], [], 0.1)
        if not ready:
            return ""
        try:
            return os.read(self._descriptor, 65536).decode(errors="replace") or None
        except OSError:
            # The last process has closed the terminal.
            return None

    def read_until(self, wanted: str) -> str:
        """Read until the screen shows `wanted`, and return the raw output."""
        output, deadline = "", time.monotonic() + TIMEOUT
        while wanted not in render_screen(output):
            assert time.monotonic() < deadline, output
            output += self.read() or ""
        return output

    def read_rest(self) -> str:
        """Read to the end."""
        return "".join(iter(lambda: self.read(), None))

    def type(self, keys: bytes) -> bool:
        """Send keys."""
        return os.write(self._descriptor, keys) > 0


_END: Final = "\x1c"
_SESSION: Final = f"""
import json, sys
from freight_exchange.cli.app import run
for words in json.loads(sys.argv[1]):
    status = run(words)
    print(status, end={_END!r}, flush=True)
"""


def run_session(
    commands: Sequence[Sequence[str]], answers: Sequence[Mapping[str, str]], *, columns: int
) -> Iterator[tuple[int, str]]:
    """Run commands one after the other in a process on a terminal, and yield the status and the screen of each."""
    program = (sys.executable, "-c", _SESSION)
    with open_terminal([json.dumps([*map(list, commands)])], program=program, columns=columns) as terminal:
        output, deadline = "", time.monotonic() + TIMEOUT
        for replies in answers:
            unanswered = dict(replies)
            while _END not in output:
                piece = terminal.read()
                assert piece is not None, output
                assert time.monotonic() < deadline, output
                output += piece
                for prompt in [prompt for prompt in unanswered if prompt in output]:
                    terminal.type(f"{unanswered.pop(prompt)}\n".encode())
            assert not unanswered, f"never asked: {unanswered}; but: {output}"
            shown, _, output = output.partition(_END)
            screen, _, status = shown.rpartition("\n")
            yield int(status), render_screen(f"{screen}\n")


@contextmanager
def open_terminal(arguments: Sequence[str], *, program: Sequence[str] = (), columns: int = 120) -> Iterator[Terminal]:
    """Start the program on a terminal."""
    descriptor, child_descriptor = pty.openpty()
    ioctl(child_descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*(program or locate_program()), *arguments],
        stdin=child_descriptor,
        stdout=child_descriptor,
        stderr=child_descriptor,
        start_new_session=True,
        preexec_fn=_take_terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns)},
    )
    os.close(child_descriptor)
    try:
        yield Terminal(process, descriptor)
    finally:
        process.kill()
        process.wait()
        os.close(descriptor)


def _take_terminal() -> None:
    ioctl(0, termios.TIOCSCTTY, 0)
    restore_signals()


def restore_signals() -> None:
    """Restore default handlers in a child process, which inherits ignored signals from tests run in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def ignore_interrupts() -> None:
    """Ignore SIGINT, as in a program that a script starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def start(
    *arguments: str, stdout: int = subprocess.PIPE, preexec: Callable[[], None] = restore_signals
) -> subprocess.Popen[str]:
    """Start the program as a child process."""
    return subprocess.Popen(
        [*locate_program(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=preexec,
    )


def finish(process: subprocess.Popen[str], number: signal.Signals | None = None) -> Result:
    """Send a signal, if given, and wait for the end of a child process."""
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    return Result(process.returncode, out, err)


def render_screen(output: str) -> str:
    """Return the final text of a screen, without colours and without lines that were erased or overwritten."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b.?", output):
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


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for a condition that another process or thread brings about."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.02)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process ends within half a second."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    return process.returncode is not None
