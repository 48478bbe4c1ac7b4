"""A shared budget of retries: an outage is not made worse by those who suffer it."""

from __future__ import annotations

__all__ = ["THROTTLED_COST", "TRANSIENT_COST", "RetryBudget"]

TRANSIENT_COST = 14
THROTTLED_COST = 5
_GAIN = 1


class RetryBudget:
    """A token bucket: retries spend, successes give back, and it never holds more than at first.

    With 500 tokens, a thousand calls that all fail are at most 1,035 requests (1,100 when throttled).
    """

    __slots__ = ("_size", "tokens")

    def __init__(self, size: int) -> None:
        self._size = size
        self.tokens = size

    def spend(self, cost: int) -> bool:
        """Take `cost` tokens if they are there; whether they were."""
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True

    def reward(self) -> None:
        if self.tokens < self._size:
            self.tokens += _GAIN
