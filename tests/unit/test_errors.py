"""Every error pickles, copies, prints one sentence, and says whether the call may have taken effect."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import freight_exchange
from freight_exchange import errors
from freight_exchange.errors import (
    AlreadyOfferedError,
    APIStatusError,
    ConfigurationError,
    DecodeError,
    FreightExchangeError,
    OfferInDoubtError,
    OutcomeUnknownError,
    RateLimitedError,
    TransportError,
    ValidationError,
)
from freight_exchange.errors.base import twin as twin_of
from freight_exchange.models import SubmitOffer, Write
from freight_exchange.models.writes import NotApplied, Reconciliation

CIRCUMSTANCES: dict[str, Any] = {
    "method": "POST",
    "path": "quote/bid",
    "status": 418,
    "attempts": 2,
    "elapsed": 1.5,
    "body": {"a": [1]},
}
WRITE = SubmitOffer(4, Decimal("1840.50"), 840, rates={"Ocean Freight": Decimal(1700)}, terms="14 days")


class Client:
    """Enough of a client to be asked what became of a write; like a real one it does not pickle."""

    def __init__(self) -> None:
        self.asked: list[tuple[Write, timedelta, Sequence[object] | None]] = []

    async def reconcile(self, write: Write, *, settle: timedelta, baseline: Sequence[object] | None) -> Reconciliation:
        self.asked.append((write, settle, baseline))
        return NotApplied()

    def __reduce__(self) -> str:
        raise TypeError("a client is not pickled")


def everything() -> list[type[FreightExchangeError]]:
    found = [FreightExchangeError]
    for kind in found:
        found += kind.__subclasses__()
    return found


def example(kind: type[FreightExchangeError]) -> FreightExchangeError:
    if kind is ValidationError:
        return ValidationError("amount must be positive", field="amount")
    if kind in (AlreadyOfferedError, OfferInDoubtError):
        return kind("an offer stands", request=4)
    own: dict[type, dict[str, Any]] = {
        TransportError: {"unsent": True, "permanent": True},
        RateLimitedError: {"retry_after": 7.5},
        OutcomeUnknownError: {"write": WRITE, "exchange": Client()},
    }
    values = {**CIRCUMSTANCES, **own.get(kind, {})}
    if kind is DecodeError:
        values |= {"path": "raterequests.3.weight", "request_path": "quote/offer", "raw": "x"}
    return kind("something is wrong", **values)


def pickled(protocol: int, error: FreightExchangeError) -> Any:
    return pickle.loads(pickle.dumps(error, protocol))


# What other tests derive from them is none of the package's.
KINDS = [kind for kind in everything() if kind.__module__.startswith(errors.__name__)]
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    **{f"pickle {protocol}": partial(pickled, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def test_the_hierarchy_is_public_and_whole() -> None:
    assert {kind.__name__ for kind in KINDS} == set(errors.__all__)
    for kind in KINDS:
        assert getattr(freight_exchange, kind.__name__) is kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", COPIES)
def test_each_survives_copying_and_pickling(kind: type[FreightExchangeError], way: str) -> None:
    error = example(kind)
    error.settled = True
    again = COPIES[way](error)
    assert type(again) is kind
    assert again is not error
    assert str(again) == str(error)
    assert again.args == error.args
    expected = dict(vars(error))
    if way != "copy" and "_exchange" in expected:
        expected["_exchange"] = None
    assert vars(again) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_each_prints_one_sentence(kind: type[FreightExchangeError]) -> None:
    error = example(kind)
    assert error.message
    for shown in (str(error), repr(error)):
        assert error.message in shown
        assert "\n" not in shown
        assert len(shown) < 200
    assert repr(error).startswith(f"{kind.__name__}(")
    assert str(kind()) == ""
    assert kind().message == ""


def test_circumstances_are_told_where_there_was_a_call() -> None:
    full = APIStatusError("no", **CIRCUMSTANCES)
    assert str(full) == "no [POST quote/bid, status 418, 2 attempts, 1.50 s]"
    assert str(APIStatusError("no", method="GET", path="carrier", attempts=1)) == "no [GET carrier]"
    assert str(APIStatusError("no")) == "no"


def test_a_decode_error_says_where() -> None:
    error = DecodeError("no number", path="raterequests.3.weight", method="GET", request_path="quote/request")
    assert str(error) == "no number at raterequests.3.weight [GET quote/request]"
    assert str(DecodeError("no JSON")) == "no JSON"
    full = DecodeError("no number", path="bids.0", method="GET", request_path="quote/bid", status=200, attempts=2)
    assert str(full) == "no number at bids.0 [GET quote/bid, status 200, 2 attempts]"
    assert DecodeError("no JSON").path == "$"


def test_a_validation_error_is_a_value_error_that_names_the_field() -> None:
    assert issubclass(ValidationError, ValueError)
    assert ValidationError("no", field="amount").field == "amount"


def test_only_what_can_take_effect_says_so() -> None:
    assert {kind for kind in KINDS if kind.may_have_taken_effect} == {OutcomeUnknownError, OfferInDoubtError}


def test_twin_is_a_copy_with_a_traceback_of_its_own() -> None:
    with pytest.raises(TransportError) as caught:
        raise TransportError("reset", unsent=True)
    twin = twin_of(caught.value)
    assert caught.value.__traceback__ is not None
    assert twin.__traceback__ is None
    assert isinstance(twin, TransportError)
    assert twin.unsent


class TestReconcile:
    async def test_it_asks_the_client_that_raised_it(self) -> None:
        client = Client()
        error = OutcomeUnknownError("unknown", write=WRITE, exchange=client)
        assert await error.reconcile() == NotApplied()
        assert await copy.copy(error).reconcile(settle=timedelta(seconds=5), baseline=[]) == NotApplied()
        assert client.asked == [(WRITE, timedelta(seconds=30), None), (WRITE, timedelta(seconds=5), [])]

    async def test_after_pickling_it_needs_a_client(self) -> None:
        first, second = Client(), Client()
        error = pickle.loads(pickle.dumps(OutcomeUnknownError("unknown", write=WRITE, exchange=first)))
        with pytest.raises(ConfigurationError, match="needs the client"):
            await error.reconcile()
        await error.reconcile(second)
        assert [asked[0] for asked in second.asked] == [WRITE]
        assert first.asked == []

    async def test_another_client_may_be_asked(self) -> None:
        first, second = Client(), Client()
        await OutcomeUnknownError("unknown", write=WRITE, exchange=first).reconcile(second)
        assert (len(first.asked), len(second.asked)) == (0, 1)

    @pytest.mark.parametrize("given", ["x", 5, object()])
    async def test_what_is_no_client_cannot_be_asked(self, given: Any) -> None:
        with pytest.raises(ConfigurationError, match=f"asks a FreightExchange, not {type(given).__name__}"):
            await OutcomeUnknownError("unknown", write=WRITE, exchange=Client()).reconcile(given)

    async def test_without_a_write_there_is_nothing_to_look_for(self) -> None:
        with pytest.raises(ConfigurationError, match="no write"):
            await OutcomeUnknownError("unknown", exchange=Client()).reconcile()


def test_a_raised_error_prints_its_sentence_last() -> None:
    with pytest.raises(OutcomeUnknownError) as caught:
        raise OutcomeUnknownError("whether it was carried out is not known", write=WRITE)
    assert "".join(traceback.format_exception_only(caught.value)).endswith(
        "OutcomeUnknownError: whether it was carried out is not known\n"
    )
