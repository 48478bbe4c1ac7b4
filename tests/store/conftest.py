"""A PostgreSQL server for all tests of stores, and places for stores."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.store.support import Place
from tests.support.postgres import PostgresServer, find_programs, running_server

from freight_exchange.store import MemoryStore


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    if find_programs() is None:
        pytest.skip("no PostgreSQL server is installed")
    with running_server(fsync="off") as running:
        yield running


@pytest.fixture
def address(server: PostgresServer) -> str:
    """Address of a database without a store. A new database for each test would take seconds to remove."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS freight_exchange CASCADE")
    return server.url()


@pytest.fixture
def own_address(server: PostgresServer) -> str:
    """Address of a new database, whose settings a test changes."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return Place("memory", MemoryStore())
    if request.param == "file":
        return Place("file", tmp_path / "bot.db")
    return Place("postgres", request.getfixturevalue("address"))
