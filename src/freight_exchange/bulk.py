"""Publication of the requests of a CSV file, each row once, even if the process is killed or a reply is lost.

    rows = bulk.read_requests("requests.csv")
    with bulk.Journal("requests.csv.progress", owner="shipper@demo.example at the sandbox") as journal:
        states = await bulk.publish(exchange, rows, journal)

The journal is a store with the ledger's rows. After a kill, run the same lines again to continue.
"""

from __future__ import annotations

import inspect
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, TypeVar

import anyio
import attrs

from freight_exchange.bot.writes import outcome_of
from freight_exchange.client import FreightExchange
from freight_exchange.errors import (
    DEFAULT_SETTLE,
    BadRequestError,
    ConfigurationError,
    FreightExchangeError,
    StoreError,
    ValidationError,
)
from freight_exchange.models import Applied, Listing, NotApplied, Publish, RateRequest, RateRequestDraft, Reconciliation
from freight_exchange.platform import clock
from freight_exchange.platform.csv import parser, point, read_csv, yes_or_no
from freight_exchange.serialization import to_dict, to_json
from freight_exchange.store import effects, fleet
from freight_exchange.store.database import SQLite
from freight_exchange.store.effects import Effect
from freight_exchange.store.schema import OPEN

__all__ = ["Journal", "OnRow", "Row", "State", "publish", "read_requests"]

T = TypeVar("T")

_POLL_INTERVAL: Final = 5.0
_NAME: Final = "publications"

State: TypeAlias = Literal["sending", "published", "refused"]
"""State of a row. `sending` is written before the request is sent, and stays if the outcome is unknown."""

_STATES: Final[Mapping[str, State]] = {"sending": "sending", "confirmed": "published", "refused": "refused"}


@attrs.frozen
class Row:
    """Row of a file of requests.

    Attributes:
        line: Its line in the file.
        key: Its identity in the journal: its content, with a number to distinguish equal rows.
        draft: The request to publish.
    """

    line: int
    key: str
    draft: RateRequestDraft


OnRow: TypeAlias = Callable[[Row, str, RateRequest | Listing | None], None]
"""Callback for each step of a row: its text, and the record that shows the request."""


def read_requests(path: str | os.PathLike[str]) -> list[Row]:
    """Read and check the requests of a CSV file.

    The first line names the columns, which are the arguments of `RateRequestDraft`. Dates are written as `2027-03-01`,
    and `hazardous` as `yes` or `no`.

    Raises:
        ValidationError: Rows are wrong, or there are none; the message has each problem with its line and column.
        OSError: The file cannot be opened.
    """
    seen: Counter[str] = Counter()

    def build(line: int, values: dict[str, Any]) -> Row:
        draft = RateRequestDraft(**values)
        content = to_json(draft)
        seen[content] += 1
        return Row(line, f"{content} #{seen[content]}", draft)

    rows = read_csv(Path(path), _COLUMNS, _REQUIRED, build)
    if not rows:
        raise ValidationError(f"{Path(path).name} has no rows", field="path")
    return rows


class Journal(AbstractContextManager["Journal"]):
    """Journal of one file, one account and one exchange: a store in a file, synced at each step.

    Use it as a context manager, which closes it. One process uses it at a time.

    Args:
        path: The file of the journal.
        owner: The account and the exchange, in any words. The journal of another owner is refused, since its published
            rows are not published here.

    Raises:
        ConfigurationError: The journal belongs to another owner, another process uses it, or it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str) -> None:
        self.path = Path(path)
        self._owner = owner
        self._database = SQLite(os.path.realpath(path))
        try:
            self._database.open()
            joined = self._run(fleet.join, fleet.Binding(_NAME, owner, _NAME), fleet.describe_process(), fleet.LEASE)
        except BaseException as error:
            self._database.close()
            if isinstance(error, StoreError):
                raise ConfigurationError(f"the journal {path} cannot be used: {error.message}") from None
            raise
        self._binding, self._me = joined.binding, joined.me

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def state(self, row: Row) -> State | None:
        """Return the state of a row, or `None` before it is sent."""
        effect = self._find(row)
        return None if effect is None else _STATES.get(effect.state)

    def _run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self._database.now = clock.wall_time()
        with self._database.transaction():
            return function(self._database, *args, **kwargs)

    def _find(self, row: Row) -> Effect | None:
        return self._run(effects.find, self._binding, row.key)

    def _begin(self, row: Row) -> Effect:
        effect = Effect(key=row.key, kind="publication", subject=None, facts={}, at=clock.wall_time(), owner=self._me)
        begun = self._run(effects.begin, self._binding, effect, replaces=self._find(row))
        assert begun is not None
        return begun

    def _finish(self, effect: Effect, state: str, record: RateRequest | Listing | None = None) -> None:
        facts = {} if record is None else {"result": to_dict(record)}
        changed = attrs.evolve(effect.with_facts(**facts), state=state, at=clock.wall_time())
        self._run(effects.finish, changed, replaces=OPEN)

    def _remember(self, own: Sequence[Listing]) -> None:
        """Replace the requests from before; one that is gone must not exclude a new request."""
        payload = json.dumps(sorted({listing.index for listing in own})).encode()
        self._run(effects.record_reading, self._binding, clock.wall_time(), payload)

    def _baseline(self) -> Sequence[Listing]:
        """Return the account's requests that are surely not the one in doubt."""
        payload = self._run(effects.last_reading, self._binding).payload
        known = {*json.loads(payload or b"[]"), *(index for index, _ in self._published())}
        return [Listing(index=index) for index in known]

    def _published(self) -> set[tuple[int, str | None]]:
        rows = self._run(effects.of_kind, self._binding, "publication")
        records = [one.facts["result"] for one in rows if one.state == "confirmed"]
        return {(record["index"], record["commodity"]) for record in records}


async def publish(
    exchange: FreightExchange,
    rows: Sequence[Row],
    journal: Journal,
    *,
    on_row: OnRow = lambda row, event, record: None,
    settle: timedelta = DEFAULT_SETTLE,
) -> Counter[State]:
    """Publish the rows that are not published yet; return the number of rows in each state.

    The journal records each step before it is taken. If the outcome of a row is unknown, its request is searched among
    the account's requests, and sent again only after proof of its absence. An equal request that another program
    publishes for the same account at the same moment cannot be distinguished.

    Args:
        exchange: The client of a shipper.
        rows: The rows of a file.
        journal: The journal of that file.
        on_row: Called with each step of a row.
        settle: Time that the service may take to list a request. Absence is proven only after it.

    Raises:
        ConfigurationError: The exchange has none of the requests that are published by the journal.
        FreightExchangeError: A call failed. The row was not published, and the next run sends it.
    """
    own = await _read_own(exchange, journal, settle)

    async def look(row: Row, effect: Effect) -> None:
        found: Reconciliation = await exchange.reconcile(
            Publish(row.draft), settle=settle, baseline=journal._baseline()
        )
        match found:
            case Applied(RateRequest() | Listing() as record):
                journal._finish(effect, "confirmed", record)
                on_row(row, "published", record)
            case NotApplied():
                journal._finish(effect, "absent")
                on_row(row, "it was not published", None)
            case _:
                on_row(row, "still in doubt: the next run looks again before anything of this row is sent", None)

    for row in rows:
        if (effect := journal._find(row)) is not None and effect.is_open:
            on_row(row, "an earlier run may have published it: looking for it", None)
            await look(row, effect)
    if all(journal.state(row) != "sending" for row in rows):
        # Not while a row is in doubt: its request must not count as one from before.
        journal._remember(own)
    for row in rows:
        while journal.state(row) is None:
            effect = journal._begin(row)
            try:
                published = await exchange.requests.publish(row.draft)
            except FreightExchangeError as error:
                match outcome_of(error, (BadRequestError,)):
                    case "unknown":
                        on_row(row, f"it is not known whether it was published: {error}", None)
                        await look(row, effect)
                    case "refused":
                        journal._finish(effect, "refused")
                        on_row(row, f"refused: {error}", None)
                    case _:
                        # It was not sent, so the next run sends it.
                        journal._finish(effect, "absent")
                        raise
            else:
                journal._finish(effect, "confirmed", published)
                on_row(row, "published", published)
    return Counter(state for row in rows if (state := journal.state(row)) is not None)


async def _read_own(exchange: FreightExchange, journal: Journal, settle: timedelta) -> Sequence[Listing]:
    """Return the account's requests. Without any of the published ones, the exchange was reset."""
    published = journal._published()
    deadline = anyio.current_time() + settle.total_seconds()
    while True:
        own = await exchange.offers.list(sweep=True).collect()
        if not published or published & {(listing.index, listing.commodity) for listing in own}:
            return own
        # A request that was just published may not be listed yet.
        if anyio.current_time() >= deadline:
            raise ConfigurationError(
                f"{journal.path} has {len(published)} published rows, and {journal._owner} has none of these requests:"
                " the exchange was reset, or all of them are gone. Put the rows that are still to be published into a"
                " file with another name"
            )
        await anyio.sleep(_POLL_INTERVAL)


_PARSERS: Final = {
    "arrival": parser(datetime.fromisoformat, "a date such as 2027-03-01"),
    "quantity": parser(int, "a whole number"),
    "hazardous": yes_or_no,
    **dict.fromkeys(("length", "width", "height", "weight"), point),
}
_PARAMETERS: Final = inspect.signature(RateRequestDraft).parameters
_COLUMNS: Final = {name: _PARSERS.get(name, lambda cell, column: cell) for name in _PARAMETERS}
_REQUIRED: Final = [name for name, parameter in _PARAMETERS.items() if parameter.default is inspect.Parameter.empty]
