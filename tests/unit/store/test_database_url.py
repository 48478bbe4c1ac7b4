"""Tests of database addresses, and of paths that are not addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from freight_exchange.store.database_url import is_database


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://bots@db.internal/freight",
        "postgres:///freight",
        "host=db.internal dbname=freight password=secret",
        " dbname = freight",
        "service=freight",
        "connect_timeout=3 host=db.internal password=secret",
        "application_name = 'a b'\tpassword = secret",
        "POSTGRESQL://bots:secret@db.internal/freight",
        "postgresql+psycopg://bots:secret@db.internal/freight",
        " postgresql://bots:secret@db.internal/freight",
        '"postgresql://bots:secret@db.internal/freight"',
        "jdbc:postgresql://bots:secret@db.internal/freight",
        "psql postgresql://bots:secret@db.internal/freight",
        "postgresql:/bots:secret@db.internal/freight",
        "postgresql//bots:secret@db.internal/freight",
        "pgsql:bots:secret@db.internal/freight",
        "pgsql:host=db.internal;password=secret",
        "bots:secret@db.internal/freight",
        "bots:se/cret@db.internal/freight",
        "'bots:secret@db.internal'",
        "//bots:secret@db.internal/freight",
        ":secret@db.internal/freight",
        "HOST=db.internal PASSWORD=secret",
        "Password=secret Host=db.internal",
        "Host=db.internal;Username=bots;Password=secret;Database=freight",
        "Server = db.internal ; Pwd = secret",
        "User ID=bots;Pooling=true",
        "Pooling=true;uid=bots",
        "connect_timeout=3 sslpassword=secret",
        "url='host=db.internal password=secret'",
        "db.internal/freight?user=bots&password=secret",
        "db.internal:5432?User = bots",
        "db.internal/freight?sslmode=require&PWD=secret",
        "jdbc:postgresql:freight",
        "ODBC:freight",
        "(host=db.internal password=secret)",
        "(passwd=secret)",
        "{Host=db.internal;Password=secret}",
        "{UID=bots}",
        "DSN=freight,Password=secret",
        "Driver={PostgreSQL Unicode}\nusername=bots",
        "bots/secret@db.internal:5432/freight",
        "'bots/se/cret@db.internal:5432'",
        # Paths too, but any of them may be a password: these are written `./bots@host.db`.
        "bots@host.db",
        "bots/12:30@host.db",
        "a=b.db",
    ],
)
def test_address_of_a_database_is_recognised(address: str) -> None:
    assert is_database(address)


@pytest.mark.parametrize(
    "path",
    [
        "bot.db",
        "/srv/bots/host.db",
        "./host=1.db",
        "postgres.db",
        "C://bots/bot.db",
        " file:///srv/bot.db",
        "file:///srv/bot.db",
        "C:\\bots\\bot.db",
        "C:\\bots\\me@host.db",
        "c:/bots/12:30@host.db",
        "./bots@host.db",
        "./bots/me@host:5432.db",
        "../bots/me@host:5432.db",
        "~/bots/me@host:5432.db",
        "/srv/bots/me@host:5432.db",
        "/srv/password=1/bot.db",
        "C:\\bots\\uid=1.db",
        "my bots, (user) {pwd} & password.db",
        "jdbc.db",
        "12:30.db",
        "/srv/12:30@host.db",
        "pgdata//bot.db",
        "pg.db",
        "my server.db",
        Path("host=1"),
        None,
    ],
)
def test_path_of_a_file_is_no_address(path: object) -> None:
    assert not is_database(path)
