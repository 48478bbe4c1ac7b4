"""Tests of the options that environment variables may set."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from freight_exchange import ConfigurationError, FreightExchange, environment
from freight_exchange.endpoints.service import Conventions

SERVICE = "https://exchange.example/api"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return an environment without variables of the package."""
    for name in os.environ:
        if name.lower() in PROXIES or name.startswith(("FREIGHT_EXCHANGE_", "SSL_CERT_")):
            monkeypatch.delenv(name)


def conventions(**arguments: Any) -> Conventions:
    options = dict.fromkeys(("get_parameters", "addresses", "currency_field", "carrier_field"))
    return environment.conventions(**{**options, **arguments}, index_type="integer", missing_list_is_empty=False)


class TestConventions:
    def test_default_to_those_of_the_document(self) -> None:
        found = conventions()
        assert (found.get_parameters, found.currency_field, found.carrier_field) == ("body", "currencyIndex", "carrier")
        assert found.addresses["publish"] == "quote/submitrequest"

    def test_come_from_the_environment_unless_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FREIGHT_EXCHANGE_GET_PARAMETERS", "query")
        monkeypatch.setenv("FREIGHT_EXCHANGE_CURRENCY_FIELD", "currencyId")
        monkeypatch.setenv("FREIGHT_EXCHANGE_CARRIER_FIELD", "both")
        monkeypatch.setenv("FREIGHT_EXCHANGE_ADDRESSES", "publish=quote/request, submit = quote/bid")
        found = conventions()
        assert (found.get_parameters, found.currency_field, found.carrier_field) == ("query", "currencyId", "both")
        assert (found.addresses["publish"], found.addresses["submit"]) == ("quote/request", "quote/bid")
        assert found.addresses["approve"] == "quote/approveoffer"
        found = conventions(get_parameters="body", addresses={"approve": "quote/offer"}, currency_field="both")
        assert (found.get_parameters, found.currency_field) == ("body", "both")
        assert (found.addresses["publish"], found.addresses["approve"]) == ("quote/submitrequest", "quote/offer")

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("GET_PARAMETERS", "header", "FREIGHT_EXCHANGE_GET_PARAMETERS must be one of 'body', 'query'"),
            ("CURRENCY_FIELD", "currency", "FREIGHT_EXCHANGE_CURRENCY_FIELD must be one of"),
            ("CARRIER_FIELD", "x", "FREIGHT_EXCHANGE_CARRIER_FIELD must be one of"),
            ("ADDRESSES", "publish", "FREIGHT_EXCHANGE_ADDRESSES must be a list such as publish=quote/request,submit="),
            ("ADDRESSES", "offer=quote/bid", "has no operation 'offer'"),
            ("TRUST_ENV", "maybe", "FREIGHT_EXCHANGE_TRUST_ENV must be 1 or 0, not 'maybe'"),
        ],
    )
    def test_name_the_variable_that_is_wrong(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
    ) -> None:
        monkeypatch.setenv(f"FREIGHT_EXCHANGE_{name}", value)
        with pytest.raises(ConfigurationError, match=message):
            FreightExchange(SERVICE, email="a@b.example", password="pw")


class TestTrust:
    def test_is_off_unless_given_or_in_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not environment.trust_env(None)
        monkeypatch.setenv("FREIGHT_EXCHANGE_TRUST_ENV", "1")
        assert environment.trust_env(None)
        assert not environment.trust_env(False)
        monkeypatch.setenv("FREIGHT_EXCHANGE_TRUST_ENV", "No")
        assert not environment.trust_env(None)
        assert environment.trust_env(True)

    def test_off_reads_no_proxy_and_no_certificate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "socks5://nowhere")
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
        FreightExchange(SERVICE, email="a@b.example", password="pw")
        with pytest.raises(ConfigurationError, match="HTTPS_PROXY in the environment: proxy must be an http or https"):
            FreightExchange(SERVICE, email="a@b.example", password="pw", trust_env=True)


class TestProxy:
    @pytest.mark.parametrize(
        ("variables", "found"),
        [
            ({}, None),
            ({"HTTPS_PROXY": "http://proxy.example:3128"}, "http://proxy.example:3128"),
            ({"https_proxy": "proxy.example:3128"}, "http://proxy.example:3128"),
            ({"ALL_PROXY": "http://all.example"}, "http://all.example"),
            ({"HTTPS_PROXY": "http://one.example", "ALL_PROXY": "http://all.example"}, "http://one.example"),
            ({"HTTP_PROXY": "http://plain.example"}, None),
            ({"HTTPS_PROXY": "http://proxy.example", "NO_PROXY": "localhost,.example"}, None),
            ({"HTTPS_PROXY": "http://proxy.example", "NO_PROXY": "other.example"}, "http://proxy.example"),
        ],
    )
    def test_variable_for_the_service_is_used(
        self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str | None
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        proxy = environment.proxy(SERVICE)
        assert (None if proxy is None else proxy.reveal()) == found

    def test_of_plain_http_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plain http is only for this machine, since a proxy would see the password."""
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
        monkeypatch.setenv("ALL_PROXY", "http://proxy.example")
        assert environment.proxy("http://127.0.0.1:8765/api") is None

    def test_error_keeps_the_password(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ALL_PROXY", "socks5://me:hidden@proxy.example")
        with pytest.raises(ConfigurationError, match="ALL_PROXY") as caught:
            environment.proxy(SERVICE)
        assert "hidden" not in str(caught.value)


class TestCertificates:
    def test_come_from_a_file_or_a_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        assert environment.certificates() is None
        authority = tmp_path / "ca.pem"
        trustme.CA().cert_pem.write_to_path(str(authority))
        monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
        assert isinstance(environment.certificates(), ssl.SSLContext)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        context = environment.certificates()
        assert context is not None
        assert len(context.get_ca_certs()) == 1

    @pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("nothing", "it holds no certificate")])
    def test_that_cannot_be_read_are_named(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, reason: str
    ) -> None:
        file = tmp_path / "ca.pem"
        if text is not None:
            file.write_text(text)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with pytest.raises(ConfigurationError, match=f"SSL_CERT_FILE names .*ca.pem, which cannot be read: {reason}"):
            FreightExchange(SERVICE, email="a@b.example", password="pw", trust_env=True)
