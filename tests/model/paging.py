"""Model of paging: walks through random listings, and what they claim to have read.

A server cuts pages, counts `offset` in the cut or in the requested size, hides rows after it has cut a page, refuses
sizes, ends in one of five ways, and moves rows while it is read. A sweep that calls itself complete must have every row
that was listed all the time; no walk may request pages without end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import attrs

from freight_exchange.walk import Pass, Sweep

__all__ = ["KINDS", "Reading", "Result", "Server", "main", "naive", "read", "run", "run_server"]

Kind = Literal["still", "moving", "small cuts", "wild"]
KINDS: Final[tuple[Kind, ...]] = ("still", "moving", "still", "moving", "still", "moving", "small cuts", "wild")
"""Kind of server by the last digits of a seed.

- `still`, `moving`: what a client has to survive; pages are not cut below the documented size.
- `small cuts`: pages are cut at 1 to 9 rows, where the document states no size. Counted, and no flaw.
- `wild`: rows in another order at each call, doubled rows, ignored page numbers. Only endless readings, and claims of
  completeness that are false, are flaws.
"""

_MOST_HIDDEN: Final = 20
_MOST_REQUESTS: Final = 5000
_SIZES: Final = (100, 100, 100, 1000, 30, 7, 1)
_REFUSED: Final = (400, 413, 422, 500)


class Result(NamedTuple):
    """Result of a run: its flaws, and counts of what struck."""

    flaws: list[str]
    counts: Counter[str]


class RefusedError(Exception):
    """Refusal of a page, with its status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class EndlessError(Exception):
    """More requests than any listing needs."""


@attrs.define(eq=False)
class Row:
    """Row of a listing: rows with an equal `key` cannot be distinguished."""

    key: int
    visible: bool
    since: int = 0
    until: int | None = None


class Server:
    """Server of a listing, whose quirks and moves follow from the seed."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self.random = r = random.Random(f"{kind} {seed}")
        self.kind = kind
        self.safe = r.choice([10, 10, 20])
        self.documented = kind != "small cuts" and r.random() < 0.5
        self.page_size = r.choice(_SIZES[:5] if kind == "wild" else _SIZES)
        self.window = r.choice([1, 1, 1, 3])
        self.has_twins = r.random() < 0.1
        self.hides = r.choices(["none", "few", "most", "runs"], [50, 20, 12, 18])[0]
        cuts = [cut for cut in (None, None, 10, 20, 25, 50, 100) if cut is None or cut >= self.safe]
        self.cut = r.randint(1, 9) if kind == "small cuts" else r.choice(cuts)
        self.counts_in: str = r.choice(["cut size", "cut size", "requested size"])
        self.end = r.choice(["empty", "empty", 400, 404, 500, "last page"])
        self.limit = r.choice([None] * 9 + [50])
        self.refusal = r.choice(_REFUSED)
        self.disorder = r.choice(["order", "doubled", "offset ignored"]) if kind == "wild" else ""
        self._hidden = 0
        length = r.choice(
            [
                r.randrange(15),
                r.randrange(60),
                10 * r.randrange(6),
                20 * r.randrange(6),
                r.randrange(400),
                100 * r.randrange(4),
            ]
        )
        if self.disorder == "order" and r.random() < 0.5:
            # Two passes over so few rows lack the same one by chance.
            length, self.cut, self.hides = r.randint(self.safe + 1, self.safe + 3), self.safe, "none"
        self.rows = [self._row() for _ in range(length)]
        self.gone: list[Row] = []
        self.requests = 0
        self.struck: Counter[str] = Counter()
        moves = ["insert", "insert", "remove", "remove", "raise", "reorder"]
        count = r.choice([1, 1, 2, 4]) if kind == "moving" else 0
        self.moves = [(r.randrange(14), r.choice(moves)) for _ in range(count)]

    def _row(self) -> Row:
        match self.hides:
            case "none":
                hidden = False
            case "runs":
                if not self._hidden and self.random.random() < 0.15:
                    self._left = self.random.randint(1, _MOST_HIDDEN)
                hidden = self._hidden < getattr(self, "_left", 0)
                if not hidden:
                    self._left = 0
            case share:
                hidden = self.random.random() < (0.2 if share == "few" else 0.8)
        hidden = hidden and self._hidden < _MOST_HIDDEN
        self._hidden = self._hidden + 1 if hidden else 0
        self._next = getattr(self, "_next", 0) + 1
        twin = self.has_twins and self._next > 1 and self.random.random() < 0.3
        return Row(self.random.randrange(1, self._next) if twin else self._next, not hidden)

    def page(self, number: int, size: int) -> list[int]:
        """Return the visible rows of a page; raise `RefusedError` for none."""
        for at, move in self.moves:
            if at == self.requests:
                self._move(move)
        self.requests += 1
        if self.requests > _MOST_REQUESTS:
            raise EndlessError
        if self.limit is not None and size > self.limit:
            self.struck["refused sizes"] += 1
            raise RefusedError(self.refusal)
        if self.disorder == "order":
            self.random.shuffle(self.rows)
        given = min(size, self.cut or size)
        start = number * (given if self.counts_in == "cut size" else size)
        rows = self.rows[:given] if self.disorder == "offset ignored" else self.rows[start : start + given]
        if not rows and self.rows and self.end == "last page":
            self.struck["repeated last pages"] += 1
            rows = self.rows[(len(self.rows) - 1) // given * given :]
        elif not rows and number and isinstance(self.end, int):
            self.struck["refused pages"] += 1
            raise RefusedError(self.end)
        keys = [row.key for row in rows if row.visible]
        self.struck["cut pages"] += given < size and start + size > start + given < len(self.rows)
        self.struck["pages without a visible row"] += bool(rows) and not keys
        if self.disorder == "doubled":
            keys = sorted(keys + [key for key in keys if self.random.random() < 0.3])
        return keys

    def _move(self, move: str) -> None:
        self.struck[f"rows moved: {move}"] += bool(self.rows)
        match move:
            case "insert":
                row = self._row()
                row.since = self.requests + 1
                self.rows.insert(self.random.choice([0, len(self.rows), self.random.randint(0, len(self.rows))]), row)
            case "remove" if self.rows:
                row = self.rows.pop(self.random.randrange(len(self.rows)))
                row.until = self.requests
                self.gone.append(row)
            case "raise" if self.rows:
                self.rows.insert(0, self.rows.pop(self.random.randrange(len(self.rows))))
            case "reorder":
                self.random.shuffle(self.rows)

    def listed_throughout(self) -> Counter[int]:
        """Return the visible rows that were listed during all requests."""
        rows = [*self.rows, *(row for row in self.gone if (row.until or 0) >= self.requests)]
        return Counter(row.key for row in rows if row.visible and not row.since)


class Reading(NamedTuple):
    """Result of a reading.

    Attributes:
        rows: The rows that it returned.
        claim: `complete`, `incomplete`, `endless`, or the status of a refusal that was raised.
    """

    rows: Counter[int]
    claim: str


def read(server: Server, *, sweep: bool) -> Reading:
    """Read a listing with a walk, as a paginator does."""
    options: dict[str, Any] = {"safe": server.safe, "documented": server.documented} if sweep else {"safe": server.safe}
    walk: Pass | Sweep = (Sweep if sweep else Pass)(server.page_size, **options)
    found: Counter[int] = Counter()
    fetched: dict[tuple[int, int], list[int] | int] = {}
    while not walk.ended:
        number, size = at = walk.now.number, walk.now.size
        if at not in fetched:
            fetched = {}
            numbers: Sequence[int] = walk.now.ahead(server.window)
            assert numbers[0] == number, "the next page is not the first one ahead"
            for ahead in numbers:
                try:
                    fetched[ahead, size] = server.page(ahead, size)
                except RefusedError as error:
                    fetched[ahead, size] = error.status
                except EndlessError:
                    return Reading(found, "endless")
        page = fetched.pop(at)
        is_refused = isinstance(page, int) and not walk.refuse(page)
        if not isinstance(page, int):
            walk.take(page)
            found |= Counter(dict.fromkeys(page, 1))
        if is_refused or walk.up.broken:
            return Reading(found, f"raised {page}")
    complete = walk.complete if isinstance(walk, Sweep) else not walk.up.ignores_offset
    rows = cast("Counter[int]", walk.rows)
    # Equal rows are as many as the walk counts; others are returned once.
    found |= rows if server.has_twins else Counter(dict.fromkeys(rows, 1))
    return Reading(found, "complete" if complete else "incomplete")


def run(seed: int) -> Result:
    """Read the listing of a seed once plainly, and once with a sweep."""
    return run_server(seed, KINDS[seed % len(KINDS)])


def run_server(seed: int, kind: Kind) -> Result:
    """Read a listing of this kind."""
    flaws: list[str] = []
    counts: Counter[str] = Counter()
    for way in ("plain", "sweep"):
        server = Server(seed, kind)
        reading = read(server, sweep=way == "sweep")
        lost = server.listed_throughout() - reading.rows
        label = f"{kind}, {way}"
        counts += server.struck
        counts[f"{label}: requests"] += server.requests
        counts[f"{label}: {reading.claim}"] += 1
        counts[f"{label}: complete, with rows lost"] += bool(lost) and reading.claim == "complete"
        flaws += [f"{label}: {flaw}" for flaw in _flaws(server, reading, lost, is_sweep=way == "sweep")]
    return Result(flaws, counts)


def _flaws(server: Server, reading: Reading, lost: Counter[int], *, is_sweep: bool) -> list[str]:
    if reading.claim == "endless":
        return ["pages are requested without end"]
    ambiguous = server.has_twins and server.end == "last page"
    flaws: list[str] = []
    # An ignored page number looks like a listing of one row if the page has one visible row.
    is_unknowable = server.kind == "wild" and (server.hides != "none" or server.has_twins)
    excused = ambiguous or is_unknowable or server.kind == "small cuts"
    if is_sweep and lost and reading.claim == "complete" and not excused:
        flaws.append(f"called complete without the rows {sorted(lost)[:5]}")
    if server.kind in ("still", "moving") and reading.claim.startswith("raised"):
        flaws.append(f"failed: {reading.claim}")
    if server.kind == "still" and not is_sweep and server.hides == "none" and lost and not ambiguous:
        flaws.append(f"a listing that stands lacks the rows {sorted(lost)[:5]}")
    expected = Counter(row.key for row in server.rows if row.visible)
    if server.kind == "still" and reading.rows - expected and not ambiguous:
        flaws.append(f"the rows {sorted(reading.rows - expected)[:5]} come too often")
    return flaws


def naive(seed: int) -> bool:
    """Return whether a loop over pages of 100 rows, up to the first short one, loses rows."""
    return naive_loses(Server(seed, KINDS[seed % len(KINDS)]))


def naive_loses(server: Server) -> bool:
    found: Counter[int] = Counter()
    try:
        while True:
            page = server.page(server.requests, 100)
            found.update(page)
            if len(page) < 100:
                break
    except RefusedError as error:
        return error.status == 500 or not server.requests
    except EndlessError:
        return True
    return bool(server.listed_throughout() - found)


def main(kind: Kind, seeds: range) -> str:
    """Return a summary of the servers of one kind."""
    flaws: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    naively = 0
    for seed in seeds:
        result = run_server(seed, kind)
        counts += result.counts
        naively += naive_loses(Server(seed, kind))
        if result.flaws:
            flaws[seed] = result.flaws
    lines = [f"{len(seeds)} servers ({kind}), {len(flaws)} flawed; the naive loop fails on {naively}"]
    lines += [f"seed {seed}: {flaw}" for seed, found in [*flaws.items()][:20] for flaw in found]
    return "\n".join([*lines, *(f"{count:>9} {name}" for name, count in sorted(counts.items()))])
