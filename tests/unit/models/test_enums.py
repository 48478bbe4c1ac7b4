"""Tests of the service's words."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.models import OfferStatus, Packaging, RequestStatus, RequestType, UnknownWord
from freight_exchange.models.enums import Word


@pytest.mark.parametrize("member", [*RequestType, *Packaging, *RequestStatus, *OfferStatus])
def test_member_equals_its_word_in_any_case_and_is_found_by_its_documented_one(member: Word) -> None:
    word = str(member.value)
    for text in (word, word.upper(), word.lower(), word.title(), word.swapcase()):
        assert member == text
        assert text == member
        assert (member != text) is False
        assert type(member)(text) is member
        assert member == UnknownWord(text)
        assert hash(UnknownWord(text)) == hash(text.casefold())
    members: dict[str, int] = {member: 1}
    assert {word: 1}[member] == members[word] == members[member] == 1
    assert member in {word, "other"}
    assert word in {member, "other"}
    assert pickle.loads(pickle.dumps(member)) is copy.deepcopy(member) is member


def test_different_words_differ() -> None:
    assert RequestType.SHIPPING != RequestType.TRUCKING
    assert RequestType.SHIPPING != "truck"
    assert RequestType.SHIPPING != 1
    assert UnknownWord("Frozen") != "Thawed"
    assert UnknownWord("Frozen") != 1


@given(st.text(min_size=1), st.text(min_size=1))
def test_equal_unknown_words_have_equal_hashes(one: str, other: str) -> None:
    assert UnknownWord(one) == UnknownWord(one.casefold()) or one.casefold() != one.casefold().casefold()
    if UnknownWord(one) == UnknownWord(other):
        assert hash(UnknownWord(one)) == hash(UnknownWord(other))


def test_unknown_word_keeps_its_text() -> None:
    word = UnknownWord("Frozen")
    assert str(word) == f"{word}" == "Frozen"
    assert word == "FROZEN"
    for copied in (pickle.loads(pickle.dumps(word)), copy.copy(word), copy.deepcopy(word)):
        assert type(copied) is UnknownWord
        assert copied == word
        assert str(copied) == "Frozen"


def test_match_statement_distinguishes_members() -> None:
    match RequestType("air freight"):
        case RequestType.SHIPPING:
            pytest.fail("not shipping")
        case RequestType.AIR_FREIGHT:
            pass
        case _:
            pytest.fail("the member was not matched")


@pytest.mark.parametrize("value", ["Rail", "", 3, None])
def test_other_values_are_no_members(value: object) -> None:
    with pytest.raises(ValueError, match="is not a valid RequestType"):
        RequestType(value)  # type: ignore[arg-type]  # that it is refused is the test
