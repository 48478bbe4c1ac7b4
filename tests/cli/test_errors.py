"""Tests of exit statuses and of the report of each error."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.harness import DRAFT, ROUTE, SUBMIT, Shell

from freight_exchange import errors
from freight_exchange.bot.process import STATUSES as BOT_STATUSES
from freight_exchange.cli.run import Status, status_of
from freight_exchange.store.errors import ConflictError
from freight_sandbox import FAULTS
from freight_sandbox.server import refused_port

ERRORS_OF_HANDLERS = {"AlreadyApprovedError", "AlreadyOfferedError", "OfferChangedError", "OfferInDoubtError"}
WHERE = "The service is {url}, the account forwarder@demo.example."
UP = "Nothing was changed. Is the URL right, and the service up? If so, try again later."
API_ROOT = "Is the URL right? It is the API root, such as https://host/api."
CHECK = "Check with `freight-exchange bids list` in a minute, before you send it again."


def strike(name: str, **where: Any) -> Callable[[Shell], None]:
    return lambda shell: shell.exchange.faults.add(*FAULTS[name](**where))


def set_variable(name: str, value: str) -> Callable[[Shell], None]:
    return lambda shell: shell.set(f"FREIGHT_EXCHANGE_{name}", value)


def write(name: str, content: str | bytes) -> Callable[[Shell], None]:
    data = content.encode() if isinstance(content, str) else content

    def prepare(shell: Shell) -> None:
        Path(name).write_bytes(data)

    return prepare


def draft(**change: Any) -> Callable[[Shell], None]:
    return write("draft.json", json.dumps({name: value for name, value in (DRAFT | change).items() if value != ""}))


def offered(shell: Shell) -> None:
    """Make an offer of 1840.50 USD on request 1, and be the shipper."""
    shell.publish()
    shell(*SUBMIT, "--yes")
    shell.use_account(shell.exchange.shipper)


def nothing(shell: Shell) -> None: ...


LIST, WATCH, OFFER = ("requests", "list"), ("requests", "watch"), ("bids", "submit", "1", "--currency", "USD", "--yes")
PUBLISH, DRAFTED = ("requests", "publish", "--yes", "--file"), ("requests", "publish", "--yes", "--file", "draft.json")
ROUTED = ("routes", "create", "--file", "r.json", "--yes")
COMPARE = ("offers", "compare", "1", "--to", "EUR")
PORT = ("sandbox", "--port", "0")


CASES: list[tuple[str, Callable[[Shell], None], tuple[str, ...], int, list[str]]] = [
    (
        "wrong password", set_variable("PASSWORD", "wrong-and-secret"), ("requests", "list"), 77,
        ["service rejected the email or password", WHERE, "Check both: too many wrong passwords may lock the account."],
    ),
    ("no exchange", nothing, ("--url", "{url}/v2/api", "requests", "list"), 76, ["base_url may be wrong", API_ROOT]),
    ("URL without a scheme", nothing, ("--url", "nowhere", "currencies"), 78, ["--url must be an http or https URL"]),
    ("plain http", nothing, ("--url", "http://exchange.example/api", "currencies"), 78, ["--url must use https"]),
    ("unknown proxy", nothing, ("--proxy", "nonsense", "currencies"), 78, ["--proxy must be an http or https URL"]),
    ("refused port", nothing, ("--url", "http://127.0.0.1:{port}/api", "currencies"), 69, ["connection refused", UP]),
    ("no TLS", nothing, ("--url", "https://127.0.0.1:{port}/api", "currencies"), 69, ["no connection to", UP]),
    ("hung login", strike("login_hung"), ("--timeout", "0.2", "currencies"), 69, ["0.2 s has passed", UP]),
    ("throttled", strike("throttled_huge", path="currency"), ("currencies",), 75, ["asks for fewer calls", WHERE]),
    ("unavailable", strike("unavailable", path="currency", times=None), ("--timeout", "2", "currencies"), 69, [UP]),
    ("not JSON", strike("html_200", path="currency", times=None), ("--timeout", "2", "currencies"), 76, [API_ROOT]),
    ("no such request", nothing, ("requests", "get", "99"), 66, ["no record has the index 99", WHERE]),
    ("refused write", nothing, (*SUBMIT, "--yes"), 65, ["There is no such rate request.", WHERE]),
    ("no timeout", nothing, ("--timeout", "0", "currencies"), 2, ["'--timeout': 0.0 is not in the range x>0"]),
    ("text as timeout", nothing, ("--timeout", "soon", "currencies"), 2, ["'--timeout': 'soon' is not a valid float"]),
    ("misplaced", nothing, ("currencies", "--url", "x"), 2, ["No such option '--url'"]),
    ("unknown option", nothing, ("requests", "list", "--orign", "x"), 2, ["No such option '--orign'"]),
    ("unknown command", nothing, ("requests", "lst"), 2, ["No such command 'lst'. Did you mean 'list'?"]),
    ("unknown group", nothing, ("request", "list"), 2, ["No such command 'request'", "'requests'"]),
    ("nonsense", nothing, ("xyzzy",), 2, ["No such command 'xyzzy'.\n"]),
    ("index of zero", nothing, ("requests", "get", "0"), 2, ["'INDEX': '0' is not a whole number from 1"]),
    ("text as index", nothing, ("explain", "four", "--store", "b"), 2, ["'four' is not a whole number from 1"]),
    ("huge index", nothing, ("requests", "get", "9" * 20), 2, ["is not a whole number from 1"]),
    ("convention", nothing, ("--currency-field", "money", "currencies"), 2, ["'money' is not one of"]),
    ("addresses", nothing, ("--addresses", "submit:quote/bid", "currencies"), 78, ["--addresses has no operation"]),
    ("long window", nothing, (*LIST, "--since", "6d"), 2, ["--since must be at most five days, which is all"]),
    ("no window", nothing, (*LIST, "--since", "0s"), 2, ["--since must be longer than zero"]),
    ("no duration", nothing, (*LIST, "--since", "soon"), 2, ["'--since': 'soon' is not a duration such as 90s"]),
    ("no number", nothing, (*LIST, "--max-volume", "much"), 2, ["--max-volume must be a number such as 1840.50"]),
    ("zone", nothing, (*LIST, "--need-by", "2027-03-01T12:00Z"), 2, ["--need-by must have no zone"]),
    ("unknown word", nothing, (*WATCH, "--type", "pigeon"), 2, ["'pigeon' is not one of 'shipping', 'air-freight'"]),
    ("no start", nothing, (*WATCH, "--start", "yesterday"), 2, ["'yesterday' is not a duration such as 90s, 15m"]),
    ("early start", nothing, (*WATCH, "--start", "9d"), 2, ["--start must be from zero to five days, which is all"]),
    ("no pause", nothing, (*WATCH, "--interval", "0s"), 2, ["--interval must be"]),
    ("long pause", nothing, (*WATCH, "--interval", "9999d"), 2, ["--interval must be at most 1 day"]),
    ("no store", write("a.db", "text, no database" * 9), (*WATCH, "--store", "a.db"), 73, ["is not a database: give"]),
    ("rejected watch", set_variable("PASSWORD", "wrong-and-secret"), WATCH, 77, ["service rejected the email or"]),
    ("no amount", nothing, (*OFFER, "--amount", "0"), 2, ["--amount must be greater than zero"]),
    ("missing field", nothing, OFFER, 2, ["Missing option '--amount'"]),
    ("currency", nothing, ("bids", "submit", "1", "--amount", "1", "--currency", "XXX", "--yes"), 2, ["--currency"]),
    ("rate", nothing, (*OFFER, "--amount", "1", "--rate", "Ocean"), 2, ["'Ocean' is not NAME=NUMBER"]),
    ("fee", nothing, (*OFFER, "--amount", "1", "--rate", "O=dear"), 2, ["--rate['O'] must be a number"]),
    ("rates", write("o.json", '{"rates": [1]}'), (*OFFER, "--amount", "1", "--file", "o.json"), 2, ["--rate must map"]),
    ("weight", draft(weight=-1), DRAFTED, 2, ["--weight must be greater than zero"]),
    ("hazardous", draft(hazardous="perhaps"), DRAFTED, 2, ["'perhaps' is not a valid boolean"]),
    ("arrival", draft(arrival="soon"), DRAFTED, 2, ["'--arrival': 'soon' is not a date such as 2027-03-01"]),
    ("date", draft(arrival=5), DRAFTED, 2, ["--arrival must be a datetime, not 5"]),
    ("unknown field", draft(colour="red"), DRAFTED, 2, ["the file has an unknown field 'colour'; the fields are"]),
    ("flag", draft(hazardous=""), DRAFTED, 2, ["--hazardous must be True or False"]),
    ("null", draft(quantity=None), DRAFTED, 2, ["--quantity must be a positive integer, not None"]),
    ("syntax", write("d.json", "{"), (*PUBLISH, "d.json"), 2, ["d.json cannot be read: Expecting property name"]),
    ("noise", draft(weight=0.1 + 0.2), DRAFTED, 2, ["a number is the float 0.30000000000000004, which has a rounding"]),
    ("list", write("d.json", "[1]"), (*PUBLISH, "d.json"), 2, ["d.json must hold one object with the fields"]),
    ("empty", write("d.json", ""), (*PUBLISH, "d.json"), 2, ["d.json cannot be read: Expecting value"]),
    ("bytes", write("d.json", b'{"notes": "M\xf6bel"}'), (*PUBLISH, "d.json"), 2, ["can't decode byte 0xf6"]),
    ("depth", write("d.json", "[" * 100_000), (*PUBLISH, "d.json"), 2, ["maximum recursion depth"]),
    ("time zone", write("r.json", json.dumps(ROUTE | {"timezone": "x"})), ROUTED, 2, ["--timezone must be the name"]),
    ("export", nothing, ("offers", "export", "98", "99"), 66, ["you have no request 98, 99"]),
    ("no rate", offered, COMPARE, 2, ["--rate: an offer is in USD: give the exchange rate of USD to EUR"]),
    ("half a rate", nothing, (*COMPARE, "--rate", "USD"), 2, ["'USD' is not CODE=NUMBER"]),
    ("two rates", nothing, (*COMPARE, "--rate", "USD=1", "--rate", "usd=2"), 2, ["or gives a name twice"]),
    ("profile", nothing, ("--profile", "../x", "whoami"), 78, ["name of a profile has letters, digits, - and _ only"]),
    ("two logins", nothing, ("--profile", "a", "--token-file", "b", "whoami"), 78, ["give --profile or --token-file"]),
    ("foreign address", nothing, (*PORT, "--host", "192.0.2.1"), 2, ["cannot listen on 192.0.2.1: Cannot assign"]),
    ("unknown host", nothing, (*PORT, "--host", "none.invalid"), 2, ["cannot listen on none.invalid: "]),
    ("foreign file", write("a.txt", "Dear diary, " * 99), (*PORT, "--state", "a.txt"), 73, ["is not a file of the"]),
    ("no folder", nothing, (*PORT, "--state", "none/x"), 73, ["none/x cannot be used: No such file or directory."]),
    ("certificates", nothing, ("--ca-file", "none.pem", "currencies"), 78, ["--ca-file none.pem cannot be read"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "words", "status", "sentences"), [one[1:] for one in CASES], ids=[c[0] for c in CASES]
)
def test_error_has_its_status_and_report(
    shell: Shell, prepare: Callable[[Shell], None], words: tuple[str, ...], status: int, sentences: list[str]
) -> None:
    prepare(shell)
    with refused_port() as port:
        values = {"url": shell.url, "port": port}
        result = shell(*(word.format(**values) for word in words))
    assert (result.status, result.out) == (status, "")
    for sentence in sentences:
        assert sentence.format(**values) in result.err
    assert "Traceback" not in result.err
    assert "wrong-and-secret" not in result.err
    assert len(shell.exchange.audit_log.offers) == (prepare is offered)
    assert shell.exchange.audit_log.publications == [] or prepare is offered


def test_unknown_outcome_names_the_command_that_looks_it_up(shell: Shell) -> None:
    shell.publish()
    shell.exchange.faults.add(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    result = shell(*SUBMIT, "--yes")
    assert (result.status, result.out) == (Status.OUTCOME_UNKNOWN, "")
    assert "whether it was carried out is not known" in result.err
    assert result.err.endswith(f"  {CHECK}\n")
    assert len(shell.exchange.audit_log.offers) == 1


def test_every_error_has_a_status() -> None:
    for name in set(errors.__all__) - ERRORS_OF_HANDLERS - {"FreightExchangeError"}:
        assert status_of(getattr(errors, name)("why")) is not None, name
    assert status_of(errors.FreightExchangeError("unheard of")) is None


def test_statuses_keep_their_numbers() -> None:
    assert {status.name: int(status) for status in Status} == {
        "DONE": 0, "BUG": 1, "USAGE": 2, "REFUSED": 65, "NOT_FOUND": 66, "UNAVAILABLE": 69, "NOT_PRINTED": 71,
        "STORE": 73, "OUTCOME_UNKNOWN": 74, "TRY_LATER": 75, "UNEXPECTED": 76, "LOGIN_REJECTED": 77,
        "CONFIGURATION": 78, "INTERRUPTED": 128 + signal.SIGINT, "PIPE_CLOSED": 128 + signal.SIGPIPE,
        "TERMINATED": 128 + signal.SIGTERM,
    }  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        errors.HeldError("why"), errors.StoreAwayError("why"), ConflictError("why"), errors.StoreError("why"),
        errors.LoginRejectedError("why"), errors.ConfigurationError("why"),
        errors.NotFoundError("wrong URL", path="login"), errors.TransportError("bad certificate", permanent=True),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_statuses_agree_with_those_of_a_bot(error: errors.FreightExchangeError) -> None:
    assert status_of(error) == dict(BOT_STATUSES)[type(error)]


def test_bug_raises_with_its_traceback(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freight_exchange.FreightExchange", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        shell("currencies")


def test_url_without_api_is_warned_of(shell: Shell) -> None:
    result = shell("--url", shell.url.removesuffix("/api"), "currencies")
    assert result.err.startswith("Warning: base_url usually ends in /api")
    assert "warnings.warn" not in result.err


def test_verbose_logs_requests_on_one_line_each(shell: Shell) -> None:
    assert "freight_exchange.auth: logged in" in shell("-vv", "currencies").err
