"""Late visibility: the service shows a change some time after it was made, and then keeps showing it."""

from __future__ import annotations

__all__ = ["Lateness"]


class Lateness:
    """Delay until a change becomes visible, which varies over a run. Times are the server's.

    While the delay grows, the shown state stands still: a server does not take back a state that it has shown.
    """

    def __init__(self, late: float) -> None:
        self._turns: list[tuple[float, float, float]] = [(float("-inf"), late, float("-inf"))]

    def turn(self, now: float, late: float) -> None:
        """Set the delay of later changes."""
        self._turns.append((now, late, self.visible_until(now)))

    def visible_until(self, now: float) -> float:
        """Return the time before which all changes are visible now."""
        _, late, before = self._turns[-1]
        return max(before, now - late)

    def at(self, changed: float) -> float:
        """Return the time at which a change becomes visible."""
        for place, (since, late, before) in enumerate(self._turns):
            until = self._turns[place + 1][0] if place + 1 < len(self._turns) else float("inf")
            when = max(since, changed) if changed <= before else max(since, changed + late)
            if when < until:
                return when
        raise AssertionError("the last turn has no end")
