"""Canary secrets, and a search of all places in which one could leak."""

from __future__ import annotations

import base64
import copy
import gc
import logging
import pickle
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import attrs
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

_MARKS = ("qZ7canaryPwd", "wK3canaryTok", "xJ5canaryPrx")
# With what JSON and URLs escape, as far as a header can carry it. The marks are in every spelling: letters stay.
PASSWORD = f'p"{_MARKS[0]}\\/é% &'
TOKEN = f"eyJ0.{_MARKS[1]}/+=~%7e"
PROXY_PASSWORD = f"p:{_MARKS[2]}/% &"

_OURS = ("freight_exchange.", "httpx", "httpcore")


def _needles() -> Iterator[str]:
    for mark in _MARKS:
        yield mark
        for shift in range(3):
            # What surrounds the mark spoils the first and the last characters.
            encoded = base64.b64encode(b"\0" * shift + mark.encode()).decode()
            yield encoded[4 if shift else 0 : -4]
        yield mark.encode().hex()

    # As HTTP/2 writes the header: each character in its own number of bits, and the first one at a byte.
    yield repr(HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(f"Bearer {TOKEN}".encode()))[2:-1]


NEEDLES = tuple(_needles())


@attrs.define
class Catch(logging.Handler):
    """Collector of all that is logged, raised, printed and pickled. `texts` pairs each source with its text."""

    # Not shown: it stands in frames whose locals are gathered, and would gather itself.
    texts: list[tuple[str, str]] = attrs.field(factory=list, repr=False)
    errors: int = 0

    def __attrs_pre_init__(self) -> None:
        super().__init__(logging.DEBUG)

    __hash__ = logging.Handler.__hash__  # a handler is kept in sets

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._levels = [(root, root.level)]
        root.addHandler(self)
        for name in ("", "freight_exchange", "httpx", "httpcore", "httpx2", "httpcore2", "hpack", "h2", "asyncio"):
            logger = logging.getLogger(name)
            self._levels.append((logger, logger.level))
            logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        logging.getLogger().removeHandler(self)
        for logger, level in reversed(self._levels):
            logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        self.see(f"log of {record.name}", f"{record.getMessage()} {record.args!r}")
        if record.exc_info and record.exc_info[1]:
            self.error(record.exc_info[1])

    def see(self, what: str, text: str) -> None:
        self.texts.append((what, text))

    def error(self, error: BaseException | None) -> None:
        """Collect an error, its attributes, and its chain of causes."""
        seen: set[int] = set()
        waiting = [error]
        while waiting:
            link = waiting.pop()
            if link is None or id(link) in seen:
                continue
            seen.add(id(link))
            waiting += [link.__cause__, link.__context__]
            if isinstance(link, BaseExceptionGroup):
                waiting += link.exceptions
            self._one_error(link)

    def _one_error(self, error: BaseException) -> None:
        name = type(error).__name__
        self.errors += 1
        self.see(f"str of {name}", str(error))
        self.see(f"repr of {name}", repr(error))
        self.see(f"args of {name}", repr(error.args))
        self.see(f"attributes of {name}", repr(vars(error)))
        found = traceback.TracebackException.from_exception(error, capture_locals=True)
        self.see(f"traceback of {name}", "".join(found.format(chain=True)))
        if type(error).__module__.startswith("freight_exchange"):
            self.see(f"pickle of {name}", pickle.dumps(error, protocol=0).decode("latin-1"))
            twin = copy.copy(pickle.loads(pickle.dumps(error)))
            assert (type(twin), str(twin)) == (type(error), str(error))
            self.see(f"copy of {name}", f"{twin!r} {vars(twin)!r}")

    def reachable(self, *roots: object) -> None:
        """Collect the `repr` of each object of this package that the roots reach without the globals of a module."""
        seen: set[int] = {id(vars(module)) for module in [*sys.modules.values()]}
        waiting: list[object] = list(roots)
        while waiting:
            thing = waiting.pop()
            if id(thing) in seen or isinstance(thing, type):
                continue
            seen.add(id(thing))
            module = getattr(type(thing), "__module__", "") or ""
            if module.startswith(_OURS):
                self.see(f"repr of {type(thing).__qualname__}", repr(thing))
            elif not isinstance(thing, dict | list | tuple | set | frozenset) and not callable(thing):
                continue
            waiting += [one for one in gc.get_referents(thing) if type(one).__name__ != "module"]

    def hits(self) -> list[str]:
        """Return the places where a canary appears."""
        found = []
        for what, text in self.texts:
            for needle in NEEDLES:
                at = text.find(needle)
                if at >= 0:
                    found.append(f"{what}: ...{text[max(0, at - 120) : at + 60]!r}")
                    break
        return found
