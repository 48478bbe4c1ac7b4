"""Checks of a client's arguments and environment variables. No I/O."""

from __future__ import annotations

import inspect
import ipaddress
import os
import ssl
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, get_args
from urllib.parse import SplitResult, urlsplit

from freight_exchange import validation
from freight_exchange.errors import ConfigurationError, ValidationError
from freight_exchange.options import ADDRESSES
from freight_exchange.transport.redact import Secret

if TYPE_CHECKING:
    from freight_exchange.transport.token_file import TokenFile

__all__ = [
    "EMAIL_VARIABLE",
    "PASSWORD_VARIABLE",
    "URL_VARIABLE",
    "CredentialsProvider",
    "addresses",
    "base_url",
    "callables",
    "choice",
    "connections",
    "credentials",
    "flag",
    "method",
    "parameters",
    "path",
    "proxy",
    "token_file",
    "verification",
]

URL_VARIABLE = "FREIGHT_EXCHANGE_URL"
EMAIL_VARIABLE = "FREIGHT_EXCHANGE_EMAIL"
PASSWORD_VARIABLE = "FREIGHT_EXCHANGE_PASSWORD"

MAX_CONNECTIONS = 100
"""Limit of `max_connections`. With more connections, the HTTP library's pool takes too long for each call."""

_HUGE = 10**30
"""Smallest integer that cannot be sent. Python cannot write integers of thousands of digits."""

CredentialsProvider = Callable[[], Awaitable[tuple[str, str]]]
"""Async callable that returns the email and the password, for example from a secret manager."""

Word = TypeVar("Word")
Layer = TypeVar("Layer", bound=Callable[..., object])


def base_url(value: str | None) -> str:
    """Return the API root without a trailing slash."""
    url = os.environ.get(URL_VARIABLE) if value is None else value
    root, problem = _root(url)
    # The URL may contain a password, which a traceback would show.
    del value, url
    if problem:
        raise ConfigurationError(problem)
    if root.rsplit("/", 1)[-1] != "api":
        warnings.warn(f"base_url usually ends in /api, and {root} does not", UserWarning, stacklevel=3)
    return root


def _root(url: object) -> tuple[str, str]:
    """Return the API root and the problem with it, if any."""
    if not url:
        return "", f"give base_url, or set {URL_VARIABLE}: the API root, such as https://host/api"
    if not isinstance(url, str):
        return "", f"base_url must be a string, not {type(url).__name__}"
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not url.strip().isprintable():
        return "", "base_url must be an http or https URL with a host, such as https://host/api"
    if parts.username is not None or parts.password is not None:
        return "", "base_url must not contain a user name or password: give email and password"
    if "?" in url or "#" in url:
        return "", "base_url must not contain a query or a fragment: only the API root"
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        return "", "base_url must use https: http would send the password and token in clear"
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", ""


def proxy(value: Secret | None) -> Secret | None:
    """Check the proxy's URL, which may contain a user name and password."""
    if value is not None and not _is_proxy(value):
        # SOCKS needs a caller's own client: httpcore has no time limit for it, and raises errors of a third package.
        raise ConfigurationError(
            "proxy must be an http or https URL with a host, such as http://host:3128; for SOCKS give an http_client"
            ' with its own proxy (pip install "httpx[socks]")'
        )
    return value


def _is_proxy(url: Secret) -> bool:
    value = url.reveal()
    parts = _split(value) if isinstance(value, str) else None
    return parts is not None and parts.scheme in ("http", "https")


def _split(url: str) -> SplitResult | None:
    """Split a URL; `None` for one without a possible host."""
    try:
        parts = urlsplit(url.strip())
        reachable = parts.port != 0 and parts.hostname and _is_host(parts.hostname)
    except ValueError:
        return None
    return parts if reachable else None


def _is_host(host: str) -> bool:
    """Return whether a text can be a host name. An HTTP library would escape a space, and look up another name."""
    return bool(host.strip(".-")) and not any(character in host for character in " \\%<>\"'`{}|^,;")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def credentials(
    email: str | None, password: Secret | None, provider: CredentialsProvider | None
) -> Callable[[], Awaitable[tuple[str, Secret]]]:
    """Return an async callable that returns the email and the password."""
    if provider is not None:
        if email is not None or password is not None:
            raise ConfigurationError("give either credentials, or email and password")
        if not callable(provider):
            raise ConfigurationError("credentials must be an async callable that returns (email, password)")
        return _checked_provider(provider)
    if password is None and (found := os.environ.get(PASSWORD_VARIABLE)):
        password = Secret(found)
    found = None
    if email is None:
        email = os.environ.get(EMAIL_VARIABLE)
    if not email and password is None:
        raise ConfigurationError(f"give email and password, or set {EMAIL_VARIABLE} and {PASSWORD_VARIABLE}")
    if not email or not isinstance(email, str):
        raise ConfigurationError(f"give email as a string, or set {EMAIL_VARIABLE}")
    if password is None or not password.reveal() or not isinstance(password.reveal(), str):
        raise ConfigurationError(f"give password as a string, or set {PASSWORD_VARIABLE}")
    return _fixed_credentials(email, password)


def _fixed_credentials(email: str, password: Secret) -> Callable[[], Awaitable[tuple[str, Secret]]]:
    async def provide() -> tuple[str, Secret]:
        return email, password

    return provide


def _checked_provider(provider: CredentialsProvider) -> Callable[[], Awaitable[tuple[str, Secret]]]:
    async def provide() -> tuple[str, Secret]:
        pending = provider()
        value = await pending if inspect.isawaitable(pending) else None
        if isinstance(value, tuple) and len(value) == 2 and all(part and isinstance(part, str) for part in value):
            return value[0], Secret(value[1])
        # A traceback would show the credentials.
        del pending, value
        raise ConfigurationError("credentials must be async and return a tuple of two strings: (email, password)")

    return provide


def addresses(value: Mapping[str, str] | None) -> dict[str, str]:
    """Return the address of each operation that has several: the chosen one, or the default."""
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(f"addresses must be a mapping, not {type(value).__name__}")
    chosen = {operation: known[0] for operation, known in ADDRESSES.items()}
    for operation, address in (value or {}).items():
        known = ADDRESSES.get(operation)
        if known is None:
            raise ConfigurationError(f"addresses has no operation {operation!r}; it has {', '.join(ADDRESSES)}")
        if address not in known:
            raise ConfigurationError(f"addresses[{operation!r}] must be one of {', '.join(known)}, not {address!r}")
        chosen[operation] = address
    return chosen


def choice(value: Word, allowed: object, name: str) -> Word:
    """Check that a value is one of a `Literal` type."""
    words = get_args(allowed)
    if value not in words:
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, words))}, not {value!r}")
    return value


def callables(value: Sequence[Layer], name: str) -> tuple[Layer, ...]:
    """Check a sequence of callables."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(f"{name} must be a sequence of callables, not {type(value).__name__}")
    for item in value:
        if not callable(item):
            raise ConfigurationError(f"{name} must hold callables only, and holds {type(item).__name__}")
    return tuple(value)


def flag(value: bool, name: str) -> bool:
    """Check a boolean."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}")
    return value


def connections(value: int, name: str) -> int:
    """Check a number of requests in flight."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CONNECTIONS:
        raise ConfigurationError(f"{name} must be an integer from 1 to {MAX_CONNECTIONS}, not {value!r}")
    return value


def page_size(value: int) -> int:
    """Check a number of rows in a page."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"page_size must be a positive integer, not {value!r}")
    return value


def verification(value: bool | ssl.SSLContext) -> bool | ssl.SSLContext:
    """Check `verify=`."""
    if value is not True and not isinstance(value, ssl.SSLContext):
        raise ConfigurationError(
            "verify must be True or an ssl.SSLContext: for a private certificate authority, load it into a context"
        )
    return value


def token_file(value: TokenFile | str | os.PathLike[str] | None) -> TokenFile | None:
    """Return the token file, from itself or its path."""
    if value is None:
        return None
    from freight_exchange.transport.token_file import TokenFile

    if isinstance(value, str | os.PathLike):
        return TokenFile(value)
    if not isinstance(value, TokenFile):
        raise ConfigurationError(f"token_store must be TokenFile(...), a path, or None, not {type(value).__name__}")
    return value


def method(value: str) -> str:
    """Return the HTTP method in upper case."""
    if not isinstance(value, str) or not value.isalpha() or not value.isascii():
        raise ValidationError(f"method must be an HTTP method such as POST, not {value!r}", field="method")
    return value.upper()


def path(value: str) -> str:
    """Return the path relative to the API root, without its leading slash; it must not leave the root."""
    if not isinstance(value, str) or not value.strip("/"):
        raise ValidationError("path must be a path relative to the API root, such as quote/offer", field="path")
    relative = value.removeprefix("/")
    segments = relative.split("/")
    if (
        relative.startswith("/")
        or not relative.isascii()
        or not relative.isprintable()
        or any(character in relative for character in ":?#\\% ")
        or any(segment in ("", ".", "..") for segment in segments[:-1])
        or segments[-1] in (".", "..")
    ):
        raise ValidationError(
            f"path must be a plain path relative to the API root, such as quote/offer, not {value!r};"
            " parameters go in params",
            field="path",
        )
    return relative


def parameters(value: Mapping[str, str | int] | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a query string."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise ValidationError(f"params must map names to text or integers, not {type(value).__name__}", field="params")
    for name, item in value.items():
        if not isinstance(name, str):
            raise ValidationError(f"params must have text as names, not {type(name).__name__}", field="params")
        # Other values, such as `True` or `None`, would be sent as Python writes them.
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise ValidationError(
                f"params[{name!r}] must be text or an integer, not {type(item).__name__}", field="params"
            )
    return tuple((validation.text(name, "params", allow_empty=True), _parameter(item)) for name, item in value.items())


def _parameter(value: str | int) -> str:
    if isinstance(value, int) and abs(value) >= _HUGE:
        raise ValidationError("params must not hold an integer of more than 30 digits", field="params")
    return validation.text(str(value), "params", allow_empty=True)
