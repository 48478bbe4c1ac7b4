"""Requests in trouble: never more than in health."""

from __future__ import annotations

import pytest
from tools.watcher_trouble import TROUBLES, hourly

CASES = ["429", "429, Retry-After: 3600", "503", "refused", "token refused, login 503"]


def test_every_case_is_a_trouble() -> None:
    assert TROUBLES.keys() >= {*CASES}


@pytest.mark.parametrize("bot", [False, True])
@pytest.mark.parametrize("trouble", CASES)
def test_watcher_in_trouble_sends_no_more_than_in_health(trouble: str, *, bot: bool) -> None:
    assert hourly(trouble, 300, bot=bot) <= hourly("health", 300, bot=bot)


def test_retry_after_is_asked_again_only_when_it_has_passed() -> None:
    assert hourly("429, Retry-After: 3600", 30, bot=False) == 1


def test_feed_whose_requests_fail_every_other_time_sends_no_more_than_in_health() -> None:
    """Over hours: where an hour begins may make a request of difference."""
    assert sum(hourly("503, every other request", 30, bot=False) for _ in range(3)) <= 3 * 120
