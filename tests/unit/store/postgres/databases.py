"""Databases for tests: a server of this process, or that of `DATABASE_URL`, and an empty store in it."""

from __future__ import annotations

import atexit
import contextlib
import os
from functools import cache
from typing import Any

import psycopg
import pytest
from tests.support.postgres import PostgresServer, find_programs, running_server

from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.schema import prepare
from freight_exchange.store.postgres.store import PostgresStore

__all__ = ["database_url", "drop_schema", "empty_store", "execute", "server"]

# Durability is the server's own business: its fsync is not what is tested.
_TABLES = ("binding", "replica", "seen", "event", "delivery", "effect")
_SETTINGS = {"fsync": "off", "max_connections": "60"}


@cache
def server() -> PostgresServer:
    """Start the server of this process, once.

    On Linux the development requirements bring its programs. Other systems have no such wheel: there the test is
    skipped if the system has no server and `DATABASE_URL` names none.
    """
    if find_programs() is None:
        pytest.skip("no PostgreSQL server is installed, and DATABASE_URL names none")
    stack = contextlib.ExitStack()
    started = stack.enter_context(running_server(**_SETTINGS))
    # After the server's directory is made, which then goes later.
    atexit.register(stack.close)
    return started


@cache
def database_url() -> str:
    """Return the address of an empty database, made for this process."""
    url = os.environ.get("DATABASE_URL")
    if url is None:
        return server().url()
    name = f"freight_exchange_test_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    atexit.register(_drop, url, name)
    return psycopg.conninfo.make_conninfo(url, dbname=name)


def empty_store(**options: Any) -> PostgresStore:
    """Return a store in a database with the tables and without rows."""
    if execute("SELECT to_regclass('freight_exchange.migration')") == [(None,)]:
        drop_schema()
        connection = DatabaseConnection(database_url())
        prepare(connection)
        connection.close()
    else:
        execute(f"TRUNCATE {', '.join(f'freight_exchange.{name}' for name in _TABLES)} RESTART IDENTITY")
    return PostgresStore(database_url(), **options)


def drop_schema() -> None:
    """Restore the state of the database from before its first store."""
    execute("DROP SCHEMA IF EXISTS freight_exchange CASCADE")


def execute(statement: str, *values: object) -> list[Any]:
    """Run a statement in the database of the tests and return its rows, if it has any."""
    with psycopg.connect(database_url(), autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def _drop(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
