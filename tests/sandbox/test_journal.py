"""An exchange with a journal survives a restart, and refuses a file that it cannot trust."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from freight_sandbox import FAULTS, Call, Cargo, Exchange, Profile
from freight_sandbox.journal import JournaledExchange, JournalError

NOW = 1_900_000_000.0
OFFER = {"requestIndex": 1, "offer": Decimal("1840.505"), "currencyIndex": 978, "rates": {"THC": Decimal("0.10")}}


@contextmanager
def opened(path: Path, seed: int | None = None) -> Iterator[JournaledExchange]:
    with closing(JournaledExchange(path, seed=seed)) as exchange:
        yield exchange


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exchange.journal"


def state(exchange: Exchange) -> object:
    tables = (exchange.requests, exchange.offers, exchange.routes)
    return exchange.profile, [list(table) for table in tables]


def call(exchange: Exchange, path: str, body: dict[str, Any]) -> int:
    token = exchange.token(exchange.forwarder, NOW)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return exchange.handle(Call("POST", path, {}, headers, json.dumps(body, default=str).encode()), NOW + 2).status


def struck(exchange: Exchange, *faults: str) -> None:
    for fault in faults:
        exchange.faults.add(*FAULTS[fault](path="quote/getrequests"))
        call(exchange, "quote/getrequests", {"type": "all"})


CHANGES: dict[str, Callable[[Exchange], object]] = {
    "a call": lambda it: call(it, "quote/submitoffer", {**OFFER, "terms": "\ud800 é"}),
    "a call of the board": lambda it: it.act(it.rival, "POST", "quote/bid", OFFER, NOW + 1),
    "an update": lambda it: it.update(1, NOW + 1, Cargo(width=Decimal("1.25"))),
    "a withdrawal": lambda it: it.withdraw(1, NOW + 1),
    "a publication": lambda it: it.publish(it.shipper, NOW + 1, Cargo(origin="Busan", width=Decimal("1.25"))),
    "a fault that changes rows": lambda it: struck(it, "rows_inserted", "rows_touched", "rows_reordered"),
    "quirks": lambda it: setattr(it, "profile", Profile(order="oldest")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_survives_a_restart(path: Path, name: str) -> None:
    with opened(path) as exchange:
        assert exchange.is_new
        exchange.publish(exchange.shipper, NOW)
        before = state(exchange)
        CHANGES[name](exchange)
        after = state(exchange)
        assert after != before
    for _ in range(2):
        with opened(path) as exchange:
            assert state(exchange) == after
            assert not exchange.is_new
            assert not exchange.audit_log.calls


def test_reads_refusals_and_logins_leave_no_line(path: Path) -> None:
    with opened(path) as exchange:
        size = path.stat().st_size
        assert call(exchange, "quote/getrequests", {"type": "all"}) == 200
        assert call(exchange, "quote/submitoffer", {"requestIndex": 99}) == 400
    assert path.stat().st_size == size


@pytest.mark.parametrize("seeds", [(None, None), (7, None), (7, 7)])
def test_token_does_not_recur_after_a_restart(path: Path, seeds: tuple[int | None, ...]) -> None:
    tokens = []
    for seed in seeds:
        with opened(path, seed) as exchange:
            tokens.append(exchange.token(exchange.forwarder, NOW))
    assert tokens[0] != tokens[1]


def test_line_that_a_kill_has_torn_is_dropped(path: Path) -> None:
    with opened(path) as exchange:
        exchange.publish(exchange.shipper, NOW)
        before = state(exchange)
    path.write_bytes(path.read_bytes() + b'{"do": "publ')
    for _ in range(2):
        with opened(path) as exchange:
            assert state(exchange) == before


def damaged(path: Path, old: str, new: str) -> None:
    with opened(path, seed=7) as exchange:
        exchange.publish(exchange.shipper, NOW)
    path.write_text(path.read_text().replace(old, new, 1))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "of another program": (lambda path: path.write_text("Dear diary"), "is not a file of the sandbox"),
    "of another version": (lambda path: damaged(path, '"sandbox": "', '"sandbox": "9.'), "was written by version 9."),
    "with an unknown change": (lambda path: damaged(path, '"publish"', '"burn"'), r"is damaged \(line 3: burn"),
    "with broken JSON": (lambda path: damaged(path, '"publish"', "publish"), r"is damaged \(line 3: "),
    "with another seed": (lambda path: damaged(path, "", ""), "began with the seed 7"),
    "in a missing folder": (lambda path: path.parent.rmdir(), "cannot be used: No such file or directory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "folder" / "exchange.journal"
    path.parent.mkdir()
    prepare, sentence = REFUSED[name]
    prepare(path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(JournalError, match=sentence):
        JournaledExchange(path, seed=8 if name == "with another seed" else None)
    assert (path.read_bytes() if path.exists() else None) == before


def test_file_in_use_is_refused(path: Path) -> None:
    with opened(path), pytest.raises(JournalError, match="is in use by another process"):
        JournaledExchange(path)


@pytest.mark.parametrize("replace", [Path.unlink, lambda path: path.rename(path.with_suffix(".old"))])
def test_change_is_refused_once_the_file_is_gone(path: Path, replace: Callable[[Path], object]) -> None:
    with opened(path) as exchange:
        replace(path)
        with pytest.raises(JournalError, match="was removed or replaced"):
            exchange.publish(exchange.shipper, NOW)
