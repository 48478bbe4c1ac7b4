"""Decompression of replies in bounded memory."""

from __future__ import annotations

import zlib

from freight_exchange.errors import DecodeError, TransportError
from freight_exchange.wire.json import MAX_BODY

__all__ = ["LARGEST", "Body"]

LARGEST = MAX_BODY
"""Maximum number of bytes of a decoded body; a longer one is refused."""

_GZIP = 16 + zlib.MAX_WBITS
_MAGIC = b"\x1f\x8b"
_STEP = 65_536
"""Bytes to decompress at a time: at the end of each gzip member, zlib copies all input after it."""


class Body:
    """Body of a reply, collected from raw chunks: plain or with one layer of gzip, at most `LARGEST` bytes.

    A gzip stream may have several members (RFC 1952, 2.2), which are concatenated. Other bytes after a member are
    ignored as padding.
    """

    __slots__ = ("_between", "_body", "_gzip", "_padded", "_received")

    def __init__(self, encoding: str) -> None:
        """Make an empty body; `encoding` is the reply's `Content-Encoding`, or empty."""
        layers = [layer for part in encoding.split(",") if (layer := part.strip().lower()) not in ("", "identity")]
        if layers not in ([], ["gzip"], ["x-gzip"]):
            raise DecodeError(f"the reply is encoded as {', '.join(layers)[:80]!r}; only one layer of gzip is read")
        self._gzip = zlib.decompressobj(_GZIP) if layers else None
        # A buffer, since a list of one-byte chunks would need forty times their size.
        self._body = bytearray()
        self._received = False
        # State after a member: the first byte of a possible next one, and whether padding has followed.
        self._between = b""
        self._padded = False

    def feed(self, chunk: bytes) -> None:
        if self._gzip is None:
            self._keep(chunk)
            return
        self._received = self._received or bool(chunk)
        try:
            for start in range(0, len(chunk), _STEP):
                self._inflate(chunk[start : start + _STEP])
        except zlib.error:
            failure = DecodeError("the reply is declared as gzip, but is not valid gzip")
        else:
            return
        raise failure

    def _inflate(self, data: bytes) -> None:
        while self._gzip is not None and not self._padded:
            if self._gzip.eof:
                # The decompressor keeps all bytes after its member: endless padding would fill the memory.
                data = (self._between + data).lstrip(b"\0")
                self._between = data if data == _MAGIC[:1] else b""
                if not data or self._between:
                    return
                if not data.startswith(_MAGIC):
                    self._padded = True
                    return
                self._gzip = zlib.decompressobj(_GZIP)
            # One byte more than the limit distinguishes a body that is too large from one that just fits.
            self._keep(self._gzip.decompress(data, LARGEST + 1 - len(self._body)))
            if not self._gzip.eof:
                return
            data = self._gzip.unused_data

    def _keep(self, data: bytes) -> None:
        if len(self._body) + len(data) > LARGEST:
            self._body.clear()
            raise DecodeError(f"the reply is larger than {LARGEST:,} bytes")
        self._body += data

    def finish(self) -> bytes:
        """Return the complete body."""
        if self._gzip is not None and self._received and (self._between or not self._gzip.eof):
            raise TransportError("the reply ended in the middle of its gzip stream")
        return bytes(self._body)
