"""Calls over real sockets through each HTTP transport, to a server that shares no code with the SDK or the sandbox."""

from __future__ import annotations

import logging
from typing import cast

from tests.model.socket_runs import TRANSPORTS, RunSummary, Transport, backend_of, repeat, summarize
from tools.run_parts import Part

__all__ = ["PART"]


def _transports(only: str) -> tuple[Transport, ...]:
    return (cast("Transport", only),) if only else TRANSPORTS


class SocketRuns(Part[list[RunSummary]]):
    choices = TRANSPORTS

    def run_chunk(self, seeds: range, only: str) -> list[RunSummary]:
        return [summarize(transport, seeds, backend_of(transport, seeds.start)) for transport in _transports(only)]

    def add(self, total: list[RunSummary], chunk: list[RunSummary]) -> None:
        for one, more in zip(total, chunk, strict=True):
            one.add(more)

    def is_clean(self, total: list[RunSummary]) -> bool:
        for one in total:
            print(one.report())
        return all(one.is_clean for one in total)

    def replay(self, seed: int, only: str) -> bool:
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        clean = True
        for transport in _transports(only):
            ran = repeat(transport, seed)
            print(ran.plan)
            print(f"fired (name, carried out first): {ran.fired}")
            print(*ran.endings, sep="\n")
            print(*(f"WRONG: {flaw}" for flaw in ran.flaws), sep="\n")
            clean = clean and not ran.flaws
        return clean


PART = SocketRuns()
