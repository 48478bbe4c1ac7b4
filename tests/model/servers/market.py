"""True history of the requests of a server with quirks, as a function of time."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping

import attrs

__all__ = ["Content", "Market", "Row", "Version"]


@attrs.frozen
class Content:
    """Content of a request that the model changes."""

    notes: str
    quantity: int
    destination: str
    incoterm: str | None
    status: str


@attrs.frozen
class Row:
    """Request in the service's database.

    Attributes:
        stamp: Time of its last update, by the service's own clock.
        hidden: Whether the rights of the account hide it.
    """

    index: int
    content: Content
    stamp: float
    hidden: bool = False


@attrs.frozen
class Version:
    """Version of a request as the account sees it, from one time to another; `None` while it is not visible."""

    since: float
    until: float
    content: Content | None


class Market:
    """Database of a service, and each of its earlier states.

    Args:
        clock: The service's own clock at a true time.
    """

    def __init__(self, clock: Callable[[float], float]) -> None:
        self.clock = clock
        self.next_index = 1
        self.ever: set[int] = set()
        self._times: list[float] = [float("-inf")]
        self._states: list[Mapping[int, Row]] = [{}]

    @property
    def now(self) -> Mapping[int, Row]:
        return self._states[-1]

    def rows(self, at: float) -> Mapping[int, Row]:
        return self._states[bisect.bisect_right(self._times, at) - 1]

    def visible(self, at: float) -> dict[int, Row]:
        return {index: row for index, row in self.rows(at).items() if not row.hidden}

    def publish(self, at: float, content: Content, *, stamp: float | None = None) -> int:
        index = self.next_index
        self.next_index += 1
        self._put(at, Row(index, content, self.clock(at) if stamp is None else stamp))
        return index

    def update(self, at: float, index: int, content: Content) -> None:
        self._put(at, attrs.evolve(self.now[index], content=content, stamp=self.clock(at)))

    def hide(self, at: float, index: int, *, hidden: bool) -> None:
        self._put(at, attrs.evolve(self.now[index], hidden=hidden))

    def remove(self, at: float, index: int) -> None:
        self._become(at, {key: row for key, row in self.now.items() if key != index})

    def put_back(self, at: float, row: Row) -> None:
        self._put(at, row)

    def restore(self, at: float, lost: float) -> None:
        """Continue with a backup that is `lost` seconds old; indexes assigned since then are assigned again."""
        backup = self.rows(at - lost)
        self.next_index = max(backup, default=0) + 1
        self._become(at, backup)

    def versions(self, index: int) -> list[Version]:
        """Return each state in which the account could see a request, oldest first, without repetitions."""
        found: list[Version] = []
        for since, state in zip(self._times, self._states, strict=True):
            row = state.get(index)
            content = None if row is None or row.hidden else row.content
            if found and found[-1].content == content:
                continue
            if found:
                found[-1] = attrs.evolve(found[-1], until=since)
            found.append(Version(since, float("inf"), content))
        return found

    def _put(self, at: float, row: Row) -> None:
        self.ever.add(row.index)
        self._become(at, {**self.now, row.index: row})

    def _become(self, at: float, state: Mapping[int, Row]) -> None:
        self._times.append(at)
        self._states.append(state)
