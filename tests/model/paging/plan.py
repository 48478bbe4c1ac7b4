"""Plan of a run: a random server and what the client does with it, drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import Literal

import attrs

__all__ = ["End", "Move", "Plan", "Reading"]

Reading = Literal["plain", "sweep", "write"]
Noun = Literal["bids", "requests", "offers", "routes"]
End = Literal["empty", "400", "404", "416", "422", "500", "last_page"]
Hiding = Literal["none", "few", "most", "runs", "long"]

_ENDS: tuple[End, ...] = ("empty", "empty", "empty", "400", "404", "416", "422", "500", "last_page", "last_page")
_SIZES = (2, 3, 4, 5, 7, 10)


@attrs.frozen
class Move:
    """Change of the listing before the reply to the n-th page request of the reading."""

    page: int
    kind: Literal["insert", "remove", "raise", "shuffle"]


@attrs.frozen(kw_only=True)
class Plan:
    """Plan of one run.

    Attributes:
        seed: Source of everything else.
        backend: Event loop.
        reading: Kind of read: a plain listing, a sweep, or a write whose answer is lost.
        noun: Noun of the listing.
        rows: Rows in the listing at the start, hidden ones included.
        hiding: Rows that the caller may not see, hidden after the page is cut; "long" hides many pages in a row.
        warm: Whether the client reads the listing before, under the first clamp.
        clamps: First page request of the run at which a clamp holds, and the clamp; `None` for none.
        stride: Whether `offset` counts pages of the rows given or of the rows asked for.
        limit: Largest `rowsperpage` that is not refused, and the status of the refusal.
        end: Reply past the end.
        offset_ignored: Whether every page is the first one.
        dropped: Whether the parameters of GETs are dropped on the way: the service gives its first page.
        moves: Changes of the listing during the reading.
        failures: Share of page requests that fail once.
        page_size: Rows that the client asks for; `None` for its default.
        window: Pages in flight.
        strict: Whether the client is strict.
        twins: Share of rows that are equal to another one.
        committed: Whether the write takes effect before its answer is lost.
        place: Place of a new row.
        baseline: Whether the client passes what was listed before the write.
        twin: Whether a bid equal to the one submitted stands before.
        types: Interpretation of the bid listing's `type`.
        late: Seconds until a committed write is listed.
    """

    seed: int
    backend: Literal["asyncio", "trio"]
    reading: Reading
    noun: Noun
    rows: int
    hiding: Hiding
    warm: bool
    clamps: tuple[tuple[int, int | None], ...]
    stride: Literal["clamped", "asked"]
    limit: tuple[int, int] | None
    end: End
    offset_ignored: bool
    moves: tuple[Move, ...]
    failures: float
    page_size: int | None
    window: int
    strict: bool
    twins: float
    committed: bool
    place: Literal["first", "last", "anywhere"]
    baseline: bool
    twin: bool
    types: Literal["served", "ignored", "refused"]
    late: float
    dropped: bool

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = Random(seed)
        reading: Reading = chance.choices(("plain", "sweep", "write"), (45, 35, 20))[0]
        write = reading == "write"
        page_size = None if write or chance.random() < 0.2 else chance.choice(_SIZES)
        clamp = _clamp(chance) if page_size is None or chance.random() < 0.5 else None
        noun: Noun = "bids" if write else chance.choice(("bids", "bids", "requests", "offers", "routes"))
        hiding: Hiding = chance.choices(("none", "few", "most", "runs", "long"), (38, 24, 14, 18, 6))[0]
        if hiding == "long":
            page_size, clamp = None, chance.choice((10, 10, 20, 40))
        moving = chance.random() < (0.5 if reading == "sweep" else 0.25)
        return cls(
            seed=seed,
            backend="trio" if seed % 4 == 3 else "asyncio",
            reading=reading,
            noun=noun,
            rows=chance.randrange(400)
            if hiding == "long"
            else _rows(chance, min(page_size or 100, clamp or 100), 3 if write else 5),
            hiding=hiding,
            warm=chance.random() < 0.5,
            clamps=_clamps(chance, clamp),
            stride="asked" if chance.random() < 0.1 else "clamped",
            limit=(chance.choice((10, 20, 50)), chance.choice((400, 422, 500))) if chance.random() < 0.1 else None,
            end=chance.choice(_ENDS),
            offset_ignored=chance.random() < 0.05,
            moves=_moves(chance, reading) if moving else (),
            failures=chance.choice((0.05, 0.2)) if chance.random() < 0.2 else 0.0,
            page_size=page_size,
            window=chance.choice((1, 1, 1, 2, 4)),
            strict=chance.random() < 0.5,
            twins=chance.choice((0.2, 0.8)) if noun == "bids" and chance.random() < 0.4 else 0.0,
            committed=chance.random() < 0.6,
            place=chance.choice(("first", "last", "anywhere")),
            baseline=chance.random() < 0.6,
            twin=chance.random() < 0.1,
            types=chance.choice(("served", "ignored", "refused")),
            late=chance.choice((0.0, 0.0, 0.3, 0.9)),
            dropped=chance.random() < 0.03,
        )


def _rows(chance: Random, page: int, most: int) -> int:
    """Draw a number of rows. A multiple of the page size is the most likely to mislead a client."""
    page = min(page, 12)
    draw = chance.random()
    if draw < 0.05:
        return 0
    if draw < 0.35:
        return page * chance.randrange(1, most)
    return chance.randrange(1, most * page)


def _clamp(chance: Random) -> int | None:
    return chance.choice((1, 2, 3, 4, 5, 10, 10, None))


def _clamps(chance: Random, clamp: int | None) -> tuple[tuple[int, int | None], ...]:
    """Draw a constant clamp, or one that changes sometimes."""
    clamps: list[tuple[int, int | None]] = [(0, clamp)]
    if chance.random() < 0.5:
        page = 0
        for _ in range(chance.choice((1, 1, 2, 6))):
            page += chance.choice((1, 2, 3, 5, 8))
            clamps.append((page, chance.choice((1, 2, 3, 5, 10, 20, None))))
    return tuple(clamps)


def _moves(chance: Random, reading: Reading) -> tuple[Move, ...]:
    span = 12 if reading == "sweep" else 6
    kinds: tuple[Literal["insert", "remove", "raise", "shuffle"], ...] = ("insert", "insert", "remove", "remove")
    if reading != "sweep":
        kinds = (*kinds, "raise", "shuffle")
    return tuple(Move(chance.randrange(span), chance.choice(kinds)) for _ in range(chance.choice((1, 1, 2, 4))))
