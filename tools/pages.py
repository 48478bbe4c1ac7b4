r"""Run the code blocks of the README and the pages as a reader does, and follow the tutorial to the letter.

`python tools/pages.py [PAGE...]` runs them in this environment; `--install` makes an environment for each page with
what the page installs. `--extract FOLDER` saves the Python blocks for a type checker.

A comment before a block tells how it runs: `<!-- run: WAY, account, what happens -->`, with one of `WAYS`. Comments of
the tutorial name its steps: `terminal: NAME` types the lines and waits for the end of each (`stays`: not of the last
one; `again`: repeats the last one until it shows what follows); `run: saved` saves; `shows: NAME` waits for those
lines, in which `…` stands for any text; `press: NAME, quit` or `stop` sends the signal of Ctrl-\ or Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

# A script's own folder is on the path; the root, which the next imports need, is not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import anyio
from tests.crash.proxy import TcpProxy

from freight_sandbox import FAULTS, Exchange, Fault
from freight_sandbox.samples import samples
from freight_sandbox.server import serve

__all__ = ["PAGES", "ROOT", "WAYS", "Snippet", "environment_of", "follow_tutorial", "run_page", "snippets_of"]

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIAL: Final = ROOT / "docs" / "tutorial.md"
WAYS: Final = {
    "program": "ends by itself",
    "bot": "runs until it is stopped; makes an offer",
    "watcher": "runs until it is stopped; prints a line",
    "test": "pytest runs it",
    "recorded": "pytest runs it with an exchange, and again without one",
    "saved": "another block needs it",
}
_TIMEOUT: Final = 100.0
_SUBMIT: Final = "quote/submitoffer"
_BLOCK: Final = re.compile(
    r"(?:<!-- run: (?P<marks>[a-z, ]+) -->\n)?```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)\n?```",
    re.DOTALL,
)
_INSTALL: Final = re.compile(r"\bpip install ((?:\"[^\"]+\"|[\w./\[\]-]+|[ ](?![ #]))+)")
_STEP: Final = re.compile(
    r"<!-- (?P<what>terminal|run|shows|press): (?P<words>[a-z, ]+) -->"
    r"(?:\n```\w+(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)```)?",
    re.DOTALL,
)


class Snippet(NamedTuple):
    """Block that is saved under a name, with its marks: one of `WAYS`, the account, and what happens."""

    name: str
    marks: tuple[str, ...]
    code: str

    @property
    def way(self) -> str:
        return self.marks[0]


def snippets_of(page: Path) -> list[Snippet]:
    """Return the marked blocks of a page.

    Raises:
        ValueError: A Python block is not marked and is not a file of the project.
    """
    found: list[Snippet] = []
    for number, match in enumerate(_BLOCK.finditer(page.read_text()), 1):
        if match["marks"] is not None and (match["kind"] == "python" or match["title"] is not None):
            name = match["title"] or f"{page.stem.lower().replace('-', '_')}_{number}.py"
            found.append(Snippet(name, tuple(match["marks"].split(", ")), f"{match['text']}\n"))
        elif match["kind"] == "python" and "--8<--" not in match["text"]:
            raise ValueError(f"{page}: a Python block is not marked:\n{match['text']}")
    return found


def extract(folder: Path) -> None:
    """Save the Python blocks of all pages in one folder, where a type checker reads them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for snippet in (one for page in PAGES for one in snippets_of(page) if one.name.endswith(".py")):
        (folder / snippet.name).write_text(snippet.code)


def environment_of(url: str, account: Any) -> dict[str, str]:
    """Return the variables that name the exchange and the account to a program."""
    values = {"URL": url, "EMAIL": account.email, "PASSWORD": account.password}
    return {f"FREIGHT_EXCHANGE_{name}": value for name, value in values.items()}


# The blocks of a page


def run_page(page: Path, folder: Path, python: str = sys.executable) -> dict[str, str]:
    """Save and run the blocks of a page, each program in a folder of its own; return the problem of each, if any."""
    snippets = snippets_of(page)
    problems: dict[str, str] = {}
    for snippet in snippets:
        if snippet.way in ("program", "bot", "watcher"):
            own = _saved(snippets, folder / snippet.name.removesuffix(".py"), snippet)
            problems[snippet.name] = _run_program(snippet, own, python)
        elif snippet.way == "recorded":
            problems[snippet.name] = anyio.run(_record, snippet, _saved(snippets, folder / "recorded", snippet), python)
    if tests := [snippet for snippet in snippets if snippet.way == "test"]:
        problem = _run_tests(tests, _saved(snippets, folder / "tests", *tests), python)
        problems |= dict.fromkeys((test.name for test in tests), problem)
    return problems


def _saved(snippets: Iterable[Snippet], folder: Path, *wanted: Snippet) -> Path:
    """Save the wanted blocks, and those that others continue, perhaps on another page, in a new folder."""
    folder.mkdir(parents=True)
    imported = {name for one in wanted for name in re.findall(r"^from (\w+) import ", one.code, re.MULTILINE)}
    others = [one for page in PAGES for one in snippets_of(page) if one.name.removesuffix(".py") in imported]
    for snippet in [*wanted, *others, *(one for one in snippets if one.way == "saved")]:
        (folder / snippet.name).write_text(snippet.code)
    return folder


def _start(folder: Path, python: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start Python as a reader does: without this project's variables, with warnings as errors."""
    dropped = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "FREIGHT_EXCHANGE")
    own = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [python, "-W", "error", *arguments], cwd=folder, env=own | environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip


def _run_program(snippet: Snippet, folder: Path, python: str) -> str:
    """Run a program, perhaps against an exchange, and return its problem."""
    if {"forwarder", "shipper"} & {*snippet.marks}:
        problem = anyio.run(_run_with_exchange, snippet, folder, python)
    else:
        status = _start(folder, python, snippet.name).wait(_TIMEOUT)
        problem = f"exit status {status}" if status else ""
    printed = (folder / "output.txt").read_text()
    if not printed or "Traceback" in printed or "Warning" in printed:
        problem = problem or "nothing is printed, or a traceback or a warning"
    return f"{problem}\n{printed}" if problem else ""


async def _run_with_exchange(snippet: Snippet, folder: Path, python: str) -> str:
    marks, exchange, output = snippet.marks, Exchange(), folder / "output.txt"
    _prepare(exchange, marks)
    account = exchange.shipper if "shipper" in marks else exchange.forwarder
    async with serve(exchange) as face:
        origin = face.url.removesuffix("/api")
        proxy = TcpProxy(int(origin.rpartition(":")[2]), origin.encode())
        environment = environment_of(face.url, account) | {"COMPANY_PROXY": f"http://127.0.0.1:{proxy.port}"}
        process = _start(folder, python, snippet.name, **environment)
        if snippet.way in ("bot", "watcher"):
            with anyio.move_on_after(_TIMEOUT):
                is_ready = (lambda: exchange.audit_log.offers) if snippet.way == "bot" else output.read_text
                while process.poll() is None and not is_ready():  # noqa: ASYNC110  # another process gets ready
                    await anyio.sleep(0.02)
            process.send_signal(signal.SIGTERM)
        status = await anyio.to_thread.run_sync(process.wait, _TIMEOUT)
        proxy.close()
    if status and not (snippet.way == "watcher" and status == -signal.SIGTERM):
        return f"exit status {status}"
    if (snippet.way == "bot" or {"lost answer", "slow answer"} & {*marks}) and not exchange.audit_log.offers:
        return "no offer was made"
    if "proxy" in marks and not proxy.asked:
        return "the proxy was not used"
    return "an offer was made twice" if exchange.audit_log.duplicate_offers() else ""


def _prepare(exchange: Exchange, marks: tuple[str, ...]) -> None:
    """Publish the requests of `freight-exchange sandbox --requests 5`, and arm the faults that the marks name."""
    for cargo in samples(5, now := time.time()):
        exchange.act(exchange.shipper, "POST", "quote/submitrequest", cargo, now)
    if "lost answer" in marks:
        exchange.faults.add(*FAULTS["reset_after_processing"](path=_SUBMIT))
    if "slow answer" in marks:
        exchange.faults.add(*FAULTS["slow"](path=_SUBMIT, seconds=3))
    if "failed scan" in marks:
        exchange.faults.add(*FAULTS["reset_after_send"](path="quote/getrequests", times=2))
    if "an offer comes" in marks:
        for path in ("quote/offer", "quote/getoffers"):
            exchange.faults.add(Fault(name="an offer", path=path, change=_offer_on_newest))


def _offer_on_newest(exchange: Exchange, now: float) -> None:
    exchange.offer(exchange.rival, exchange.open_requests()[-1], now)


def _run_tests(tests: Iterable[Snippet], folder: Path, python: str, **environment: str) -> str:
    process = _start(folder, python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", **environment)
    status, output = process.wait(_TIMEOUT), (folder / "output.txt").read_text()
    complete = all(f"{test.name} ." in output for test in tests)
    return "" if status == 0 and complete and "warning" not in output else f"exit status {status}\n{output}"


async def _record(snippet: Snippet, folder: Path, python: str) -> str:
    """Record the test against an exchange, and replay it without one; the recording holds no secret."""
    exchange = Exchange()
    _prepare(exchange, ())
    async with serve(exchange) as face:
        environment = environment_of(face.url, exchange.forwarder)
        problem = await anyio.to_thread.run_sync(lambda: _run_tests([snippet], folder, python, **environment))
    if problem:
        return problem
    (cassette,) = (path.read_text() for path in (folder / "cassettes").iterdir())
    if any(secret in cassette for secret in ("password", *exchange.tokens)):
        return "a secret is recorded"
    return _run_tests([snippet], folder, python)


# The tutorial


class _Terminal:
    """Terminal with a shell: receives commands, and keeps the output."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.output = ""
        self._looked_at = self._typed = 0
        self._shell = subprocess.Popen(
            # An inherited ignored signal would stay ignored, as in a run in the background.
            [sys.executable, "-c", _SHELL], cwd=folder, env=environment, text=True, bufsize=1, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._reader.join()
        self._shell.communicate()

    def type(self, command: str, *, wait: bool, may_fail: bool = False) -> None:
        assert self._shell.stdin is not None
        self._typed += 1
        ended = f"[command {self._typed} ended: "
        self._shell.stdin.write(f'{command}\necho "{ended}$?]"\n')
        if wait:
            self._until(lambda: ended in self.output, command)
            assert may_fail or f"{ended}0]" in self.output, f"{command} failed:\n{self.output}"

    def shows(self, lines: list[str], again: str = "") -> None:
        """Wait until these lines have appeared in this order, and repeat a command until then."""
        began = time.monotonic()
        while again and not self._find(lines) and time.monotonic() - began < _TIMEOUT:
            self.type(again, wait=True, may_fail=True)
        self._until(lambda: self._find(lines) > 0, "\n".join(lines))
        self._looked_at = self._find(lines)

    def press(self, key: signal.Signals) -> None:
        """Send a key to the program in the shell, and wait for the end of the program."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self._shell.pid)], capture_output=True, check=True)
        for child in map(int, listed.stdout.split()):
            os.kill(child, key)
        self._until(lambda: f"[command {self._typed} ended: " in self.output, f"the end after {key.name}")

    def _find(self, lines: list[str]) -> int:
        at = self._looked_at
        for line in lines:
            if (found := re.compile(".*".join(map(re.escape, line.split("…")))).search(self.output, at)) is None:
                return 0
            at = found.end()
        return at

    def _until(self, true: Callable[[], bool], what: str) -> None:
        began = time.monotonic()
        while not true():
            assert time.monotonic() - began < _TIMEOUT, f"it did not come to this:\n{what}\n--- but to\n{self.output}"
            time.sleep(0.02)

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self.output += line


_SHELL: Final = (
    "import os, signal\nfor number in (signal.SIGINT, signal.SIGQUIT): signal.signal(number, signal.SIG_DFL)\n"
    "os.execvp('bash', ['bash', '--norc'])"
)


def follow_tutorial(folder: Path, environment: Mapping[str, str], replaced: Mapping[str, str]) -> None:
    """Type the commands of the tutorial but its installation, save its files, press its keys, and see what it shows."""
    page = TUTORIAL.read_text()
    for old, new in replaced.items():
        page = page.replace(old, new)
    steps = [match for match in _STEP.finditer(page) if "install" not in match["words"]]
    terminals: dict[str, _Terminal] = {}
    (folder / "first-bot").mkdir()
    again = ""
    with ExitStack() as stack:
        for step in steps:
            name, *words = step["words"].split(", ")
            lines = (step["text"] or "").splitlines()
            if step["what"] == "run":
                (folder / "first-bot" / step["title"]).write_text(step["text"])
                continue
            if name not in terminals:
                terminals[name] = _Terminal(folder, environment)
                stack.callback(terminals[name].close)
                if len(terminals) == 1:
                    terminals[name].type("cd first-bot", wait=True)
            if step["what"] == "shows":
                terminals[name].shows(lines, again)
                again = ""
            elif step["what"] == "press":
                terminals[name].press({"quit": signal.SIGQUIT, "stop": signal.SIGINT}[words[0]])
            else:
                for line in lines[:-1]:
                    terminals[name].type(line, wait=True)
                if "again" in words:
                    again = lines[-1]
                else:
                    terminals[name].type(lines[-1], wait="stays" not in words)


# The command


def _install(page: Path, folder: Path) -> str:
    """Make an environment with what a page installs, and return its interpreter."""
    uv = Path(sys.executable).parent / "uv"
    words = [word for match in _INSTALL.finditer(page.read_text()) for word in shlex.split(match[1])]
    named = {re.sub(r"^\.{0,2}/?freight-exchange", str(ROOT), word) for word in words} | {str(ROOT)}
    subprocess.run([uv, "venv", "--quiet", folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", *named], check=True)
    return str(folder / "bin" / "python")


def main() -> int:
    """Run pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--install", action="store_true", help="an environment for each page, with what it installs")
    parser.add_argument("--extract", type=Path, metavar="FOLDER", help="save the Python blocks, and do nothing else")
    options = parser.parse_args()
    if options.extract:
        extract(options.extract)
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for number, page in enumerate(page for page in options.pages if snippets_of(page)):
            folder = Path(name, str(number))
            python = _install(page, folder / "venv") if options.install else sys.executable
            for snippet, problem in run_page(page, folder / "run", python).items():
                failed += bool(problem)
                print(f"{page.name}: {snippet}: {problem or 'ok'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
