"""Tests of every error: it pickles, copies, prints one sentence, and states whether the call may have taken effect."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import freight_exchange
from freight_exchange import errors
from freight_exchange.errors import (
    AlreadyApprovedError,
    AlreadyOfferedError,
    APIStatusError,
    DecodeError,
    FreightExchangeError,
    OfferChangedError,
    OfferInDoubtError,
    OutcomeUnknownError,
    RateLimitedError,
    TransportError,
    ValidationError,
)
from freight_exchange.errors.hierarchy import copy_error

CALL: dict[str, Any] = {
    "method": "POST",
    "path": "quote/bid",
    "status": 418,
    "attempts": 2,
    "elapsed": 1.5,
    "body": {"a": [1]},
}


def subclasses() -> list[type[FreightExchangeError]]:
    found = [FreightExchangeError]
    for kind in found:
        found += kind.__subclasses__()
    return found


# Other tests derive errors of their own.
KINDS = [
    kind for kind in subclasses() if kind.__module__.startswith(("freight_exchange.errors", "freight_exchange.pl"))
]


def example(kind: type[FreightExchangeError]) -> FreightExchangeError:
    if kind is ValidationError:
        return ValidationError("amount must be positive", field="amount")
    if kind in (AlreadyApprovedError, AlreadyOfferedError, OfferChangedError, OfferInDoubtError):
        return kind("an offer stands", request=4)
    own: dict[type, dict[str, Any]] = {
        TransportError: {"unsent": True, "permanent": True},
        RateLimitedError: {"retry_after": 7.5},
        DecodeError: {"path": "raterequests.3.weight", "request_path": "quote/offer", "raw": "x"},
    }
    return kind("something is wrong", **CALL | own.get(kind, {}))


def test_hierarchy_is_public() -> None:
    assert {kind.__name__ for kind in KINDS} == set(errors.__all__)
    for kind in KINDS:
        assert getattr(freight_exchange, kind.__name__) is kind


@pytest.mark.parametrize("kind", KINDS)
def test_error_survives_copying_and_pickling(kind: type[FreightExchangeError]) -> None:
    error = example(kind)
    error.settled = True
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for copied in (copy.copy(error), copy.deepcopy(error), *pickled):
        assert type(copied) is kind
        assert copied is not error
        assert str(copied) == str(error)
        assert copied.args == error.args
        assert vars(copied) == vars(error)


@pytest.mark.parametrize("kind", KINDS)
def test_error_prints_one_sentence(kind: type[FreightExchangeError]) -> None:
    error = example(kind)
    assert error.message
    for text in (str(error), repr(error)):
        assert error.message in text
        assert "\n" not in text
        assert len(text) < 200
    assert repr(error).startswith(f"{kind.__name__}(")
    assert str(kind()) == kind().message == ""


def test_sentence_ends_with_the_facts_of_the_call() -> None:
    full = APIStatusError("no", **CALL)
    assert str(full) == "no [POST quote/bid, status 418, 2 attempts, 1.50 s]"
    assert str(APIStatusError("no", method="GET", path="carrier", attempts=1)) == "no [GET carrier]"
    assert str(APIStatusError("no")) == "no"


def test_decode_error_names_the_position_in_the_reply() -> None:
    error = DecodeError("no number", path="raterequests.3.weight", method="GET", request_path="quote/request")
    assert str(error) == "no number at raterequests.3.weight [GET quote/request]"
    assert str(DecodeError("no JSON")) == "no JSON"
    full = DecodeError("no number", path="bids.0", method="GET", request_path="quote/bid", status=200, attempts=2)
    assert str(full) == "no number at bids.0 [GET quote/bid, status 200, 2 attempts]"
    assert DecodeError("no JSON").path == "$"


def test_validation_error_is_a_value_error_that_names_the_field() -> None:
    assert issubclass(ValidationError, ValueError)
    assert ValidationError("no", field="amount").field == "amount"


def test_only_doubtful_writes_may_have_taken_effect() -> None:
    assert {kind for kind in KINDS if kind.may_have_taken_effect} == {OutcomeUnknownError, OfferInDoubtError}


def test_copied_error_has_a_traceback_of_its_own() -> None:
    with pytest.raises(TransportError) as caught:
        raise TransportError("reset", unsent=True)
    copied = copy_error(caught.value)
    assert caught.value.__traceback__ is not None
    assert copied.__traceback__ is None
    assert copied.unsent
