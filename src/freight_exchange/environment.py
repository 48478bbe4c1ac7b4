"""Options of a client that environment variables may set: conventions of the service, proxy and certificates."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from freight_exchange import settings
from freight_exchange.endpoints.service import Conventions
from freight_exchange.errors import ConfigurationError
from freight_exchange.options import (
    ADDRESSES_VARIABLE,
    CARRIER_FIELD_VARIABLE,
    CURRENCY_FIELD_VARIABLE,
    GET_PARAMETERS_VARIABLE,
    CarrierField,
    CurrencyField,
    GetParameters,
    IndexType,
)
from freight_exchange.transport.redact import Secret

__all__ = [
    "ADDRESSES_VARIABLE",
    "CARRIER_FIELD_VARIABLE",
    "CURRENCY_FIELD_VARIABLE",
    "GET_PARAMETERS_VARIABLE",
    "TRUST_ENV_VARIABLE",
    "certificates",
    "conventions",
    "parse_addresses",
    "proxy",
    "trust_env",
]

TRUST_ENV_VARIABLE: Final = "FREIGHT_EXCHANGE_TRUST_ENV"

_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def conventions(
    *,
    get_parameters: GetParameters | None,
    addresses: Mapping[str, str] | None,
    currency_field: CurrencyField | None,
    carrier_field: CarrierField | None,
    index_type: IndexType,
    missing_list_is_empty: bool,
) -> Conventions:
    """Return the conventions: arguments have priority over environment variables, and these over the defaults."""
    return Conventions(
        get_parameters=_word(get_parameters, GetParameters, "get_parameters", GET_PARAMETERS_VARIABLE, "body"),
        addresses=_addresses(addresses),
        currency_field=_word(currency_field, CurrencyField, "currency_field", CURRENCY_FIELD_VARIABLE, "currencyIndex"),
        carrier_field=_word(carrier_field, CarrierField, "carrier_field", CARRIER_FIELD_VARIABLE, "carrier"),
        index_type=settings.choice(index_type, IndexType, "index_type"),
        missing_list_is_empty=settings.flag(missing_list_is_empty, "missing_list_is_empty"),
    )


def _word(value: settings.Word | None, allowed: object, name: str, variable: str, default: str) -> settings.Word:
    if value is not None:
        return settings.choice(value, allowed, name)
    found: settings.Word = settings.choice(os.environ.get(variable) or default, allowed, variable)  # type: ignore[assignment]  # one of a Literal's words
    return found


def _addresses(value: Mapping[str, str] | None) -> dict[str, str]:
    text = os.environ.get(ADDRESSES_VARIABLE, "")
    return settings.addresses(parse_addresses(text, ADDRESSES_VARIABLE) if value is None and text.strip() else value)


def parse_addresses(text: str, name: str) -> dict[str, str]:
    """Parse `publish=quote/request,submit=quote/bid`; errors name the text by `name`."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return settings.addresses({operation.strip(): address.strip() for operation, _, address in pairs})
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{name} must be a list such as publish=quote/request,submit=quote/bid: {error}"
        ) from None


def trust_env(value: bool | None) -> bool:
    """Return whether variables of proxies and certificates count, by `trust_env=` or else by the environment."""
    if value is not None:
        return settings.flag(value, "trust_env")
    text = os.environ.get(TRUST_ENV_VARIABLE) or "0"
    try:
        return _FLAGS[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{TRUST_ENV_VARIABLE} must be 1 or 0, not {text!r}") from None


def proxy(base_url: str) -> Secret | None:
    """Return the proxy of the service by `HTTPS_PROXY` or `ALL_PROXY`, unless `NO_PROXY` has its host.

    A URL with plain http, which only this machine may have, has no proxy, since the proxy would see the password.
    """
    # Imported here, as it loads the whole HTTP client of the standard library.
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(base_url)
    # An IPv6 address stands in `NO_PROXY` without brackets.
    if parts.scheme != "https" or proxy_bypass(parts.netloc) or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    name = next((name for name in ("https", "all") if proxies.get(name)), None)
    if name is None:
        return None
    url = Secret(proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}")
    # It may contain a password, which a traceback would show.
    del proxies
    try:
        return settings.proxy(url)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name.upper()}_PROXY in the environment: {error}") from None


def certificates() -> ssl.SSLContext | None:
    """Return the certificate authorities of `SSL_CERT_FILE` or `SSL_CERT_DIR`, which replace the public ones."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return None
    name, path = ("SSL_CERT_FILE", file) if file else ("SSL_CERT_DIR", folder)
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except (OSError, ssl.SSLError) as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"{name} names {path}, which cannot be read: {reason}") from None
