"""Service of the models: the sandbox with faults between calls. No other file of the models imports it."""

from __future__ import annotations

import json
import random
import resource
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import anyio
import attrs

from freight_exchange.testing import (
    FAULTS,
    Cargo,
    Cut,
    Fault,
    Profile,
    Sandbox,
    WireFault,
    inline_store,
    virtual_time_options,
)
from freight_sandbox.server import serve as serve

__all__ = [
    "BEGAN", "FAULTS", "LISTING_FAULTS", "LOGIN_FAULTS", "Backend", "Cargo", "Cut", "Disk", "Fault", "Profile",
    "Sandbox", "Service", "WireFault", "disk", "disks", "in_virtual_time", "serve",
]  # fmt: skip

Backend = Literal["asyncio", "trio"]
T = TypeVar("T")

BEGAN: Final = 1_900_000_000.0
"""Seconds since the epoch at which each schedule begins."""

_WRITES: Final = {"reply_of_another_request", "reply_with_another_amount", "reply_with_another_currency",
                  "approval_of_another_offer", "bad_request_after_commit"}  # fmt: skip
_FOREVER: Final = {"unavailable_forever", "unauthorized_forever"}
_CHANGED_VALUES: Final = {"long_integer", "nan", "infinity", "huge_exponent", "duplicate_keys", "lone_surrogate",
                          "invalid_utf8", "wrong_charset", "unknown_charset", "poison_record"}  # fmt: skip
"""Faults whose reply shows another state of a request: a checker of states cannot judge what they cause."""
_SLOW_TO_RUN: Final = {"gzip_bomb", "gzip_bomb_twice", "deep_json", "deep_object", "header_flood", "drip"}
_MOVES: Final = {"rows_inserted", "rows_removed", "rows_touched", "rows_reordered"}

LOGIN_FAULTS: Final = tuple(name for name in FAULTS if name.startswith("login_"))
LISTING_FAULTS: Final = tuple(
    name
    for name in FAULTS
    if name not in {*LOGIN_FAULTS, *_WRITES, *_FOREVER, *_CHANGED_VALUES, *_SLOW_TO_RUN, *_MOVES}
)
"""Names of the faults after which a page is requested again. The moves of rows have operations of their own."""


class Service:
    """Sandbox that lets a schedule act before and after each reply to a listing.

    Args:
        paths: Addresses of the listing and its look-ups; the first one is struck by faults.
        before: Called before a page is made, with its number; `None` for a look-up.
        after: Called with the rows of a good reply and the page's number. It may change the rows, and returns whether
            it has.

    Attributes:
        counts: Occurrences by kind.
    """

    def __init__(
        self,
        profile: Profile,
        seed: int,
        paths: Collection[str],
        *,
        before: Callable[[int | None], None] = lambda page: None,
        after: Callable[[int | None, dict[Any, Any]], bool] = lambda page, rows: False,
    ) -> None:
        self.sandbox = Sandbox(profile, seed=seed, began=BEGAN)
        self.counts: Counter[str] = Counter()
        self._before = before
        self._after = after
        self._paths = tuple(paths)
        self._call: Any = None
        # The first fault that matches a call strikes alone, so this one stays the last.
        self._hook = Fault(name="hook", when=self._is_listing, times=None, change=self._enter, mutate=self._leave)
        self.calm()

    @property
    def now(self) -> float:
        return self.sandbox.now()

    def strike(
        self, name: str, *, path: str | None = None, times: int | None = 1, skip: int = 0, seconds: float | None = None
    ) -> None:
        """Arm a fault of the catalogue, by default for the listing."""
        where = "login" if name in LOGIN_FAULTS else path or self._paths[0]
        self.arm(*FAULTS[name](path=where, times=times, skip=skip, seconds=seconds))

    def arm(self, *faults: Fault) -> None:
        script = self.sandbox.exchange.faults
        script.disarm(self._hook)
        script.add(*faults, self._hook)

    def delay_pages(self, seconds: float, times: int) -> None:
        """Answer the next pages late, without first ones."""
        hook = self._hook

        def is_due(call: Any) -> bool:
            return self._is_listing(call) and (self.page_of(call) or 0) > 0

        self.arm(attrs.evolve(hook, name="slow_page", when=is_due, times=times, delay=seconds))

    def calm(self) -> None:
        """End all faults."""
        self.sandbox.exchange.faults.clear()
        self.arm()

    @property
    def calls(self) -> int:
        """Number of calls so far."""
        return len(self.sandbox.audit_log.calls)

    @property
    def listed(self) -> list[Any]:
        """Calls to the listing so far, without look-ups."""
        return [call for call in self.sandbox.audit_log.calls if self.page_of(call) is not None]

    def hides(self, index: int) -> bool:
        """Return whether the profile hides a request from forwarders."""
        match self.sandbox.exchange.profile.hidden:
            case "rows":
                return index % 3 == 0
            case "runs":
                return index // 10 % 2 == 1
            case _:
                return False

    def strikes(self) -> Counter[str]:
        """Count the faults that struck, by name."""
        return Counter(f"fault {name}" for name, *_ in self.sandbox.exchange.faults.fired if name != "hook")

    def page_of(self, call: Any) -> int | None:
        """Return the number of the page of the listing that a call requests; `None` for another call."""
        if call.path not in self._paths:
            return None
        try:
            body = json.loads(call.body or b"{}")
        except ValueError:
            return None
        return None if "index" in body else int(body.get("offset", 0))

    def _is_listing(self, call: Any) -> bool:
        self._call = call
        return call.path in self._paths

    def _enter(self, exchange: Any, now: float) -> None:
        self._before(self.page_of(self._call))

    def _leave(self, reply: Any, now: float, drawn: random.Random) -> Any:
        if reply.status != 200 or not self.changes_replies:
            return reply
        try:
            payload = json.loads(reply.body, parse_float=str)
            ((name, records),) = payload.items()
        except (ValueError, AttributeError):
            return reply
        rows = dict(records) if isinstance(records, dict) else dict(enumerate(records or ()))
        if not self._after(self.page_of(self._call), rows):
            return reply
        payload[name] = rows if isinstance(records, dict) else list(rows.values())
        return attrs.evolve(reply, body=json.dumps(payload).encode())

    changes_replies = False
    """`True` while `after` has something to change: reading all replies would take most of the time of a schedule."""


class Disk:
    """Folder of a program's store, which can be full and is copied when the program is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._generation = 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    @property
    def path(self) -> Path:
        return self._folder / f"store-{self._generation}.db"

    def open(self) -> Any:
        """Open the store as the next life of the program finds it."""
        return inline_store(self.path)

    def kill(self) -> None:
        """Give the files as they are to the next life: what the present one writes from now on is lost."""
        self.recover()
        old = self.path
        self._generation += 1
        for suffix in ("", "-wal", "-journal"):
            part = old.with_name(old.name + suffix)
            if part.exists():
                shutil.copyfile(part, self.path.with_name(self.path.name + suffix))

    def back_up(self) -> Path:
        """Copy the store as SQLite does it, for `put_back`."""
        backup = self._folder / "backup.db"
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        return backup

    def put_back(self, backup: Path) -> None:
        """Give the next life a copy of the store."""
        self.lose()
        shutil.copyfile(backup, self.path)

    def lose(self) -> None:
        """Give the next life no store."""
        self._generation += 1

    def fill(self, pages: int = 0) -> None:
        """Let no write succeed after so many further pages of the database's log."""
        log = self.path.with_name(self.path.name + "-wal")
        size = log.stat().st_size if log.exists() else 0
        limit = size + pages * 4120 if pages else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, self._limits[1]))

    def recover(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@contextmanager
def disks() -> Iterator[Callable[[], Disk]]:
    """Yield a maker of folders in memory, if the machine has one there: models wait for no disk."""
    shared = Path("/dev/shm")
    made: list[Disk] = []
    with ExitStack() as stack:

        def make() -> Disk:
            folder = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)
            made.append(Disk(Path(stack.enter_context(folder))))
            return made[-1]

        try:
            yield make
        finally:
            for one in made:
                one.recover()


@contextmanager
def disk() -> Iterator[Disk]:
    """Make one folder."""
    with disks() as make:
        yield make()


def in_virtual_time(seed: int, backend: Backend, work: Callable[[], Awaitable[T]]) -> T:
    """Run a program in virtual time, so that the seed repeats it."""
    random.seed(seed)
    if backend == "trio":
        # Trio draws the order of tasks anew for each run. Hypothesis makes it repeatable in the same way.
        from trio._core import _run as _typed

        _run: Any = _typed
        allowed, _run._ALLOW_DETERMINISTIC_SCHEDULING = _run._ALLOW_DETERMINISTIC_SCHEDULING, True
        _run._r.seed(seed)
        try:
            return anyio.run(work, backend=backend, backend_options=virtual_time_options(backend))
        finally:
            _run._ALLOW_DETERMINISTIC_SCHEDULING = allowed
    return anyio.run(work, backend=backend, backend_options=virtual_time_options(backend))
