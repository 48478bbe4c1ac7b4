"""Cost of an import in a fresh process: this package beside its dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from benchmarks.rounds import SDK, Scale, Table, figures_of, interleaved

PEER: Final = "its dependencies"
_PACKAGES: Final[Mapping[str, str]] = {
    "Python alone": "sys",
    "httpx": "httpx",
    PEER: "httpx, anyio, attrs, cattrs, tenacity",
    # The package imports the client when it is first used.
    SDK: "freight_exchange.client",
    f"{SDK}, its bot": "freight_exchange.bot",
}
_COLUMNS: Final = {"cpu": "CPU ms", "modules": "modules", "memory": "MB in memory"}

# With click, httpx imports a command line of its own; the base install has no click. The probe imports nothing that
# the packages need, since that would be free for them.
_PROBE: Final = """
import sys, time
sys.modules["click"] = None
before, began = len(sys.modules), time.process_time()
import %s
cpu, modules = time.process_time() - began, len(sys.modules) - before
lines = [line for line in open("/proc/self/status") if line.startswith("VmRSS")] if sys.platform == "linux" else ["x 0"]
print('{"cpu": %%f, "modules": %%d, "memory": %%f}' %% (cpu * 1e3, modules, int(lines[0].split()[1]) * 1024 / 1e6))
"""


def tables(scale: Scale) -> Iterator[Table]:
    run = {name: partial(figures_of, "-c", _PROBE % modules) for name, modules in _PACKAGES.items()}
    # The first round writes the byte code that is missing, and does not count.
    rows = {name: figures[1:] for name, figures in interleaved(run, scale.rounds + 1).items()}
    yield Table("imports", "One import in a fresh process", _COLUMNS, rows, PEER)
