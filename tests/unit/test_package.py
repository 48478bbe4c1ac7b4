"""Tests of the package: its files, the cost of importing it, and its lock."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import freight_exchange

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9a-z.+!]+)( ; [^\\]+)? \\")
HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?")


def test_the_public_names_exist_once_each() -> None:
    assert len(set(freight_exchange.__all__)) == len(freight_exchange.__all__)
    missing = [name for name in freight_exchange.__all__ if not hasattr(freight_exchange, name)]
    assert missing == []


def test_the_types_are_shipped() -> None:
    assert Path(freight_exchange.__file__).with_name("py.typed").is_file()


def test_importing_the_client_loads_nothing_that_it_does_not_need() -> None:
    probe = "import sys; from freight_exchange import FreightExchange; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    loaded = set(done.stdout.split())
    assert "freight_exchange" in loaded
    # httpx itself loads click, rich, trio and h2 if they are installed; the package cannot avoid that.
    unwanted = {
        "aiohttp", "asyncio", "freight_sandbox", "freight_exchange.testing", "httpx2",
        "opentelemetry", "pytest", "sqlite3", "starlette", "uvicorn",
    }  # fmt: skip
    assert loaded & unwanted == set()


def test_importing_the_package_alone_loads_no_client() -> None:
    probe = "import sys, freight_exchange; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    loaded = {name for name in done.stdout.split() if name.split(".")[0] in ("freight_exchange", "httpx", "attrs")}
    assert loaded == {"freight_exchange"}


def test_modules_of_a_missing_extra_name_it() -> None:
    probe = """
import sys
sys.modules.update(opentelemetry=None)
try:
    import freight_exchange.otel
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert done.stdout.splitlines() == [
        'freight_exchange.otel needs the extra "otel": pip install "./freight-exchange[otel]"',
    ]
    hints = [line for path in (ROOT / "src").rglob("*.py") for line in re.findall("pip install .*", path.read_text())]
    assert [one for one in hints if "freight" in one and "./freight-exchange" not in one] == [], "it is on no index"


class TestTheLock:
    @pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
    def test_holds_names_versions_and_hashes_and_nothing_else(self, lock: Path) -> None:
        strange = [line for line in lock.read_text().splitlines() if not (PIN.fullmatch(line) or HASH.fullmatch(line))]
        assert strange == []

    def test_holds_every_dependency_at_a_version_that_the_project_allows(self) -> None:
        pins = [match for line in _lines() if (match := PIN.fullmatch(line))]
        locked = {match["name"]: match["version"] for match in pins}
        refused = {
            str(wanted): locked.get(canonicalize_name(wanted.name))
            for wanted in _wanted()
            if not wanted.specifier.contains(locked.get(canonicalize_name(wanted.name), "0"))
        }
        assert refused == {}


def test_pytest_finds_the_fixture_of_the_installed_package(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.has_plugin("freight-exchange")
    (entry,) = metadata.entry_points(group="pytest11", name="freight-exchange")
    assert entry.load().__all__ == ["sandbox"]


def test_the_installed_version_is_the_projects() -> None:
    assert metadata.version("freight-exchange") == freight_exchange.__version__


def test_changelog_has_a_section_of_unreleased_changes() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_link_to_the_repository_names_the_same_one() -> None:
    repository = PROJECT["project"]["urls"]["Repository"]
    owner_and_name = repository.removeprefix("https://github.com/")
    for path in [ROOT / "pyproject.toml", ROOT / "mkdocs.yml", *ROOT.glob("*.md"), *ROOT.glob(".github/**/*.*")]:
        text = path.read_text()
        for found in re.findall(r"(?:github|githubusercontent)\.com/([\w.-]+/[\w.-]+)", text):
            assert found == owner_and_name, path


def test_links_on_pypi_are_absolute() -> None:
    readme = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    code = re.findall(r"^```.*?^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert [block for block in code if block not in readme] == []


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not a checkout")
def test_sdist_holds_every_file_of_the_repository() -> None:
    """The tests of an unpacked sdist run as they do here, and read pages, examples and tools too."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    packed = {file.relative_path.replace("\\", "/") for file in SdistBuilder(str(ROOT)).recurse_project_files()}
    assert tracked - packed == set()


def _lines() -> list[str]:
    return [line for lock in LOCKS for line in lock.read_text().splitlines()]


def _wanted() -> list[Requirement]:
    project = PROJECT["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        PROJECT["dependency-groups"]["dev"],
    ]
    return [Requirement(line) for group in groups for line in group]
