"""Configuration of a client: each option knows its environment variable, its default and its check."""

from __future__ import annotations

import inspect
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args
from urllib.parse import SplitResult, urlsplit

import attrs

from freight_exchange.errors import ConfigurationError
from freight_exchange.instruments import Hooks, Instrumentation
from freight_exchange.options import (
    ADDRESSES,
    CarrierField,
    CurrencyField,
    GetParameters,
    IndexType,
    RetryPolicy,
    Timeouts,
    flag,
    integer,
    seconds,
)
from freight_exchange.platform.clock import SendLimit
from freight_exchange.transport.call import Middleware
from freight_exchange.transport.network import library_of
from freight_exchange.transport.redact import Secret
from freight_exchange.transport.token import Credentials

if TYPE_CHECKING:
    from freight_exchange.hooks import Hook
    from freight_exchange.transport.token_file import TokenFile

CredentialsProvider = Callable[[], Awaitable[tuple[str, str]]]
"""Async callable that returns the email and the password, for example from a secret manager."""

Check = Callable[[Any, str], Any]
"""Function from an argument and its name to the option; it raises `ConfigurationError`, and accepts its own results."""

T = TypeVar("T")

_FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_MAX_CONNECTIONS: Final = 100
_PREFIX: Final = "FREIGHT_EXCHANGE_"
_EMAIL, _PASSWORD = f"{_PREFIX}EMAIL", f"{_PREFIX}PASSWORD"


# Checks


def _word(allowed: object, value: object, name: str) -> object:
    if value not in (words := get_args(allowed)):
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}")
    return value


def _instance(kind: type[T], value: T | None, name: str) -> T:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be {kind.__name__}(...), not {type(value).__name__}")
    return kind() if value is None else value


def _flag(value: object, name: str) -> bool:
    if isinstance(value, str) and name.startswith(_PREFIX):
        if (parsed := _FLAGS.get(value.lower())) is None:
            raise ConfigurationError(f"{name} must be 1 or 0, not {value!r}")
        return parsed
    return flag(value, name)


def _callables(value: Sequence[T], name: str) -> tuple[T, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(map(callable, value)):
        raise ConfigurationError(f"{name} must be a sequence of callables")
    return tuple(value)


def _addresses(value: Mapping[str, str] | str | None, name: str) -> dict[str, str]:
    """Return the address of each operation that has several: the chosen one, or the default."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",")]
        value = {operation.strip(): address.strip() for operation, _, address in pairs}
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a mapping, not {type(value).__name__}")
    chosen = {operation: known[0] for operation, known in ADDRESSES.items()} | dict(value or {})
    for operation, address in chosen.items():
        if operation not in ADDRESSES:
            raise ConfigurationError(f"{name} has no operation {operation!r}; it has {', '.join(ADDRESSES)}")
        if address not in (known := ADDRESSES[operation]):
            raise ConfigurationError(
                f"{name} must have one of {', '.join(known)} for {operation}, such as {operation}={known[0]}"
            )
    return chosen


def _http_client(value: object, _: str) -> object:
    if value is not None:
        library_of(value)
    return value


def _token_file(value: TokenFile | str | os.PathLike[str] | None, name: str) -> TokenFile | None:
    if value is None:
        return None
    from freight_exchange.transport.token_file import TokenFile

    if isinstance(value, str | os.PathLike):
        return TokenFile(value)
    if not isinstance(value, TokenFile):
        raise ConfigurationError(f"{name} must be TokenFile(...), a path, or None, not {type(value).__name__}")
    return value


# URLs. Any may contain a password, which a traceback would show: they are secrets until they are checked.


def base_url(value: str | Secret | None, _: str = "base_url") -> str:
    """Return the API root, by default that of the environment, without a trailing slash."""
    url = Secret(os.environ.get("FREIGHT_EXCHANGE_URL", "")) if value is None else value
    root, problem = _root(url if isinstance(url, Secret) else Secret(url))
    del value, url
    if problem:
        raise ConfigurationError(problem)
    return root


def _root(secret: Secret) -> tuple[str, str]:
    url, parts = secret.reveal(), _split(secret)
    if not url:
        return "", "give base_url, or set FREIGHT_EXCHANGE_URL: the API root, such as https://host/api"
    if parts is None or not url.strip().isprintable():
        return "", "base_url must be an http or https URL with a host, such as https://host/api"
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        return "", "base_url must be the API root alone, without user name or password, and without query or fragment"
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        return "", "base_url must use https: http would send the password and token in clear"
    # One spelling for each root: a store belongs to one.
    host = parts.netloc.lower().removesuffix(":80" if parts.scheme == "http" else ":443")
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}", ""


def _split(secret: Secret) -> SplitResult | None:
    """Split a URL; `None` for a value that is no http or https URL with a possible host."""
    url = secret.reveal()
    try:
        parts = urlsplit(url.strip()) if isinstance(url, str) else SplitResult("", "", "", "", "")
        host, is_reachable = parts.hostname or "", parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        return None
    # An HTTP library would escape a space, and look up another name.
    is_name = host.strip(".-") and not set(host) & set(" \\%<>\"'`{}|^,;")
    return parts if is_reachable and is_name else None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy(value: Secret | None, config: Config) -> Secret | None:
    """Return the proxy that was given, or else that of the environment if the options allow it."""
    origin = ""
    if value is None and config.trusts_environment:
        origin, value = _proxy_of_environment(config.base_url)
    # SOCKS needs a caller's own client: httpcore has no time limit for it, and raises errors of a third package.
    if value is not None and _split(value) is None:
        raise ConfigurationError(
            f"{origin}proxy must be an http or https URL with a host, such as http://host:3128; for SOCKS give an"
            ' http_client with its own proxy (pip install "httpx[socks]")'
        )
    return value


def _proxy_of_environment(root: str) -> tuple[str, Secret | None]:
    """Return where it stands, and the proxy of `HTTPS_PROXY` or `ALL_PROXY`, unless `NO_PROXY` has the host.

    A URL with plain http, which only this machine may have, has no proxy, since the proxy would see the password.
    """
    # Imported here, as it loads the whole HTTP client of the standard library.
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(root), getproxies()
    name = next((name for name in ("https", "all") if proxies.get(name)), None)
    # An IPv6 address stands in `NO_PROXY` without brackets.
    if name is None or parts.scheme != "https" or proxy_bypass(parts.netloc) or proxy_bypass(parts.hostname or ""):
        return "", None
    proxy = Secret(proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}")
    return f"{name.upper()}_PROXY in the environment: ", proxy


def _verify(value: object, config: Config) -> bool | ssl.SSLContext:
    if isinstance(value, ssl.SSLContext):
        return value
    if value is not True:
        raise ConfigurationError(
            "verify must be True or an ssl.SSLContext: for a private certificate authority, load it into a context"
        )
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if not config.trusts_environment or not (file or folder):
        return True
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        raise ConfigurationError(
            f"SSL_CERT_FILE or SSL_CERT_DIR names {file or folder}, which cannot be read: {error}"
        ) from None


# Credentials


def credentials(email: str | None, password: Secret | None, provider: CredentialsProvider | None) -> Credentials:
    """Return an async callable that returns the email and the password, of the arguments or else of the environment."""
    if provider is not None:
        if email is not None or password is not None:
            raise ConfigurationError("give either credentials, or email and password")
        if not callable(provider):
            raise ConfigurationError("credentials must be an async callable that returns (email, password)")
        return partial(_ask, provider)
    email = os.environ.get(_EMAIL) if email is None else email
    password = Secret(os.environ.get(_PASSWORD, "")) if password is None else password
    given = {_EMAIL: email, _PASSWORD: password.reveal()}
    wrong = [name for name, value in given.items() if not value or not isinstance(value, str)]
    del given
    if wrong or not email:
        raise ConfigurationError(f"give email and password as strings, or set {' and '.join(wrong)}")
    fixed = email, password

    async def provide() -> tuple[str, Secret]:
        return fixed

    return provide


async def _ask(provider: CredentialsProvider) -> tuple[str, Secret]:
    pending = provider()
    value = await pending if inspect.isawaitable(pending) else None
    if isinstance(value, tuple) and len(value) == 2 and all(part and isinstance(part, str) for part in value):
        return value[0], Secret(value[1])
    # A traceback would show the credentials.
    del pending, value
    raise ConfigurationError("credentials must be async and return a tuple of two strings: (email, password)")


# The options


def observers(hooks: Sequence[Hook], instrumentation: Instrumentation | None) -> Hooks:
    """Return the hooks of a client together with its instrumentation, whose records come last."""
    checked = _callables(hooks, "hooks")
    if instrumentation is None:
        return Hooks(checked)
    part = _instance(Instrumentation, instrumentation, "instrumentation")
    return Hooks((*checked, part.record), (part,))


def option(check: Check, *, default: Any = None, environment: bool = False) -> Any:
    """Declare an option. Without an argument, its variable in the `environment` counts, and else the default."""

    def convert(value: Any, field: attrs.Attribute[Any]) -> Any:
        name = _PREFIX + field.name.upper()
        if value is None and environment and (text := os.environ.get(name, "").strip()):
            return check(text, name)
        return check(default if value is None else value, field.name)

    converter: Any = attrs.Converter(convert, takes_field=True)
    return attrs.field(default=None if environment else default, converter=converter)


def dependent(convert: Callable[[Any, Any], Any], *, default: Any = None) -> Any:
    converter: Any = attrs.Converter(convert, takes_self=True)
    return attrs.field(default=default, converter=converter)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Config:
    """Checked options of a client and its views; `FreightExchange` describes them.

    `send_limit` is of views that this package itself uses.
    """

    base_url: str = option(base_url)
    credentials: Credentials
    token_store: TokenFile | None = option(_token_file)
    timeouts: Timeouts = option(partial(_instance, Timeouts))
    deadline: float = option(seconds)
    retries: RetryPolicy = option(partial(_instance, RetryPolicy))
    max_connections: int = option(partial(integer, most=_MAX_CONNECTIONS))
    max_writes: int = option(partial(integer, most=_MAX_CONNECTIONS))
    keepalive: float = option(seconds)
    page_size: int = option(integer)
    get_parameters: GetParameters = option(partial(_word, GetParameters), default="body", environment=True)
    addresses: dict[str, str] = option(_addresses, environment=True)
    currency_field: CurrencyField = option(partial(_word, CurrencyField), default="currencyIndex", environment=True)
    carrier_field: CarrierField = option(partial(_word, CarrierField), default="carrier", environment=True)
    index_type: IndexType = option(partial(_word, IndexType))
    missing_list_is_empty: bool = option(_flag)
    strict: bool = option(_flag)
    http_client: Any = option(_http_client)
    trust_env: bool = option(_flag, default=False, environment=True)
    proxy: Secret | None = dependent(_proxy)
    verify: bool | ssl.SSLContext = dependent(_verify, default=True)
    middleware: tuple[Middleware, ...] = option(_callables, default=())
    hooks: Hooks
    send_limit: SendLimit | None = None

    @property
    def trusts_environment(self) -> bool:
        """`True` if proxy and certificates may come from the environment; a caller's client has its own."""
        return self.trust_env and self.http_client is None
