"""Bytes of disk that an offer occupies permanently in the ledger of a bot, in a file and in a database, as a table.

With `python tools/ledger_size.py`, a bot makes an offer on a sandbox, without and with fees and terms. The program then
writes copies of its record for other requests, in the three steps of an offer.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

# Only the script's own folder is on the path; the imports below also need the root of the tree and its sources.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import anyio
import attrs
import psycopg
from tests.support.postgres import running_server

from freight_exchange import Bot
from freight_exchange.store import MemoryStore, PostgresStore, SQLiteStore
from freight_exchange.store.protocol import Binding
from freight_exchange.store.work import Effect, WorkStore
from freight_exchange.testing import Sandbox
from freight_exchange.testing.virtual_time import virtual_time_options

_OFFERS: Final = 5_000
_FIRST: Final = 100_000
_OFFERS_A_COMMIT: Final = 10
_OFFERS_A_VACUUM: Final = 500
_FEES: Final = {"rates": {"Ocean Freight": "1700", "Chassis Fee": "140.50"}, "terms": "valid 14 days"}
_BINDING: Final = Binding("https://host/api", "me@co.example", "bot")


async def offer(options: dict[str, Any]) -> Effect:
    """Return the record of an offer, as a bot writes it."""
    sandbox = Sandbox()
    bot = Bot(store=MemoryStore(), start="backfill", interval=timedelta(minutes=1))

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount="1840.50", currency="USD", **options)

    sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        (found,) = await bot._components().unit_of_work.read(lambda work: work.effects("confirmed"))
    return found


def write(feed: WorkStore, made: Effect, first: int, count: int) -> None:
    """Write copies of the record for other requests."""
    for begin in range(first, first + count, _OFFERS_A_COMMIT):
        for before, state in ((None, "intent"), ("intent", "sending"), ("sending", "confirmed")):
            with feed.transaction():
                for index in range(begin, begin + _OFFERS_A_COMMIT):
                    one = attrs.evolve(made, key=f"offer:{index}:0", state=state)
                    assert feed.put_effect(one, expected_state=before)


def in_file(made: Effect) -> float:
    """Return the bytes of an offer in a file of SQLite."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "bot.db")
        store = SQLiteStore(path)
        write(store.open(_BINDING, lease=60.0), made, _FIRST, _OFFERS)
        store.close()
        return path.stat().st_size / _OFFERS


def in_database(made: Effect) -> float:
    """Return the bytes of an offer in a database, with its index."""
    with running_server() as server, psycopg.connect(server.url(), autocommit=True) as session:
        store = PostgresStore(server.url())
        feed = store.open(_BINDING, lease=60.0)
        for first in range(_FIRST, _FIRST + _OFFERS, _OFFERS_A_VACUUM):
            write(feed, made, first, _OFFERS_A_VACUUM)
            # Autovacuum would come too late for so many updates.
            session.execute("VACUUM freight_exchange.effect")
        store.close()
        row = session.execute("SELECT pg_total_relation_size('freight_exchange.effect')").fetchone()
    assert row is not None
    return float(row[0]) / _OFFERS


def main() -> None:
    print("| Offer | Its record | In a file | In a database |")
    print("|---|---|---|---|")
    for name, options in (("an amount", {}), ("with two fees and terms", _FEES)):
        made = anyio.run(offer, options, backend_options=virtual_time_options("asyncio"))
        print(f"| {name} | {len(made.payload)} | {in_file(made):.0f} | {in_database(made):.0f} |", flush=True)


if __name__ == "__main__":
    main()
