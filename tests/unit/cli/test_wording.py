"""What is wrong is said in the words of options and files: nobody at a shell knows Python's."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.rig import Shell
from tests.unit.cli.test_commands import DRAFT, ROUTE

from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.messages import worded
from freight_exchange.errors import BadRequestError, NotFoundError

PYTHON = re.compile(
    r"Decimal|datetime|timedelta|tzinfo|base_url|None|True|False|deadline|\bfloat|\bdict\b|\bstr\b|\bbool\b|TokenFile"
    r"|lone surrogate|codec|set_int_max_str_digits|per=|\w_(?:volume|weight|by|from|until)\b"
)
VALUES: Sequence[object] = (True, 2.5, -1, "x", "", [1], {"a": 1}, 10**40, float("nan"), "\udcff", "2027-03-01T00:00Z")


def wrong(shell: Shell, *arguments: str, statuses: Sequence[int] = (Status.USAGE,)) -> None:
    """It is not done, which is said without a word of Python."""
    done = shell(*arguments, "--yes") if "--file" in arguments else shell(*arguments)
    assert done.status in statuses, (arguments, done)
    # What was typed is quoted as it was.
    assert PYTHON.search(done.err.replace("'True'", "")) is None, done.err


@pytest.mark.parametrize("field", [*DRAFT, "notes"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_field_of_a_draft(shell: Shell, field: str, value: Any) -> None:
    shell.become(shell.exchange.shipper)
    Path("draft.json").write_text(json.dumps(DRAFT | {field: value}))
    # Some of them are right, for some of the fields.
    wrong(shell, "requests", "publish", "--file", "draft.json", statuses=(Status.USAGE, Status.DONE))


@pytest.mark.parametrize("field", ROUTE)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_field_of_a_route(shell: Shell, field: str, value: Any) -> None:
    Path("route.json").write_text(json.dumps(ROUTE | {field: value}))
    wrong(shell, "routes", "create", "--file", "route.json", statuses=(Status.USAGE, Status.REFUSED, Status.DONE))


@pytest.mark.parametrize("field", ["amount", "currency", "terms", "rates"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_field_of_an_offer(shell: Shell, field: str, value: Any) -> None:
    shell.publish()
    Path("offer.json").write_text(json.dumps({"amount": 5, "currency": "USD", "terms": "net"} | {field: value}))
    wrong(shell, "bids", "submit", "1", "--file", "offer.json", statuses=(Status.USAGE, Status.DONE))


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
)
def test_an_option(shell: Shell, arguments: list[str]) -> None:
    wrong(shell, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--url", "ftp://host/api"],
        ["--url", "https://name:secret@host/api"],
        ["--url", "https://host/api?x=1"],
        ["--url", "http://host.example/api"],
        ["--token-file", "nowhere/"],
    ],
)
def test_a_setting(shell: Shell, arguments: list[str]) -> None:
    wrong(shell, *arguments, "requests", "list", statuses=(Status.CONFIGURATION,))


def test_what_the_service_says_stays_as_it_is() -> None:
    assert worded(BadRequestError("the service found it wrong: hazardous must be True or False")).endswith(
        "True or False"
    )
    assert worded(NotFoundError("there is nothing; base_url may be wrong")) == "there is nothing; --url may be wrong"
