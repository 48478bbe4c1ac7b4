"""Own pools: the SDK's connections over httpcore, directly or through a proxy."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx

from freight_exchange.errors import ConfigurationError
from freight_exchange.transport.http.adapter import Network, host_and_port
from freight_exchange.transport.http.backend import Backend
from freight_exchange.transport.http.pool import Pool
from freight_exchange.transport.secrets import Secret

if TYPE_CHECKING:
    import ssl

    import httpcore

    from freight_exchange.transport.http.adapter import Send

__all__ = ["own_network", "own_pools", "proxy_secrets"]


def own_pools(
    *, base_url: str, proxy: Secret | None, verify: bool | ssl.SSLContext, keepalive: float, backend: Any = None
) -> tuple[Pool, Pool]:
    """Make the SDK's own connections, for reads and for writes, over a network backend of httpcore.

    If the server closes an idle connection just as a write is sent on it, the outcome of the write is unknown. So
    writes have a pool of their own, which keeps no idle connections. The connections are httpcore's. httpx's client
    around them would read the environment, keep cookies, follow redirects and log URLs, and take a fifth of a call's
    time.
    """
    # Imported here, as a program that sends nothing need not load it.
    import httpcore

    if verify is True and base_url.startswith("http://") and proxy is None:
        # A plain URL needs no certificates, and loading them takes longer than many scripts run.
        verify = False
    context = httpx.create_ssl_context(verify=verify, trust_env=False)
    httpcore_proxy = None if proxy is None else _proxy(proxy, context)
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"base_url is not a URL: {error}") from None
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    origin = httpcore.Origin(scheme=url.raw_scheme, host=url.raw_host, port=port)

    def pool(keepalive: float, *, writes: bool) -> Pool:
        factory = httpcore.AsyncConnectionPool(
            ssl_context=context,
            proxy=httpcore_proxy,
            keepalive_expiry=keepalive,
            network_backend=Backend(backend, writes=writes),  # type: ignore[arg-type]  # httpcore's base class adds Unix sockets
        )
        return Pool(lambda: factory.create_connection(origin), keepalive=keepalive)

    return pool(keepalive, writes=False), pool(0, writes=True)


def _proxy(url: Secret, context: ssl.SSLContext) -> httpcore.Proxy:
    import httpcore

    # Raised outside of the handler and without the URL, which may contain a password.
    with suppress(ValueError, TypeError, httpx.InvalidURL):
        proxy = httpx.Proxy(url.reveal())
        if proxy.url.host and proxy.url.scheme in ("http", "https"):
            parts = proxy.url
            target = httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)
            return httpcore.Proxy(target, auth=proxy.raw_auth, ssl_context=context if parts.scheme == "https" else None)
    raise ConfigurationError("proxy must be the URL of a proxy, such as http://proxy.example:3128")


def proxy_secrets(url: Secret) -> list[Secret]:
    """List the secrets of a proxy's URL: its password, plain and as sent in basic authentication."""
    with suppress(ValueError, TypeError, httpx.InvalidURL):
        auth = httpx.Proxy(url.reveal()).raw_auth
        if auth is not None and auth[1]:
            basic = base64.b64encode(b":".join(auth)).decode("ascii").rstrip("=")
            return [Secret(auth[1].decode("utf-8", "replace")), Secret(basic)]
    return []


def own_network(base_url: str, pools: tuple[Pool, Pool], proxy: Secret | None) -> Network:
    """Make the network over the SDK's own connections."""
    proxy_address = None if proxy is None else host_and_port(httpx.URL(proxy.reveal()))
    return Network(base_url, *(_pool_sender(pool) for pool in pools), proxy=proxy_address)


def _pool_sender(pool: Pool) -> Send:
    import httpcore

    async def send(native: Any) -> Any:
        url = native.url
        return await pool.handle_async_request(
            httpcore.Request(
                native.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=native.headers.raw,
                content=native.stream,
                extensions=native.extensions,
            )
        )

    return send
