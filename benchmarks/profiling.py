"""Profile of a call, a record, a long listing, a commit and an import, by package.

Run: `python -m benchmarks.profiling WHAT PORT` prints each package's share. A profiler makes calls of Python functions
look dearer than they are: the shares say where to look, and no more.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.clients import client
from benchmarks.decoders import DECODERS
from benchmarks.imports import DEPENDENCIES, OURS, PACKAGES
from benchmarks.reading import WINDOWS
from benchmarks.records import page
from benchmarks.rounds import alone, probed, serving
from benchmarks.storing import BATCHES, store_writer

__all__ = ["tables"]

_CALLS: Final = ("httpx", "this SDK", "httpx2", "this SDK on httpx2")
_DECODERS: Final = ("sdk",)
_LISTINGS: Final = {f"{window} in flight": f"listing {window}" for window in WINDOWS}
_COMMITS: Final = {f"{batch} a commit": f"commit {batch}" for batch in BATCHES}
_IMPORTS: Final = (DEPENDENCIES, OURS)
# As in `imports`; and nothing that it needs itself may be imported before.
_IMPORT_PROBE: Final = """
import _lsprof, sys, time
sys.modules["click"] = None
profile = _lsprof.Profiler(time.process_time)
profile.enable()
import %s
profile.disable()
import collections, json
spent = collections.Counter()
for entry in profile.getstats():
    file, name = getattr(entry.code, "co_filename", "~"), getattr(entry.code, "co_name", str(entry.code))
    spent[f"{file} {name}"] += entry.inlinetime * 1e3
print(json.dumps(spent))
"""
_TIMES: Final = 1000
_HOOK: Final = "<string>"
_READING: Final = "finding and reading modules"
_WRITING: Final = "attrs, which writes classes"
_PACKAGES: Final = {
    "freight_exchange/transport": "the send path",
    "freight_exchange/wire": "decoding",
    "freight_exchange/paging": "the pages in flight",
    "freight_exchange/store": "the store",
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
    "importlib": _READING,
    "attr": _WRITING,
    "attrs": _WRITING,
    "cattrs": "cattrs",
    "re": "regular expressions",
    "enum.py": "enumerations",
    "dataclasses.py": "dataclasses",
    "typing.py": "types",
    "benchmarks": "what is written, made",
}


def tables() -> dict[str, list[list[str]]]:
    """By title: the CPU's share of each package."""
    with serving() as port:

        def profiled(names: Mapping[str, str]) -> list[list[str]]:
            return _parts({title: alone("profiling", name, port) for title, name in names.items()}, "{:.0%}")

        return {
            "Where a call's time goes": profiled({name: name for name in _CALLS}),
            "Where a record's time goes": profiled({DECODERS[name].title: name for name in _DECODERS}),
            "Where the time of 10,000 records goes": profiled(_LISTINGS),
            "Where a commit's time goes": profiled(_COMMITS),
            "Where an import's time goes, ms": _parts({name: _imported(name) for name in _IMPORTS}, "{:.1f}"),
        }


def _parts(found: Mapping[str, Mapping[str, float]], form: str) -> list[list[str]]:
    parts: defaultdict[str, float] = defaultdict(float)
    for shares in found.values():
        for part, share in shares.items():
            parts[part] += share
    lines = [["", *sorted(parts, key=parts.__getitem__, reverse=True)]]
    lines += [[name, *(form.format(shares.get(part, 0)) for part in lines[0][1:])] for name, shares in found.items()]
    return lines


def _imported(name: str) -> dict[str, float]:
    """The median of a few, of each part."""
    several = [_summed(probed(_IMPORT_PROBE % PACKAGES[name])) for _ in range(5)]
    return {part: median(one.get(part, 0.0) for one in several) for part in several[0]}


def _summed(spent: Mapping[str, float]) -> dict[str, float]:
    parts: defaultdict[str, float] = defaultdict(float)
    for place, milliseconds in spent.items():
        file, _, function = place.partition(" ")
        parts[_part(file, function)] += milliseconds
    return parts


def _measure(name: str, port: str) -> dict[str, float]:
    # CPU time: waiting is not work.
    profile = cProfile.Profile(time.process_time)
    what, _, how = name.partition(" ")
    if name in DECODERS:
        decode, content = DECODERS[name].ready(), page(1, 1000)
        decode(content)
        profile.runcall(lambda: [decode(content) for _ in range(_TIMES // 20)])
    elif what == "listing":
        asyncio.run(_listed(int(how), port, profile))
    elif what == "commit":
        with tempfile.TemporaryDirectory() as folder:
            write = store_writer(Path(folder), int(how))
            write(0)
            profile.runcall(lambda: [write(number) for number in range(1, 1 + _TIMES)])
    else:
        asyncio.run(_called(name, port, profile))
    stats: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: defaultdict[str, float] = defaultdict(float)
    for (file, _, function), (_, _, own, _, _) in stats.items():
        spent[f"{file} {function}"] += own
    parts = _summed(spent)
    total = sum(parts.values())
    return {part: own / total for part, own in parts.items()}


async def _listed(window: int, port: str, profile: cProfile.Profile) -> None:
    from freight_exchange import FreightExchange

    async with FreightExchange(f"http://127.0.0.1:{port}/slow/api", email="ben@demo.example", password="b") as exchange:
        await exchange.login()
        profile.enable()
        await exchange.requests.search(window=window).collect()
        profile.disable()


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
    if file.startswith("<attrs generated"):
        return "making objects"
    if file.startswith("<frozen importlib"):
        return _READING
    folders = "/".join(Path(file).parts)
    return next((part for name, part in _PACKAGES.items() if f"/{name}/" in f"{folders}/"), "the rest")


_BUILT_IN: Final = {
    ("'send'", "'recv'", "poll", "select", "getpeername"): "the system's calls",
    ("scanner", "raw_decode", "msgspec", "'decode' of"): "JSON",
    ("sqlite3",): "SQLite",
    ("marshal", "posix.", "open_code", "_imp.", "FileIO", "BufferedReader"): _READING,
    ("builtins.compile",): _WRITING,
}

if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2])))
