"""Tests of proxies, certificate authorities and conventions on the command line."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import anyio.from_thread
import pytest
import trustme
from tests.calls.servers import proxying
from tests.unit.cli.harness import Shell

from freight_exchange.cli.exit_status import Status
from freight_sandbox.server import serve


@pytest.fixture
def authority(shell: Shell, tmp_path: Path) -> Iterator[Path]:
    """Create the file of a private authority, which has signed the certificate of the shell's service."""
    private = trustme.CA()
    file = tmp_path / "company.pem"
    private.cert_pem.write_to_path(str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    private.issue_cert("127.0.0.1").configure_cert(context)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "NO_PROXY", "no_proxy"):
        shell.set(name, None)
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve(shell.exchange, tls=context)) as server,
    ):
        shell.set("FREIGHT_EXCHANGE_URL", server.url)
        yield file


def test_private_authority_is_named_and_the_url_is_not_blamed(shell: Shell, authority: Path) -> None:
    result = shell("currencies")
    assert result.status == Status.UNEXPECTED
    assert result.err.startswith("Error: the certificate of 127.0.0.1:")
    assert "give its file by --ca-file" in result.err
    assert "Nothing was sent: the server may be an impostor." in result.err
    assert "Is the URL right?" not in result.err
    assert "SSLContext" not in result.err
    assert "verify=" not in result.err


def test_private_authority_is_trusted_by_option_or_variable(shell: Shell, authority: Path) -> None:
    assert "USD" in shell("--ca-file", str(authority), "currencies").out
    shell.set("SSL_CERT_FILE", str(authority))
    assert "USD" in shell("currencies").out
    (Path.cwd() / "empty.pem").write_text("")
    result = shell("--ca-file", "empty.pem", "currencies")
    assert result.status == Status.CONFIGURATION
    assert "Error: --ca-file empty.pem cannot be read: it holds no certificate" in result.err


def test_proxy_comes_from_option_or_variable(shell: Shell, authority: Path) -> None:
    shell.set("SSL_CERT_FILE", str(authority))
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(proxying()) as proxy,
    ):
        assert shell("--proxy", proxy.url, "currencies").status == Status.DONE
        assert len(proxy.requests) > 0
        proxy.requests.clear()
        shell.set("HTTPS_PROXY", proxy.url)
        assert shell("currencies").status == Status.DONE
        assert len(proxy.requests) > 0
        proxy.requests.clear()
        shell.set("NO_PROXY", "127.0.0.1")
        assert shell("currencies").status == Status.DONE
        assert proxy.requests == []


def test_conventions_come_from_options_and_variables(shell: Shell) -> None:
    shell.exchange.publish(shell.exchange.shipper, time.time())
    shell("--addresses", "submit=quote/bid", "bids", "submit", "1", "--amount", "100", "--currency", "USD", "--yes")
    assert len(shell.exchange.audit_log.calls_to("POST", "quote/bid")) == 1
    shell.set("FREIGHT_EXCHANGE_GET_PARAMETERS", "query")
    assert shell("routes", "list", "--origin", "Hong Kong").status == Status.DONE
    assert b"Hong" not in shell.exchange.audit_log.calls[-1].body
    result = shell("--addresses", "submit:quote/bid", "currencies")
    assert result.status == Status.CONFIGURATION
    assert "Error: --addresses must be a list such as publish=quote/request,submit=quote/bid" in result.err
    assert shell("--currency-field", "money", "currencies").status == Status.USAGE
