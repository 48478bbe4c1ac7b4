"""Tests of a token's lifetime, leeway and clocks."""

from __future__ import annotations

import anyio
import pytest

from freight_exchange.platform import clock
from freight_exchange.transport.auth.token import AccessToken, Grant
from freight_exchange.transport.secrets import Secret

pytestmark = pytest.mark.virtual_time


def session(lifetime: float | None, *, after_refusal: bool = False) -> AccessToken:
    grant = Grant(token=Secret("c4nary"), lifetime=lifetime)
    return AccessToken.from_grant(1, grant, obtained=clock.now(), after_refusal=after_refusal)


@pytest.mark.parametrize(("lifetime", "most"), [(3600, 300), (100_000, 300), (1000, 100), (10, 1), (0.5, 0.05)])
async def test_leeway_is_a_tenth_and_five_minutes_at_most_jittered(lifetime: float, most: float) -> None:
    leeways = {session(lifetime).leeway for _ in range(50)}
    assert len(leeways) > 1
    assert all(0.8 * most <= leeway <= most for leeway in leeways)


async def test_token_is_due_and_then_expires() -> None:
    token = session(1000)
    await anyio.sleep(1000 - token.leeway - 1)
    assert (token.is_refresh_due(), token.is_expired()) == (False, False)
    await anyio.sleep(2)
    assert (token.is_refresh_due(), token.is_expired()) == (True, False)
    await anyio.sleep(token.leeway)
    assert (token.is_refresh_due(), token.is_expired()) == (True, True)


@pytest.mark.parametrize("lifetime", [None, 0, -1])
async def test_token_without_lifetime_never_expires(lifetime: float | None) -> None:
    token = session(lifetime)
    await anyio.sleep(80_000)
    assert (token.is_refresh_due(), token.is_expired()) == (False, False)


@pytest.mark.parametrize("which", ["boot_time", "wall_time"])
async def test_the_clock_that_shows_most_counts(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = session(3600)
    moment = clock.now()
    real = getattr(clock, which)
    monkeypatch.setattr(clock, which, lambda: real() + 3601)
    assert token.is_expired()
    assert moment.elapsed() == pytest.approx(3601, abs=1)
    monkeypatch.setattr(clock, which, lambda: real() - 86_400)
    assert not token.is_expired()
    assert moment.elapsed() == pytest.approx(0, abs=1)


async def test_a_fresh_token_for_a_refused_one_is_remembered_for_half_a_minute() -> None:
    token, plain = session(None, after_refusal=True), session(None)
    assert (token.replaced_refused_token(), plain.replaced_refused_token()) == (True, False)
    await anyio.sleep(29)
    assert token.replaced_refused_token()
    await anyio.sleep(1.5)
    assert not token.replaced_refused_token()


async def test_no_repr_shows_the_token() -> None:
    assert "c4nary" not in f"{session(5)!r} {Grant(token=Secret('c4nary'), lifetime=5)!r}"
