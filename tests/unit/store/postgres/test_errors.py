"""Tests of failed connections: which may pass, which a person must mend, and what the message advises."""

from __future__ import annotations

import psycopg
import pytest
from tests.unit.store.postgres.databases import server

from freight_exchange.errors import StoreAwayError, StoreError
from freight_exchange.store.postgres.connection import DatabaseConnection
from freight_exchange.store.postgres.errors import connect_error
from freight_exchange.store.protocol import StoreRefusedError

PLACE = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '
NO_RULE = 'FATAL:  no pg_hba.conf entry for host "10.0.0.7", user "bots", database "d", '


@pytest.mark.parametrize(
    "reason",
    [
        "the database system is not yet accepting connections",
        "the database system is starting up",
        "sorry, too many clients already",
        "terminating connection due to administrator command",
        'too many connections for role "bots"',
        "server login has been failing, try again later (server_login_retry)",
    ],
)
def test_server_that_is_not_ready_is_away(reason: str) -> None:
    error = connect_error(psycopg.OperationalError(f"connection failed: FATAL:  {reason}\nDETAIL: x"), "the database d")
    assert isinstance(error, StoreAwayError)


@pytest.mark.parametrize(
    "reason",
    [
        'role "bots" does not exist',
        'role "bots" is not permitted to log in',
        'no pg_hba.conf entry for host "10.0.0.7"',
        'pg_hba.conf rejects connection for host "10.0.0.7"',
        'Peer authentication failed for user "bots"',
        'permission denied for database "d"',
    ],
)
def test_refused_login_names_what_to_give(reason: str) -> None:
    error = connect_error(psycopg.OperationalError(f"connection failed: FATAL:  {reason}"), "the database d")
    assert isinstance(error, StoreRefusedError)
    assert str(error) == "the database d refused the login: give this user access"


def test_wrong_password_is_reported_as_refused_login() -> None:
    text = 'connection failed: FATAL:  password authentication failed for user "bots"'
    error = connect_error(psycopg.OperationalError(text), "the database d")
    assert str(error) == (
        "the database d refused the login: correct the user or the password (PGPASSWORD, .pgpass or a service file)"
    )
    assert isinstance(error, StoreRefusedError)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("server does not support SSL, but SSL was required", "turn ssl on in the server, or correct sslmode"),
        ("SSL error: certificate verify failed", "correct sslrootcert, or renew the certificate"),
        ('root certificate file "/x" does not exist Either provide the file, or change sslmode', "correct sslrootcert"),
        ('could not read root certificate file "/x": no certificate or crl found', "correct sslrootcert"),
        ('server certificate for "h" (and 1 other name) does not match host name "10.0.0.7"', "correct the host"),
        ('certificate present, but not private key file "/x"', "correct sslcert and sslkey"),
        ('could not load private key file "/x": key values mismatch', "correct sslcert and sslkey"),
        ("FATAL:  connection requires a valid client certificate", "correct sslcert and sslkey"),
        ("SSL error: tlsv1 alert unknown ca", "correct sslcert and sslkey"),
        ("SSL error: no protocols available", "correct ssl_min_protocol_version and ssl_max_protocol_version"),
        ("SSL error: tlsv1 alert protocol version", "correct ssl_min_protocol_version and ssl_max_protocol_version"),
    ],
)
def test_refused_encryption_names_the_option_to_correct(reason: str, advice: str) -> None:
    error = connect_error(psycopg.OperationalError(f"{PLACE}{reason}"), "the database d")
    assert isinstance(error, StoreRefusedError)
    assert advice in str(error)
    assert "/x" not in str(error)


@pytest.mark.parametrize("reason", ["SSL error: unexpected eof while reading", "SSL SYSCALL error: EOF detected"])
def test_encrypted_connection_that_ends_is_away(reason: str) -> None:
    """A server that stops, or a proxy without one, ends it."""
    error = connect_error(psycopg.OperationalError(f"{PLACE}{reason}"), "the database d")
    assert isinstance(error, StoreAwayError)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (f"{NO_RULE}no encryption", "give this user access, or set sslmode=require if it permits no other connection"),
        (f"{NO_RULE}SSL off", "give this user access, or set sslmode=require if it permits no other connection"),
        (f"{NO_RULE}SSL encryption", "refused the login: give this user access"),
        (f"{NO_RULE}SSL encryption\n{PLACE}{NO_RULE}no encryption", "refused the login: give this user access"),
    ],
)
def test_refused_login_without_encryption_names_sslmode(reason: str, advice: str) -> None:
    error = connect_error(psycopg.OperationalError(f"{PLACE}{reason}"), "the database d")
    assert isinstance(error, StoreRefusedError)
    assert str(error).endswith(advice)


@pytest.mark.parametrize(
    "reason",
    [
        'unrecognized configuration parameter "work_me"',
        'invalid value for parameter "work_me": "c4nary"',
        '-5 ms is outside the valid range for parameter "work_me" (0 .. 2147483647)',
        'parameter "work_me" cannot be changed now',
        'permission denied to set parameter "work_me"',
        "-c work_me requires a value",
        "unsupported startup parameter in options: work_me",
    ],
)
def test_refused_setting_is_named_without_its_value(reason: str) -> None:
    error = connect_error(psycopg.OperationalError(f"{PLACE}FATAL:  {reason}"), "the database d")
    assert isinstance(error, StoreRefusedError)
    assert str(error) == "the database d refused the setting work_me: correct options in its address"


@pytest.mark.parametrize("name", ["certificate-db", "private key", "pg_hba.conf", "SSL FATAL: x -c y"])
@pytest.mark.parametrize(
    "text",
    [
        'connection failed: connection to server at "{}" (10.0.0.7), port 5432 failed: timeout expired',
        'connection is bad: connection to server on socket "/{}/.s.PGSQL.5432" failed: No such file or directory',
        'could not translate host name "{}" to address: Name or service not known',
        "failed to resolve host '{}': [Errno -2] Name or service not known",
        "Multiple connection attempts failed. All failures were:\n- host: '{}', port: '5432': timeout expired",
        'FATAL:  too many connections for role "{}"',
        'FATAL:  too many connections for database "{}"',
    ],
)
def test_name_in_the_message_of_an_outage_makes_it_no_refusal(text: str, name: str) -> None:
    error = connect_error(psycopg.OperationalError(text.format(name)), "the database d")
    assert isinstance(error, StoreAwayError)


def test_host_that_is_named_after_a_certificate_is_away() -> None:
    with pytest.raises(StoreAwayError, match=r"cannot be reached: .*certificate-db\.invalid"):
        DatabaseConnection("postgresql://u@certificate-db.invalid:1/x").open()


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ("sslmode=require", "does not support SSL: turn ssl on in the server, or correct sslmode"),
        ("options=-c%20work_me%3D1", "refused the setting work_me: correct options in its address"),
        ("sslmode=require&ssl_min_protocol_version=TLSv9", "has an invalid ssl_min_protocol_version: correct its addr"),
    ],
)
def test_server_refuses_options_of_an_address(options: str, advice: str) -> None:
    database = DatabaseConnection(f"{server().url()}?{options}")
    with pytest.raises(StoreError, match=advice) as refused:
        database.open()
    assert not isinstance(refused.value, StoreAwayError)
