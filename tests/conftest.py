"""Fixtures and options of all tests: backends, virtual time, settings of Hypothesis."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import certifi
import hypothesis
import pytest
import trustme

from freight_exchange.platform import clock
from freight_exchange.testing import virtual_time_options

# A browser's tests need what only `make browser` installs.
collect_ignore = [] if find_spec("playwright") else ["browser"]

# A deadline measures the machine and not the code. `make test` judges a change by the same few examples each time;
# `make long` looks for what no run has met yet.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("project")

_BACKENDS: Final = ("asyncio", "trio")
_GC_THRESHOLDS: Final = (50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backends",
        choices=["in-turn", "both"],
        default="in-turn",
        help="run async tests on one backend each, in turn, or on both",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one backend of each async test, chosen by the test's name, where the backend does not matter.

    A test that is named on the command line runs on both.
    """
    if config.getoption("--backends") == "both" or any("::" in argument for argument in config.args):
        return
    backends = Counter(_without_backend(item) for item in items)
    kept = [item for item in items if backends[_without_backend(item)] == 1 or _is_in_turn(item)]
    config.hook.pytest_deselected(items=[*{*items} - {*kept}])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect tests without garbage collection, and exclude them from it afterwards: they stay to the end.

    Each collection would visit them for a quarter of a second. By default the interpreter collects after 700 new
    objects, and a test makes tens of thousands.
    """
    gc.disable()
    try:
        if session.config.args == session.config.getini("testpaths"):
            _import_share()
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace lone surrogates in captured texts: a worker sends its reports as UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="replace").decode()) for name, text in report.sections]
    return report


def _import_share() -> None:
    """Import a share of the tests in each worker: in a new tree, each would otherwise compile all of them."""
    if (worker := os.environ.get("PYTEST_XDIST_WORKER")) is None:
        return
    number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("test_*.py"))[number::workers]:
        # The collection raises the error again, and reports it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(folder.parent).with_suffix("").parts))


def _backend(item: pytest.Item) -> str | None:
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    backend = parameters.get("anyio_backend")
    return backend if isinstance(backend, str) else None


def _without_backend(item: pytest.Item) -> str:
    return item.nodeid.replace(_backend(item) or "", "")


def _is_in_turn(item: pytest.Item) -> bool:
    backend = _backend(item)
    if backend is None or item.get_closest_marker("both_backends") is not None:
        return True
    return backend == _BACKENDS[zlib.crc32(_without_backend(item).encode()) % len(_BACKENDS)]


@pytest.fixture(autouse=True, scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one authority: an HTTP client loads all of the world's certificates for longer than most tests take."""
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        patch.setattr(certifi, "where", lambda: str(file))
        yield


@pytest.fixture(params=_BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    """Backend of an async test; under `@pytest.mark.virtual_time`, its clock jumps to the next timer."""
    backend: Literal["asyncio", "trio"] = request.param
    if request.node.get_closest_marker("virtual_time") is None:
        return backend
    return backend, virtual_time_options(backend)


@pytest.fixture(autouse=True)
def stopped_machine_clocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the machine's clocks under virtual time: a slow machine would add the real seconds of a test."""
    if request.node.get_closest_marker("virtual_time") is not None:
        for name in ("boot_time", "wall_time"):
            stopped_at: float = getattr(clock, name)()
            monkeypatch.setattr(clock, name, lambda stopped_at=stopped_at: stopped_at)
