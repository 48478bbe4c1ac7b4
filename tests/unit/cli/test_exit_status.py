"""Tests of exit statuses and error reports."""

from __future__ import annotations

import signal

import pytest
from tests.unit.cli.harness import SUBMIT, Shell

from freight_exchange import errors
from freight_exchange.bot.runtime.process.process import STATUSES as BOT_STATUSES
from freight_exchange.cli import program
from freight_exchange.cli.exit_status import Status, find_rule
from freight_exchange.store.protocol import ConflictError
from freight_sandbox import FAULTS
from freight_sandbox.server import refused_port

ERRORS_OF_HANDLERS = {"AlreadyApprovedError", "AlreadyOfferedError", "OfferChangedError", "OfferInDoubtError"}
BASE_ERRORS = {"FreightExchangeError"}


def status_of(error: errors.FreightExchangeError) -> Status:
    rule = find_rule(error)
    assert rule is not None
    return rule.status


def test_every_error_has_a_rule() -> None:
    for name in set(errors.__all__) - ERRORS_OF_HANDLERS - BASE_ERRORS:
        assert find_rule(getattr(errors, name)("why")) is not None, name
    assert status_of(errors.LoginRejectedError("why")) == Status.LOGIN_REJECTED
    assert status_of(errors.BadRequestError("why")) == Status.REFUSED
    assert status_of(errors.OutcomeUnknownError("why")) == Status.OUTCOME_UNKNOWN
    assert status_of(errors.TransportError("why")) == Status.UNAVAILABLE
    assert find_rule(errors.FreightExchangeError("unheard of")) is None


def test_statuses_keep_their_numbers() -> None:
    assert {status.name: int(status) for status in Status} == {
        "DONE": 0, "BUG": 1, "USAGE": 2, "REFUSED": 65, "NOT_FOUND": 66, "UNAVAILABLE": 69,
        "NOT_PRINTED": 71, "STORE": 73,
        "OUTCOME_UNKNOWN": 74, "TRY_LATER": 75, "UNEXPECTED": 76, "LOGIN_REJECTED": 77, "CONFIGURATION": 78,
        "INTERRUPTED": 128 + signal.SIGINT, "PIPE_CLOSED": 128 + signal.SIGPIPE,
        "TERMINATED": 128 + signal.SIGTERM,
    }  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        errors.HeldError("why"),
        errors.StoreAwayError("why"),
        ConflictError("why"),
        errors.StoreError("why"),
        errors.LoginRejectedError("why"),
        errors.ConfigurationError("why"),
        errors.NotFoundError("wrong URL", path="login"),
        errors.TransportError("bad certificate", permanent=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_statuses_agree_with_those_of_a_bot(error: errors.FreightExchangeError) -> None:
    assert status_of(error) == dict(BOT_STATUSES)[type(error)]


def test_wrong_password_is_reported_without_it(shell: Shell) -> None:
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong-and-secret")
    result = shell("requests", "list")
    assert (result.status, result.out) == (Status.LOGIN_REJECTED, "")
    assert result.err.startswith("Error: the service rejected the email or password\n")
    assert f"The service is {shell.url}, the account {shell.exchange.forwarder.email}." in result.err
    assert "wrong-and-secret" not in result.err


def test_url_without_exchange_is_unexpected(shell: Shell) -> None:
    result = shell("--url", f"{shell.url}/v2/api", "requests", "list")
    assert result.status == Status.UNEXPECTED
    assert result.err.startswith("Error: there is no exchange at this URL\n")
    assert "Is the URL right? It is the API root, such as https://host/api." in result.err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere", "the URL must be an http or https URL with a host"),
        ("http://exchange.example/api", "must use https"),
    ],
)
def test_invalid_url_is_a_configuration_error(shell: Shell, url: str, message: str) -> None:
    result = shell("--url", url, "requests", "list")
    assert result.status == Status.CONFIGURATION
    assert message in result.err


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_refused_connection_is_unavailable(shell: Shell, scheme: str) -> None:
    with refused_port() as port:
        result = shell("--url", f"{scheme}://127.0.0.1:{port}/api", "requests", "list")
    assert result.status == Status.UNAVAILABLE
    assert result.err.startswith(f"Error: no connection to 127.0.0.1:{port}: connection refused [")
    assert "Nothing was changed. Is the URL right, and the service up?" in result.err
    assert "ConnectError" not in result.err


def test_https_url_of_http_server_is_explained(shell: Shell) -> None:
    result = shell("--url", shell.url.replace("http:", "https:"), "requests", "list")
    assert result.status == Status.UNEXPECTED
    assert result.err.startswith(
        "Error: the server at this URL does not speak https: a sandbox on this machine has an http:// URL ["
    )


def test_timeout_is_unavailable(shell: Shell) -> None:
    shell.exchange.faults.add(*FAULTS["login_hung"]())
    result = shell("--timeout", "0.2", "requests", "list")
    assert result.status == Status.UNAVAILABLE
    assert "the --timeout of 0.2 s has passed" in result.err


@pytest.mark.parametrize("timeout", ["nan", "inf", "0", "-1", "soon"])
def test_invalid_timeout_is_rejected(shell: Shell, timeout: str) -> None:
    result = shell("--timeout", timeout, "requests", "list")
    assert result.status == Status.USAGE
    assert f"'--timeout': '{timeout}' is not a number of seconds above 0" in result.err


@pytest.mark.parametrize("index", ["0", "four", "99999999999999999999"])
@pytest.mark.parametrize("command", [("requests", "get"), ("explain", "--store", "bot.db")], ids=" ".join)
def test_invalid_index_is_rejected(shell: Shell, command: tuple[str, ...], index: str) -> None:
    result = shell(*command, index)
    assert result.status == Status.USAGE
    assert f"'{index}' is not a record number" in result.err


def test_unknown_request_is_not_found(shell: Shell) -> None:
    result = shell("requests", "get", "99")
    assert result.status == Status.NOT_FOUND
    assert result.err.startswith("Error: no record has the index 99")


def test_write_that_service_refuses_is_reported(shell: Shell) -> None:
    result = shell(*SUBMIT, "--yes")
    assert result.status == Status.REFUSED
    assert result.err.startswith("Error: ")
    assert shell.exchange.audit_log.offers == []


def test_write_with_unknown_outcome_names_lookup_command(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    result = shell(*SUBMIT, "--yes")
    assert (result.status, result.out) == (Status.OUTCOME_UNKNOWN, "")
    assert "whether it was carried out is not known" in result.err
    assert "Check with `freight-exchange bids list` in a minute, before you send it again." in result.err
    assert len(shell.exchange.audit_log.offers) == 1


def test_rate_limit_asks_to_try_later(shell: Shell) -> None:
    shell.exchange.faults.add(*FAULTS["throttled_huge"](path="currency"))
    assert shell("currencies").status == Status.TRY_LATER


def test_bug_raises_with_traceback(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("freight_exchange.cli.commands.reference.print_listing", fail)
    with pytest.raises(ZeroDivisionError):
        program.run(["currencies"])
