"""Requests that return with an older date than they had: from a backup, or from a machine that lags behind."""

from __future__ import annotations

import pytest
from tests.unit.feed.rig import HOUR, Rig, Service

from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time


async def test_withdrawn_request_that_returns_with_an_older_date_is_withdrawn_again(store: Store) -> None:
    """After a restart, only the widest window lists it: it is not known what its date rests on."""
    rig = Rig(service := Service(), store=store, interval=600.0)
    await rig.prime()
    service.publish(1)
    await rig.scan_for(7 * HOUR)
    later = rig.restart()
    service.publish(9)
    await later.scan_for(HOUR)
    kept = service.requests[1]
    service.withdraw(1)
    await later.scan_for(25 * HOUR)
    assert later.event_keys[-1] == ("withdrawn", 1)
    service.requests[1] = kept
    await later.scan_for(25 * HOUR)
    assert later.event_keys[-1] == ("updated", 1)
    service.withdraw(1)
    await later.scan_for(25 * HOUR)
    assert later.event_keys[-1] == ("withdrawn", 1)
