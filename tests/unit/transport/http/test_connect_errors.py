"""Tests of the messages of `TransportError`: host, reason and advice."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import httpcore
import httpx
import httpx2
import pytest

from freight_exchange.options import Timeouts
from freight_exchange.transport.http.connect_errors import Failure, NetworkRoute, destination, explain

SERVER = NetworkRoute("host.example:443")
LIBRARIES = [httpx, httpx2, httpcore]


def caused(error: Exception, *causes: BaseException) -> Exception:
    link: BaseException = error
    for cause in causes:
        link.__cause__ = cause
        link = cause
    return error


def describe(error: Exception, route: NetworkRoute = SERVER) -> Failure:
    return explain(error, route, Timeouts())


REASONS = [
    (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
    (OSError("all attempts failed"), "the handshake failed"),
    (ExceptionGroup("x", [OSError(errno.ENETUNREACH, "a"), ConnectionRefusedError()]), "connection refused"),
    (socket.gaierror(socket.EAI_NONAME, "x"), "no such host"),
    (socket.gaierror(socket.EAI_AGAIN, "x"), "the host's name could not be resolved"),
    (OSError(errno.EHOSTUNREACH, "x"), os.strerror(errno.EHOSTUNREACH).lower()),
    (OSError(errno.EMFILE, "x"), os.strerror(errno.EMFILE).lower()),
    (ssl.SSLError(1, "[SSL: UNEXPECTED_EOF_WHILE_READING] eof"), "the TLS handshake failed"),
    (
        ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        "the TLS handshake failed, since the reply was not TLS: is https:// right in the URL?",
    ),
]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize(("cause", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_message_has_the_reason_of_a_failed_connection(library: type, cause: BaseException, reason: str) -> None:
    error = caused(library.ConnectError("words"), OSError("in between"), cause)  # type: ignore[attr-defined]
    assert describe(error) == (f"no connection to host.example:443: {reason} (ConnectError)", False)


def certificate(code: int, words: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {words}")
    error.verify_code, error.verify_message = code, words
    return error


CERTIFICATES = [
    ("certificate has expired", "has expired: the server needs a new one"),
    ("certificate is not yet valid", "is not valid yet: check this machine's clock"),
    ("Hostname mismatch, certificate is not valid for 'x'.", "is for another host: check the host in base_url"),
    ("IP address mismatch, certificate is not valid for '::1'.", "is for another host: check the host in base_url"),
    ("self-signed certificate", "is self-signed: load it into an ssl.SSLContext and pass that as verify="),
    ("self signed certificate", "is self-signed: load it into an ssl.SSLContext and pass that as verify="),
    ("self-signed certificate in certificate chain", "comes from a private certificate authority: load that authority"),
    ("unable to get local issuer certificate", "comes from an unknown certificate authority: if it is a private one"),
    ("something new", "is not valid for this host: see verify="),
]


@pytest.mark.parametrize(("words", "reason"), CERTIFICATES)
def test_wrong_certificate_is_permanent_and_names_the_host(words: str, reason: str) -> None:
    for error in (
        caused(httpx.ConnectError(""), OSError("in between"), certificate(0, words)),
        httpx.ConnectError(f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {words} (_ssl.c:1006)"),
    ):
        failure = describe(error)
        assert failure.permanent
        assert failure.message.startswith(f"the certificate of host.example:443 {reason}")
    through = NetworkRoute("host.example:443", "proxy.example:3128", at_proxy=True)
    assert describe(error, through).message.startswith(f"the certificate of the proxy proxy.example:3128 {reason}")


def test_words_of_a_reply_are_no_certificate() -> None:
    assert not describe(httpx.RemoteProtocolError("CERTIFICATE_VERIFY_FAILED")).permanent


@pytest.mark.parametrize(
    ("route", "peer"),
    [
        (NetworkRoute("h:1", "p:2", at_proxy=True), "the proxy p:2"),
        (NetworkRoute("h:1", "p:2"), "h:1 through the proxy p:2"),
        (NetworkRoute("h:1"), "h:1"),
    ],
)
def test_the_machine_that_is_named(route: NetworkRoute, peer: str) -> None:
    assert describe(httpx.ConnectTimeout(""), route).message == f"no connection within 5 s to {peer} (ConnectTimeout)"
    assert describe(httpx.ReadTimeout(""), route).message == f"nothing came from {peer} for 30 s (ReadTimeout)"
    assert describe(httpx.ReadError(""), route).message == f"the connection to {peer} broke (ReadError)"
    reset = caused(httpx.ReadError(""), ConnectionResetError(errno.ECONNRESET, "x"))
    assert describe(reset, route).message == f"the connection to {peer} broke: connection reset by peer (ReadError)"


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(400, True), (403, True), (407, True), (408, False), (429, False), (502, False), (599, False)],
)
def test_a_proxy_that_refuses(status: int, permanent: bool) -> None:
    words = httpx.ProxyError(f"{status} s3cret-echo")
    for route in (
        NetworkRoute("h:1", "p:2", at_proxy=True, refusal=status),
        NetworkRoute("h:1", "p:2"),
        NetworkRoute("h:1"),
    ):
        failure = describe(words, route)
        assert failure.permanent is permanent
        assert f"did not connect to h:1: it answered {status}" in failure.message
        assert "s3cret" not in failure.message
        assert failure.message.startswith("the proxy p:2 did" if route.proxy else "the http_client's proxy did")
    assert describe(httpx.ProxyError("SOCKS: 5")) == (
        "the http_client's proxy did not connect to host.example:443 (ProxyError)",
        False,
    )


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("https://elsewhere.example/login?token=s3cret#s3cret", "https://elsewhere.example/login"),
        ("https://me:s3cret@elsewhere.example:8443/x;jsessionid=s3cret", "https://elsewhere.example:8443/x"),
        ("/v2/api/login", "/v2/api/login"),
        ("//cdn.example/x", "//cdn.example/x"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("https://host:notaport/", None),
        ("?token=s3cret", None),
        ("https://[broken", None),
        ("/a\x00b", None),
        ("", None),
        (None, None),
    ],
)
def test_destination_of_a_redirect_is_shown_without_secrets(location: str | None, expected: str | None) -> None:
    assert destination(location) == expected
