"""Tests of the program as a process: its streams and signals."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.harness import (
    SUBMIT,
    Result,
    Shell,
    finish,
    has_ended,
    ignore_interrupts,
    locate_program,
    open_terminal,
    render_screen,
    restore_signals,
    start,
    wait_until,
)
from tools.pages import ROOT

from freight_exchange.cli.run import Status
from freight_sandbox import FAULTS

WATCH = ("requests", "watch", "--start", "backfill")


def run_with_closed_pipe(*arguments: str) -> Result:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*arguments, stdout=writer)
    os.close(writer)
    return finish(process)


def run_with_full_disk(*arguments: str) -> Result:
    with Path("/dev/full").open("w") as full:
        return finish(start(*arguments, stdout=full.fileno()))


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    "arguments",
    [["currencies", "--json"], ["--help"], ["demo"], ["sandbox", "--port", "0"], ["sandbox", "--port", "0", "--json"]],
    ids=" ".join,
)
def test_closed_pipe_ends_program_silently(shell: Shell, arguments: Sequence[str]) -> None:
    result = run_with_closed_pipe(*arguments)
    assert (result.status, result.err) == (Status.PIPE_CLOSED, "")


@pytest.mark.parametrize("redirection", ["<&-", "<&- >&- 2>&-"])
def test_program_runs_with_closed_streams(shell: Shell, redirection: str) -> None:
    command = f"{shlex.join(locate_program())} currencies {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["currencies"], ["sandbox", "--port", "0"]], ids=" ".join)
def test_full_disk_is_reported(shell: Shell, arguments: Sequence[str]) -> None:
    result = run_with_full_disk(*arguments)
    assert (result.status, result.err) == (
        Status.STORE,
        "Error: the output cannot be written: No space left on device\n",
    )


def test_write_whose_result_cannot_be_printed_is_reported_as_done(shell: Shell) -> None:
    shell.publish()
    message = "Error: the command took effect, but its result could not be printed: No space left on device\n"
    submitted = run_with_full_disk(*SUBMIT, "--yes")
    assert len(shell.exchange.audit_log.offers) == 1
    assert submitted.status == Status.NOT_PRINTED
    assert submitted.err == (f"{message}  See it with `freight-exchange bids list`, and do not send it again.\n")
    logged_out = run_with_full_disk("logout")
    assert (logged_out.status, logged_out.err) == (Status.NOT_PRINTED, message)
    refused = run_with_full_disk("bids", "submit", "99", *SUBMIT[3:], "--yes")
    assert refused.status == Status.REFUSED


@pytest.mark.parametrize(
    ("redirection", "arguments", "status"),
    [
        ("2>/dev/full", ["currencies", "--json"], 0),
        ("2>/dev/full", ["requests", "lost"], Status.USAGE),
        ("2>&-", ["requests", "get", "99"], 66),
    ],
)
def test_unwritable_stderr_changes_neither_output_nor_status(
    shell: Shell, redirection: str, arguments: Sequence[str], status: int
) -> None:
    def warn_of_mode() -> list[str]:
        Path("login.json").write_text("{}")
        Path("login.json").chmod(0o644)
        return ["--token-file", "login.json", *arguments]

    expected = shell(*warn_of_mode())
    assert expected.err
    assert expected.status == status
    command = f"{shlex.join([*locate_program(), *warn_of_mode()])} {redirection}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, expected.out)


def test_events_lost_in_closed_pipe_are_shown_again(shell: Shell) -> None:
    published = [shell.publish() for _ in range(3)]
    watch = (*WATCH, "--store", "seen.db", "--json")
    assert run_with_closed_pipe(*watch).status == Status.PIPE_CLOSED
    events = shell(*watch, "--count", "3").objects
    assert sorted(event["request"]["index"] for event in events) == published


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_watch(shell: Shell, number: signal.Signals) -> None:
    shell.publish()
    process = start(*WATCH)
    assert "Ceramic tiles" in read_line(process)
    result = finish(process, number)
    assert (result.status, result.err) == (128 + number, "Error: interrupted\n")


def test_background_watch_ignores_sigint_and_obeys_sigterm(shell: Shell) -> None:
    shell.publish()
    process = start(*WATCH, "--interval", "1s", preexec=ignore_interrupts)
    assert "Ceramic tiles" in read_line(process)
    process.send_signal(signal.SIGINT)
    shell.publish()
    assert "Ceramic tiles" in read_line(process)
    result = finish(process, signal.SIGTERM)
    assert (result.status, result.err) == (Status.TERMINATED, "Error: interrupted\n")


@pytest.mark.parametrize(
    ("number", "is_background"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_signal_during_write_reports_unknown_outcome(shell: Shell, number: signal.Signals, is_background: bool) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["stall"](path="quote/submitoffer", processed=True))
    process = start(*SUBMIT, "--yes", preexec=ignore_interrupts if is_background else restore_signals)
    wait_until(lambda: shell.exchange.audit_log.offers)
    result = finish(process, number)
    assert (result.status, result.out) == (Status.OUTCOME_UNKNOWN, "")
    assert result.err.startswith("Error: interrupted in flight: the service may or may not have taken it\n")
    assert "Check with `freight-exchange bids list`" in result.err
    assert "Traceback" not in result.err


def test_ctrl_c_before_write_reports_interruption(shell: Shell) -> None:
    shell.exchange.faults.add(*FAULTS["login_hung"]())
    process = start(*SUBMIT, "--yes")
    wait_until(lambda: shell.exchange.faults.fired)
    result = finish(process, signal.SIGINT)
    assert (result.status, result.err) == (Status.INTERRUPTED, "Error: interrupted\n")


@pytest.mark.parametrize(("arguments", "prompt"), [(("login",), "Email"), (SUBMIT, "[y/N]:")])
def test_ctrl_c_at_prompt_sends_nothing(shell: Shell, arguments: Sequence[str], prompt: str) -> None:
    shell.publish()
    if prompt == "Email":
        shell.set("FREIGHT_EXCHANGE_EMAIL", None)
    with open_terminal(arguments) as terminal:
        terminal.read_until(prompt)
        # Repeated: the line editor notices a Ctrl-C that precedes it only with the next one.
        wait_until(lambda: terminal.type(b"\x03") and has_ended(terminal.process))
        assert terminal.process.returncode == Status.INTERRUPTED
        assert "\nError: interrupted\n" in render_screen(terminal.read_rest())
    assert shell.exchange.audit_log.offers == []


def test_ctrl_c_during_imports_prints_no_traceback() -> None:
    code = """
import sys
from freight_exchange import cli

class Interrupting:
    def find_spec(self, *_):
        raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
cli.main()
"""
    done = subprocess.run(
        [locate_program()[0], "-c", code], capture_output=True, text=True, cwd=ROOT / "src", check=False
    )
    assert (done.returncode, done.stderr) == (Status.INTERRUPTED, "\nError: interrupted\n")


@pytest.mark.parametrize(("missing", "status"), [("click", 2), ("rich", 0)])
def test_missing_extra_names_install_command(missing: str, status: int) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['--help'];"
        " from freight_exchange import cli; cli.main()"
    )
    done = subprocess.run(
        [locate_program()[0], "-c", code], capture_output=True, text=True, cwd=ROOT / "src", check=False
    )
    assert done.returncode == status
    if status:
        assert done.stderr == 'freight-exchange needs the extra "cli": pip install "./freight-exchange[cli]"\n'
