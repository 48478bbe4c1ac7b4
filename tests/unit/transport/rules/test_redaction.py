"""Tests of redaction: no secret is printed, raised or pickled."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import DecodeError
from freight_exchange.transport.rules.redaction import redact_decode_error
from freight_exchange.transport.secrets import LONGEST, MASK, Redactor, Secret

CANARY = "c4nary-pa55"


def knowing(*secrets: str) -> Redactor:
    redactor = Redactor()
    for secret in secrets:
        redactor.add(Secret(secret))
    return redactor


class TestSecret:
    def test_only_reveal_shows_a_secret(self) -> None:
        secret = Secret(CANARY)
        assert secret.reveal() == CANARY
        for text in (repr(secret), str(secret), f"{secret}", f"{secret!s:>20}", repr([secret]), repr({"a": secret})):
            assert CANARY not in text
        assert not hasattr(secret, "__dict__")

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_secret_is_not_pickled(self, protocol: int) -> None:
        with pytest.raises(TypeError) as caught:
            pickle.dumps(Secret(CANARY), protocol)
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
    def test_secret_is_not_copied(self, copier: object) -> None:
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
    def test_json_spellings_of_a_secret_are_masked(self, secret: str) -> None:
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
        redactor.add_token(Secret("head.pass.tail"))
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
    def test_unknown_secret_is_masked_by_its_context(self, text: str) -> None:
        assert CANARY not in knowing().text(text)
        assert MASK in knowing().text(text)

    def test_a_basic_header_is_masked_unknown(self) -> None:
        text = 'Authorization: Basic bWU6c2VjcmV0, {"authorization": "Basic bWU6c2VjcmV0"} basic information'
        redacted = knowing().text(text)
        assert "bWU6c2VjcmV0" not in redacted
        assert "basic information" in redacted

    @pytest.mark.parametrize("length", range(1, len(CANARY)))
    def test_a_cut_text_does_not_end_in_the_beginning_of_a_secret(self, length: int) -> None:
        text = knowing(CANARY).text("x" * (LONGEST - length) + CANARY + "y" * 5000)
        assert text == f"{'x' * (LONGEST - length)}... ({LONGEST - length + len(CANARY) + 5000} characters)"

    def test_a_text_of_the_letter_that_a_secret_begins_with_is_kept(self) -> None:
        """An error page may be padded with one letter. Dropping each letter alone would block the loop for seconds."""
        redacted = knowing("eyJhbGciOi").text("e" * 2 * LONGEST)
        assert redacted == f"{'e' * (LONGEST - 1)}... ({2 * LONGEST} characters)"

    def test_no_chain_of_secrets_at_a_cut_leaves_a_half(self) -> None:
        text = knowing("abcd", "cdef", "efgh-and-more").text(f"{'.' * (LONGEST - 6)}abcdef{'y' * 5000}")
        assert text.startswith(f"{'.' * (LONGEST - 6)}...")

    def test_cut_does_not_split_another_secret(self) -> None:
        text = knowing("first-half", "half-second").text(f"{'.' * (LONGEST - 10)}first-half{'y' * 5000}")
        assert text.startswith(f"{'.' * (LONGEST - 10)}... (")

    def test_no_more_is_masked_than_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        redactor = knowing(CANARY)
        lengths: list[int] = []
        masked = redactor.masked

        def counting(text: str, **options: int) -> str:
            lengths.append(len(text))
            return masked(text, **options)

        monkeypatch.setattr(redactor, "masked", counting)
        many = {f"key {number}": ["text", number] for number in range(100_000)}
        long = "x" * 10_000_000
        acts: tuple[Callable[[], object], ...] = (
            lambda: redactor.text(long),
            lambda: redactor.excerpt(long.encode()),
            lambda: redactor.excerpt(b"\xff" * 10_000_000),
            lambda: redactor.value([many, many]),
            lambda: redactor.value({long: long, "z": many}),
            lambda: redact_decode_error(DecodeError(long, path="a." * 5_000_000, raw=many), redactor),
        )
        for act in acts:
            lengths.clear()
            act()
            assert 0 < sum(lengths) <= 3 * LONGEST

    def test_tokens_rotate_and_the_last_four_are_known(self) -> None:
        redactor = knowing(CANARY)
        for number in range(6):
            redactor.add_token(Secret(f"token-{number}"))
        assert redactor.text("token-0 token-1") == "token-0 token-1"
        assert redactor.text("token-2 token-3 token-4 token-5") == " ".join([MASK] * 4)
        assert redactor.text(CANARY) == MASK

    def test_repr_of_a_redactor_shows_no_secret(self) -> None:
        assert CANARY not in repr(knowing(CANARY))


class TestClean:
    """A reply in the error of a decoder is masked. The package's own words are not secret."""

    @pytest.mark.parametrize("secret", ["t", "we", "e", "request", "a number", "weight", "0", "'", "."])
    def test_short_secrets_leave_names_and_words_alone(self, secret: str) -> None:
        error = DecodeError("a list where a number is expected", path="raterequests.0.weight", raw={"weight": {}})
        redact_decode_error(error, knowing(secret))
        assert str(error) == "a list where a number is expected at raterequests.0.weight"
        assert error.raw == {"weight": {}}

    def test_quoted_names_of_fields_are_not_masked(self) -> None:
        error = DecodeError("an object without 'raterequests' where 'raterequests' is expected")
        redact_decode_error(error, knowing("t", "quest"))
        assert error.message == "an object without 'raterequests' where 'raterequests' is expected"

    @pytest.mark.parametrize(
        "secret", ["t", CANARY, 'p"q\\é', "it's", "it's\x01", 'it\'s "so"', "tab\there", "\x01\u2028"]
    )
    def test_quotation_in_a_decode_error_is_masked(self, secret: str) -> None:
        error = DecodeError(
            f"{secret!r} where a number is expected", path=f"raterequests.{secret}.weight", raw={secret: secret}
        )
        redact_decode_error(error, knowing(secret))
        mark = error.message[0]
        assert error.message == f"{mark}{MASK}{mark} where a number is expected"
        assert error.path == f"raterequests.{MASK}.weight"
        assert error.raw == {MASK: MASK}

    @pytest.mark.parametrize("length", range(3, 12))
    @pytest.mark.parametrize("behind", ["", "it's "])
    def test_a_secret_that_a_quotation_cuts_leaves_no_half(self, length: int, behind: str) -> None:
        quoted = repr(f"{behind}{CANARY[:length]}...")
        error = DecodeError(f"{quoted} where a number is expected")
        redact_decode_error(error, knowing(CANARY))
        assert CANARY[:3] not in error.message
        assert f"{behind}{MASK}" in error.message

    def test_a_path_may_hold_a_token_with_points_between_its_steps(self) -> None:
        token = "head.weight.tail"
        for path in (f"raterequests.{token}.weight", token, f"offers.3.{token}", f"bids.x{token}x.0.price"):
            error = DecodeError("", path=path)
            redact_decode_error(error, knowing(token))
            assert error.path == path.replace(token, MASK)

    def test_a_long_number_is_no_place_in_a_list(self) -> None:
        error = DecodeError("", path="raterequests.12345678.weight")
        redact_decode_error(error, knowing("12345678"))
        assert error.path == f"raterequests.{MASK}.weight"

    def test_long_secret_is_masked_at_any_place(self) -> None:
        error = DecodeError(f"a middleware says {CANARY}-{CANARY}", path=f"$.{CANARY}-{CANARY}")
        redact_decode_error(error, knowing(f"{CANARY}-{CANARY}"))
        assert str(error) == f"a middleware says {MASK} at $.{MASK}"

    @pytest.mark.parametrize("secret", ["0", "no", "false", "failed"])
    def test_a_secret_that_is_a_word_of_replies_and_no_key_is_masked(self, secret: str) -> None:
        error = DecodeError(f"{secret!r} where a number is expected")
        redact_decode_error(error, knowing(secret))
        assert error.message == f"'{MASK}' where a number is expected"

    @given(st.text(min_size=1, max_size=8).filter(lambda secret: "*" not in secret), st.text(max_size=20))
    def test_no_quotation_carries_it_through(self, secret: str, around: str) -> None:
        error = DecodeError(f"{around + secret + around!r} where a number is expected")
        redact_decode_error(error, knowing(secret))
        quoted = error.message.removesuffix(" where a number is expected").replace(MASK, "\n")
        assert repr(secret)[1:-1] not in quoted[1:-1]


class TestExcerpt:
    def test_short_bodies_are_whole(self) -> None:
        assert knowing(CANARY).excerpt(f"<p>{CANARY}</p>".encode()) == f"<p>{MASK}</p>"
        assert knowing("pä").excerpt("<pä>".encode("cp1252")) == f"<{MASK}>"

    def test_long_bodies_are_cut(self) -> None:
        text = knowing().excerpt(b"x" * 10_000_000)
        assert len(text) < LONGEST + 100
        assert "10000000 bytes" in text

    @pytest.mark.parametrize("length", [20, 500, 1300, 3000])
    @pytest.mark.parametrize("letter", ["a", "ü"])
    def test_no_part_of_a_secret_is_left_where_an_excerpt_is_cut(self, length: int, letter: str) -> None:
        # Masks are short: what stood far behind moves forward, also the half of a secret that the cut went through.
        secret = "".join(f"{number:04d}{letter}" for number in range(length // 5))
        redactor = knowing(secret)
        for shift in range(0, 2 * length, 23):
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
    def test_value_under_a_secret_key_is_masked(self, key: str) -> None:
        assert knowing().value({"user": {key: "unknown"}}) == {"user": {key: MASK}}
        assert knowing().value({key: {"inside": "unknown"}}) == {key: MASK}

    @pytest.mark.parametrize("key", ["refresh_token", "apiToken", "oldPassword", "Proxy-Authorization"])
    def test_key_named_token_or_password_is_secret(self, key: str) -> None:
        assert knowing().value({key: "unknown"}) == {key: MASK}
        for text in (f'"{key}": "unknown"', f"{key}=unknown", f"'{key}': 'unknown'", f'{{\\"{key}\\":\\"unknown\\"}}'):
            assert "unknown" not in knowing().text(text)
            assert MASK in knowing().text(text)

    def test_names_of_the_wire_stay_readable_beside_a_short_secret(self) -> None:
        body = {"raterequests": {"0": {"weight": "we", "awe": 1}}, "message": "no"}
        assert knowing("we").value(body) == {
            "raterequests": {"0": {"weight": MASK, f"a{MASK}": 1}},
            "message": "no",
        }

    def test_deep_nests_and_long_lists_are_cut(self) -> None:
        deep: object = CANARY
        for _ in range(60):
            deep = {"d": [deep]}
        assert CANARY not in json.dumps(knowing(CANARY).value(deep))
        assert "..." in json.dumps(knowing().value(deep))
        cut = knowing().value(list(range(LONGEST)))
        assert isinstance(cut, list)
        assert cut[-2:] == [len(cut) - 2, "..."]
        assert len(repr(knowing().value({f"{n}": f"{n}" for n in range(LONGEST)}))) < 6 * LONGEST

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text() | st.just(CANARY),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just(CANARY), inner),
        )
    )
    def test_no_json_carries_it_through(self, value: object) -> None:
        assert CANARY not in repr(knowing(CANARY).value(value))
