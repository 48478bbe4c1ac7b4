"""The error of a write whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, Generic, Protocol, Self, Unpack, cast

from freight_exchange.errors.hierarchy import ConfigurationError
from freight_exchange.models import Bid, Listing, RateRequest, Reconciliation, Route, Write
from freight_exchange.models.reconciliation import RecordT_co
from freight_exchange.platform.errors import CallFacts, FreightExchangeError

__all__ = ["DEFAULT_SETTLE", "OutcomeUnknownError", "Reconciler"]

DEFAULT_SETTLE: Final = timedelta(seconds=30)
"""Time within which the service shows a write in its listings."""


class Reconciler(Protocol):
    """A client that can find out whether a write took effect, such as a `FreightExchange`."""

    async def reconcile(
        self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
    ) -> Reconciliation: ...


class OutcomeUnknownError(FreightExchangeError, Generic[RecordT_co]):
    """A write may or may not have taken effect: its request may have been sent, and no reply shows the outcome.

    This package never sends the write again. `await error.reconcile()` finds out. The type parameter is the record that
    shows the write: `OutcomeUnknownError[Bid]` reconciles to an `Applied[Bid]`.

    Attributes:
        write: The write as a value, to recognise its effect or to repeat it deliberately.
    """

    may_have_taken_effect: ClassVar[bool] = True

    def __init__(
        self,
        message: str = "",
        *,
        write: Write | None = None,
        exchange: Reconciler | None = None,
        **call: Unpack[CallFacts],
    ) -> None:
        super().__init__(message, **call)
        self.write = write
        self._exchange = exchange

    async def reconcile(
        self,
        exchange: Reconciler | None = None,
        settle: timedelta = DEFAULT_SETTLE,
        *,
        baseline: Sequence[Bid] | Sequence[Listing] | Sequence[RateRequest] | Sequence[Route] | None = None,
    ) -> Reconciliation[RecordT_co]:
        """Find out whether the write happened, by reading what the service shows now.

        Args:
            exchange: The client to read with; by default the client that raised the error. Required after pickling.
            settle: Time that the service may take to show a write. Absence is proven only by complete, agreeing
                readings over this time.
            baseline: Records that were listed before the write was sent, if the caller has them. For an offer: the
                result of `bids.list(sweep=True)` without a type. For a publication: listings or requests. For a
                route: routes. Without a baseline, an equal record of any age counts as the write. For an offer, any
                other own bid on the request leaves a doubt, because it may be the same one with a rounded amount.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ConfigurationError: There is no client to read with, or the error has no write.
        """
        client = exchange if exchange is not None else self._exchange
        if client is None:
            raise ConfigurationError("reconcile() needs the client as an argument: this error was pickled or copied")
        if not callable(getattr(client, "reconcile", None)):
            raise ConfigurationError(f"exchange must be a FreightExchange, not {type(client).__name__}")
        if self.write is None:
            raise ConfigurationError("this error carries no write to look for")
        found = await client.reconcile(self.write, settle=settle, baseline=baseline)
        return cast(Reconciliation[RecordT_co], found)

    def __copy__(self) -> Self:
        copied = type(self)(*self.args)
        copied.__dict__.update(self.__dict__)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__ | {"_exchange": None}
