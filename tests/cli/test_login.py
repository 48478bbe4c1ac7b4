"""Tests of credentials: options, environment, saved login, prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.harness import Shell

from freight_exchange.cli.run import Status
from freight_sandbox import FAULTS, Exchange
from freight_sandbox.server import refused_port


@pytest.fixture
def fresh_shell(shell: Shell) -> Shell:
    """Return a shell whose environment names no service and no account."""
    shell.clear_environment()
    return shell


def log_in(shell: Shell, name: str = "forwarder", *options: str) -> None:
    result = shell(*options, "--url", shell.url, "login", typed=f"{name}@demo.example\n{name}\n")
    assert result.status == 0, result.err


def login_file(shell: Shell) -> Path:
    return shell.home / "state" / "freight-exchange" / "login.json"


def test_commands_after_login_need_no_credentials(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    result = fresh_shell("requests", "list")
    assert result.status == 0, result.err
    assert len(fresh_shell.exchange.audit_log.logins) == 1
    identity = fresh_shell("whoami", "--json").objects[0]
    assert (identity["url"], identity["user"]["email"]) == (fresh_shell.url, "forwarder@demo.example")
    assert "company     Forward & Co. Ltd\n" in fresh_shell("whoami").out


def test_failed_login_keeps_previous_one(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    with refused_port() as port:
        for options, typed in (
            ((), "wrong\n"),
            (("--email", "shipper@demo.example"), "wrong\n"),
            (("--url", f"http://127.0.0.1:{port}/api", "--email", "a@b.example"), "x\n"),
        ):
            before = login_file(fresh_shell).read_bytes()
            assert fresh_shell(*options, "login", typed=typed).status in (Status.LOGIN_REJECTED, Status.UNAVAILABLE)
            assert login_file(fresh_shell).read_bytes() == before
    assert fresh_shell("whoami", "--json").objects[0]["user"]["email"] == "forwarder@demo.example"


def test_login_that_cannot_be_kept_is_reported(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    blocked = fresh_shell.home / "no-folder"
    blocked.write_text("")
    result = fresh_shell(
        "--token-file", str(blocked / "login.json"), "--url", fresh_shell.url, "login",
        typed="forwarder@demo.example\nforwarder\n",
    )  # fmt: skip
    assert (result.status, result.out) == (Status.CONFIGURATION, "")
    assert "Error: the login cannot be saved in" in result.err


def test_expired_token_is_reported_without_a_login(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    fresh_shell.exchange.faults.add(*FAULTS["unauthorized_forever"](path="currency"))
    result = fresh_shell("currencies")
    assert result.status == Status.LOGIN_REJECTED
    assert "the saved login has expired: run `freight-exchange login`" in result.err
    assert "password" not in result.err
    assert len(fresh_shell.exchange.audit_log.logins) == 1


def test_token_past_its_lifetime_is_not_sent(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    content = json.loads(login_file(fresh_shell).read_text())
    login_file(fresh_shell).write_text(
        json.dumps(content | {"lifetime": 0.001, "wall": content["wall"] - 60, "boot_id": ""})
    )
    result = fresh_shell("currencies")
    assert result.status == Status.LOGIN_REJECTED
    assert result.err.startswith("Error: the saved login has expired: run `freight-exchange login`\n")
    fresh_shell.set("FREIGHT_EXCHANGE_PASSWORD", "forwarder")
    assert fresh_shell("currencies").status == 0
    assert len(fresh_shell.exchange.audit_log.logins) == 2


def test_password_is_unused_while_login_is_kept(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    fresh_shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    assert fresh_shell("currencies").status == 0
    fresh_shell("logout")
    result = fresh_shell("--url", fresh_shell.url, "--email", "forwarder@demo.example", "currencies")
    assert result.status == Status.LOGIN_REJECTED


def test_kept_login_is_not_used_for_another_account(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    fresh_shell.set("FREIGHT_EXCHANGE_PASSWORD", "shipper")
    result = fresh_shell("--email", "shipper@demo.example", "whoami", "--json")
    assert json.loads(result.out)["user"]["email"] == "shipper@demo.example"
    assert result.err == ""
    # The saved login stays.
    fresh_shell.set("FREIGHT_EXCHANGE_PASSWORD", None)
    assert fresh_shell("whoami", "--json").objects[0]["user"]["email"] == "forwarder@demo.example"


def test_token_is_not_sent_to_another_service(fresh_shell: Shell, served: tuple[Exchange, str]) -> None:
    log_in(fresh_shell)
    calls = len(fresh_shell.exchange.audit_log.calls)
    other = fresh_shell.url.replace("127.0.0.1", "localhost")
    result = fresh_shell("--url", other, "whoami")
    assert result.status == Status.CONFIGURATION
    assert result.err.startswith("Error: not logged in: run `freight-exchange login`\n")
    assert f"The saved login is that of forwarder@demo.example at {fresh_shell.url}.\n" in result.err
    assert len(fresh_shell.exchange.audit_log.calls) == calls


def test_logout_forgets_login(fresh_shell: Shell) -> None:
    log_in(fresh_shell)
    assert fresh_shell("logout").out == "The login is forgotten.\n"
    assert not login_file(fresh_shell).exists()
    assert fresh_shell("logout").out == "There was no login to forget.\n"
    assert fresh_shell("logout", "--json").objects[0] == {"forgotten": False}
    result = fresh_shell("whoami")
    assert result.status == Status.CONFIGURATION
    assert result.err.startswith("Error: not logged in: run `freight-exchange login`\n")


def test_token_file_option_replaces_default_file(fresh_shell: Shell) -> None:
    file = fresh_shell.home / "mine.json"
    log_in(fresh_shell, "forwarder", "--token-file", str(file))
    assert file.exists()
    assert not login_file(fresh_shell).exists()
    assert fresh_shell("whoami").status == Status.CONFIGURATION
    fresh_shell.set("FREIGHT_EXCHANGE_TOKEN_FILE", str(file))
    assert fresh_shell("whoami").status == 0


def test_command_with_password_keeps_no_login(shell: Shell) -> None:
    assert shell("currencies").status == 0
    assert not login_file(shell).exists()


def test_login_asks_on_a_terminal_for_missing_settings(fresh_shell: Shell) -> None:
    fresh_shell.set("FREIGHT_EXCHANGE_EMAIL", "forwarder@demo.example")
    result = fresh_shell("login", typed=f"{fresh_shell.url}\nforwarder\n")
    assert result.status == 0, result.err
    assert "URL of the service: " in result.err
    assert "Password of forwarder@demo.example: " in result.err


@pytest.mark.parametrize("typed", [None, "http://127.0.0.1:1/api\na@b.example\nx\n"], ids=["pipe", "terminal"])
@pytest.mark.parametrize("known", [(), ("URL",), ("URL", "EMAIL")], ids="+".join)
def test_command_without_login_asks_nothing(fresh_shell: Shell, typed: str | None, known: tuple[str, ...]) -> None:
    for name in known:
        fresh_shell.set(f"FREIGHT_EXCHANGE_{name}", {"URL": fresh_shell.url, "EMAIL": "a@b.example"}[name])
    result = fresh_shell("currencies", typed=typed)
    note = "In a program, set FREIGHT_EXCHANGE_URL, FREIGHT_EXCHANGE_EMAIL and FREIGHT_EXCHANGE_PASSWORD instead."
    assert result.status == Status.CONFIGURATION
    assert result.err == f"Error: not logged in: run `freight-exchange login`\n  {note}\n"


def test_login_without_a_terminal_names_missing_settings(fresh_shell: Shell) -> None:
    assert "no URL: give --url or set FREIGHT_EXCHANGE_URL; there is no terminal" in fresh_shell("login").err
    fresh_shell.set("FREIGHT_EXCHANGE_URL", fresh_shell.url)
    assert "no account: give --email" in fresh_shell("login").err
    result = fresh_shell("--email", "a@b.example", "login")
    assert result.status == Status.CONFIGURATION
    assert "no password: set FREIGHT_EXCHANGE_PASSWORD; there is no terminal to ask on" in result.err


def test_password_of_environment_belongs_to_its_account(shell: Shell) -> None:
    result = shell("--email", "shipper@demo.example", "login", typed="shipper\n")
    assert result.status == 0, result.err
    assert "Password of shipper@demo.example: " in result.err
    assert (
        "FREIGHT_EXCHANGE_EMAIL names forwarder@demo.example: later commands use it unless --email is given"
        in result.err
    )
    assert "Fergus" in shell("whoami").out
    # Without a terminal, the password of the environment is used.
    assert shell("--email", "rival@demo.example", "login").status == 77


def test_login_file_is_private(fresh_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(fresh_shell)
    file = login_file(fresh_shell)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [*file.parent.iterdir()] == [file]
    assert "forwarder" not in file.read_text().replace("forwarder@demo.example", "")
    # One that others can read may be known to them, or be theirs.
    file.chmod(0o644)
    result = fresh_shell("whoami")
    assert result.status == Status.CONFIGURATION
    assert f"Warning: the token file {file} is not used: it " in result.err
    assert len(fresh_shell.exchange.audit_log.logins) == 1


# Profiles, and machines without a home


def test_profiles_keep_a_login_each(fresh_shell: Shell) -> None:
    """Fault 42: an account for each side, without a prefix for every command."""
    for name in ("shipper", "forwarder"):
        result = fresh_shell(
            "--profile", name, "--url", fresh_shell.url, "login", typed=f"{name}@demo.example\n{name}\n"
        )
        assert result.status == 0, result.err
    files = [file.name for file in sorted(login_file(fresh_shell).parent.glob("*.json"))]
    assert files == ["login-forwarder.json", "login-shipper.json"]
    for name in ("shipper", "forwarder"):
        assert f"{name}@demo.example" in fresh_shell("--profile", name, "whoami").out
    fresh_shell.set("FREIGHT_EXCHANGE_PROFILE", "shipper")
    assert "shipper@demo.example" in fresh_shell("whoami").out
    assert fresh_shell("--profile", "forwarder", "logout").out == "The login is forgotten.\n"
    assert fresh_shell("whoami").status == 0
    result = fresh_shell("--profile", "forwarder", "whoami")
    assert result.status == Status.CONFIGURATION
    assert result.err.startswith("Error: not logged in: run `freight-exchange --profile forwarder login`\n")
    assert len(fresh_shell.exchange.audit_log.logins) == 2


def test_profile_comes_before_the_account_of_the_environment(shell: Shell) -> None:
    shell.use_account(shell.exchange.rival)
    login = shell("--profile", "shipper", "--email", "shipper@demo.example", "login", typed="shipper\n")
    assert login.status == 0, login.err
    assert "shipper@demo.example" in shell("--profile", "shipper", "whoami").out
    assert "rival@demo.example" in shell("whoami").out
    # An option comes before both, and the password of the environment belongs to another account.
    result = shell("--profile", "shipper", "--email", "forwarder@demo.example", "whoami")
    assert result.status == Status.CONFIGURATION
    assert [one.accepted for one in shell.exchange.audit_log.logins] == [True, True]


def test_machine_without_a_home_needs_no_login_file(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 27: with all three variables the saved login is not needed, and its place need not exist."""

    def no_home(*_: object, **__: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("platformdirs.user_state_path", no_home)
    assert shell("currencies").status == 0
    for name in ("URL", "EMAIL", "PASSWORD"):
        shell.use_account(shell.exchange.forwarder)
        shell.set(f"FREIGHT_EXCHANGE_{name}", None)
        result = shell("currencies")
        assert result.status == Status.CONFIGURATION
        assert "there is no home directory for the saved login: give --token-file a path" in result.err
