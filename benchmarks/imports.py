"""Cost of an import: this package beside its dependencies, httpx alone, and two popular SDKs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from benchmarks.rounds import Metric, Scale, Table, interleaved, probed

__all__ = ["BOT", "DEPENDENCIES", "OURS", "PACKAGES", "tables"]

DEPENDENCIES: Final = "its five dependencies"
OURS: Final = "this SDK, its client"
BOT: Final = "this SDK, its bot"
PACKAGES: Final[Mapping[str, str]] = {
    "Python alone": "sys",
    "httpx": "httpx",
    DEPENDENCIES: "httpx, anyio, attrs, cattrs, tenacity",
    # The package itself imports what it is asked for, and alone would say nothing.
    OURS: "freight_exchange.client",
    BOT: "freight_exchange.bot",
    "openai": "openai",
    "anthropic": "anthropic",
}

# With click installed, httpx imports a command line of its own. This package alone does not install click.
# Nothing that it needs itself may be imported before it looks: all of it would be free to who imports it next.
_PROBE: Final = """
import sys, time
sys.modules["click"] = None
before = len(sys.modules), time.process_time(), time.perf_counter()
import %s
cpu, wall, modules = time.process_time() - before[1], time.perf_counter() - before[2], len(sys.modules) - before[0]
lines = [line for line in open("/proc/self/status") if line.startswith("VmRSS")] if sys.platform == "linux" else ["x 0"]
memory = int(lines[0].split()[1]) * 1024 / 1e6
print('{"cpu": %%f, "wall": %%f, "modules": %%d, "memory": %%f}' %% (cpu * 1e3, wall * 1e3, modules, memory))
"""

_METRICS: Final = (
    Metric("cpu", "CPU ms", 0, ratio=True),
    Metric("wall", "wall ms"),
    Metric("modules", "modules"),
    Metric("memory", "MB in memory", 1),
)


def tables(scale: Scale, note: Callable[[str], None]) -> list[Table]:
    """One table: each package in a fresh process."""
    candidates = {name: partial(probed, _PROBE % modules) for name, modules in PACKAGES.items()}
    # The first round writes what byte code there is not yet, and does not count.
    rows = {name: rounds[1:] for name, rounds in interleaved(candidates, scale.rounds + 1, note).items()}
    peers = {name: DEPENDENCIES for name in PACKAGES if name not in ("Python alone", DEPENDENCIES)}
    return [Table(name="imports", title="One import in a fresh process", metrics=_METRICS, rows=rows, peers=peers)]
