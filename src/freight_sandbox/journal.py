"""Exchange that survives a restart: its changes are lines of a file, and a start replays them.

The exchange follows from its calls and their times, so the file holds the calls that changed something, each written
before its reply. Logins end with the process, as do armed faults; the audit log covers one run.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from typing import Any

import attrs

from freight_sandbox.fields import Fields, Refusal
from freight_sandbox.quirks import Profile
from freight_sandbox.records import Account, Cargo
from freight_sandbox.service import Exchange

# Another version may answer the same calls in another way.
try:
    _VERSION = version("freight-exchange")
except PackageNotFoundError:
    # A frozen program has no metadata.
    _VERSION = "unknown"
_METHODS = frozenset({"act", "publish", "touch", "update", "withdraw", "reorder"})
_MARK = "\ue000"  # no field of a call


class JournalError(Exception):
    """The file cannot be used, or can be used no longer. The message is a sentence for its user."""


class JournaledExchange(Exchange):
    """Exchange whose changes are kept in the file `path`, which it locks until `close`.

    A file keeps its first seed. Without one, tokens are unique. `is_new` is true if the file holds no change yet.

    Raises:
        JournalError: The file belongs to another program or version, is damaged or in use, or has another seed.
    """

    def __init__(self, path: Path, *, seed: int | None = None) -> None:
        self._name = str(path)
        self._path = path.absolute()  # the working directory may change
        self._is_quiet = True
        try:
            self._file = self._path.open("a+b", buffering=0)
        except OSError as error:
            raise JournalError(f"{path} cannot be used: {error.strerror}.") from error
        try:
            self._begin(seed)
        except BaseException:
            self.close()
            raise

    def _begin(self, seed: int | None) -> None:
        import fcntl  # here, as Windows has none

        path = self._name
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{path} is in use by another process: stop that one, or give another file.") from None
        head, lines = self._read()
        if head is not None and seed not in (None, head["seed"]):
            raise JournalError(f"{path} began with the seed {head['seed']}: leave --seed out, or give another file.")
        seed = seed if head is None else head["seed"]
        super().__init__(seed=seed or 0)
        starts = 0
        for number, line in enumerate(lines, 2):
            try:
                change = json.loads(line, object_hook=self._unpacked)
                do, arguments = change["do"], change["arguments"]
                if do == "profile":
                    (self.profile,) = arguments
                elif do in _METHODS:
                    getattr(self, do)(*arguments)
                elif do != "start":
                    raise ValueError(f"{do} is unknown")
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, Refusal) as error:
                raise JournalError(
                    f"{path} is damaged (line {number}: {error}): put a copy of it back, or give another file."
                ) from error
            starts += do == "start"
        self.is_new = starts == len(lines)
        # Tokens must not recur in the next run, where they could belong to another account.
        self.random = Random() if seed is None else Random(f"{seed} {starts}")
        self.audit_log.forget()
        self._is_quiet = False
        if head is None:
            self._write({"sandbox": _VERSION, "seed": seed})
        self._note("start")

    def _read(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        """Return the header and the other lines. The end of a torn line goes: its reply was never sent."""
        self._file.seek(0)
        content = self._file.read()
        if not content:
            return None, []
        try:
            first, *lines, torn = content.split(b"\n")
            head = json.loads(first)
            found, _ = head["sandbox"], head["seed"]
        except (ValueError, TypeError, LookupError):
            raise JournalError(f"{self._name} is not a file of the sandbox: give another file.") from None
        if found != _VERSION:
            raise JournalError(f"{self._name} was written by version {found}, not {_VERSION}: give another file.")
        if torn:
            self._file.truncate(len(content) - len(torn))
        return head, lines

    def _note(self, change: str, *arguments: object) -> None:
        """Write a change, unless it is a part of one that is written as a whole."""
        if not self._is_quiet:
            self._write({"do": change, "arguments": arguments})

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            if not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                raise FileNotFoundError
            data = json.dumps(line, default=_packed).encode() + b"\n"
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except FileNotFoundError:
            raise JournalError(
                f"{self._name} was removed or replaced while it was in use, so changes can no longer be saved."
            ) from None
        except OSError as error:
            raise JournalError(f"{self._name} cannot be used: {error.strerror}.") from error

    def close(self) -> None:
        """Close and unlock the file."""
        self._file.close()

    def _operate(self, method: str, path: str, fields: Fields, account: Account, now: float) -> tuple[Any, bool]:
        was_quiet, self._is_quiet = self._is_quiet, True
        try:
            payload, writes = super()._operate(method, path, fields, account, now)
        finally:
            self._is_quiet = was_quiet
        if writes:
            self._note("act", account, method, path, fields.merged(), now)
        return payload, writes

    def _unpacked(self, pairs: dict[str, Any]) -> Any:
        match pairs.get(_MARK):
            case None:
                return pairs
            case "Account":
                return self._by_email[pairs["value"]]
            case "Decimal":
                return Decimal(pairs["value"])
            case kind:
                return {"Cargo": Cargo, "Profile": Profile}[kind](**pairs["value"])


def _packed(value: object) -> object:
    match value:
        case Account():
            content: object = value.email
        case Decimal():
            content = str(value)
        case Cargo():
            content = attrs.asdict(value)
        case Profile():
            content = value.changes()
        case _:
            raise TypeError(f"{value!r} cannot be kept")
    return {_MARK: type(value).__name__, "value": content}
