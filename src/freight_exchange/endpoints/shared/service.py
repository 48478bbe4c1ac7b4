"""Calls of all endpoints: reads, writes and listings, by the conventions of the client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.lowlevel
import attrs

from freight_exchange import validation, wire
from freight_exchange.endpoints.shared.conventions import Conventions, Listed
from freight_exchange.endpoints.shared.reply_check import check_reply
from freight_exchange.endpoints.shared.reporting import ErrorReporter, ReplyFacts, ReportedErrors
from freight_exchange.errors import BadRequestError, DecodeError, NotFoundError
from freight_exchange.paging import Paginator
from freight_exchange.transport.call import RequestKind

if TYPE_CHECKING:
    from freight_exchange.errors import Reconciler
    from freight_exchange.hooks import Hooks
    from freight_exchange.models import Write
    from freight_exchange.paging import FetchPage
    from freight_exchange.transport.call import Limits, Response
    from freight_exchange.transport.send import Transport

__all__ = ["Service"]

T = TypeVar("T")

_MANY_ROWS: Final = 10_000
_MAX_TORN: Final = 3
"""Unreadable rows of a page beyond which it is not read in smaller pieces any more: a cut reply has no sound row."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Service:
    """Access of one view to the service.

    Attributes:
        connection: The connection, shared with the client's other views.
        limits: Deadline, timeouts and retries of this view's calls.
        page_size: Default number of rows in a page of a listing.
        strict: `True` if one broken record fails its listing.
        reconciler: The client, for `OutcomeUnknownError.reconcile()`.
    """

    connection: Transport
    limits: Limits
    conventions: Conventions
    hooks: Hooks
    page_size: int
    strict: bool
    reconciler: Reconciler

    @property
    def _reporter(self) -> ErrorReporter:
        return ErrorReporter(self.connection, self.hooks, strict=self.strict)

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
        """Send a write at most once; raise `OutcomeUnknownError` if it may have been carried out.

        With `optional`, an empty reply is a success too, with the result `None`.
        """

        facts = ReplyFacts()

        def read(response: Response) -> T:
            facts.record(response)
            if optional and _is_blank(response.content):
                return decode(None)
            data = wire.parse(response.content)
            record = decode(data)
            check_reply(write, record)
            return record

        return await self.connection.call(
            RequestKind.WRITE,
            method,
            path,
            read,
            self.limits,
            content=wire.dump(body),
            write=write,
            exchange=self.reconciler,
            started=started,
            call_id=facts.call_id,
        )

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
        """Send any request; return the decoded JSON, or `None` for an empty reply."""

        facts = ReplyFacts()

        def read(response: Response) -> Any:
            facts.record(response)
            if _is_blank(response.content):
                return None
            return wire.parse(response.content)

        return await self.connection.call(
            kind,
            method,
            path,
            read,
            self.limits,
            content=content,
            params=params,
            write=write,
            exchange=self.reconciler,
            call_id=facts.call_id,
        )

    def listing(
        self,
        listed: Listed,
        kind: wire.Kind[T],
        identity: Callable[[T], Hashable] | None,
        *,
        page_size: int | None,
        window: int,
        sweep: bool,
        where: Callable[[T], bool] | None = None,
    ) -> Paginator[T]:
        """Return the paginator of a listing."""
        rows_wanted = validation.count(self.page_size if page_size is None else page_size, "page_size")
        pages_wanted = validation.identifier(window, "window")

        def start_read() -> FetchPage[T]:
            reported = ReportedErrors()

            async def fetch(number: int, rows: int) -> wire.Rows[T]:
                page, facts = await self._page(listed, number, rows, kind)
                if len(page.records) + len(page.broken) > _MANY_ROWS:
                    # Large pages take long to read and compare: let other tasks run in between.
                    await anyio.lowlevel.checkpoint()
                if page.broken or page.flaws:
                    await self._reporter.report((*page.broken, *page.flaws), listed, facts, reported, page.more)
                return page

            return fetch

        return Paginator(
            name=listed.operation,
            start_read=start_read,
            identity=identity,
            page_size=rows_wanted if listed.paged else 0,
            documented_size=listed.documented_size,
            path=listed.path,
            window=pages_wanted,
            sweep=sweep,
            strict=self.strict,
            where=where,
        )

    async def page(
        self, listed: Listed, number: int, rows: int, kind: wire.Kind[T], reported: ReportedErrors
    ) -> wire.Rows[T]:
        """Fetch one page of a listing. The caller reports its broken records; its flaws are reported once."""
        page, facts = await self._page(listed, number, rows, kind)
        described = (*page.broken[: wire.MAX_DESCRIBED], *page.flaws[: wire.MAX_DESCRIBED])
        for error in described:
            self._reporter.describe(error, listed.method, listed.path, facts)
        self._reporter.log(reported.new(page.flaws)[0])
        return page

    async def _page(
        self, listed: Listed, number: int, rows: int, kind: wire.Kind[T]
    ) -> tuple[wire.Rows[T], ReplyFacts]:
        paging = wire.encode_list_parameters(offset=number, rows=rows) if listed.paged else {}
        facts = ReplyFacts()
        try:
            return await self._rows(listed, paging, kind, facts, may_be_missing=number > 0), facts
        except DecodeError as error:
            if not (facts.is_torn and listed.paged):
                raise
            if rows > 1:
                return await self._pieces(listed, number, rows, kind, error), facts
            return wire.Rows((), (DecodeError("a row that is not JSON", path=kind.collection),), rows=1), facts
        except NotFoundError as error:
            # The 404 of a login is not about the listing.
            if number == 0 and error.path == listed.path:
                if self.conventions.missing_list_is_empty or _means_no_records(error, kind.collection):
                    return wire.Rows(()), ReplyFacts()
                error.args = (f"{error.message}; base_url may be wrong",)
            raise

    async def _pieces(
        self, listed: Listed, number: int, rows: int, kind: wire.Kind[T], torn: DecodeError
    ) -> wire.Rows[T]:
        """Read a page that is not JSON in smaller ones, down to one row, since one row's fault must hide no other.

        Raises:
            DecodeError: More than `_MAX_TORN` rows are not JSON, or the service gives more rows than requested.
        """
        parts = next(parts for parts in (2, 3, 5, 7, rows) if rows % parts == 0)
        found: wire.Rows[T] = wire.Rows(())
        for piece in range(number * parts, (number + 1) * parts):
            try:
                page, _ = await self._page(listed, piece, rows // parts, kind)
            except (BadRequestError, NotFoundError):
                if piece == 0:
                    raise
                # Past the end.
                break
            found = wire.Rows(
                found.records + page.records,
                found.broken + page.broken,
                found.flaws + page.flaws,
                found.more + page.more,
                found.rows + page.rows,
            )
            if page.rows > rows // parts or len(found.broken) > _MAX_TORN:
                raise torn
        return found

    async def lookup(self, listed: Listed, index: int, kind: wire.Kind[T], identity: Callable[[T], Hashable]) -> T:
        """Return the record with this index; raise `NotFoundError` if there is none."""
        wanted = validation.identifier(index, "index")
        facts = ReplyFacts()
        parameters = wire.encode_list_parameters(index=self.conventions.index_value(wanted))
        found = await self._rows(listed, parameters, kind, facts)
        record = await self._picked(found, facts, listed, wanted, identity)
        if record is None:
            error = NotFoundError(f"no record has the index {wanted}", path=listed.path)
            facts.describe(error, listed.method, self.connection.redactor)
            raise error
        return record

    async def find(self, listed: Listed, index: int, kind: wire.Kind[T], identity: Callable[[T], Hashable]) -> T | None:
        """Return the record with this index, or `None` if the service has none. A bare 404 is raised."""
        wanted = validation.identifier(index, "index")
        facts = ReplyFacts()
        parameters = wire.encode_list_parameters(index=self.conventions.index_value(wanted))
        try:
            found = await self._rows(listed, parameters, kind, facts)
        except NotFoundError as error:
            if error.path == listed.path and _means_no_records(error, kind.collection):
                return None
            raise
        record = await self._picked(found, facts, listed, wanted, identity)
        if record is None and found.records:
            raise DecodeError(f"the reply has other records than the one with index {wanted}", path=kind.collection)
        return record

    async def _picked(
        self, found: wire.Rows[T], facts: ReplyFacts, listed: Listed, wanted: int, identity: Callable[[T], Hashable]
    ) -> T | None:
        """Return the requested record of a reply, or `None`."""
        for record in found.records:
            if identity(record) == wanted:
                flaws = tuple(flaw for flaw in found.flaws if wire.index_of_raw(flaw.raw) == wanted)
                await self._reporter.report(flaws, listed, facts)
                return record
        # A service that ignores `index` lists other records too, which may be unreadable.
        for broken in found.broken:
            self._reporter.describe(broken, listed.method, listed.path, facts)
            raise broken
        return None

    async def _rows(
        self,
        listed: Listed,
        parameters: Mapping[str, Any],
        kind: wire.Kind[T],
        facts: ReplyFacts,
        *,
        may_be_missing: bool = False,
    ) -> wire.Rows[T]:
        """Read the records of one reply, and record its facts.

        With `may_be_missing`, a page may be past the end of its listing: an empty reply, or the sentence that there
        are no records, has no rows then.
        """
        content, params = self.conventions.place(listed.method, {**listed.parameters, **parameters})

        def read(response: Response) -> wire.Rows[T]:
            facts.record(response)
            if may_be_missing and _is_blank(response.content):
                return wire.Rows(())
            facts.is_torn = f'"{kind.collection}"'.encode() in response.content
            data = wire.parse(response.content)
            facts.is_torn = False
            if may_be_missing and _says_no_records(data, kind.collection):
                return wire.Rows(())
            return wire.decode_rows(data, kind)

        return await self.connection.call(
            RequestKind.READ,
            listed.method,
            listed.path,
            read,
            self.limits,
            content=content,
            params=params,
            call_id=facts.call_id,
        )


def _is_blank(content: bytes) -> bool:
    """Return whether a body is empty: white space, or a byte-order mark alone."""
    return not content.strip().removeprefix(b"\xef\xbb\xbf").strip()


def _means_no_records(error: NotFoundError, collection: str) -> bool:
    """Return whether a 404 means that a listing is empty; a bare 404 means a wrong address."""
    return _says_no_records(error.body, collection)


def _says_no_records(body: object, collection: str) -> bool:
    return (
        isinstance(body, Mapping)
        and collection not in body
        and wire.reports_no_records(wire.find_sentence(body) or "", collection)
    )
