"""Cost of decoding a page: bytes to typed objects, by this package's converter and by its peers.

Run: `python -m benchmarks.decoding DECODER SIZE TIMES` prints what a record took, and what it keeps in memory.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final

from benchmarks.decoders import DECODERS
from benchmarks.records import page
from benchmarks.rounds import Metric, Scale, Table, alone, interleaved

__all__ = ["SIZES", "tables"]

SIZES: Final = (100, 1000)

_RECORDS: Final = 40_000
_KEPT: Final = 2_000
_TITLES: Final = {name: decoder.title for name, decoder in DECODERS.items()}
_METRICS: Final = (Metric("cpu", "CPU us a record", 2, ratio=True), Metric("memory", "bytes a record"))


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """One table for each size of a page."""
    return [_table(size, scale, note) for size in SIZES]


def _table(size: int, scale: Scale, note: Callable[[str], None]) -> Table:
    times = scale.of(_RECORDS) // size
    candidates = {_TITLES[name]: partial(alone, "decoding", name, size, times) for name in DECODERS}
    first, *others = candidates
    return Table(
        name=f"decoding {size}",
        title=f"Pages of {size:,} records, from bytes to objects",
        metrics=_METRICS,
        rows=interleaved(candidates, scale.rounds, note),
        peers=dict.fromkeys(others, first),
    )


def _measure(name: str, size: int, times: int) -> None:
    decode = DECODERS[name].ready()
    content = page(1, size)
    assert len(decode(content)) == size
    gc.collect()
    took: list[float] = []
    for _ in range(times):
        began = time.process_time()
        decode(content)
        took.append(time.process_time() - began)
    print(json.dumps({"cpu": median(took) / size * 1e6, "memory": _memory(decode, size)}))


def _memory(decode: Callable[[bytes], object], size: int) -> float:
    """Bytes that a record keeps, once its page has been released."""
    contents = [page(1 + first, size) for first in range(0, _KEPT, size)]
    gc.collect()
    tracemalloc.start()
    kept = [decode(content) for content in contents]
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / (len(kept) * size)


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
