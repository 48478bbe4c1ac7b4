"""Calls of all endpoints: listings, look-ups and writes, by the options of the client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from freight_exchange import validation, wire
from freight_exchange.base import EXACT
from freight_exchange.errors import BadRequestError, DecodeError, NotFoundError, ValidationError
from freight_exchange.models import Bid, Listing, Offer, OfferStatus, Respond, Route, SubmitOffer, UpdateRoute
from freight_exchange.paging import Listed, Paginator, Reported
from freight_exchange.transport.call import RequestKind

if TYPE_CHECKING:
    from freight_exchange.config import Config
    from freight_exchange.errors import Reconciler
    from freight_exchange.models import Write
    from freight_exchange.transport.call import Describe, Response
    from freight_exchange.transport.layers import Transport

T = TypeVar("T")
R = TypeVar("R")

_logger = logging.getLogger("freight_exchange")

_MAX_TORN: Final = 3
"""Unreadable rows of a page beyond which it is not read in smaller pieces any more: a cut reply has no sound row."""


@attrs.frozen(eq=False, repr=False)
class Service:
    """Access of one view to the service. All views of a client share the `connection`."""

    connection: Transport
    config: Config
    reconciler: Reconciler

    # Writes, and calls of any operation

    async def write(
        self,
        write: Write,
        method: str,
        path: str,
        body: Mapping[str, Any],
        decode: Callable[[object, wire.Kind[T]], R],
        kind: wire.Kind[T],
        *,
        started: float | None = None,
    ) -> R:
        """Send a write at most once, and return what its reply shows."""

        def read(response: Response, _: Describe) -> R:
            is_empty = decode is wire.decode_optional and _is_blank(response.content)
            record = decode(None if is_empty else self._parsed(response), kind)
            check_reply(write, record)
            return record

        content = wire.dump(body)
        return await self._call(RequestKind.WRITE, method, path, read, content=content, write=write, started=started)

    async def raw(self, kind: RequestKind, method: str, path: str, **rest: Any) -> Any:

        def read(response: Response, _: Describe) -> Any:
            return None if _is_blank(response.content) else wire.parse(response.content)

        return await self._call(kind, method, path, read, **rest)

    async def _call(
        self, kind: RequestKind, method: str, path: str, read: Callable[[Response, Describe], T], **rest: Any
    ) -> T:
        return await self.connection.call(kind, method, path, read, self.config, exchange=self.reconciler, **rest)

    # Listings

    def listing(
        self,
        listed: Listed[T],
        page_size: int | None = None,
        window: int = 1,
        sweep: bool = False,
        *,
        where: Callable[[T], bool] | None = None,
    ) -> Paginator[T]:
        size = validation.identifier(self.config.page_size if page_size is None else page_size, "page_size")
        return Paginator(
            listed=listed,
            fetch=partial(self._fetch, listed),
            page_size=size if listed.paged else 0,
            window=validation.identifier(window, "window"),
            sweep=validation.boolean(sweep, "sweep"),
            strict=self.config.strict,
            where=where,
        )

    async def _fetch(self, listed: Listed[T], number: int, rows: int, reported: Reported) -> wire.Rows[T]:
        page = await self._page(listed, number, rows)
        await self._report((*page.broken, *page.flaws), listed, reported, page.more)
        return page

    async def page(self, listed: Listed[T], number: int, rows: int, reported: Reported) -> wire.Rows[T]:
        """Fetch one page of a listing. The caller reports its broken records; its flaws are logged once."""
        page = await self._page(listed, number, rows)
        for error in reported.new(page.flaws)[0]:
            _logger.warning("an unreadable part of a reply was skipped: %s", error)
        return page

    async def _page(self, listed: Listed[T], number: int, rows: int) -> wire.Rows[T]:
        paging = wire.encode_list_parameters(offset=number, rows=rows) if listed.paged else {}
        try:
            return (await self._rows(listed, paging, may_be_missing=number > 0))[0]
        except DecodeError as error:
            if not (error.is_torn and listed.paged):
                raise
            if rows > 1:
                return await self._pieces(listed, number, rows, error)
            error.args, error.path = ("a row that is not JSON",), listed.kind.collection
            return wire.Rows((), (error.with_traceback(None),), rows=1)
        except NotFoundError as error:
            # The 404 of a login is not about the listing.
            if number == 0 and error.path == listed.path:
                if self.config.missing_list_is_empty or _says_no_records(error.body, listed):
                    return wire.Rows(())
                error.args = (f"{error.message}; base_url may be wrong",)
            raise

    async def _pieces(self, listed: Listed[T], number: int, rows: int, torn: DecodeError) -> wire.Rows[T]:
        """Read a page that is not JSON in smaller ones, down to one row, since one row's fault must hide no other.

        `torn` is raised if more than `_MAX_TORN` rows are not JSON, or the service gives more rows than requested.
        """
        parts = next(parts for parts in (2, 3, 5, 7, rows) if rows % parts == 0)
        found: wire.Rows[T] = wire.Rows(())
        for piece in range(number * parts, (number + 1) * parts):
            try:
                page = await self._page(listed, piece, rows // parts)
            except (BadRequestError, NotFoundError):
                if piece == 0:
                    raise
                # Past the end.
                break
            found = found.plus(page)
            if page.rows > rows // parts or len(found.broken) > _MAX_TORN:
                raise torn
        return found

    async def lookup(self, listed: Listed[T], index: int) -> T:
        wanted = validation.identifier(index, "index")
        parameter = wanted if self.config.index_type == "integer" else str(wanted)
        found, describe = await self._rows(listed, wire.encode_list_parameters(index=parameter))
        if records := joined([record for record in found.records if getattr(record, "index", None) == wanted]):
            flaws = [flaw for flaw in found.flaws if wire.index_of_raw(flaw.raw) == wanted]
            await self._report(flaws, listed, Reported())
            return records[0]
        # A service that ignores `index` lists other records too, which may be unreadable.
        if found.broken:
            raise found.broken[0]
        missing = NotFoundError(f"no record has the index {wanted}", settled=True)
        describe(missing)
        raise missing

    # Replies

    async def _rows(
        self, listed: Listed[T], parameters: Mapping[str, Any], *, may_be_missing: bool = False
    ) -> tuple[wire.Rows[T], Describe]:
        """Read the records of one reply; a page past the end of its listing `may_be_missing`.

        Return a function too, which adds the facts of the reply to an error.
        """
        parameters = {**listed.parameters, **parameters}
        content: bytes | None = None
        params: tuple[tuple[str, str], ...] = ()
        if listed.method == "GET" and self.config.get_parameters == "query":
            params = tuple((name, str(value)) for name, value in parameters.items())
        elif parameters or listed.method != "GET":
            content = wire.dump(parameters)

        def read(response: Response, describe: Describe) -> tuple[wire.Rows[T], Describe]:
            if may_be_missing and _is_blank(response.content):
                return wire.Rows(()), describe
            try:
                data = self._parsed(response)
            except DecodeError as error:
                error.is_torn = f'"{listed.kind.collection}"'.encode() in response.content
                raise
            is_end = may_be_missing and _says_no_records(data, listed)
            page: wire.Rows[T] = wire.Rows(()) if is_end else wire.decode_rows(data, listed.kind)
            for part in (*page.broken, *page.flaws):
                part.settled = True
                describe(part)
            return page, describe

        return await self._call(RequestKind.READ, listed.method, listed.path, read, content=content, params=params)

    def _parsed(self, response: Response) -> object:
        """Decode a reply. A secret that the service repeats in a record must not be stored or printed with it."""
        return self.connection.redactor.without_secrets(wire.parse(response.content), response.content)

    async def _report(
        self, errors: Sequence[DecodeError], listed: Listed[Any], reported: Reported, more: int = 0
    ) -> None:
        """Report the new errors of a reply, and the number of `more`, to log and hooks; a strict view raises one."""
        if errors and self.config.strict:
            raise errors[0]
        new, omitted = reported.new(errors)
        if omitted + more:
            facts = {**vars(errors[-1]), "path": "$", "raw": None}
            new.append(DecodeError(f"{omitted + more} more parts of a reply that cannot be read", **facts))
        for error in new:
            _logger.warning("an unreadable part of a reply was skipped: %s", error)
            if self.config.hooks:
                from freight_exchange.hooks import BrokenRecord

                await self.config.hooks.emit(BrokenRecord(method=listed.method, path=listed.path, error=error))


def joined(records: Sequence[T]) -> list[T]:
    """Return the records with one for each index: a request with a row for each offer has the offers of all rows."""
    found: dict[Any, Any] = {}
    for record in records:
        key: Any = getattr(record, "index", None)
        before = found.setdefault(key, record)
        if before is not record and isinstance(record, Listing):
            found[key] = attrs.evolve(
                before,
                offers=tuple(dict.fromkeys(before.offers + record.offers)),
                contact=before.contact or record.contact,
                company=before.company or record.company,
            )
    return [*found.values()]


def _is_blank(content: bytes) -> bool:
    return not content.strip().removeprefix(b"\xef\xbb\xbf").strip()


def _says_no_records(body: object, listed: Listed[Any]) -> bool:
    """Return whether a body says only that a listing is empty. A bare 404 means a wrong address."""
    name = listed.kind.collection
    return (
        isinstance(body, Mapping) and name not in body and wire.reports_no_records(wire.find_sentence(body) or "", name)
    )


# Arguments of endpoint methods


def expect(value: object, kind: type, field: str) -> None:
    if not isinstance(value, kind):
        raise ValidationError(f"{field} must be a {kind.__name__}, not {type(value).__name__}", field=field)


def index_of(value: Any, field: str, *kinds: type) -> int:
    """Return the index of a record argument: the record itself or its index."""
    if isinstance(value, kinds):
        value = getattr(value, "id" if isinstance(value, Offer) else "index")
        if value is None:
            raise ValidationError(f"{field} is a record without an identifier; give the identifier", field=field)
    return validation.identifier(value, field)


# Replies to writes


def check_reply(write: Write, record: object) -> None:
    """Raise `DecodeError` if the record in a write's reply contradicts it: it may be another caller's, or a cache's.

    Servers round amounts, and omit or change other fields: these are not contradictions.
    """
    match write, record:
        case SubmitOffer(), Bid():
            shown = f"an offer of {record.amount} in currency {record.currency} on request {record.index}"
            agrees = record.index == write.request and record.currency in (None, write.currency)
            agrees = agrees and _is_rounded(write.amount, record.amount)
        case Respond(), Listing():
            shown = f"request {record.index} with the offers {[offer.id for offer in record.offers]}"
            # The reply to a decline is not documented. That to an approval may lack the id of the selected offer.
            ours = [offer for offer in record.offers if offer.id in (None, write.offer)]
            is_selected = any(offer.status in (None, OfferStatus.SELECTED) for offer in ours) or not record.offers
            agrees = write.request in (None, record.index) and (is_selected or not write.approved)
        case UpdateRoute(), Route():
            shown = f"route {record.index}"
            agrees = record.index == write.route.index
        case _:
            return
    if not agrees:
        raise DecodeError(f"the reply does not match what was sent: it shows {shown}")


def _is_rounded(amount: Decimal, shown: Decimal | None) -> bool:
    """Return whether a reply may show this amount, rounded in any direction to the decimal places that it has."""
    if shown is None:
        return True
    place = min(int(shown.normalize(EXACT).as_tuple().exponent), 0)
    return EXACT.subtract(shown, amount).copy_abs() < EXACT.scaleb(Decimal(1), place)
