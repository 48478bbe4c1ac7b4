"""Who connects where: by options, by the environment, by the login that is kept, and by asking."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.unit.cli.rig import Shell

from freight_exchange import FreightExchange
from freight_exchange.cli.exit_status import InterruptedWriteError, Status
from freight_exchange.cli.session import connected
from freight_exchange.cli.settings import Settings
from freight_exchange.sandbox import FAULTS, Exchange
from freight_exchange.sandbox.faces.tcp import refused_port


@pytest.fixture
def stranger(shell: Shell) -> Shell:
    """A shell whose environment says nothing."""
    shell.forget_who()
    return shell


def log_in(shell: Shell, who: str = "forwarder", *more: str) -> None:
    done = shell(*more, "--url", shell.url, "login", typed=f"{who}@demo.example\n{who}\n")
    assert done.status == 0, done.err


def kept(shell: Shell) -> Path:
    return shell.home / "state" / "freight-exchange" / "login.json"


def test_after_a_login_nothing_is_to_be_said_any_more(stranger: Shell) -> None:
    log_in(stranger)
    done = stranger("requests", "list")
    assert done.status == 0, done.err
    assert len(stranger.exchange.audit_log.logins) == 1
    told = json.loads(stranger("whoami", "--json").out)
    assert (told["url"], told["user"]["email"]) == (stranger.url, "forwarder@demo.example")
    assert "company     Forward & Co. Ltd\n" in stranger("whoami").out


def test_what_is_kept_is_the_token_and_for_nobody_else(stranger: Shell) -> None:
    log_in(stranger)
    file = kept(stranger)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "password" not in file.read_text()


def test_a_login_is_a_new_one_each_time(stranger: Shell) -> None:
    log_in(stranger)
    done = stranger("login", typed="wrong\n")
    assert done.status == Status.LOGIN_REJECTED
    assert [login.accepted for login in stranger.exchange.audit_log.logins] == [True, False]


def test_a_login_that_fails_leaves_the_one_that_was_kept(stranger: Shell) -> None:
    log_in(stranger)
    with refused_port() as port:
        for more, typed in (
            ((), "wrong\n"),
            (("--email", "shipper@demo.example"), "wrong\n"),
            (("--url", f"http://127.0.0.1:{port}/api", "--email", "a@b.example"), "x\n"),
        ):
            before = kept(stranger).read_bytes()
            assert stranger(*more, "login", typed=typed).status in (Status.LOGIN_REJECTED, Status.UNAVAILABLE)
            assert kept(stranger).read_bytes() == before
    assert json.loads(stranger("whoami", "--json").out)["user"]["email"] == "forwarder@demo.example"


def test_a_login_that_cannot_be_kept_is_said_to_be(stranger: Shell) -> None:
    log_in(stranger)
    blocked = stranger.home / "no-folder"
    blocked.write_text("")
    done = stranger(
        "--token-file", str(blocked / "login.json"), "--url", stranger.url, "login",
        typed="forwarder@demo.example\nforwarder\n",
    )  # fmt: skip
    assert (done.status, done.out) == (Status.CONFIGURATION, "")
    assert "Error: logged in, but the login cannot be kept" in done.err


def test_another_account_at_the_same_service(stranger: Shell) -> None:
    log_in(stranger)
    done = stranger("--email", "shipper@demo.example", "login", typed="shipper\n")
    assert done.out == f"Logged in as Sylvia Ship at {stranger.url}.\n"
    assert json.loads(stranger("whoami", "--json").out)["user"]["email"] == "shipper@demo.example"


def test_a_token_that_ended_is_said_to_have(stranger: Shell) -> None:
    log_in(stranger)
    stranger.exchange.faults.add(*FAULTS["unauthorized_forever"](path="currency"))
    done = stranger("currencies")
    assert done.status == Status.LOGIN_REJECTED
    assert "the login that was kept has ended: log in again with `freight-exchange login`" in done.err
    assert "password" not in done.err
    # Without the password nobody tried one.
    assert len(stranger.exchange.audit_log.logins) == 1


def test_who_one_is_is_asked_of_the_service(stranger: Shell) -> None:
    log_in(stranger)
    stranger.exchange.faults.add(*FAULTS["unauthorized_forever"]())
    done = stranger("whoami")
    assert (done.status, done.out) == (Status.LOGIN_REJECTED, "")
    assert "the login that was kept has ended" in done.err


def test_a_token_that_is_too_old_is_not_tried(stranger: Shell) -> None:
    log_in(stranger)
    said = json.loads(kept(stranger).read_text())
    kept(stranger).write_text(json.dumps(said | {"lifetime": 0.001, "wall": said["wall"] - 60, "boot_id": ""}))
    done = stranger("currencies")
    assert done.status == Status.CONFIGURATION
    assert done.err.startswith("Error: no password: set FREIGHT_EXCHANGE_PASSWORD, or log in once")
    stranger.set("FREIGHT_EXCHANGE_PASSWORD", "forwarder")
    assert stranger("currencies").status == 0
    assert len(stranger.exchange.audit_log.logins) == 2


def test_a_password_is_not_looked_at_while_a_login_of_the_account_is_kept(stranger: Shell) -> None:
    log_in(stranger)
    stranger.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    assert stranger("currencies").status == 0
    stranger("logout")
    done = stranger("--url", stranger.url, "--email", "forwarder@demo.example", "currencies")
    assert done.status == Status.LOGIN_REJECTED


def test_the_login_of_one_account_is_not_used_for_another(stranger: Shell) -> None:
    log_in(stranger)
    stranger.set("FREIGHT_EXCHANGE_PASSWORD", "shipper")
    done = stranger("--email", "shipper@demo.example", "whoami", "--json")
    assert json.loads(done.out)["user"]["email"] == "shipper@demo.example"
    assert done.err == ""
    # And it stays.
    stranger.set("FREIGHT_EXCHANGE_PASSWORD", None)
    assert json.loads(stranger("whoami", "--json").out)["user"]["email"] == "forwarder@demo.example"


def test_the_token_of_one_service_is_not_shown_to_another(stranger: Shell, served: tuple[Exchange, str]) -> None:
    log_in(stranger)
    calls = len(stranger.exchange.audit_log.calls)
    other = stranger.url.replace("127.0.0.1", "localhost")
    done = stranger("--url", other, "whoami")
    assert done.status == Status.CONFIGURATION
    assert done.err.startswith("Error: no account")
    assert len(stranger.exchange.audit_log.calls) == calls


def test_logging_out(stranger: Shell) -> None:
    log_in(stranger)
    assert stranger("logout").out == "The login is forgotten.\n"
    assert not kept(stranger).exists()
    assert stranger("logout").out == "There was no login to forget.\n"
    assert json.loads(stranger("logout", "--json").out) == {"forgotten": False}
    done = stranger("whoami")
    assert done.status == Status.CONFIGURATION
    assert done.err.startswith("Error: no URL: give --url or set FREIGHT_EXCHANGE_URL, or log in once")


def test_a_token_file_of_ones_own(stranger: Shell) -> None:
    file = stranger.home / "mine.json"
    log_in(stranger, "forwarder", "--token-file", str(file))
    assert file.exists()
    assert not kept(stranger).exists()
    assert stranger("whoami").status == Status.CONFIGURATION
    stranger.set("FREIGHT_EXCHANGE_TOKEN_FILE", str(file))
    assert stranger("whoami").status == 0


def test_a_token_file_that_others_may_read_is_not_used(stranger: Shell) -> None:
    log_in(stranger)
    kept(stranger).chmod(0o644)
    done = stranger("whoami")
    assert done.status == Status.CONFIGURATION
    assert "Warning: the token file" in done.err
    assert "is open to other users (mode 0644)" in done.err


def test_without_a_login_nothing_is_kept(shell: Shell) -> None:
    assert shell("currencies").status == 0
    assert not kept(shell).exists()


def test_what_is_missing_is_asked_for_on_a_terminal(stranger: Shell) -> None:
    stranger.set("FREIGHT_EXCHANGE_EMAIL", "forwarder@demo.example")
    done = stranger("currencies", typed=f"{stranger.url}\nforwarder\n")
    assert done.status == 0, done.err
    assert "URL of the service: " in done.err
    assert "Password of forwarder@demo.example: " in done.err


def test_the_environments_password_is_that_of_the_account_beside_it(shell: Shell) -> None:
    done = shell("--email", "shipper@demo.example", "login", typed="shipper\n")
    assert done.status == 0, done.err
    assert "Password of shipper@demo.example: " in done.err
    assert "FREIGHT_EXCHANGE_EMAIL names forwarder@demo.example: other commands are that account's" in done.err
    assert "Fergus" in shell("whoami").out
    # Where nobody can be asked, the environment's is tried.
    assert shell("--email", "rival@demo.example", "login").status == 77


def test_a_url_that_looks_wrong_is_warned_of(shell: Shell) -> None:
    done = shell("--url", shell.url.removesuffix("/api"), "currencies")
    assert done.err.startswith("Warning: --url usually ends in /api")
    assert "warnings.warn" not in done.err


def test_more_is_told_when_asked(shell: Shell) -> None:
    done = shell("-vv", "currencies")
    assert "freight_exchange.auth: logged in" in done.err


def test_an_interruption_that_may_have_come_after_a_write_is_not_said_to_have_changed_nothing(shell: Shell) -> None:
    request = shell.publish()

    async def offer(exchange: FreightExchange) -> None:
        await exchange.bids.submit(request, amount=1, currency="USD")
        raise KeyboardInterrupt

    async def read(exchange: FreightExchange) -> None:
        await exchange.requests.get(request)
        raise KeyboardInterrupt

    settings = Settings(url=shell.url, email=shell.exchange.forwarder.email)
    with pytest.raises(InterruptedWriteError, match="whether it was taken is not known") as caught:
        connected(settings, offer, look="bids list")
    assert "Look with `freight-exchange bids list`" in caught.value.__notes__[0]
    with pytest.raises(KeyboardInterrupt):
        connected(settings, read, look="bids list")
