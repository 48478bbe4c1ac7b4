"""Tests of requests that return with an older date: from a backup, or from a machine that lags."""

from __future__ import annotations

import pytest
from tests.unit.feed.rig import HOUR, Rig, Service

from freight_exchange.store import Store

pytestmark = pytest.mark.virtual_time


def date_back(service: Service, *indexes: int, seconds: float) -> None:
    """List requests with an older date, as after a restore from a backup."""
    for index in indexes:
        service.requests[index].updated -= seconds


@pytest.mark.parametrize("interval", [360.0, 1140.0])
async def test_backup_with_older_dates_holds_no_withdrawals_back(store: Store, interval: float) -> None:
    rig = Rig(service := Service(), store=store, interval=interval)
    await rig.prime()
    await rig.scan_for(6 * HOUR)
    service.publish(*range(1, 31))
    await rig.scan()
    date_back(service, *range(1, 19), seconds=5 * HOUR)
    service.withdraw(*range(19, 31))
    await rig.scan_for(3 * HOUR)
    assert sorted(rig.event_keys)[30:] == [("withdrawn", index) for index in range(19, 31)]
    await rig.scan_for(5 * HOUR)
    assert rig.poller.progress.phase == "live"


async def test_withdrawn_request_that_returns_with_an_older_date_is_withdrawn_again(store: Store) -> None:
    """After a restart only the widest window lists it, so the basis of its date is unknown."""
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
