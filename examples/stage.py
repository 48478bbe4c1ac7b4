"""Shared parts of the demonstrations: freight to publish, and programs that are started and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Self

import attrs

from freight_exchange import FreightExchange, Packaging, RateRequestDraft, RequestType
from freight_sandbox import Account

ROOT = Path(__file__).resolve().parents[1]
PALLETS = RateRequestDraft(
    commodity="Ceramic tiles",
    type=RequestType.SHIPPING,
    origin="Hong Kong",
    destination="Long Beach",
    arrival=datetime(2027, 3, 1),
    packaging=Packaging.PALLET,
    quantity=20,
    length=Decimal("1.2"),
    width=Decimal(1),
    height=Decimal("0.9"),
    weight=Decimal(640),
    incoterm="FOB",
    hazardous=False,
)
CARTONS = attrs.evolve(
    PALLETS,
    type=RequestType.AIR_FREIGHT,
    packaging=Packaging.CARTON,
    length=Decimal("0.4"),
    width=Decimal("0.3"),
    height=Decimal("0.25"),
    weight=Decimal("12.5"),
    incoterm="FCA",
)


def sea(commodity: str, origin: str, destination: str, quantity: int) -> RateRequestDraft:
    return attrs.evolve(PALLETS, commodity=commodity, origin=origin, destination=destination, quantity=quantity)


def air(commodity: str, origin: str, destination: str, quantity: int) -> RateRequestDraft:
    return attrs.evolve(CARTONS, commodity=commodity, origin=origin, destination=destination, quantity=quantity)


def client(url: str, account: Account) -> FreightExchange:
    return FreightExchange(url, email=account.email, password=account.password)


def say(who: str, what: str) -> None:
    print(f"{who:>11} | {what}", flush=True)


async def until(true: Callable[[], bool], timeout: float = 60) -> None:
    async with asyncio.timeout(timeout):
        while not true():  # noqa: ASYNC110  # other processes make it true
            await asyncio.sleep(0.02)


class Program:
    """Program in a process of its own, which takes its exchange from the environment.

    Args:
        who: Name in the transcript.
        arguments: Arguments of the interpreter: the program and its own.
        url: URL of the exchange.
        account: Account of the program.

    Attributes:
        lines: Every line that it printed.
        exit_status: 0 if every requested stop ended well.
    """

    def __init__(self, who: str, arguments: Sequence[str], url: str, account: Account) -> None:
        self.lines: list[str] = []
        self.exit_status = 0
        self._who = who
        self._command = [sys.executable, *arguments]
        self._environment = {
            **os.environ,
            "FREIGHT_EXCHANGE_URL": url,
            "FREIGHT_EXCHANGE_EMAIL": account.email,
            "FREIGHT_EXCHANGE_PASSWORD": account.password,
        }
        self._process: Process
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None and not self._listening.done():
            await self.dies()

    def count_lines(self, words: str) -> int:
        """Return the number of printed lines with these words."""
        return sum(words in line for line in self.lines)

    async def starts(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=PIPE, stderr=STDOUT, env=self._environment, cwd=ROOT
        )
        say(self._who, f"process {self._process.pid} starts")
        self._listening = asyncio.create_task(self._listen(self._process))

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for a condition while the program runs."""
        await until(lambda: true() or self._process.returncode is not None)
        if not true():
            raise RuntimeError(f"the {self._who} ended by itself, with status {self._process.returncode}")

    async def dies(self) -> None:
        self._process.kill()
        await self._ended()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signals(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def drains(self) -> None:
        """Stop it as a supervisor does."""
        self._process.send_signal(signal.SIGTERM)
        self.exit_status |= await self._ended()

    async def _ended(self) -> int:
        assert self._listening is not None
        async with asyncio.timeout(60):
            status = await self._process.wait()
            await self._listening
        say(self._who, f"process {self._process.pid} is gone, with status {status}")
        return status

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        while line := (await process.stdout.readline()).decode().rstrip():
            say(self._who, line)
            self.lines.append(line)
