"""Search for secrets in errors: in all that a traceback with local variables would show, but faster."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.model.socket_runs.service import PASSWORD, TOKEN

__all__ = ["SECRETS", "holds_secret", "secrets_in"]

SECRETS = (f"{TOKEN}-", PASSWORD, json.dumps(PASSWORD)[1:-1], repr(PASSWORD)[1:-1], repr(json.dumps(PASSWORD))[2:-2])
_NOT_LOOKED_INTO = "/tests/"


def holds_secret(text: str) -> bool:
    return any(secret in text for secret in SECRETS)


def secrets_in(error: BaseException) -> str:
    """Return the places where an error or its causes contain a secret."""
    return ", ".join(sorted({where for where, text in _texts(error, set()) if holds_secret(text)}))


def _texts(error: BaseException | None, seen: set[int]) -> Iterator[tuple[str, str]]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    name = type(error).__name__
    yield f"str of {name}", str(error)
    yield f"repr of {name}", repr(error)
    yield f"fields of {name}", repr({key: value for key, value in vars(error).items() if key != "_exchange"})
    link = error.__traceback__
    while link is not None:
        code = link.tb_frame.f_code
        if _NOT_LOOKED_INTO not in code.co_filename:
            for local, value in link.tb_frame.f_locals.items():
                yield f"{local} in {code.co_qualname}", repr(value)
        link = link.tb_next
    yield from _texts(error.__cause__, seen)
    if not error.__suppress_context__:
        yield from _texts(error.__context__, seen)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _texts(inner, seen)
