"""How several writes in memory become one: each notes how it is taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Undo"]


class Undo:
    """The steps that take back what was written since a transaction began. Outside of one nothing is kept."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] | None = None

    def note(self, step: Callable[[], object]) -> None:
        """What takes back one change, called once all that came after that change is taken back."""
        if self._steps is not None:
            self._steps.append(step)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Where anything raises, take back all that was written within. One within another is part of it."""
        if self._steps is not None:
            yield
            return
        steps = self._steps = []
        try:
            yield
        except BaseException:
            self._steps = None
            while steps:
                steps.pop()()
            raise
        finally:
            self._steps = None
