"""What every resource calls: reads, writes and listings, in the service's conventions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio
import anyio.lowlevel
import attrs

from freight_exchange import wire
from freight_exchange.endpoints.reply_check import check_reply
from freight_exchange.endpoints.reported_errors import ReportedErrors
from freight_exchange.errors import DecodeError, NotFoundError, ValidationError
from freight_exchange.hooks import BrokenRecord
from freight_exchange.models import validation
from freight_exchange.models._base import NOTHING
from freight_exchange.paging import PageSizes, Paginator
from freight_exchange.transport.call import new_call_id
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.redaction import redact_decode_error, reply_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.errors.outcome import Reconciler
    from freight_exchange.hooks import Hooks
    from freight_exchange.models.writes import Write
    from freight_exchange.options import CarrierField, CurrencyField, GetParameters, IndexType
    from freight_exchange.paging import FetchPage
    from freight_exchange.transport.call import Limits
    from freight_exchange.transport.lifecycle import Connection
    from freight_exchange.transport.message import Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["Conventions", "Listed", "Service", "expect", "index_of"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange")

_MANY_ROWS: Final = 10_000


class Conventions(NamedTuple):
    """What the service's document leaves open, decided once for a client."""

    get_parameters: GetParameters
    addresses: Mapping[str, str]
    currency_field: CurrencyField
    carrier_field: CarrierField
    index_type: IndexType
    missing_list_is_empty: bool

    def index_value(self, index: int) -> int | str:
        """Return the `index` of a look-up in the JSON type that the service takes (service document, 4)."""
        return index if self.index_type == "integer" else str(index)


class Listed(NamedTuple):
    """How a listing is asked for.

    Attributes:
        operation: The name under which page sizes are learned.
        method, path: The call.
        parameters: What is sent beside `offset` and `rowsperpage`.
        paged: Whether the operation has pages.
    """

    operation: str
    method: str
    path: str
    parameters: Mapping[str, Any] = NOTHING
    paged: bool = True


class _Sent:
    """Facts of a call, for errors about its records: those are raised when the call itself has ended well."""

    __slots__ = ("attempts", "began", "call_id", "headers", "status")

    def __init__(self) -> None:
        self.began = anyio.current_time()
        self.attempts = 0
        self.call_id = new_call_id()
        self.status: int | None = None
        self.headers: Sequence[tuple[bytes, bytes]] = ()

    def take(self, response: Response) -> None:
        self.status, self.attempts, self.headers = response.status, response.attempt, response.headers

    def describe(self, error: FreightExchangeError, method: str, redactor: Redactor) -> None:
        error.method, error.call_id = method, self.call_id
        error.status, error.attempts, error.elapsed = self.status, self.attempts, anyio.current_time() - self.began
        error.headers = reply_headers(self.headers, redactor)
        error.settled = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Service:
    """One view's access to the service.

    Attributes:
        connection: What is shared with the client's other views.
        limits: Deadline, timeouts and retries of this view's calls.
        page_size: Rows to ask for in a page, where a listing names none.
        strict: Whether one broken record fails its listing.
        reconciler: The client, for errors that have to find out what happened.
    """

    connection: Connection
    limits: Limits
    conventions: Conventions
    hooks: Hooks
    sizes: PageSizes
    page_size: int
    strict: bool
    reconciler: Reconciler

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        decode: Callable[[object], T],
        write: Write,
        *,
        optional: bool = False,
        started: float | None = None,
    ) -> T:
        """Send a request that has an effect: at most once, or else `OutcomeUnknownError`.

        Where the reply is `optional`, an empty one is success as well, and decoded as `None`.
        """

        sent, repeats = _Sent(), dict[str, DecodeError]()

        def read(response: Response) -> T:
            sent.take(response)
            if optional and _is_blank(response.content):
                return decode(None)
            data = wire.parse(response.content)
            repeats.update(wire.repeats(data))
            record = decode(data)
            check_reply(write, record)
            return record

        written = await self.connection.engine.executor.call(
            RequestKind.WRITE,
            method,
            path,
            read,
            self.limits,
            content=wire.dump(body),
            write=write,
            exchange=self.reconciler,
            started=started,
            call_id=sent.call_id,
        )
        self._report_repeats(repeats.values(), method, path, sent)
        return written

    async def raw(
        self,
        kind: RequestKind,
        method: str,
        path: str,
        *,
        params: tuple[tuple[str, str], ...],
        content: bytes | None,
        write: Write | None,
    ) -> Any:
        """Send anything; the decoded JSON, or `None` for an empty reply."""

        sent, repeats = _Sent(), dict[str, DecodeError]()

        def read(response: Response) -> Any:
            sent.take(response)
            if _is_blank(response.content):
                return None
            data = wire.parse(response.content)
            repeats.update(wire.repeats(data))
            return data

        reply = await self.connection.engine.executor.call(
            kind,
            method,
            path,
            read,
            self.limits,
            content=content,
            params=params,
            write=write,
            exchange=self.reconciler,
            call_id=sent.call_id,
        )
        self._report_repeats(repeats.values(), method, path, sent)
        return reply

    def listing(
        self,
        listed: Listed,
        kind: wire.Kind[T],
        identity: Callable[[T], Hashable] | None,
        *,
        page_size: int | None,
        window: int,
        sweep: bool,
    ) -> Paginator[T]:
        """A listing of records, page by page."""
        rows_wanted = validation.count(self.page_size if page_size is None else page_size, "page_size")
        pages_wanted = validation.identifier(window, "window")

        def reading() -> FetchPage[T]:
            told = ReportedErrors()

            async def fetch(number: int, rows: int) -> wire.Rows[T]:
                page, sent = await self._page(listed, number, rows, kind)
                if len(page.records) + len(page.broken) > _MANY_ROWS:
                    # To read so many, and to compare them, takes long enough each: other tasks run in between.
                    await anyio.lowlevel.checkpoint()
                failures = () if page.failure is None else (page.failure,)
                if failures or page.broken or page.flaws:
                    described = (*failures, *page.broken[: wire.MOST_DESCRIBED], *page.flaws[: wire.MOST_DESCRIBED])
                    more = len(failures) + len(page.broken) + len(page.flaws) - len(described)
                    await self._report(described, listed, sent, told, more)
                return page

            return fetch

        return Paginator(
            reading,
            operation=listed.operation,
            sizes=self.sizes,
            tasks=lambda: self.connection.engine.tasks,
            identity=identity,
            page_size=rows_wanted if listed.paged else None,
            window=pages_wanted,
            sweep=sweep,
            strict=self.strict,
            path=listed.path,
        )

    async def page(
        self, listed: Listed, number: int, rows: int, kind: wire.Kind[T], told: ReportedErrors
    ) -> wire.Rows[T]:
        """Fetch one page of a listing. Its broken records are the caller's to report; its flaws are reported once."""
        page, sent = await self._page(listed, number, rows, kind)
        described = page.broken[: wire.MOST_DESCRIBED]
        for error in (*described, *(() if page.failure is None else (page.failure,))):
            self._describe(error, listed.method, listed.path, sent)
        self._report_repeats(told.news(page.flaws)[0], listed.method, listed.path, sent)
        return page

    async def _page(self, listed: Listed, number: int, rows: int, kind: wire.Kind[T]) -> tuple[wire.Rows[T], _Sent]:
        # The first request for a listing without pages asks for all of it; the service may page it all the same.
        paging = wire.list_parameters(offset=number, rows=rows) if listed.paged or rows else {}
        try:
            return await self._rows(listed, paging, kind)
        except NotFoundError as error:
            # Not for a login's, which says nothing about the listing.
            if number == 0 and error.path == listed.path:
                if self.conventions.missing_list_is_empty or _says_no_records(error, kind.collection):
                    return wire.Rows(()), _Sent()
                error.args = (f"{error.message}; base_url may be wrong",)
            raise

    async def lookup(self, listed: Listed, index: int, kind: wire.Kind[T], identity: Callable[[T], Hashable]) -> T:
        """The one record with this index; `NotFoundError` if there is none."""
        wanted = validation.identifier(index, "index")
        found, sent = await self._rows(listed, wire.list_parameters(index=self.conventions.index_value(wanted)), kind)
        record = await self._picked(found, sent, listed, wanted, identity)
        if record is None:
            error = NotFoundError(f"no record has the index {wanted}", path=listed.path)
            sent.describe(error, listed.method, self.connection.engine.executor.redactor)
            raise error
        return record

    async def find(self, listed: Listed, index: int, kind: wire.Kind[T], identity: Callable[[T], Hashable]) -> T | None:
        """The one record with this index, or `None` where the service says so; a bare 404 says nothing of records."""
        wanted = validation.identifier(index, "index")
        try:
            found, sent = await self._rows(
                listed, wire.list_parameters(index=self.conventions.index_value(wanted)), kind
            )
        except NotFoundError as error:
            if error.path == listed.path and _says_no_records(error, kind.collection):
                return None
            raise
        record = await self._picked(found, sent, listed, wanted, identity)
        if record is None and found.records:
            raise DecodeError(f"other records where the one of index {wanted} was asked for", path=kind.collection)
        return record

    async def _picked(
        self, found: wire.Rows[T], sent: _Sent, listed: Listed, wanted: int, identity: Callable[[T], Hashable]
    ) -> T | None:
        """The record that was asked for, or `None` if it is not there."""
        for record in found.records:
            if identity(record) == wanted:
                flaws = tuple(flaw for flaw in found.flaws if wire.index_of_raw(flaw.raw) in (wanted, None))
                await self._report(flaws, listed, sent)
                return record
        # A service that ignores `index` lists others as well, and a broken one of those says nothing about this one.
        for index_said in (wanted, None):
            for broken in found.broken:
                if wire.index_of_raw(broken.raw) == index_said:
                    self._describe(broken, listed.method, listed.path, sent)
                    raise broken
        if found.failure is not None:
            # What it lacks may be what the error kept from it.
            self._describe(found.failure, listed.method, listed.path, sent)
            raise found.failure
        return None

    async def _rows(
        self, listed: Listed, parameters: Mapping[str, Any], kind: wire.Kind[T]
    ) -> tuple[wire.Rows[T], _Sent]:
        """The records of one reply, and what errors about them say of the call."""
        content, params = self._placed(listed.method, {**listed.parameters, **parameters})
        sent = _Sent()

        def read(response: Response) -> wire.Rows[T]:
            sent.take(response)
            return wire.rows(wire.parse(response.content), kind)

        rows = await self.connection.engine.executor.call(
            RequestKind.READ,
            listed.method,
            listed.path,
            read,
            self.limits,
            content=content,
            params=params,
            call_id=sent.call_id,
        )
        return rows, sent

    async def _report(
        self,
        errors: tuple[DecodeError, ...],
        listed: Listed,
        sent: _Sent,
        told: ReportedErrors | None = None,
        more: int = 0,
    ) -> None:
        """Report what could not be read of a reply, and was not reported before; a strict view raises the first of it.

        `more` is how many others there are, which are counted and not reported one by one.
        """
        for error in errors:
            self._describe(error, listed.method, listed.path, sent)
            if self.strict:
                raise error
        news, untold = ([*errors], 0) if told is None else told.news(errors)
        if untold + more:
            summary = DecodeError(f"{untold + more} more parts of a reply that cannot be read")
            self._describe(summary, listed.method, listed.path, sent)
            news.append(summary)
        for error in news:
            _logger.warning("a part of a reply was left out: %s", error)
            if self.hooks:
                await self.hooks.emit(BrokenRecord(method=listed.method, path=listed.path, error=error))

    def _report_repeats(self, errors: Iterable[DecodeError], method: str, path: str, sent: _Sent) -> None:
        """Report keys that repeat in a reply that was read all the same. The call is over: no hook can hold it up."""
        for error in errors:
            self._describe(error, method, path, sent)
            _logger.warning("a part of a reply was left out: %s", error)
            if self.hooks:
                record = BrokenRecord(method=method, path=path, error=error)
                self.connection.engine.tasks.start(partial(self.hooks.emit, record))

    def _describe(self, error: DecodeError, method: str, path: str, sent: _Sent) -> None:
        redactor = self.connection.engine.executor.redactor
        error.request_path = path
        sent.describe(error, method, redactor)
        redact_decode_error(error, redactor)

    def _placed(self, method: str, parameters: Mapping[str, Any]) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
        if method != "GET":
            return wire.dump(parameters), ()
        if not parameters:
            return None, ()
        if self.conventions.get_parameters == "query":
            return None, tuple((name, str(value)) for name, value in parameters.items())
        return wire.dump(parameters), ()


def _is_blank(content: bytes) -> bool:
    """Whether a body says nothing: white space, or the mark of an encoding alone."""
    return not content.strip().removeprefix(b"\xef\xbb\xbf").strip()


def _says_no_records(error: NotFoundError, collection: str) -> bool:
    """Whether a 404 means that a listing is empty, in the service's own words; a bare one is a wrong address."""
    if not isinstance(error.body, Mapping):
        return False
    return wire.says_no_records(wire.sentence(error.body) or "", collection)


def expect(value: object, kind: type, field: str) -> None:
    """`ValidationError` unless the value is of this kind."""
    if not isinstance(value, kind):
        raise ValidationError(f"{field} must be a {kind.__name__}, not {type(value).__name__}", field=field)


def index_of(value: object, field: str, *kinds: type) -> int:
    """The index of a record argument, given as the record or as its index."""
    if isinstance(value, kinds):
        value = getattr(value, "id", None) if hasattr(value, "id") else getattr(value, "index", None)
        if value is None:
            raise ValidationError(f"{field} is a record without an identifier; give the identifier", field=field)
    return validation.identifier(value, field)
