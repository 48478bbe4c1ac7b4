"""Fork a process for each snippet from one that has imported the package, which takes most of a snippet's time.

Run by the interpreter of an environment. Each line of standard input is an order in JSON: the `arguments` of
`python`, the `folder` to run in, the `environment` to add, and the file for its `output`. Two lines answer it: the id
of the process, and its exit status when it ends.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import warnings
from typing import Final

_PRELOADED: Final = (
    *("freight_exchange.client", "freight_exchange.store.sqlite.store", "freight_exchange.testing"),
    *("anyio._backends._asyncio", "certifi", "h11", "httpcore"),
)
"""Modules that most snippets would otherwise load; none of them depends on an extra."""


def become(order: dict[str, object]) -> None:
    """Run as `python ARGUMENTS` does in that folder."""
    output = os.open(str(order["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(str(order["folder"]))
    environment = order["environment"]
    assert isinstance(environment, dict)
    os.environ.update(environment)
    arguments = order["arguments"]
    assert isinstance(arguments, list)
    sys.path[0] = str(order["folder"])
    sys.argv = arguments
    warnings.simplefilter("error")
    runpy.run_path(arguments[0], run_name="__main__")


def main() -> None:
    for name in _PRELOADED:
        importlib.import_module(name)
    # A fork would otherwise visit these objects when it ends, and copy their memory.
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        process = os.fork()
        if process == 0:
            become(json.loads(line))
            return
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
