"""A token file is looked at and forgotten by whoever does not know whose login it holds."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import anyio
import httpx
import pytest

from freight_exchange import ConfigurationError, FreightExchange, TokenFile
from freight_exchange.testing import Sandbox


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "login.json"


async def log_in(path: Path) -> Sandbox:
    sandbox = Sandbox()
    async with (
        sandbox.http_client() as http_client,
        FreightExchange(
            sandbox.url,
            email=sandbox.forwarder.email,
            password=sandbox.forwarder.password,
            token_store=TokenFile(path, inline=True),
            http_client=http_client,
        ) as exchange,
    ):
        await exchange.login()
    return sandbox


def test_it_says_whose_login_it_holds(path: Path) -> None:
    sandbox = anyio.run(log_in, path)
    kept = TokenFile(path).read()
    assert kept is not None
    assert (kept.base_url, kept.account, kept.is_fresh()) == (sandbox.url, sandbox.forwarder.email, True)
    assert kept.token.reveal() not in repr(kept)


def test_a_file_that_there_is_not(path: Path) -> None:
    assert TokenFile(path).read() is None
    assert not TokenFile(path).forget()


def test_one_that_others_may_read_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    anyio.run(log_in, path)
    path.chmod(stat.S_IRUSR | stat.S_IROTH)
    with caplog.at_level(logging.WARNING, "freight_exchange.auth"):
        assert TokenFile(path).read() is None
    assert "is open to other users" in caplog.text


def test_it_is_forgotten(path: Path) -> None:
    anyio.run(log_in, path)
    assert TokenFile(path).forget()
    assert not path.exists()
    assert not TokenFile(path).forget()


def test_what_cannot_be_removed_is_said(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be removed"):
        TokenFile(path).forget()


def test_one_for_each_account_is_no_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for use in (TokenFile().read, TokenFile().forget):
        with pytest.raises(ConfigurationError, match="a file for each account"):
            use()


def test_file_holds_no_password_that_the_reply_repeats(path: Path) -> None:
    token, password = "head.c4nary.tail", "c4nary-pa55"
    user = {
        "access_token": token,
        "firstname": "Ada",
        "imageUrl": f"https://images.example/?{token}&{password}",
        "hint": f"it is {password}",
        "company": {"name": "Co", "of": {"its": [token, password]}},
        "password": password,
        token: 1,
    }

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"user": user})

    async def log_in() -> None:
        async with (
            httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client,
            FreightExchange(
                "https://host.example/api",
                email="me@co.example",
                password=password,
                token_store=TokenFile(path, inline=True),
                http_client=client,
            ) as exchange,
        ):
            await exchange.login()

    anyio.run(log_in)
    content = path.read_text()
    said = json.loads(content)
    assert said.pop("token") == token
    assert "c4nary" not in json.dumps(said)
    assert (said["user"]["firstname"], said["user"]["company"]["name"]) == ("Ada", "Co")
    assert "password" not in said["user"]
