"""Tests of cached logins: round trip, invalid content and age."""

from __future__ import annotations

import json
import traceback
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.transport.fleet import EMAIL, HOUR, URL, USER_FACTS, kept

from freight_exchange import wire
from freight_exchange.models import Company
from freight_exchange.platform import clock
from freight_exchange.transport.auth import cached_login
from freight_exchange.transport.auth.cached_login import CachedLogin, InvalidLoginFileError
from freight_exchange.transport.secrets import Secret

CANARY = "c4nary-t0ken"

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(10**30), 10**30) | st.decimals(-(10**9), 10**9, allow_nan=False, places=6)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
USERS = st.dictionaries(st.sampled_from(["firstname", "email", "enabled", "lastlogin", "company"]) | TEXT, JSON)
SECONDS = st.floats(0, 1e11, allow_subnormal=False).map(lambda seconds: round(seconds, 9))
LOGINS = st.builds(
    CachedLogin,
    base_url=st.just(URL),
    account=st.just(EMAIL),
    token=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1).map(Secret),
    lifetime=st.none() | SECONDS,
    obtained=st.builds(clock.Reading, wall=SECONDS, boot=SECONDS, boot_id=TEXT),
    user=USERS,
)


def read(content: bytes) -> CachedLogin:
    return CachedLogin.from_bytes(content, base_url=URL, account=EMAIL)


def problem(content: bytes) -> str:
    with pytest.raises(InvalidLoginFileError) as caught:
        read(content)
    formatted = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    own = [frame for frame in formatted.stack if frame.filename == cached_login.__file__]
    assert CANARY not in f"{caught.value!r}{[frame.locals for frame in own]}"
    return str(caught.value)


def with_changes(**changes: Any) -> bytes:
    return json.dumps(json.loads(kept(CANARY).to_bytes()) | changes).encode()


class TestContent:
    @given(LOGINS)
    def test_login_survives_the_round_trip(self, login: CachedLogin) -> None:
        assert read(login.to_bytes()) == login

    def test_user_survives_the_round_trip(self) -> None:
        user: dict[str, object] = {
            "firstname": "Ada",
            "enabled": "TRUE",
            "lastlogin": "2030-01-02 03:04:05",
            "company": {"index": 7, "name": "Co", "a": [1]},
            "b": Decimal("1.50"),
        }
        found = wire.decode_user(read(kept(user=user).to_bytes()).user)
        assert found == wire.decode_user(user)
        assert found.last_login == datetime(2030, 1, 2, 3, 4, 5)
        assert found.company == Company(index=7, name="Co", extra={"a": (1,)})
        assert str(found.extra["b"]) == "1.50"

    def test_fields_that_json_cannot_hold_are_left_out(self) -> None:
        deep: object = "end"
        for _ in range(70):
            deep = [deep]
        user = {**USER_FACTS, "n": 10**100, "deep": deep}
        assert read(kept(user=user).to_bytes()).user == USER_FACTS

    def test_file_of_version_1_is_discarded(self) -> None:
        user = {"first_name": "Ada", "email": EMAIL, "company": {"name": "Co"}, "extra": {"a": 1}}
        assert "another version of this package: the next login replaces it" in problem(
            with_changes(version=1, user=user)
        )

    def test_login_that_json_cannot_hold_is_refused(self) -> None:
        with pytest.raises(InvalidLoginFileError, match="cannot hold"):
            kept(account="\ud800").to_bytes()

    @pytest.mark.parametrize("change", [{"account": "you@co.example"}, {"base_url": "https://host.example/v2/api"}])
    def test_login_of_another_account_or_service_is_refused(self, change: dict[str, str]) -> None:
        assert "another account or service" in problem(with_changes(**change))

    @pytest.mark.parametrize("version", [0, 3])
    def test_file_of_another_version_is_refused(self, version: object) -> None:
        assert "another version" in problem(with_changes(version=version))

    @pytest.mark.parametrize(
        "key", ["version", "base_url", "account", "token", "lifetime", "wall", "boot", "boot_id", "user"]
    )
    def test_file_without_a_key_is_refused(self, key: str) -> None:
        content = json.loads(kept(CANARY).to_bytes())
        del content[key]
        assert "no login" in problem(json.dumps(content).encode())

    @pytest.mark.parametrize(
        "change",
        [
            {"version": "1"},
            {"version": True},
            {"token": ""},
            {"token": None},
            {"token": 5},
            {"token": [CANARY]},
            {"token": f"{CANARY}\r\nx: y"},
            {"token": f"{CANARY} {CANARY}"},
            {"token": f"{CANARY}\u00e9"},
            {"lifetime": "3600"},
            {"lifetime": -1},
            {"lifetime": True},
            {"lifetime": 10**300},
            {"wall": None},
            {"wall": "now"},
            {"wall": -1},
            {"boot": {}},
            {"boot_id": 5},
            {"base_url": None},
            {"account": [EMAIL]},
            {"user": None},
            {"user": [CANARY]},
        ],
        ids=repr,
    )
    def test_content_that_is_no_login_is_refused(self, change: dict[str, object]) -> None:
        assert "no login" in problem(with_changes(**change))

    @pytest.mark.parametrize(
        "content",
        [b"", b" ", b"null", b"[]", b"5", CANARY.encode(), b'{"token": "' + CANARY.encode(), b"\xff\xfe", b"\0" * 500,
         b"[" * 90_000, b'{"version":1' + b"0" * 5000 + b"}", b'{"version":NaN}', b'{"version":1e999}'],
        ids=lambda content: repr(content[:20]),
    )  # fmt: skip
    def test_content_that_is_no_json_is_refused(self, content: bytes) -> None:
        assert problem(content)

    def test_user_is_read_with_the_tolerance_of_a_reply(self) -> None:
        user = {"email": 5, "enabled": 1, "lastlogin": "yesterday", "company": "Co", "shoe_size": 38}
        found = wire.decode_user(read(with_changes(user=user, more=True)).user)
        assert (found.email, found.enabled, found.last_login, found.company) == ("5", True, None, None)
        assert found.extra == {"company": "Co", "lastlogin": "yesterday", "shoe_size": 38}

    @given(st.binary(max_size=300))
    def test_any_bytes_are_refused(self, content: bytes) -> None:
        assert problem(content)

    @given(st.data())
    def test_any_damage_is_refused_or_readable(self, data: st.DataObject) -> None:
        moment = clock.Reading(wall=1.9e9, boot=5.5, boot_id="this")
        content = bytearray(kept(CANARY, obtained=moment).to_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
            if not content:
                break
        try:
            login = read(bytes(content))
        except InvalidLoginFileError:
            assert problem(bytes(content))
            return
        # What can still be read is whole: it goes into a header, and into sums.
        token = login.token.reveal()
        assert token.isascii()
        assert token.isprintable()
        assert isinstance(login.is_fresh(), bool)
        read(login.to_bytes())

    @given(JSON)
    def test_any_value_in_any_place(self, value: object) -> None:
        def spelled(thing: object) -> Any:
            return float(thing) if isinstance(thing, Decimal) else thing

        for key in ("token", "lifetime", "wall", "boot", "boot_id", "user"):
            try:
                login = read(json.dumps(json.loads(kept(CANARY).to_bytes()) | {key: value}, default=spelled).encode())
            except InvalidLoginFileError:
                continue
            assert isinstance(login.is_fresh(), bool)

    def test_no_repr_shows_the_token(self) -> None:
        assert CANARY not in repr(kept(CANARY))


class TestAge:
    @pytest.fixture(autouse=True)
    def _clocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock, "wall_time", lambda: 10_000.0)
        monkeypatch.setattr(clock, "boot_time", lambda: 1_000.0)
        monkeypatch.setattr(clock, "boot_id", lambda: "this")

    @pytest.mark.parametrize(
        ("wall", "boot", "boot_id", "age"),
        [
            (9_900, 900, "this", 100),
            # The calendar was set back, or forward: the clock that shows most counts.
            (20_000, 900, "this", 100),
            (9_000, 900, "this", 1_000),
            # After another start of the machine, or on another machine, there is the calendar alone.
            (9_900, 0, "other", 100),
            (9_900, 5_000, "other", 100),
            (9_900, 5_000, "this", 100),
            (10_200, 0, "other", 0),
            (10_301, 0, "other", None),
        ],
    )
    def test_age_is_the_largest_that_a_clock_shows(
        self, wall: float, boot: float, boot_id: str, age: float | None
    ) -> None:
        obtained = clock.Reading(wall=wall, boot=boot, boot_id=boot_id)
        assert kept(obtained=obtained).age() == age

    def test_age_without_a_boot_id_is_by_the_wall_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clock, "boot_id", lambda: "")
        obtained = clock.Reading(wall=9_900, boot=0, boot_id="")
        assert kept(obtained=obtained).age() == 100

    @pytest.mark.parametrize(
        ("lifetime", "wall", "fresh"),
        [
            (HOUR, 10_000, True),
            (HOUR, 10_000 - 3_299, True),
            (HOUR, 10_000 - 3_301, False),
            (1_000, 10_000 - 899, True),
            (1_000, 10_000 - 901, False),
            (0, 10_000, False),
            (HOUR, 10_250, True),
            (HOUR, 10_350, False),
            (None, 1, True),
            (None, 20_000, True),
        ],
    )
    def test_login_is_fresh_until_the_leeway(self, lifetime: float | None, wall: float, fresh: bool) -> None:
        moment = clock.Reading(wall=wall, boot=0, boot_id="other")
        assert kept(lifetime=lifetime, obtained=moment).is_fresh() is fresh
