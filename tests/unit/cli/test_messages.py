"""Tests of error messages: they use the names of options and fields, and no Python terms."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.harness import DRAFT, ROUTE, Shell

from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.messages import translate_error
from freight_exchange.errors import BadRequestError, NotFoundError

PYTHON_TERMS = re.compile(
    r"Decimal|datetime|timedelta|tzinfo|base_url|None|True|False|deadline|\bfloat|\bdict\b|\bstr\b|\bbool\b|TokenFile"
    r"|lone surrogate|codec|set_int_max_str_digits|per=|\w_(?:volume|weight|by|from|until)\b"
)
VALUES: Sequence[object] = (True, 2.5, -1, "x", "", [1], {"a": 1}, 10**40, float("nan"), "\udcff", "2027-03-01T00:00Z")
OFFER = {"amount": 5, "currency": "USD", "terms": "net"}


def check(shell: Shell, *arguments: str, statuses: Sequence[int] = (Status.USAGE,)) -> None:
    result = shell(*arguments)
    assert result.status in statuses, (arguments, result)
    # The message quotes the value as typed.
    assert PYTHON_TERMS.search(result.err.replace("'True'", "")) is None, result.err


@pytest.mark.parametrize(
    ("command", "fields", "field"),
    [
        *((("requests", "publish"), DRAFT, field) for field in (*DRAFT, "notes")),
        *((("routes", "create"), ROUTE, field) for field in ROUTE),
        *((("bids", "submit", "1"), OFFER, field) for field in (*OFFER, "rates")),
    ],
)
def test_message_about_field_has_no_python_terms(
    shell: Shell, command: Sequence[str], fields: dict[str, Any], field: str
) -> None:
    if command[0] == "requests":
        shell.use_account(shell.exchange.shipper)
    shell.publish()
    for value in VALUES:
        Path("draft.json").write_text(json.dumps(fields | {field: value}))
        # Some values are valid for some fields, and only the service knows every carrier.
        statuses = (Status.USAGE, Status.DONE, *([Status.REFUSED] if command[0] == "routes" else []))
        check(shell, *command, "--file", "draft.json", "--yes", statuses=statuses)


@pytest.mark.parametrize(
    "arguments",
    [
        ["requests", "list", "--since", "6d"],
        ["requests", "list", "--max-volume", "\udcff"],
        ["requests", "list", "--max-weight", "-1"],
        ["requests", "list", "--max-weight", "1e99"],
        ["requests", "list", "--need-by", "2027-01-01T00:00Z"],
        ["requests", "list", "--origin", "\udcff"],
        ["requests", "watch", "--start", "6d"],
        ["requests", "watch", "--interval", "2d"],
        ["routes", "list", "--departs-from", "2027-01-01T00:00Z"],
        ["routes", "list", "--arrives-until", "2027-01-01T00:00Z"],
        ["routes", "list", "--carrier", "-1"],
        ["--timeout", "nan", "requests", "list"],
    ],
    ids=ascii,
)
def test_message_about_option_has_no_python_terms(shell: Shell, arguments: list[str]) -> None:
    check(shell, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--url", "ftp://host/api"],
        ["--url", "https://name:secret@host/api"],
        ["--url", "https://host/api?x=1"],
        ["--url", "http://host.example/api"],
        ["--token-file", "nowhere/"],
    ],
    ids=" ".join,
)
def test_message_about_global_option_has_no_python_terms(shell: Shell, arguments: list[str]) -> None:
    check(shell, *arguments, "requests", "list", statuses=(Status.CONFIGURATION,))


def test_words_of_service_are_kept() -> None:
    assert translate_error(BadRequestError("the service found it wrong: hazardous must be True or False")).endswith(
        "True or False"
    )
    error = NotFoundError("there is nothing; base_url may be wrong")
    assert translate_error(error) == "there is nothing; the URL may be wrong"
