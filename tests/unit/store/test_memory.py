"""Tests of the store in memory; `test_protocol` and `test_work` run on it too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.store.rows import BINDING, LEASE, put

from freight_exchange.store import MemoryStore


def test_two_stores_share_nothing_and_each_keeps_its_state_until_it_is_closed() -> None:
    first, second = MemoryStore(), MemoryStore()
    assert first.inline
    feed = first.open(BINDING, lease=LEASE)
    put(feed, state="kept")
    feed.release()
    assert second.open(BINDING, lease=LEASE).state is None
    assert first.open(BINDING, lease=LEASE).state == "kept"
    first.close()
    second.close()


def test_sqlite3_is_imported_with_the_first_store() -> None:
    probe = """
import sys
sys.modules["sqlite3"] = None
import freight_exchange, freight_exchange.bot, freight_exchange.feed.feed, freight_exchange.store as store
for name in ("MemoryStore", "SQLiteStore", "Nothing"):
    try:
        getattr(store, name)
    except (ImportError, AttributeError) as error:
        print(type(error).__name__)
"""
    src = Path(__file__).parents[3] / "src"
    probed = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=src)
    assert probed.stdout.split() == ["ModuleNotFoundError", "ModuleNotFoundError", "AttributeError"]
