"""The error of a write whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, Protocol, Self, Unpack, cast

from freight_exchange.errors.hierarchy import ConfigurationError
from freight_exchange.models import Bid, Listing, RateRequest, Reconciliation, Route, Write
from freight_exchange.models.reconciliation import RecordT_co
from freight_exchange.platform.errors import CallFacts, FreightExchangeError

__all__ = ["OutcomeUnknownError", "Reconciler"]


class Reconciler(Protocol):
    """A client that can find out what became of a write: a `FreightExchange` is one."""

    async def reconcile(
        self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None
    ) -> Reconciliation: ...


class OutcomeUnknownError(FreightExchangeError, Generic[RecordT_co]):
    """A write that may or may not have happened: its request may have been sent, and no reply settles the question.

    This package never sends it again. `await error.reconcile()` finds out. Generic in the record that would show the
    write: `OutcomeUnknownError[Bid]` reconciles to an `Applied[Bid]`.

    Attributes:
        write: The write, as a value: enough to recognise its effect, or to repeat it deliberately.
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
        settle: timedelta = timedelta(seconds=30),
        *,
        baseline: Sequence[Bid] | Sequence[Listing] | Sequence[RateRequest] | Sequence[Route] | None = None,
    ) -> Reconciliation[RecordT_co]:
        """Find out whether the write happened, by reading what the service shows now.

        Args:
            exchange: The client to ask; required once the error has been pickled, by default the client that raised
                it.
            settle: How long the service may take to show a write. Absence is proof only after complete, agreeing
                readings over this time.
            baseline: The records of the same listing from before the send, if the caller kept them: for an offer the
                result of `bids.list(sweep=True)` without a type, for a publication listings or requests, for a route
                routes. Without it an equal record of any origin counts; for an offer any other own bid on that request
                leaves doubt, because it may be this one, rounded.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ConfigurationError: There is no client to ask, the argument is not one, or the error carries no write.
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
