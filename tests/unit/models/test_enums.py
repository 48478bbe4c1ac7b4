"""Words: closed where they are sent, open where they are read."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.models import OfferStatus, Packaging, RequestStatus, RequestType, UnknownWord
from freight_exchange.models.enums import Word

WORDS = [*RequestType, *Packaging, *RequestStatus, *OfferStatus]


@pytest.mark.parametrize("member", WORDS)
@pytest.mark.parametrize("spelled", [str.upper, str.lower, str.title, str.swapcase])
def test_a_word_equals_itself_in_any_case(member: Word, spelled: object) -> None:
    text = getattr(str, spelled.__name__)(member.value)  # type: ignore[attr-defined]  # a method of str
    assert member == text
    assert text == member
    assert (member != text) is False
    assert type(member)(text) is member
    assert member == UnknownWord(text)
    assert hash(UnknownWord(text)) == hash(text.casefold())


@pytest.mark.parametrize("member", WORDS)
def test_a_member_is_looked_up_by_its_documented_spelling(member: Word) -> None:
    word = str(member.value)
    members: dict[str, int] = {member: 1}
    assert {word: 1}[member] == members[word] == members[member] == 1
    assert member in {word, "other"}
    assert word in {member, "other"}
    assert hash(member) == hash(word)


def test_different_words_differ() -> None:
    assert RequestType.SHIPPING != RequestType.TRUCKING
    assert RequestType.SHIPPING != "truck"
    assert RequestType.SHIPPING != 1
    assert UnknownWord("Frozen") != "Thawed"
    assert UnknownWord("Frozen") != 1


@given(st.text(min_size=1), st.text(min_size=1))
def test_equal_words_hash_alike(one: str, other: str) -> None:
    assert UnknownWord(one) == UnknownWord(one.casefold()) or one.casefold() != one.casefold().casefold()
    if UnknownWord(one) == UnknownWord(other):
        assert hash(UnknownWord(one)) == hash(UnknownWord(other))


def test_an_unknown_word_stays_readable() -> None:
    word = UnknownWord("Frozen")
    assert str(word) == "Frozen"
    assert f"{word}" == "Frozen"
    assert word == "FROZEN"
    for twin in (pickle.loads(pickle.dumps(word)), copy.copy(word), copy.deepcopy(word)):
        assert type(twin) is UnknownWord
        assert twin == word
        assert str(twin) == "Frozen"


@pytest.mark.parametrize("member", WORDS)
def test_members_survive_pickle_and_copy(member: Word) -> None:
    assert pickle.loads(pickle.dumps(member)) is member
    assert copy.deepcopy(member) is member


def test_match_tells_words_apart() -> None:
    match RequestType("air freight"):
        case RequestType.SHIPPING:
            pytest.fail("not shipping")
        case RequestType.AIR_FREIGHT:
            pass
        case _:
            pytest.fail("the member was not matched")


@pytest.mark.parametrize("value", ["Rail", "", 3, None])
def test_what_is_no_word_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a valid RequestType"):
        RequestType(value)  # type: ignore[arg-type]  # that it is refused is the test
