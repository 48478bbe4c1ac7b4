"""Tests of `store`, `bot`, `explain` and `watch` on a database with a running replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.harness import Shell
from tests.cli.test_bot import bot_shell, run_virtually
from tests.unit.store.postgres.databases import database_url, drop_schema, empty_store, execute

from freight_exchange.cli.run import Status
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres import schema
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.protocol import Binding
from freight_exchange.testing import FAULTS, Profile, Sandbox

__all__ = ["bot_shell"]


@pytest.fixture
def fleet(shell: Shell) -> Iterator[Shell]:
    """Return a shell and a database with a dead letter, a gap, an offer in doubt and a running replica."""
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    sandbox.publish()
    run_virtually(sandbox)
    sandbox.machine.suspend(7 * 24 * 3600)
    run_virtually(sandbox)
    empty_store().close()
    url = database_url()
    assert shell("store", "copy", "bot.db", url, "--yes").out.startswith("Copied and verified: 1 feed")
    shell.set("FREIGHT_EXCHANGE_STORE", url)
    ((base_url, account, name),) = execute("SELECT base_url, account, name FROM freight_exchange.binding")
    store = PostgresStore(url)
    seat = store.join(Binding(base_url, account, name), handlers=["quote", "tell"], version="1", lease=60.0)
    term = seat.take_term()
    assert term is not None
    yield shell
    # Nothing that a command did has taken the term away.
    assert term.pending() is not None
    store.close()


def test_schema_is_migrated_once(shell: Shell) -> None:
    drop_schema()
    migrate = ("store", "migrate", database_url())
    planned = shell(*migrate, typed="n\n")
    assert f"from version 0 to {schema.VERSION}?" in planned.err
    assert (planned.status, execute("SELECT to_regnamespace('freight_exchange')")) == (Status.USAGE, [(None,)])
    assert shell(*migrate, "--yes").out == f"The schema has version {schema.VERSION}; it had none.\n"
    after = {"before": schema.VERSION, "after": schema.VERSION}
    assert shell(*migrate, "--yes", "--json").objects == [after]


def test_migration_has_time_for_millions_of_rows(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica gives up after ten seconds; an index may take longer."""
    drop_schema()
    limits = list[str]()

    def prepare(connection: DatabaseConnection) -> None:
        limits.extend(connection.row("SHOW statement_timeout"))

    monkeypatch.setattr(schema, "prepare", prepare)
    shell("store", "migrate", database_url(), "--yes")
    assert limits == ["302s"]


def test_records_are_read_and_changed_beside_the_replica(fleet: Shell) -> None:
    text = fleet("bot", "status").out
    assert "held by        process" in text
    assert "replicas       process" in text
    assert "restored" not in text
    (report,) = fleet("bot", "status", "--json").objects
    assert (len(report["replicas"]), report["is_restored"], len(report["gaps"])) == (1, False, 1)
    execute("UPDATE freight_exchange.binding SET is_restored = true")
    execute("UPDATE freight_exchange.binding SET term_replica = NULL")
    text = fleet("bot", "status").out
    assert "restored       the database has lost commits" in text
    assert "held by        no replica: none of them scans now" in text
    (letter,) = fleet("bot", "dead", "list", "--json").objects
    assert fleet("bot", "dead", "replay", str(letter["event"]), "tell", "--yes").out.startswith(
        "The bot delivers 1 dead letter again"
    )
    assert fleet("bot", "dead", "list").err == "There are no dead letters.\n"
    assert [doubt["request"] for doubt in fleet("bot", "doubts", "list", "--json").objects] == [1]
    assert fleet("bot", "doubts", "resolve", "1", "--taken", "--yes").out == "Noted: it counts as made.\n"
    assert fleet("bot", "doubts", "list").err == "There are no offers in doubt.\n"
    assert fleet("bot", "gaps", "ack", "--yes").out == "1 gap acknowledged.\n"
    assert fleet("bot", "gaps", "list").err == "There are no gaps.\n"
    (report,) = fleet("explain", "1", "--json").objects
    assert [offer["state"] for offer in report["offers"]] == ["confirmed"]


def test_watch_keeps_its_place_in_the_database(shell: Shell) -> None:
    empty_store().close()
    shell.publish()
    watch = ("requests", "watch", "--store", database_url(), "--start", "backfill", "--count", "1", "--json")
    assert [event["request"]["index"] for event in shell(*watch).objects] == [1]
    shell.publish()
    assert [event["request"]["index"] for event in shell(*watch).objects] == [2]
