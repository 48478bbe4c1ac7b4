"""Run every block of the README and the pages in environments that pip makes; the exit status is 1 if one fails."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
from tools.snippets.environments import Subprocesses, install
from tools.snippets.pages import PAGES, ROOT, requirements_of, snippets_of
from tools.snippets.scenarios import run_page
from tools.wheel_test import build


async def main(folder: Path) -> int:
    wheel = build(folder)
    pythons: dict[frozenset[str], Path] = {}
    failed = count = 0
    for number, page in enumerate(page for page in PAGES if snippets_of(page)):
        requirements = requirements_of(page)
        if requirements not in pythons:
            pythons[requirements] = install(folder / f"environment-{len(pythons)}", sorted(requirements), wheel)
        name = page.relative_to(ROOT)
        for outcome in await run_page(page, Subprocesses(pythons[requirements]), folder / str(number)):
            count += 1
            failed += bool(outcome.problem)
            print(f"{name}: {outcome.snippet.name}: {outcome.problem or 'ok'}", flush=True)
            if outcome.problem:
                print(outcome.output)
    print(f"{count} blocks, {failed} failed, {len(pythons)} environments")
    return int(failed > 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(anyio.run(main, Path(temporary)))
