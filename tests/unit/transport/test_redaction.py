"""Secrets are in nothing that is printed, raised or pickled."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.transport.redaction import MASK, Redactor, Secret

CANARY = "c4nary-pa55"


def knowing(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.learn(Secret(secret))
    return redactor


class TestSecret:
    def test_only_reveal_shows_it(self) -> None:
        secret = Secret(CANARY)
        assert secret.reveal() == CANARY
        for shown in (repr(secret), str(secret), f"{secret}", f"{secret!s:>20}", repr([secret]), repr({"a": secret})):
            assert CANARY not in shown
        assert not hasattr(secret, "__dict__")

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_it_is_not_pickled(self, protocol: int) -> None:
        with pytest.raises(TypeError) as caught:
            pickle.dumps(Secret(CANARY), protocol)
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
    def test_it_is_not_copied_either(self, copier: object) -> None:
        assert callable(copier)
        with pytest.raises(TypeError):
            copier(Secret(CANARY))

    def test_equal_values_are_equal(self) -> None:
        assert Secret(CANARY) == Secret(CANARY)
        assert Secret(CANARY) != Secret("other")
        assert Secret(CANARY) != CANARY
        assert hash(Secret(CANARY)) == hash(Secret(CANARY))
        assert hash(Secret(CANARY)) != hash(CANARY)
        assert len({Secret(CANARY), Secret(CANARY), Secret("other")}) == 2


class TestText:
    @pytest.mark.parametrize(
        "secret", [CANARY, 'quo"te', "back\\slash", "sla/sh", "pässwörd", "密码", "😀", "new\nline", 'a/"ü\\', "  "]
    )
    def test_every_spelling_of_json_is_masked(self, secret: str) -> None:
        redactor = knowing(secret)
        for spelled in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            json.dumps(secret)[1:-1].replace("/", "\\/"),
        ):
            assert redactor.text(f"<{spelled}> and <{spelled}>") == f"<{MASK}> and <{MASK}>"

    def test_a_secret_within_another_leaves_no_part_of_it(self) -> None:
        redactor = knowing("pass")
        redactor.learn_token(Secret("head.pass.tail"))
        assert redactor.text("head.pass.tail, pass") == f"{MASK}, {MASK}"

    def test_no_secret_and_an_empty_one_change_nothing(self) -> None:
        assert knowing().text("harmless") == "harmless"
        assert knowing("").text("harmless") == "harmless"

    @pytest.mark.parametrize(
        "text",
        [
            f"Authorization: Bearer {CANARY}",
            f"bearer {CANARY}",
            f"BEARER  {CANARY}; x",
            f'"access_token": "{CANARY}"',
            f'{{"access_token":"{CANARY}"}}',
            f"access_token={CANARY}&x=1",
            f"password = {CANARY}",
            f"Password: {CANARY}, x",
            f"'Authorization': 'Bearer {CANARY}'",
        ],
    )
    def test_what_looks_like_a_secret_is_masked_unknown(self, text: str) -> None:
        assert CANARY not in knowing().text(text)
        assert MASK in knowing().text(text)

    def test_long_texts_are_cut_after_masking(self) -> None:
        # Cut first, the secret at the cut would lose its end and be recognised no more.
        text = knowing(CANARY).text("x" * 1995 + CANARY + "y" * 5000)
        assert "c4n" not in text
        assert len(text) < 2100
        assert "(6998 characters)" in text

    def test_tokens_rotate_and_the_last_four_are_known(self) -> None:
        redactor = knowing(CANARY)
        for number in range(6):
            redactor.learn_token(Secret(f"token-{number}"))
        assert redactor.text("token-0 token-1") == "token-0 token-1"
        assert redactor.text("token-2 token-3 token-4 token-5") == " ".join([MASK] * 4)
        assert redactor.text(CANARY) == MASK

    def test_its_repr_shows_none(self) -> None:
        assert CANARY not in repr(knowing(CANARY))


class TestExcerpt:
    def test_short_bodies_are_whole(self) -> None:
        assert knowing(CANARY).excerpt(f"<p>{CANARY}</p>".encode()) == f"<p>{MASK}</p>"
        assert knowing().excerpt(b"\xff\xfe") == "\ufffd\ufffd"

    def test_long_bodies_are_cut(self) -> None:
        text = knowing().excerpt(b"x" * 10_000_000)
        assert len(text) < 2100
        assert "10000000 bytes" in text

    @pytest.mark.parametrize("length", [20, 500, 1300, 3000])
    @pytest.mark.parametrize("letter", ["a", "ü"])
    def test_a_secret_at_the_cut_leaves_no_half(self, length: int, letter: str) -> None:
        # Masks are short: what stood far behind moves forward, also the half of a secret that the cut went through.
        secret = "".join(f"{number:04d}{letter}" for number in range(length // 5))
        redactor = knowing(secret)
        for shift in range(0, 2 * length, 7):
            text = redactor.excerpt(("." * shift + secret * 60).encode())
            assert letter not in text
            assert set(text) <= set(f".{MASK}0123456789bytes() ")

    @given(st.text("xz-", min_size=3, max_size=12), st.text("xz- ", max_size=50), st.integers(0, 1000))
    def test_a_known_secret_is_never_there(self, secret: str, around: str, often: int) -> None:
        body = (around + secret) * often + around
        assert secret not in knowing(secret).excerpt(body.encode()).replace(MASK, "\n")


class TestValue:
    def test_strings_and_keys_are_masked_at_every_depth(self) -> None:
        redactor = knowing(CANARY)
        value = {"a": [CANARY, {"b": f"x{CANARY}x", CANARY: 1}], "n": 5, "none": None, "yes": True}
        assert redactor.value(value) == {
            "a": [MASK, {"b": f"x{MASK}x", MASK: 1}],
            "n": 5,
            "none": None,
            "yes": True,
        }

    @pytest.mark.parametrize("key", ["access_token", "password", "Authorization", "PASSWORD"])
    def test_what_stands_under_a_secret_key_is_masked_unknown(self, key: str) -> None:
        assert knowing().value({"user": {key: "unknown"}}) == {"user": {key: MASK}}
        assert knowing().value({key: {"inside": "unknown"}}) == {key: MASK}

    def test_deep_nests_and_long_lists_are_cut(self) -> None:
        deep: object = CANARY
        for _ in range(60):
            deep = {"d": [deep]}
        assert CANARY not in json.dumps(knowing(CANARY).value(deep))
        assert "..." in json.dumps(knowing().value(deep))
        assert knowing().value(list(range(1000))) == list(range(100))

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.just(CANARY),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(CANARY), inner),
        )
    )
    def test_no_json_carries_it_through(self, value: object) -> None:
        assert CANARY not in repr(knowing(CANARY).value(value))
