"""Whatever goes wrong ends in a sentence and a status of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.unit.blocks import ROOT
from tests.unit.cli.rig import COMMAND, PATIENCE, Shell, terminal, until

from freight_exchange import errors
from freight_exchange.bot.process import STATUSES as OF_A_BOT
from freight_exchange.cli import program
from freight_exchange.cli.exit_status import Status, row_of
from freight_exchange.sandbox import FAULTS, Cargo
from freight_exchange.sandbox.faces.tcp import refused_port

SUBMIT = ("bids", "submit", "1", "--amount", "1840.50", "--currency", "USD", "--yes")
# Raised to a bot's handlers alone.
OF_HANDLERS = {"AlreadyOfferedError", "OfferInDoubtError"}
# What never comes as such.
ROOTS = {"FreightExchangeError"}


def test_every_error_has_a_status_and_no_two_that_matter_share_one() -> None:
    found = {name: row_of(getattr(errors, name)("why")) for name in errors.__all__ if name not in OF_HANDLERS | ROOTS}
    assert {name for name, row in found.items() if row is None} == set()
    statuses = {name: row.status for name, row in found.items() if row is not None}
    assert statuses["LoginRejectedError"] == Status.LOGIN_REJECTED
    assert statuses["BadRequestError"] == Status.REFUSED
    assert statuses["OutcomeUnknownError"] == Status.OUTCOME_UNKNOWN
    assert statuses["TransportError"] == Status.UNAVAILABLE
    assert row_of(errors.FreightExchangeError("unheard of")) is None


def test_the_numbers_stay_what_scripts_know() -> None:
    assert {status.name: int(status) for status in Status} == {
        "DONE": 0, "BUG": 1, "USAGE": 2, "REFUSED": 65, "NOT_FOUND": 66, "UNAVAILABLE": 69,
        "NOT_PRINTED": 71, "STORE": 73,
        "OUTCOME_UNKNOWN": 74, "TRY_LATER": 75, "UNEXPECTED": 76, "LOGIN_REJECTED": 77, "CONFIGURATION": 78,
        "INTERRUPTED": 128 + signal.SIGINT, "PIPE_CLOSED": 128 + signal.SIGPIPE,
        "TERMINATED": 128 + signal.SIGTERM,
    }  # fmt: skip


def test_where_a_bot_has_a_status_for_an_error_it_is_the_same() -> None:
    bots = dict(OF_A_BOT)
    for kind in (errors.HeldError, errors.StoreError, errors.LoginRejectedError, errors.ConfigurationError):
        row = row_of(kind("why"))
        assert row is not None
        assert row.status == bots[kind]
    wrong_url, bad_certificate = errors.NotFoundError("why", path="login"), errors.TransportError("why", permanent=True)
    for error in (wrong_url, bad_certificate):
        row = row_of(error)
        assert row is not None
        assert row.status == bots[type(error)]


def test_the_page_has_every_status() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == set(Status)


class TestSentences:
    def test_a_wrong_password(self, shell: Shell) -> None:
        shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong-and-secret")
        done = shell("requests", "list")
        assert done.status == Status.LOGIN_REJECTED
        assert done.out == ""
        assert done.err.startswith("Error: the service rejected the email or password\n")
        assert f"The service is {shell.url}, the account {shell.exchange.forwarder.email}." in done.err
        assert "wrong-and-secret" not in done.err

    def test_a_wrong_url(self, shell: Shell) -> None:
        done = shell("--url", f"{shell.url}/v2/api", "requests", "list")
        assert done.status == Status.UNEXPECTED
        assert done.err.startswith("Error: there is no exchange at this URL\n")
        assert "Is the URL right? It is the API root, such as https://host/api." in done.err

    def test_a_url_that_is_none(self, shell: Shell) -> None:
        done = shell("--url", "nowhere", "requests", "list")
        assert done.status == Status.CONFIGURATION
        assert done.err.startswith("Error: --url must be an http or https URL with a host")

    def test_a_url_in_clear(self, shell: Shell) -> None:
        done = shell("--url", "http://exchange.example/api", "requests", "list")
        assert done.status == Status.CONFIGURATION
        assert "must use https" in done.err

    def test_a_server_that_is_down(self, shell: Shell) -> None:
        with refused_port() as port:
            done = shell("--url", f"http://127.0.0.1:{port}/api", "requests", "list")
        assert done.status == Status.UNAVAILABLE
        assert done.err.startswith(f"Error: no connection to 127.0.0.1:{port}: connection refused [")
        assert "Nothing was changed. Is the URL right, and the service up?" in done.err
        assert "ConnectError" not in done.err

    def test_a_server_that_does_not_answer(self, shell: Shell) -> None:
        shell.exchange.faults.add(*FAULTS["login_hung"]())
        done = shell("--timeout", "0.2", "requests", "list")
        assert done.status == Status.UNAVAILABLE
        assert "the --timeout of 0.2 s has passed" in done.err

    @pytest.mark.parametrize("timeout", ["nan", "inf", "0", "-1", "soon"])
    def test_a_time_that_is_none(self, shell: Shell, timeout: str) -> None:
        done = shell("--timeout", timeout, "requests", "list")
        assert done.status == Status.USAGE
        assert f"'--timeout': '{timeout}' is no number of seconds above 0" in done.err

    def test_https_where_the_server_speaks_http(self, shell: Shell) -> None:
        done = shell("--url", shell.url.replace("http:", "https:"), "requests", "list")
        assert done.status == Status.UNEXPECTED
        assert done.err.startswith(
            "Error: the server there does not speak https: the address may need http://, which is for this machine"
        )

    def test_https_where_nobody_listens(self, shell: Shell) -> None:
        with refused_port() as port:
            done = shell("--url", f"https://127.0.0.1:{port}/api", "requests", "list")
        assert done.status == Status.UNAVAILABLE
        assert done.err.startswith(f"Error: no connection to 127.0.0.1:{port}: connection refused [")

    def test_nobody_to_ask_for_the_password(self, shell: Shell) -> None:
        shell.set("FREIGHT_EXCHANGE_PASSWORD", None)
        done = shell("requests", "list")
        assert done.status == Status.CONFIGURATION
        assert done.err.startswith("Error: no password: set FREIGHT_EXCHANGE_PASSWORD, or log in once")

    def test_a_request_that_there_is_not(self, shell: Shell) -> None:
        done = shell("requests", "get", "99")
        assert done.status == Status.NOT_FOUND
        assert done.err.startswith("Error: no record has the index 99")

    def test_an_index_that_is_none(self, shell: Shell) -> None:
        for index in ("0", "four", "99999999999999999999"):
            for command in (["requests", "get", index], ["explain", index, "--store", "bot.db"]):
                done = shell(*command)
                assert done.status == Status.USAGE
                assert f"'{index}' is no number of a record" in done.err

    def test_what_the_service_refuses(self, shell: Shell) -> None:
        done = shell(*SUBMIT)
        assert done.status == Status.REFUSED
        assert done.err.startswith("Error: ")
        assert shell.exchange.audit_log.offers == []

    def test_a_write_whose_outcome_is_unknown(self, shell: Shell) -> None:
        shell.publish()
        shell.exchange.faults.add(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
        done = shell(*SUBMIT)
        assert done.status == Status.OUTCOME_UNKNOWN
        assert done.out == ""
        assert "whether it was carried out is not known" in done.err
        assert "Look with `freight-exchange bids list` in a minute, and do not send it again before." in done.err
        assert len(shell.exchange.audit_log.offers) == 1

    def test_too_many_calls(self, shell: Shell) -> None:
        shell.exchange.faults.add(*FAULTS["throttled_huge"](path="currency"))
        done = shell("currencies")
        assert done.status == Status.TRY_LATER

    def test_a_bug_shows_its_traceback(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("freight_exchange.cli.commands.reference.show_listing", broken)
        with pytest.raises(ZeroDivisionError):
            program.run(["currencies"])


class TestProcesses:
    """As a shell has it: a process, its signals and its pipes."""

    @staticmethod
    def started(*arguments: str, stdout: int = subprocess.PIPE, deaf: bool = False) -> subprocess.Popen[str]:
        """`deaf`: as a script starts it in the background, with Ctrl-C ignored."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN if deaf else signal.SIG_DFL),
        )

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    @pytest.mark.parametrize(
        "arguments",
        [
            ["currencies", "--json"],
            ["--help"],
            ["sandbox", "--port", "0"],
            ["sandbox", "--port", "0", "--json"],
            ["demo"],
        ],
    )
    def test_a_closed_pipe_ends_it_silently(self, shell: Shell, arguments: Sequence[str]) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        process = self.started(*arguments, stdout=writer)
        os.close(writer)
        status, _, err = self.ended(process)
        assert (status, err) == (Status.PIPE_CLOSED, "")

    @pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
    def test_streams_that_are_closed_are_no_reason_to_fail(self, shell: Shell, closed: str) -> None:
        command = f"{' '.join(COMMAND)} currencies {closed}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def test_an_encoding_that_lacks_a_character(self, shell: Shell) -> None:
        shell.publish(Cargo(commodityname="瓷砖"))
        shell.set("PYTHONIOENCODING", "latin-1")
        assert "\\u74f7\\u7816" in self.ended(self.started("requests", "list"))[1]

    @pytest.mark.parametrize("arguments", [["currencies"], ["sandbox", "--port", "0"], ["demo"]])
    def test_a_disk_that_is_full_is_said_to_be(self, shell: Shell, arguments: Sequence[str]) -> None:
        with Path("/dev/full").open("w") as full:
            status, _, err = self.ended(self.started(*arguments, stdout=full.fileno()))
        assert (status, err) == (
            Status.STORE,
            "Error: what was to be printed cannot be written: No space left on device\n",
        )

    def test_what_is_done_and_cannot_be_printed_is_said_to_be_done(self, shell: Shell) -> None:
        shell.publish()
        with Path("/dev/full").open("w") as full:
            status, _, err = self.ended(self.started(*SUBMIT, stdout=full.fileno()))
            assert len(shell.exchange.audit_log.offers) == 1
            assert (status, err) == (
                Status.NOT_PRINTED,
                "Error: what was asked is done, and it could not be printed: No space left on device\n"
                "  See it with `freight-exchange bids list`, and do not send it again.\n",
            )
            # What the service refused is not done.
            refused = ("bids", "submit", "99", *SUBMIT[3:])
            assert self.ended(self.started(*refused, stdout=full.fileno()))[0] == Status.REFUSED
            status, _, err = self.ended(self.started("logout", stdout=full.fileno()))
            assert (status, err) == (
                Status.NOT_PRINTED,
                "Error: what was asked is done, and it could not be printed: No space left on device\n",
            )

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [(["currencies", "--json"], 0), (["requests", "lost"], Status.USAGE), (["requests", "get", "99"], 66)],
    )
    def test_that_nobody_hears_what_is_said_changes_nothing(
        self, shell: Shell, arguments: Sequence[str], status: int
    ) -> None:
        def ran(unheard: str = "") -> subprocess.CompletedProcess[str]:
            # Others may read it, which is warned of.
            Path("login.json").write_text("{}")
            Path("login.json").chmod(0o644)
            command = shlex.join([*COMMAND, "--token-file", "login.json", *arguments])
            return subprocess.run(["sh", "-c", f"{command} {unheard}"], capture_output=True, text=True, check=False)

        heard = ran()
        assert heard.stderr
        assert heard.returncode == status
        for unheard in ("2>/dev/full", "2>&-"):
            done = ran(unheard)
            assert (done.returncode, done.stdout) == (status, heard.stdout)

    def test_what_a_reader_did_not_get_comes_again(self, shell: Shell) -> None:
        published = [shell.publish() for _ in range(3)]
        watch = ("requests", "watch", "--store", "seen.db", "--start", "backfill", "--json")
        reader, writer = os.pipe()
        os.close(reader)
        process = self.started(*watch, stdout=writer)
        os.close(writer)
        assert self.ended(process)[0] == Status.PIPE_CLOSED
        told = [json.loads(line) for line in shell(*watch, "--count", "3").out.splitlines()]
        assert sorted(event["request"]["index"] for event in told) == published

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_a_watch(self, shell: Shell, number: signal.Signals) -> None:
        shell.publish()
        process = self.started("requests", "watch", "--start", "backfill")
        assert process.stdout is not None
        assert "Ceramic tiles" in process.stdout.readline()
        process.send_signal(number)
        status, _, err = self.ended(process)
        assert (status, err) == (128 + number, "Error: interrupted\n")

    def test_sigterm_ends_a_watch_that_a_script_runs_in_the_background(self, shell: Shell) -> None:
        shell.publish()
        process = self.started("requests", "watch", "--start", "backfill", "--interval", "1s", deaf=True)
        assert process.stdout is not None
        assert "Ceramic tiles" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        shell.publish()
        assert "Ceramic tiles" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        status, _, err = self.ended(process)
        assert (status, err) == (Status.TERMINATED, "Error: interrupted\n")

    def test_there_too_an_offer_on_its_way_is_not_left_without_a_word(self, shell: Shell) -> None:
        shell.publish()
        shell.exchange.faults.add(*FAULTS["stall"](path="quote/submitoffer", processed=True))
        process = self.started(*SUBMIT, deaf=True)
        until(lambda: shell.exchange.audit_log.offers)
        process.send_signal(signal.SIGTERM)
        status, _, err = self.ended(process)
        assert status == Status.OUTCOME_UNKNOWN
        assert err.startswith("Error: interrupted while it was on its way")

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_while_an_offer_is_on_its_way(self, shell: Shell, number: signal.Signals) -> None:
        shell.publish()
        shell.exchange.faults.add(*FAULTS["stall"](path="quote/submitoffer", processed=True))
        process = self.started(*SUBMIT)
        until(lambda: shell.exchange.audit_log.offers)
        process.send_signal(number)
        status, out, err = self.ended(process)
        assert status == Status.OUTCOME_UNKNOWN
        assert out == ""
        assert err.startswith("Error: interrupted while it was on its way: whether it was taken is not known\n")
        assert "Look with `freight-exchange bids list`" in err
        assert "Traceback" not in err

    def test_ctrl_c_while_nothing_is_on_its_way(self, shell: Shell) -> None:
        shell.exchange.faults.add(*FAULTS["login_hung"]())
        process = self.started(*SUBMIT)
        until(lambda: shell.exchange.faults.fired)
        process.send_signal(signal.SIGINT)
        status, _, err = self.ended(process)
        assert (status, err) == (Status.INTERRUPTED, "Error: interrupted\n")


def _ends(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    return process.returncode is not None


@pytest.mark.parametrize(("arguments", "prompt"), [(("login",), "Email"), (SUBMIT[:-1], "[y/N]:")])
def test_ctrl_c_at_a_question_sends_nothing(shell: Shell, arguments: Sequence[str], prompt: str) -> None:
    shell.publish()
    if prompt == "Email":
        shell.set("FREIGHT_EXCHANGE_EMAIL", None)
    with terminal(arguments) as (process, screen):
        until(lambda: prompt in os.read(screen, 65536).decode())
        # More than once: one that comes before the line editor waits for keys is not noticed until the next.
        until(lambda: os.write(screen, b"\x03") and _ends(process))
        assert process.returncode == Status.INTERRUPTED
    assert shell.exchange.audit_log.offers == []


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    for missing in ("click", "rich"):
        code = (
            f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['--help'];"
            " from freight_exchange import cli; cli.main()"
        )
        done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, text=True, cwd=ROOT / "src", check=False)
        if missing == "click":
            assert done.returncode == 2
            assert done.stderr == 'freight-exchange needs the extra "cli": pip install "freight-exchange[cli]"\n'
        else:
            # Only what is shown on a terminal needs it.
            assert done.returncode == 0
