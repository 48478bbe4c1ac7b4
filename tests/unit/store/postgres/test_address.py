"""Tests of database addresses: their form in messages, and those that cannot be used."""

from __future__ import annotations

import traceback

import pytest
from tests.unit.store.postgres.databases import server
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.errors import ConfigurationError, StoreError
from freight_exchange.store import PostgresStore
from freight_exchange.store.factory import make_store
from freight_exchange.store.postgres.connection import DatabaseConnection

CANARY = "c4nary"


def refusal(address: str) -> str:
    """Return why a store cannot be opened."""
    with pytest.raises(StoreError) as caught:
        PostgresStore(address).open(BINDING, lease=LEASE)
    assert CANARY not in str(caught.value)
    return str(caught.value)


def test_url_makes_a_store() -> None:
    store, made_here = make_store(f"postgresql://bots:{CANARY}@db.internal/freight")
    assert isinstance(store, PostgresStore)
    assert made_here
    assert repr(store) == "<PostgresStore of the database postgresql://bots@db.internal/freight>"


def test_url_of_several_hosts() -> None:
    port = server().port
    address = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/postgres?target_session_attrs=read-write"
    database = DatabaseConnection(address)
    assert database.address == f"the database postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/postgres"
    assert database.row("SELECT 1") == (1,)
    database.close()


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        pytest.param("[::1]:5432", "[::1]:5432", id="with a port"),
        pytest.param("[::1]", "[::1]", id="without a port"),
        pytest.param("[::1]:5432,[::2]:5433", "[::1]:5432,[::2]:5433", id="two"),
    ],
)
def test_ipv6_host_is_shown_in_brackets(host: str, shown: str) -> None:
    assert DatabaseConnection(f"postgresql://{host}/d").address == f"the database postgresql://{shown}/d"


@pytest.mark.parametrize(
    "address",
    [
        f"Host=h;Username=u;Password={CANARY};Database=d",
        f"HOST=h PASSWORD={CANARY}",
        f"Password={CANARY} Host=h",
        f"u:{CANARY}@h/d",
        f"pgsql:u:{CANARY}@h/d",
        f"h/d?user=u&password={CANARY}",
        f"h:5432?user=u&password={CANARY}",
        f"jdbc:postgresql:d?user=u&password={CANARY}",
        f"(host=h password={CANARY})",
        f"{{Host=h;Password={CANARY}}}",
        f"DSN=d,Password={CANARY}",
        f"u/{CANARY}@h:5432/d",
    ],
)
def test_address_of_another_driver_makes_no_file(address: str) -> None:
    with pytest.raises(ConfigurationError, match="write postgresql://USER@HOST:PORT/DATABASE") as caught:
        make_store(address)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:{CANARY}@h:x/d",
        f"postgresql+psycopg://u:{CANARY}@h/d",
        f"postgresql://u:p@{CANARY}@h/d",
        f"postgresql://u:{CANARY}@h/d?x=y",
        f"postgresql://u:2024/{CANARY}@h/d",
        f"postgresql://u:,{CANARY}/p@h/d",
        f"postgresql://u:{CANARY}%ff@h/d",
        f"postgresql://u:{CANARY}\ud800@h/d",
        f"dbname=postgresql://u:{CANARY}@h/d",
        f"dbname='password={CANARY}'",
        f'"postgresql://u:{CANARY}@h/d"',
        f"postgresql://u%3A{CANARY}@h/d",
        f"host=h;password={CANARY}",
        f"user=u;password={CANARY}",
        f"user = u; pwd = '{CANARY}'",
        f"hostaddr=127.0.0.1;password={CANARY}",
        f"host=h,password={CANARY}",
        f"host=h?user=u&password={CANARY}",
        f"user=u&password={CANARY}",
    ],
)
def test_unreadable_address_is_refused_without_the_password(address: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        PostgresStore(address)
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    # Of the package alone: the test has the address itself.
    frames = [frame for frame in trace.stack if __file__ != frame.filename]
    assert CANARY not in f"{caught.value!r} {[frame.locals for frame in frames]}"


def test_unknown_user_is_reported_as_refused_login() -> None:
    assert "refused the login" in refusal(server().url().replace("postgres@", f"nobody:{CANARY}@"))


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (f"sslmode={CANARY}", "has an invalid sslmode: correct its address"),
        (f"target_session_attrs={CANARY}", "has an invalid target_session_attrs: correct its address"),
        (f"keepalives={CANARY}", "has an invalid keepalives: correct its address"),
        (f"service={CANARY}", "names a service that is not defined: correct its address, or add the service"),
    ],
)
def test_invalid_option_is_named_without_its_value(options: str, advice: str) -> None:
    """A password with an unencoded character may end up in an option."""
    assert advice in refusal(f"postgresql://127.0.0.1:{server().port}/postgres?{options}")
