"""Tests of the root command: help, examples, completion and lazy imports."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from modulefinder import ModuleFinder
from pathlib import Path

import click
import httpx
import pytest
from tests.cli.harness import DRAFT, ROUTE, Shell
from tools.pages import ROOT

from freight_exchange.cli.app import program, run


def walk(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from walk(command, *path, name)


assert isinstance(program, click.Group)
ALL = dict(walk(program))
COMMANDS = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_has_examples_that_run(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*path, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"Usage: freight-exchange {' '.join(path)} ")
    assert max(map(len, out.splitlines())) <= 120
    if path not in COMMANDS:
        return
    (block,) = re.findall(r"Examples?:\n((?:    freight-exchange .*\n)+)", out)
    calls: list[dict[str, object]] = []
    monkeypatch.setattr(COMMANDS[path], "callback", lambda *_, **options: calls.append(options))
    examples = re.findall(r"^ +freight-exchange (.*)$", block, re.MULTILINE)
    for example in examples:
        assert " ".join(path) in example
        words = shlex.split(re.split(r" [|>] ", example)[0])
        words += ["--yes"] if any(one.name == "yes" for one in COMMANDS[path].params) else []
        for name in (word for word in words if word.endswith((".csv", ".toml"))):
            fields = ROUTE if "routes" in path else DRAFT
            Path(name).write_text("".join(f"{field} = {json.dumps(value)}\n" for field, value in fields.items()))
        assert run(words) == 0, (example, capsys.readouterr().err)
    assert len(calls) == len(examples) > 0


@pytest.mark.parametrize("group", [(), *(path for path in ALL if path not in COMMANDS)], ids=" ".join)
def test_help_shows_whole_summaries(group: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*group, "--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_describes_each_option(path: tuple[str, ...]) -> None:
    options = [one for one in COMMANDS[path].params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []


def test_all_commands_print_json_except_those_that_run_something() -> None:
    without = {path for path, command in COMMANDS.items() if not any("--json" in one.opts for one in command.params)}
    assert without == {("bot", "run"), ("demo",)}


def test_no_option_takes_a_password() -> None:
    for path, command in {(): program, **ALL}.items():
        names = " ".join(option for parameter in command.params for option in parameter.opts)
        assert "password" not in names, path
        assert "token" not in names.replace("--token-file", ""), path


def loaded_modules(*arguments: str, completing: str | None = None) -> set[str]:
    environment = {}
    if completing is not None:
        environment = {"_FREIGHT_EXCHANGE_COMPLETE": "bash_complete", "COMP_WORDS": completing, "COMP_CWORD": "1"}
    code = f"""
import os, sys
from freight_exchange.cli.app import run
os.environ.update({environment!r})
run({[*arguments]!r})
sys.stderr.write(" ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "completing"), [(("--help",), None), (("--version",), None), ((), "freight-exchange re")]
)
def test_help_and_completion_load_no_client(arguments: tuple[str, ...], completing: str | None) -> None:
    modules = loaded_modules(*arguments, completing=completing)
    assert "freight_exchange.cli.app" in modules
    unwanted = {"httpx", "anyio", "cattrs", "rich", "freight_exchange.client", "freight_sandbox", "sqlite3"}
    assert modules & unwanted == set()


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (["re"], {"requests"}),
        (["requests", "w"], {"watch"}),
        (["bids", "submit", "4", "--am"], {"--amount"}),
        (["requests", "list", "--type", "Tr"], {"trucking"}),
        (["bids", "list", "--state", ""], {"active", "selected", "not-selected", "all"}),
        (["bot", "d"], {"dead", "doubts"}),
    ],
)
def test_shell_completes_commands_options_and_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], completions: set[str]
) -> None:
    monkeypatch.setenv("_FREIGHT_EXCHANGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("freight-exchange", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert run([]) == 0
    assert {line.partition(",")[2] for line in capsys.readouterr().out.splitlines()} == completions


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_the_value_of_each_default(path: tuple[str, ...]) -> None:
    """Fault 32: a value, and not the name of a constant."""
    context = click.Context(COMMANDS[path])
    text = " ".join(COMMANDS[path].get_help(context).split())
    for option in (one for one in COMMANDS[path].params if isinstance(one, click.Option) and not one.is_flag):
        if isinstance(default := option.get_default(context), str | int):
            assert f"[default: {default}" in text
    assert "DEFAULT" not in text


# Frozen programs


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the modules that a freezer finds, by following import statements, and without metadata."""
    finder = ModuleFinder(path=[str(ROOT / "src")])
    finder.run_script(str(ROOT / "src" / "freight_exchange" / "__main__.py"))
    archive = tmp_path_factory.mktemp("frozen") / "program.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in [getattr(module, "__file__", None) for module in finder.modules.values()]:
            if path and not path.endswith("exchange/__main__.py"):
                file.write(path, Path(path).relative_to(ROOT / "src"))
    return archive


def command_of(frozen: Path, *words: str) -> list[str]:
    code = """
import importlib.metadata, sys

def find(name, distribution=importlib.metadata.distribution):
    if "freight" in name:
        raise importlib.metadata.PackageNotFoundError(name)
    return distribution(name)

importlib.metadata.distribution = find
sys.path.insert(0, sys.argv.pop(1))
import freight_exchange
from freight_exchange.cli import main
assert "program.zip" in freight_exchange.__file__
main()
"""
    return [sys.executable, "-c", code, str(frozen), *words]


def run_frozen(frozen: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command_of(frozen, *words), capture_output=True, text=True, check=False, cwd=frozen.parent)


def test_frozen_program_finds_its_commands_and_version(frozen: Path) -> None:
    """Fault 26: a program frozen by PyInstaller has no files to list, and no metadata of its installation."""
    for words, output in (
        (("--version",), "freight-exchange, version "),
        (("requests", "import", "--template"), "commodity,type,origin"),
    ):
        done = run_frozen(frozen, *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert output in done.stdout
    names = program.list_commands(click.Context(program))
    call = "from freight_exchange.cli.app import run; sys.exit(any([run([name, '--help']) for name in sys.argv[1:]]))"
    command = command_of(frozen, *names)
    command[2] = command[2].replace("main()\n", f"{call}\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=frozen.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^Usage: freight-exchange (\S+)", done.stdout, re.MULTILINE) == names


def test_frozen_program_calls_the_service(frozen: Path, shell: Shell) -> None:
    shell.publish()
    for words in (["requests", "list"], ["requests", "watch", "--start", "backfill", "--count", "1"]):
        done = run_frozen(frozen, *words)
        assert done.returncode == 0, done.stderr
        assert "Ceramic tiles" in done.stdout


def test_frozen_sandbox_serves_the_exchange_without_its_page(frozen: Path) -> None:
    command = command_of(frozen, "sandbox", "--json", "--port", "0", "--state", "exchange.journal")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=frozen.parent) as process:
        try:
            assert process.stdout is not None
            shown = json.loads(process.stdout.readline())
            assert [httpx.get(shown[name]).status_code for name in ("url", "board")] == [404, 404]
            assert httpx.get(f"{shown['url']}/currency").status_code == 401
        finally:
            process.kill()
