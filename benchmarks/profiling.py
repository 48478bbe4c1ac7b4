"""Where the time goes, of a call and of a record: by the package whose code it is spent in.

Run: `python -m benchmarks.profiling WHAT PORT` prints each package's share. A profiler makes calls of Python functions
look dearer than they are: the shares say where to look, and no more.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from benchmarks.clients import client
from benchmarks.decoders import DECODERS
from benchmarks.records import page
from benchmarks.rounds import alone, serving

__all__ = ["tables"]

_CALLS: Final = ("httpx", "this SDK", "httpx2", "this SDK on httpx2")
_DECODERS: Final = ("sdk", "speedups")
_TIMES: Final = 1000
_PACKAGES: Final = {
    "freight_exchange/transport": "the send path",
    "freight_exchange/wire": "decoding",
    "freight_exchange": "this SDK, the rest",
    "httpx2": "the HTTP library",
    "httpx": "the HTTP library",
    "httpcore2": "its connections",
    "httpcore": "its connections",
    "h11": "h11",
    "anyio": "anyio",
    "sniffio": "anyio",
    "asyncio": "asyncio",
    "json": "JSON",
}
_HOOK: Final = "<string>"


def tables() -> dict[str, list[list[str]]]:
    """By title: the CPU's share of each package."""
    with serving() as port:
        calls = {name: alone("profiling", name, port) for name in _CALLS}
        records = {DECODERS[name].title: alone("profiling", name, port) for name in _DECODERS}
    return {
        "Where a call's time goes": _shares(calls),
        "Where a record's time goes": _shares(records),
    }


def _shares(found: dict[str, dict[str, float]]) -> list[list[str]]:
    parts: defaultdict[str, float] = defaultdict(float)
    for shares in found.values():
        for part, share in shares.items():
            parts[part] += share
    lines = [["", *sorted(parts, key=parts.__getitem__, reverse=True)]]
    lines += [[name, *(f"{shares.get(part, 0):.0%}" for part in lines[0][1:])] for name, shares in found.items()]
    return lines


def _measure(name: str, port: str) -> dict[str, float]:
    # Of the processor: what a call waits for is nobody's work.
    profile = cProfile.Profile(time.process_time)
    if name in DECODERS:
        decode, content = DECODERS[name].ready(), page(1, 1000)
        decode(content)
        profile.runcall(lambda: [decode(content) for _ in range(_TIMES // 20)])
    else:
        asyncio.run(_called(name, port, profile))
    shares: defaultdict[str, float] = defaultdict(float)
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, function), (_, _, own, _, _) in stats.items():
        shares[_part(file, function)] += own
    total = sum(shares.values())
    return {part: own / total for part, own in shares.items()}


async def _called(name: str, port: str, profile: cProfile.Profile) -> None:
    async with client(name, f"http://127.0.0.1:{port}/one/api", page=False) as call:
        for _ in range(_TIMES // 10):
            await call()
        profile.enable()
        for _ in range(_TIMES):
            await call()
        profile.disable()


def _part(file: str, function: str) -> str:
    if file == "~":
        # The interpreter's own: by what they do.
        for words, part in _BUILT_IN.items():
            if any(word in function for word in words):
                return part
        return "built-in functions"
    if file == _HOOK:
        return "decoding"
    folders = "/".join(Path(file).parts)
    return next((part for name, part in _PACKAGES.items() if f"/{name}/" in folders), "the rest")


_BUILT_IN: Final = {
    ("'send'", "'recv'", "poll", "select", "getpeername"): "the system's calls",
    ("scanner", "raw_decode", "msgspec", "'decode' of"): "JSON",
}

if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2])))
