"""Tests of the token store: path, state folder, read and forget."""

from __future__ import annotations

import json
import logging
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from tests.unit.transport.fleet import EMAIL, URL

from freight_exchange import ConfigurationError, FreightExchange, TokenFile
from freight_exchange.testing import Sandbox

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners as POSIX has them")


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


def test_file_names_the_account_of_its_login(path: Path) -> None:
    sandbox = anyio.run(log_in, path)
    kept = TokenFile(path).read()
    assert kept is not None
    assert (kept.base_url, kept.account, kept.is_fresh()) == (sandbox.url, sandbox.forwarder.email, True)
    assert kept.token.reveal() not in repr(kept)


def test_a_file_that_there_is_not(path: Path) -> None:
    assert TokenFile(path).read() is None
    assert not TokenFile(path).forget()


def test_file_open_to_others_is_not_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    anyio.run(log_in, path)
    path.chmod(stat.S_IRUSR | stat.S_IROTH)
    with caplog.at_level(logging.WARNING, "freight_exchange.auth"):
        assert TokenFile(path).read() is None
    assert "is open to other users" in caplog.text


def test_forget_removes_the_file(path: Path) -> None:
    anyio.run(log_in, path)
    assert TokenFile(path).forget()
    assert not path.exists()
    assert not TokenFile(path).forget()


def test_forget_reports_a_file_that_cannot_be_removed(path: Path) -> None:
    path.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be removed"):
        TokenFile(path).forget()


def test_read_and_forget_need_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    stored = json.loads(content)
    assert stored.pop("token") == token
    assert "c4nary" not in json.dumps(stored)
    assert (stored["user"]["firstname"], stored["user"]["company"]["name"]) == ("Ada", "Co")
    assert "password" not in stored["user"]


class TestWhere:
    @pytest.mark.parametrize("path", ["", "a\0b", b"token.json", 5, True, "\ud800", "folder/", "/", "..", "a/.."])
    def test_value_that_is_no_path_is_refused(self, path: Any) -> None:
        with pytest.raises(ConfigurationError, match="TokenFile needs the path of a file"):
            TokenFile(path)

    def test_path_does_not_follow_a_change_of_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        store = TokenFile("token.json")
        monkeypatch.chdir("/")
        assert store.file_for(URL, EMAIL).path == tmp_path / "token.json"
        assert repr(store) == f"TokenFile({str(tmp_path / 'token.json')!r})"

    def test_home_is_understood(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        assert TokenFile(Path("~/bots/token.json")).file_for(URL, EMAIL).path == tmp_path / "bots" / "token.json"

    def test_each_account_has_a_file_in_the_state_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME", str(tmp_path))
        store = TokenFile()
        accounts = [(URL, EMAIL), (URL, "you@co.example"), ("https://other.example/api", EMAIL), (URL, "\ud800")]
        paths = {store.file_for(*account).path for account in accounts}
        assert len(paths) == 4
        assert {path.parent for path in paths} == {tmp_path / "freight-exchange"}
        assert store.file_for(URL, EMAIL).path == TokenFile().file_for(URL, EMAIL).path
        assert not any("co.example" in path.name for path in paths)
        assert repr(store) == "TokenFile()"

    @posix
    @pytest.mark.parametrize("relative", ["", "state"])
    def test_state_folder_is_in_the_home_where_no_absolute_one_is_named(
        self, relative: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", relative)
        monkeypatch.setenv("HOME", str(tmp_path))
        folder = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
        assert TokenFile().file_for(URL, EMAIL).path.parent == tmp_path / folder / "freight-exchange"

    def test_missing_home_is_reported_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def homeless(*_: object, **__: object) -> Path:
            raise RuntimeError("no home")

        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
        monkeypatch.setattr("platformdirs.user_state_path", homeless)
        monkeypatch.setattr(Path, "expanduser", homeless)
        with pytest.raises(ConfigurationError, match="give TokenFile a path"):
            TokenFile()
        with pytest.raises(ConfigurationError, match="no home"):
            TokenFile("~/token.json")
