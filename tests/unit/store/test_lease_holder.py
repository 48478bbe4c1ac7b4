"""Tests of the holder of a lease."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import attrs
import pytest

from freight_exchange.store.lease_holder import Holder

HOLDER = Holder(host="pod-a", pid=1, since="now", boot="1", machine="m", lock=7)


@pytest.mark.parametrize(
    ("changes", "shares_locks"),
    [
        ({"host": "pod-b"}, True),
        ({"host": "pod-a", "boot": "2"}, True),
        ({"host": "pod-a", "boot": "2", "machine": "n"}, False),
        ({"host": "pod-b", "boot": "2"}, False),
        ({"host": "pod-b", "boot": ""}, False),
        ({"host": "pod-a", "boot": "", "machine": ""}, True),
    ],
)
def test_kernel_and_not_host_name_identifies_the_machine(changes: dict[str, Any], shares_locks: bool) -> None:
    """A recreated container has another host name, and two machines may have the same one."""
    other = attrs.evolve(HOLDER, pid=2, **changes)
    assert Holder.from_json(other.to_json()) == other
    assert HOLDER.shares_locks_with(other) is shares_locks


@pytest.mark.parametrize("note", [None, "", "{}", "[]", "null", '{"host": 1}', '{"host": "h", "pid": [], "since": ""}'])
def test_text_that_names_no_holder_is_none(note: str | None) -> None:
    assert Holder.from_json(note) is None


def test_note_of_an_earlier_version_names_its_holder() -> None:
    assert Holder.from_json('{"host": "h", "pid": 3, "since": "now"}') == Holder(host="h", pid=3, since="now")


def test_only_an_ended_process_or_an_earlier_boot_of_this_host_is_gone() -> None:
    current = attrs.evolve(Holder.current(), boot="1", machine="m")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert str(current).startswith(f"process {os.getpid()} on ")
    assert not current.is_gone(current)
    assert not attrs.evolve(current, pid=1).is_gone(current)
    assert attrs.evolve(current, pid=ended.pid).is_gone(current)
    assert attrs.evolve(current, boot="0").is_gone(current)
    assert not attrs.evolve(current, pid=ended.pid, host="elsewhere").is_gone(current)
    assert not attrs.evolve(current, pid=ended.pid, boot="0", machine="n").is_gone(current)
