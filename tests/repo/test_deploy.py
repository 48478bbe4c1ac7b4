"""Tests of the files around the code: `deploy/`, the workflow, the hooks and the forms."""

from __future__ import annotations

import configparser
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from freight_exchange import Bot, RateRequest, RequestContext, config
from freight_exchange.bot.process import STATUSES
from freight_exchange.cli.sandbox import sandbox
from freight_exchange.testing import Sandbox

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DRAIN = inspect.signature(Bot).parameters["drain"].default.total_seconds()
YAML = [*ROOT.glob(".*.yaml"), *ROOT.glob(".github/**/*.yml"), *DEPLOY.glob("*.yaml")]


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile, with continued lines joined and without comments."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(parts[0], parts[2].strip()) for line in lines if (parts := line.partition(" "))[0]]


def context_files() -> list[Path]:
    """Return the files that `.dockerignore` lets into the image, relative to the root."""
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*", "everything is left out but what is named"
    allowed = [ROOT / rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    found = (path for named in allowed for path in ([named] if named.is_file() else sorted(named.rglob("*"))))
    return [path.relative_to(ROOT) for path in found if path.is_file() and "__pycache__" not in path.parts]


def verify_unit(folder: Path, program: str) -> str:
    """Return the problems that `systemd-analyze verify` finds in the unit, with a program that this machine has."""
    unit = folder / "bot.service"
    text = (DEPLOY / "bot.service").read_text()
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", text, flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Problems of other units do not count.
    problems = [line for line in done.stderr.splitlines() if "bot.service" in line]
    return "\n".join(problems) or ("" if done.returncode == 0 else done.stderr)


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


class TestUnit:
    def test_agrees_with_the_bot_and_the_page(self) -> None:
        page = (ROOT / "docs" / "operate.md").read_text()
        statuses = (ROOT / "docs" / "failures.md").read_text()
        unit = configparser.ConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's settings have capitals
        unit.read_string((DEPLOY / "bot.service").read_text())
        service = unit["Service"]
        hopeless = {status for _, status in STATUSES} - {75}
        assert set(map(int, service["RestartPreventExitStatus"].split())) == hopeless
        assert int(service["TimeoutStopSec"]) > DRAIN
        assert f"--stop-timeout {service['TimeoutStopSec']}" in page
        assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
        steps = page[page.index("useradd ") :].partition("```")[0]
        assert f"--home-dir {service['WorkingDirectory']} {service['User']}\n" in steps
        python, script, store = service["ExecStart"].split()
        assert f"python3 -m venv {Path(python).parents[1]}\n" in steps
        assert re.findall(rf"(?:cp|install -m 600) (.*) ({Path(script).parent}/|/etc/\S*)", steps) == [
            (f"examples/{Path(script).name} examples/bot_tariff.csv", f"{Path(script).parent}/"),
            (f"deploy/{Path(service['EnvironmentFile']).name}", service["EnvironmentFile"]),
            ("deploy/bot.service", "/etc/systemd/system/"),
        ]
        assert f"--store {service['WorkingDirectory']}/{store} " in steps
        assert set(map(int, re.findall(r"^\| (\d+) \| [^|]* \| does not help", statuses, re.MULTILINE))) == hopeless

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
    def test_is_valid_to_systemd(self, tmp_path: Path) -> None:
        assert verify_unit(tmp_path, sys.executable) == ""
        assert "nowhere is not executable" in verify_unit(tmp_path, "/nowhere")

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
    def test_is_rated_below_three(self) -> None:
        """Fault 36: a bot needs its folder and the network."""
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30"]
        done = subprocess.run([*command, DEPLOY / "bot.service"], capture_output=True, text=True, check=False)
        if "Unknown option" in done.stderr or "unrecognized option" in done.stderr:
            pytest.skip("this systemd rates running units only")
        assert done.returncode == 0, done.stdout + done.stderr

    def test_environment_names_service_and_account(self) -> None:
        names = set(re.findall(r"^(FREIGHT_EXCHANGE_\w+)=", (DEPLOY / "bot.env").read_text(), re.MULTILINE))
        assert names == {*(f"FREIGHT_EXCHANGE_{name}" for name in ("URL", "EMAIL", "PASSWORD"))}


@pytest.mark.virtual_time
async def test_alerts_and_dashboard_use_metrics_that_a_bot_has() -> None:
    sandbox = Sandbox()
    bot = Bot(store=None, start="backfill")

    @bot.on_new
    async def quote(request: RateRequest, ctx: RequestContext) -> None: ...

    collector = bot.collector()
    sandbox.publish()
    async with sandbox.running(bot):
        await bot.idle()
        samples = [sample for metric in collector.collect() for sample in metric.samples]
    names = {sample.name for sample in samples}
    rules = [rule for group in loaded(DEPLOY / "alerts.yaml")["groups"] for rule in group["rules"]]
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    expressions = [rule["expr"] for rule in rules]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    used = {name for expression in expressions for name in re.findall(r"freight_exchange_bot_\w+", expression)}
    assert used - names == set()
    for name, label, value in re.findall(r'(freight_exchange_bot_\w+)\{(\w+)="(\w+)"\}', " ".join(expressions)):
        assert any(sample.name == name and sample.labels.get(label) == value for sample in samples), (name, value)
    labels = {"job", *(label for sample in samples for label in sample.labels)}
    grouped = {label for by in re.findall(r"by \(([^)]*)\)", " ".join(expressions)) for label in by.split(", ")}
    assert grouped - labels == set()
    # What the page calls a reason for an alert has one.
    page = (ROOT / "docs" / "operate.md").read_text()
    table = page[page.index("| Metric, prefix") :].split("\n\n")[0].splitlines()[2:]
    for row in (row for row in table if "| | |" not in row and "histograms" not in row):
        reasons = re.findall(r"`([a-z_]+)", row.split(" | ")[0])
        assert any(name in rule["expr"] for rule in rules for name in reasons), row


class TestImage:
    STEPS = instructions((DEPLOY / "Containerfile").read_text())

    def test_copies_only_files_of_its_context(self) -> None:
        context = set(map(str, context_files()))
        assert {"pyproject.toml", "README.md", "LICENSE", "src/freight_exchange/py.typed"} <= context
        assert not any(path.startswith(("tests", ".git", ".venv")) for path in context)
        copied = [rest.split()[0] for name, rest in self.STEPS if name == "COPY" and not rest.startswith("--")]
        assert set(copied) - {"."} <= context

    def test_runs_the_bot_without_a_shell_and_without_root(self) -> None:
        steps = dict(self.STEPS)
        assert json.loads(steps["CMD"])[-2:] == ["/app/bot.py", "bot.db"]
        assert steps["USER"] == "bot"
        assert steps["VOLUME"] == steps["WORKDIR"] == "/data"

    @pytest.mark.parametrize("name", ["compose.yaml", "compose-fleet.yaml"])
    def test_services_share_the_image_and_the_loopback_address(self, name: str) -> None:
        services = loaded(DEPLOY / name)["services"]
        program, command, *arguments = services["sandbox"]["command"]
        assert (program, command) == ("freight-exchange", sandbox.name)
        parameters = sandbox.make_context("sandbox", arguments).params
        assert parameters["host"] == "0.0.0.0"
        (port,) = services["sandbox"]["ports"]
        assert port == f"127.0.0.1:{parameters['port']}:{parameters['port']}"
        bot = services["bot"]
        assert bot["network_mode"] == "service:sandbox"
        assert (
            config.base_url(bot["environment"]["FREIGHT_EXCHANGE_URL"]) == f"http://127.0.0.1:{parameters['port']}/api"
        )
        assert int(bot["stop_grace_period"].removesuffix("s")) > DRAIN
        assert bot["image"] == services["sandbox"]["image"]


class TestRepository:
    def test_workflow_calls_the_one_judgement(self) -> None:
        jobs = loaded(ROOT / ".github/workflows/ci.yml")["jobs"]
        assert {"run": "bash .ci/run"} in jobs["checks"]["steps"]
        classifiers = set(re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text()))
        assert set(jobs["checks"]["strategy"]["matrix"]["python"]) == classifiers

    @pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
    def test_make_targets_exist(self, path: Path) -> None:
        assert loaded(path)
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert set(re.findall(r"- (?:run: )?make ([a-z-]+)", path.read_text())) <= targets

    def test_fields_of_each_form_have_labels_and_ids(self) -> None:
        for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[bf]*.yml"):
            fields = [field for field in loaded(form)["body"] if field["type"] != "markdown"]
            assert all(field["attributes"]["label"] for field in fields)
            assert len({field["id"] for field in fields}) == len(fields) > 2
