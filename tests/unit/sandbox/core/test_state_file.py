"""Tests of the file of an exchange: what is restored, what is refused, and what a crash leaves."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sandbox.rig import NOW, PUBLISH, ROUTE

from freight_exchange.sandbox import Cargo, Exchange, Profile
from freight_exchange.sandbox.core.state_file import StateError, StateFile
from freight_exchange.sandbox.rendering.codec import decode


@contextmanager
def opened(path: Path, seed: int | None = None) -> Iterator[tuple[Exchange, StateFile]]:
    with closing(StateFile(path)) as file:
        exchange = Exchange()
        file.restore(exchange, seed)
        yield exchange, file


def busy(exchange: Exchange) -> None:
    """Fill the exchange with records of every kind."""
    exchange.act(exchange.shipper, "POST", "quote/submitrequest", decode(json.dumps(PUBLISH).encode()), NOW)
    for number in range(3):
        exchange.publish(exchange.shipper, NOW + number, Cargo(notes=f"number {number}", weight=Decimal("12.50")))
    first = exchange.offer(exchange.forwarder, 1, NOW + 5, amount=Decimal("1840.5"), rates={"decimal": 7}, terms="T")
    exchange.offer(exchange.rival, 1, NOW + 6, amount=99)
    exchange.offer(exchange.forwarder, 2, NOW + 6, rates={"Fee": Decimal("0.10"), "Other": 3})
    exchange.select(first, NOW + 7)
    exchange.withdraw(3, NOW + 8)
    exchange.touch(2, NOW + 9)
    exchange.act(exchange.forwarder, "POST", "route", ROUTE, NOW + 10)
    exchange.act(exchange.forwarder, "PUT", "route", {**ROUTE, "index": 301, "vessel": "Another"}, NOW + 11)


def contents(exchange: Exchange) -> list[Any]:
    """Return all records in the order of their last change, and the listings of each side."""
    database = exchange.database
    at = NOW + 1000
    return [
        *([entry[2:] for entry in table.latest()] for table in (database.requests, database.offers, database.routes)),
        database.requests_of(exchange.shipper, at),
        [database.offers_by(account, at) for account in (exchange.forwarder, exchange.rival)],
        [database.offers_on(index, at) for index in database.requests.indexes()],
        list(database.requests.recent(at, NOW + 5)),
        exchange.profile,
    ]


def test_saved_state_is_restored(tmp_path: Path) -> None:
    with opened(tmp_path / "x.db") as (exchange, file):
        busy(exchange)
        exchange.profile = Profile(order="random", latency=0.5, rows_clamp=3)
        file.save(exchange)
        before = contents(exchange)
    with opened(tmp_path / "x.db") as (exchange, file):
        assert contents(exchange) == before
        assert exchange.publish(exchange.shipper, NOW + 20) == 5
        assert exchange.offer(exchange.rival, 5, NOW + 21) == 5004
        exchange.profile = Profile()
        file.save(exchange)
        before = contents(exchange)
    with opened(tmp_path / "x.db") as (exchange, _):
        assert contents(exchange) == before


STEPS: dict[str, Callable[[Exchange, float], object]] = {
    "publish": lambda exchange, now: exchange.publish(exchange.shipper, now),
    "offer": lambda exchange, now: exchange.offer(exchange.forwarder, exchange.newest_open() or 1, now),
    "touch": lambda exchange, now: exchange.touch(exchange.oldest_open() or 1, now),
    "withdraw": lambda exchange, now: exchange.withdraw(exchange.oldest_open() or 1, now),
    "route": lambda exchange, now: exchange.act(exchange.forwarder, "POST", "route", ROUTE, now),
    "value": lambda exchange, now: setattr(exchange, "profile", attrs.evolve(exchange.profile, latency=now - NOW)),
}


@settings(max_examples=30)
@given(steps=st.lists(st.tuples(st.sampled_from([*STEPS]), st.integers(-3, 9), st.booleans()), max_size=25))
def test_any_saved_history_is_restored(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool]]
) -> None:
    """The history is saved at any of its steps, with a clock that sometimes steps back."""
    path = tmp_path_factory.mktemp("story") / "x.db"
    now = NOW
    with opened(path) as (exchange, file):
        exchange.publish(exchange.shipper, now)
        for name, passed, saved in steps:
            now += passed
            STEPS[name](exchange, now)
            if saved:
                file.save(exchange)
        file.save(exchange)
        before = contents(exchange)
    with opened(path) as (exchange, _):
        assert contents(exchange)[:-2] == before[:-2]
        assert exchange.profile == before[-1]


def test_only_changes_are_written(tmp_path: Path) -> None:
    with opened(tmp_path / "x.db") as (exchange, file):
        busy(exchange)
        file.save(exchange)
        statements: list[str] = []
        file._connection.set_trace_callback(statements.append)
        file.save(exchange)
        assert statements == []
        exchange.touch(1, NOW + 30)
        file.save(exchange)
        assert sum("record" in statement for statement in statements) == 1


def test_tokens_differ_between_runs(tmp_path: Path) -> None:
    seen = set()
    for _ in range(3):
        with opened(tmp_path / "x.db", 5) as (exchange, _):
            seen |= {exchange.token(exchange.forwarder, NOW), exchange.token(exchange.shipper, NOW)}
    assert len(seen) == 6


def test_tokens_differ_between_files(tmp_path: Path) -> None:
    """A new file under the same name must not accept the tokens of the old one."""
    seen = set()
    for name in ("x.db", "y.db"):
        for _ in range(2):
            with opened(tmp_path / name) as (exchange, _):
                seen.add(exchange.token(exchange.forwarder, NOW))
    assert len(seen) == 4


def test_seed_repeats_tokens(tmp_path: Path) -> None:
    def tokens(path: Path) -> list[str]:
        found = []
        for seed in (5, None):
            with opened(path, seed) as (exchange, _):
                found.append(exchange.token(exchange.forwarder, NOW))
        return found

    assert tokens(tmp_path / "x.db") == tokens(tmp_path / "y.db")


def test_random_order_survives_a_restart(tmp_path: Path) -> None:
    def order() -> list[int]:
        records = exchange.database.requests_of(exchange.shipper, NOW)
        return [request.index for request in exchange.database.sorter.requests("random", records)]

    with opened(tmp_path / "x.db", 5) as (exchange, file):
        for _ in range(12):
            exchange.publish(exchange.shipper, NOW)
        file.save(exchange)
        before = order()
        assert before != sorted(before)
    with opened(tmp_path / "x.db") as (exchange, _):
        assert order() == before
    with pytest.raises(StateError, match=r"began with the seed 5: leave --seed out"), opened(tmp_path / "x.db", 6):
        pass


def test_file_has_no_tokens(tmp_path: Path) -> None:
    with opened(tmp_path / "x.db") as (exchange, file):
        busy(exchange)
        token = exchange.token(exchange.forwarder, NOW)
        file.save(exchange)
    assert token.encode() not in (tmp_path / "x.db").read_bytes()


def test_file_without_records_counts_as_new(tmp_path: Path) -> None:
    """Examples whose creation was interrupted before the save are published at the next start."""
    for _ in range(2):
        with closing(StateFile(tmp_path / "x.db")) as file:
            assert file.restore(Exchange(), None) is False
    with closing(StateFile(tmp_path / "x.db")) as file:
        exchange = Exchange()
        file.restore(exchange, None)
        exchange.profile = Profile(latency=0.5)
        file.save(exchange)
    with closing(StateFile(tmp_path / "x.db")) as file:
        assert file.restore(Exchange(), None) is True


# What is not a file of an exchange


def foreign_text(path: Path) -> str:
    path.write_text("Dear diary, " * 200)
    return "is not a file of the sandbox"


def foreign_database(path: Path) -> str:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE invoice (number INTEGER)")
    return "is another program's database"


def newer(path: Path) -> str:
    with closing(StateFile(path)) as file:
        file._connection.execute("PRAGMA user_version = 2")
    return "was written by a newer version: upgrade, or give another file"


def kept(path: Path) -> None:
    with opened(path) as (exchange, file):
        busy(exchange)
        file.save(exchange)


def torn(path: Path) -> str:
    kept(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return "is damaged"


def altered(path: Path) -> str:
    """Change a byte within a text, which SQLite itself does not notice."""
    kept(path)
    path.write_bytes(path.read_bytes().replace(b"Green tea", b"Groan tea"))
    return "is damaged .*request 1 is torn"


def record_gone(path: Path) -> str:
    kept(path)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("""DELETE FROM record WHERE kind = 'offer' AND "index" = 5002""")
    return "is damaged .*of the kind offer is missing"


def unknown_quirk(path: Path) -> str:
    kept(path)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("""UPDATE meta SET value = '{"colour": "blue"}' WHERE name = 'profile'""")
    return "is damaged .*colour"


def folder(path: Path) -> str:
    path.mkdir()
    return "cannot be used"


def nowhere(path: Path) -> str:
    path.symlink_to(path.parent / "missing" / "x.db")
    return "cannot be used"


@pytest.mark.parametrize(
    "make", [foreign_text, foreign_database, newer, torn, altered, record_gone, unknown_quirk, folder, nowhere]
)
def test_foreign_or_damaged_file_is_refused_and_unchanged(tmp_path: Path, make: Callable[[Path], str]) -> None:
    path = tmp_path / "x.db"
    sentence = make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StateError, match=sentence) as caught, opened(path):
        pass
    assert str(caught.value).startswith(str(path))
    assert (path.read_bytes() if path.is_file() else None) == before


def test_empty_file_becomes_a_new_exchange(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    with opened(tmp_path / "x.db") as (exchange, _):
        assert len(exchange.database.requests) == 0


@pytest.mark.parametrize("length", [1, 10, 15])
def test_short_foreign_file_is_refused_and_unchanged(tmp_path: Path, length: int) -> None:
    """SQLite treats a file of a single byte as empty."""
    path = tmp_path / "x.db"
    path.write_bytes(b"x" * length)
    with pytest.raises(StateError, match=r"is not a file of the sandbox: give another file\.$"):
        StateFile(path)
    assert path.read_bytes() == b"x" * length


def test_memory_as_a_name_is_an_ordinary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(Path(":memory:")) as (exchange, file):
        busy(exchange)
        file.save(exchange)
    assert (tmp_path / ":memory:").is_file()


@pytest.mark.parametrize("replaced", [False, True])
def test_removed_or_replaced_file_raises_on_save(tmp_path: Path, replaced: bool) -> None:
    """A write to an unlinked file is lost, and another process may have created one with this name."""
    path = tmp_path / "x.db"
    with opened(path) as (exchange, file):
        exchange.publish(exchange.shipper, NOW)
        file.save(exchange)
        path.unlink()
        if replaced:
            path.touch()
        exchange.publish(exchange.shipper, NOW)
        with pytest.raises(StateError, match=r"was removed or replaced while it was in use"):
            file.save(exchange)
    assert path.exists() == replaced


# Processes

HOLD = """
import sys, time
from pathlib import Path
from freight_exchange.sandbox import Exchange
from freight_exchange.sandbox.rendering.codec import decode
from freight_exchange.sandbox.core.state_file import StateFile
file = StateFile(Path(sys.argv[1]))
exchange = Exchange()
file.restore(exchange, None)
for number in range(int(sys.argv[2])):
    exchange.publish(exchange.shipper, 1000.0 + number)
    file.save(exchange)
    print(number, flush=True)
time.sleep(60)
"""


@contextmanager
def holder(path: Path, count: int) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(count)], stdout=subprocess.PIPE, text=True) as it:
        try:
            yield it
        finally:
            it.kill()


def test_second_process_cannot_open_the_file(tmp_path: Path) -> None:
    with holder(tmp_path / "x.db", 1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        with pytest.raises(StateError, match=r"is in use by another process: stop that one, or give another file\.$"):
            StateFile(tmp_path / "x.db")
        process.kill()
        process.wait()
        # However the other one ended, the file is free, and has everything.
        with opened(tmp_path / "x.db") as (exchange, _):
            assert exchange.database.requests.indexes() == (1,)


def test_kill_during_writes_loses_no_saved_change(tmp_path: Path) -> None:
    for _ in range(3):
        with opened(tmp_path / "x.db") as (exchange, _):
            begun = len(exchange.database.requests)
        with holder(tmp_path / "x.db", 1_000_000) as process:
            assert process.stdout is not None
            reported = [int(process.stdout.readline()) for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        with opened(tmp_path / "x.db") as (exchange, _):
            # What was reported is kept; what was being written is there whole or not at all.
            assert len(exchange.database.requests) >= begun + len(reported)


def test_failed_write_raises_and_leaves_the_file_unchanged(tmp_path: Path) -> None:
    with opened(tmp_path / "x.db") as (exchange, file):
        busy(exchange)
        file.save(exchange)
        before = (tmp_path / "x.db").read_bytes()
        (pages,) = file._connection.execute("PRAGMA page_count").fetchone()
        file._connection.execute(f"PRAGMA max_page_count = {pages}")
        exchange.publish(exchange.shipper, NOW, Cargo(notes="long " * 10_000))
        with pytest.raises(StateError, match=r"cannot be used: database or disk is full\.$"):
            file.save(exchange)
    assert (tmp_path / "x.db").read_bytes() == before
