"""Tests of databases that refuse a command: one sentence, an exit status, no partial change and no password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.harness import Result, Shell, finish, start
from tests.support.postgres import PostgresServer, running_server
from tests.unit.store.postgres.databases import server
from tests.unit.store.postgres.unusable import MARK, PASSWORD, Unusable, address, contents, unusable, wants_password
from tests.unit.store.rows import BINDING, LEASE

from freight_exchange.cli.run import Status
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres import schema

__all__ = ["unusable"]

REFUSED = "refused the login: correct the user or the password"
UNREADABLE = "the address of the database cannot be read"
BOT = """
from freight_exchange import Bot

bot = Bot(store={store!r})

@bot.on_new
async def quote(request, ctx): ...
"""


def run_bot(store: str) -> Result:
    """Run a bot in a separate process."""
    Path("refused_bot.py").write_text(BOT.format(store=store), encoding="utf-8")
    with start("bot", "run", "refused_bot:bot") as process:
        return finish(process)


def check_refusal(refused: Result, reason: str, status: int = Status.STORE) -> None:
    assert refused.status == status
    assert reason in refused.err.splitlines()[-1]
    assert refused.err.count(reason) == 1
    assert MARK not in refused.err + refused.out
    assert "Traceback" not in refused.err + refused.out


def test_commands_refuse_an_unusable_database_with_the_reason(shell: Shell, unusable: Unusable) -> None:
    before = contents()
    ends = Status.TRY_LATER if unusable.is_away else Status.STORE
    status = shell("bot", "status", "--store", unusable.address)
    migrated = shell("store", "migrate", unusable.address, "--yes")
    if unusable.status is None:
        assert (status.status, migrated.status) == (Status.DONE, Status.DONE)
    else:
        check_refusal(status, unusable.status, ends)
        check_refusal(migrated, unusable.reason, ends)
    check_refusal(shell("requests", "watch", "--store", unusable.address, "--count", "1"), unusable.reason, ends)
    assert contents() == before


@pytest.mark.parametrize(
    "store",
    [
        f"postgresql://u:{MARK}@h:x/d",
        f"postgresql://u:p@{MARK}@h/d",
        f"Host=h;Username=u;Password={MARK};Database=d",
        f"u:{MARK}@h/d",
    ],
)
def test_commands_refuse_an_unreadable_address(shell: Shell, store: str) -> None:
    for command in (
        ("bot", "status", "--store", store),
        ("explain", "4", "--store", store),
        ("requests", "watch", "--store", store),
        ("store", "migrate", store, "--yes"),
    ):
        check_refusal(shell(*command), UNREADABLE, Status.CONFIGURATION)


def test_copy_of_an_address_is_refused_without_it(shell: Shell) -> None:
    refused = shell("store", "copy", f"Host=h;Password={MARK}", "postgresql://u@127.0.0.1:1/d", "--yes")
    check_refusal(refused, "give the path of a file, not the address of a database", Status.USAGE)


def test_process_of_a_bot(shell: Shell) -> None:
    wants_password()
    check_refusal(run_bot(address("bots")), REFUSED)


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_password_of_the_environment(shell: Shell, password: str | None) -> None:
    wants_password()
    shell.set("PGPASSWORD", password)
    store = server().url().replace("postgres@", "bots@")
    check_refusal(shell("bot", "status", "--store", store), REFUSED)
    shell.set("PGPASSWORD", "right")
    assert REFUSED not in shell("bot", "status", "--store", store).err


@pytest.fixture
def standby() -> Iterator[PostgresServer]:
    """Return a server in recovery, as a standby is, with a feed."""
    with running_server(fsync="off") as server:
        PostgresStore(server.url()).open(BINDING, lease=LEASE).release()
        server.stop()
        (server.data / "standby.signal").touch()
        server.start()
        yield server


@pytest.mark.long
def test_only_reading_commands_accept_a_read_only_standby(shell: Shell, standby: PostgresServer) -> None:
    """A bot cannot write to it. Commands that only read can use it."""
    check_refusal(run_bot(standby.url()), "is read-only: give the address of the primary", Status.TRY_LATER)
    assert shell("bot", "status", "--store", standby.url()).status == Status.DONE
    migrated = shell("store", "migrate", standby.url(), "--yes")
    assert migrated.out == f"The schema has version {schema.VERSION} already.\n"
