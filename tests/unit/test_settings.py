"""Tests of a client's arguments and environment: an error names the remedy before anything is sent."""

from __future__ import annotations

import ssl
import traceback
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange import settings
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.transport.redact import Secret

CANARY = "c4nary-pa55"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (settings.URL_VARIABLE, settings.EMAIL_VARIABLE, settings.PASSWORD_VARIABLE):
        monkeypatch.delenv(name, raising=False)


class TestBaseUrl:
    @pytest.mark.parametrize(
        ("value", "url"),
        [
            ("https://host.example/api", "https://host.example/api"),
            ("https://host.example/api/", "https://host.example/api"),
            ("https://host.example/api//", "https://host.example/api"),
            ("https://host.example:8443/v1/api", "https://host.example:8443/v1/api"),
            (" https://host.example/api\n", "https://host.example/api"),
            ("HTTPS://host.example/api", "https://host.example/api"),
            ("https://bücher.example/api", "https://bücher.example/api"),
            ("http://localhost:8000/api", "http://localhost:8000/api"),
            ("http://a.localhost/api", "http://a.localhost/api"),
            ("http://127.0.0.1/api", "http://127.0.0.1/api"),
            ("http://127.8.9.1/api", "http://127.8.9.1/api"),
            ("http://[::1]:8000/api", "http://[::1]:8000/api"),
        ],
    )
    def test_the_root_without_its_slash(self, value: str, url: str) -> None:
        assert settings.base_url(value) == url

    @pytest.mark.parametrize(
        "value",
        [
            "host.example/api",
            "//host.example/api",
            "ftp://host.example/api",
            "file:///api",
            "https:///api",
            "https:host.example/api",
            "https://:443/api",
            "https://host.example:0/api",
            "https://host.example:99999/api",
            "https://host.example:port/api",
            "https://[::1/api",
            "https://ho st/api",
            "https://ho\\st/api",
            "https://ho%20st/api",
            "https://.../api",
            "https://host.example\x00/api",
            "https://host.example/\x7f/api",
            "https://host.example/a\nb/api",
            "not a url",
        ],
    )
    def test_text_that_is_no_url_is_refused(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="base_url must be an http or https URL"):
            settings.base_url(value)

    @pytest.mark.parametrize("value", [5, b"https://host/api", object()])
    def test_value_that_is_no_string_is_refused(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match="base_url must be a string"):
            settings.base_url(value)

    @pytest.mark.parametrize(
        "value", [f"https://u:{CANARY}@host/api", f"https://{CANARY}@host/api", "https://@host/api"]
    )
    def test_user_information_is_refused_and_not_repeated(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="user name or password") as caught:
            settings.base_url(value)
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize(
        "value", ["https://host/api?x=1", "https://host/api#x", "https://host/api?", "https://host/api#"]
    )
    def test_queries_and_fragments_are_refused(self, value: str) -> None:
        with pytest.raises(ConfigurationError, match="query or a fragment"):
            settings.base_url(value)

    @pytest.mark.parametrize(
        "host", ["host.example", "localhost.example", "10.0.0.1", "[::2]", "128.0.0.1", "localhost.", "127.1", "0"]
    )
    def test_http_only_to_this_machine(self, host: str) -> None:
        with pytest.raises(ConfigurationError, match="https"):
            settings.base_url(f"http://{host}/api")

    @pytest.mark.parametrize("value", ["https://host.example", "https://host.example/v1", "https://host.example/apis"])
    def test_a_missing_api_is_worth_a_warning(self, value: str) -> None:
        with pytest.warns(UserWarning, match="usually ends in /api"):
            assert settings.base_url(value) == value

    def test_the_environment_and_its_lack(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for missing in (None, ""):
            with pytest.raises(ConfigurationError, match=settings.URL_VARIABLE):
                settings.base_url(missing)
        monkeypatch.setenv(settings.URL_VARIABLE, "https://env.example/api/")
        assert settings.base_url(None) == "https://env.example/api"
        assert settings.base_url("https://given.example/api") == "https://given.example/api"

    @given(st.text(max_size=30), st.text(max_size=30))
    @pytest.mark.filterwarnings("ignore:base_url usually ends")
    def test_any_text_is_a_url_or_refused(self, host: str, path: str) -> None:
        for written in (host, f"https://{host}/{path}", f"http://localhost{host}/{path}"):
            try:
                url = settings.base_url(written)
            except ConfigurationError:
                continue
            assert url.startswith(("https://", "http://"))
            assert not {"@", "?", "#", "\\"} & set(url.partition("://")[2].partition("/")[0])


class TestCredentials:
    async def test_given_ones_are_used(self) -> None:
        assert await settings.credentials("me", Secret(CANARY), None)() == ("me", Secret(CANARY))

    async def test_missing_ones_come_from_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(settings.EMAIL_VARIABLE, "env")
        monkeypatch.setenv(settings.PASSWORD_VARIABLE, CANARY)
        assert await settings.credentials(None, None, None)() == ("env", Secret(CANARY))
        assert await settings.credentials("me", None, None)() == ("me", Secret(CANARY))
        assert await settings.credentials(None, Secret("mine"), None)() == ("env", Secret("mine"))

    @pytest.mark.parametrize(
        ("email", "password", "named"),
        [
            (None, "x", settings.EMAIL_VARIABLE),
            (None, None, f"{settings.EMAIL_VARIABLE} and {settings.PASSWORD_VARIABLE}"),
            ("", "x", settings.EMAIL_VARIABLE),
            (5, "x", settings.EMAIL_VARIABLE),
            ("me", None, settings.PASSWORD_VARIABLE),
            ("me", "", settings.PASSWORD_VARIABLE),
            ("me", 12345, settings.PASSWORD_VARIABLE),
            ("me", b"x", settings.PASSWORD_VARIABLE),
        ],
    )
    def test_error_names_the_missing_setting(self, email: Any, password: Any, named: str) -> None:
        with pytest.raises(ConfigurationError, match=named) as caught:
            settings.credentials(email, None if password is None else Secret(password), None)
        assert "12345" not in str(caught.value)

    async def test_a_provider_is_asked_each_time(self) -> None:
        passwords = iter(["one", "two"])

        async def provider() -> tuple[str, str]:
            return "me", next(passwords)

        give = settings.credentials(None, None, provider)
        assert [await give(), await give()] == [("me", Secret("one")), ("me", Secret("two"))]

    @pytest.mark.parametrize(("email", "password"), [("me", None), (None, Secret("x")), ("me", Secret("x"))])
    def test_a_provider_stands_alone(self, email: str | None, password: Secret | None) -> None:
        async def provider() -> tuple[str, str]:
            raise AssertionError

        with pytest.raises(ConfigurationError, match="either credentials, or"):
            settings.credentials(email, password, provider)

    def test_a_provider_is_callable(self) -> None:
        with pytest.raises(ConfigurationError, match="async callable"):
            settings.credentials(None, None, ("me", CANARY))  # type: ignore[arg-type]  # what must fail

    @pytest.mark.parametrize(
        "value", [None, CANARY, ("me",), ("me", CANARY, "x"), ["me", CANARY], ("me", 5), ("", CANARY), ("me", "")]
    )
    @pytest.mark.parametrize("awaited", [True, False])
    async def test_credentials_of_a_provider_are_checked_and_not_shown(self, value: Any, awaited: bool) -> None:
        async def provider() -> Any:
            return value

        def sync() -> Any:
            return ("me", CANARY)

        with pytest.raises(ConfigurationError, match="credentials must") as caught:
            await settings.credentials(None, None, provider if awaited else sync)()
        formatted = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        [own] = [frame for frame in formatted.stack if frame.name == "provide"]
        assert CANARY not in str(own.locals)

    async def test_a_providers_own_error_is_not_hidden(self) -> None:
        async def provider() -> tuple[str, str]:
            raise KeyError("vault")

        with pytest.raises(KeyError):
            await settings.credentials(None, None, provider)()


class TestChoices:
    def test_other_addresses_than_the_chosen_ones_are_the_defaults(self) -> None:
        assert settings.addresses(None)["publish"] == "quote/submitrequest"
        chosen = settings.addresses({"publish": "request", "submit": "quote/bid"})
        assert chosen == {
            "publish": "request",
            "approve": "quote/approveoffer",
            "submit": "quote/bid",
            "get_offer": "quote/offer",
        }

    @pytest.mark.parametrize(
        ("value", "named"),
        [
            ({"bid": "quote/bid"}, "'bid'"),
            ({"publish": "quote/bid"}, "publish"),
            ({"approve": None}, "approve"),
            ({"submit": "/quote/bid"}, "submit"),
            (["publish"], "addresses must be"),
            ("publish", "addresses must be"),
        ],
    )
    def test_other_addresses_are_named(self, value: Any, named: str) -> None:
        with pytest.raises(ConfigurationError, match=named):
            settings.addresses(value)

    @pytest.mark.parametrize("value", ["Body", "", None, 1, ["body"]])
    def test_choice_must_be_one_of_the_words(self, value: Any) -> None:
        words = Literal["body", "query"]
        assert settings.choice("query", words, "get_parameters") == "query"
        with pytest.raises(ConfigurationError, match="get_parameters must be one of 'body', 'query'"):
            settings.choice(value, words, "get_parameters")

    @pytest.mark.parametrize("value", [0, -1, 101, True, 1.5, "20", None])
    def test_number_of_connections_is_bounded(self, value: Any) -> None:
        assert [settings.connections(number, "max_writes") for number in (1, 20, 100)] == [1, 20, 100]
        with pytest.raises(ConfigurationError, match="max_writes"):
            settings.connections(value, "max_writes")

    @pytest.mark.parametrize("value", [False, None, 1, "/etc/ca.pem"])
    def test_certificates_are_always_checked(self, value: Any) -> None:
        context = ssl.create_default_context()
        assert settings.verification(True) is True
        assert settings.verification(context) is context
        with pytest.raises(ConfigurationError, match="verify"):
            settings.verification(value)


class TestRawRequests:
    @pytest.mark.parametrize("value", ["", "GET ", "G-T", "P\u00d6ST", 5, None, "GET\r\nX: y"])
    def test_method_must_be_a_word_and_becomes_upper_case(self, value: Any) -> None:
        assert settings.method("post") == "POST"
        with pytest.raises(ValidationError) as caught:
            settings.method(value)
        assert caught.value.field == "method"

    @pytest.mark.parametrize(
        ("value", "path"), [("quote/offer", "quote/offer"), ("/route", "route"), ("a/b/", "a/b/"), ("a;b@c", "a;b@c")]
    )
    def test_path_is_made_relative(self, value: str, path: str) -> None:
        assert settings.path(value) == path

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "/",
            "//evil.example/x",
            "https://evil.example/x",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a?x=1",
            "a#x",
            "a%2e%2e",
            "a\\b",
            "a b",
            "a\nb",
            "\u00e4",
            5,
            None,
        ],
    )
    def test_paths_that_lead_elsewhere(self, value: Any) -> None:
        with pytest.raises(ValidationError) as caught:
            settings.path(value)
        assert caught.value.field == "path"
