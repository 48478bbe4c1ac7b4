"""Tests of the mapping from replies to errors."""

from __future__ import annotations

import json

import pytest

from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
)
from freight_exchange.transport.message import Response
from freight_exchange.transport.rules.status_errors import error_of, is_unauthorized, login_error
from freight_exchange.transport.secrets import MASK, Redactor, Secret

CANARY = "c4nary-t0ken-of-some-length"


def reply(status: int, body: object = None, **headers: str) -> Response:
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return Response(status=status, content=content, headers=[(k.encode(), v.encode()) for k, v in headers.items()])


def judged(response: Response, redactor: Redactor | None = None) -> APIStatusError | None:
    return error_of(response, redactor or Redactor(), retry_after=7.0)


def judged_login(response: Response, redactor: Redactor | None = None) -> APIStatusError | None:
    return login_error(response, redactor or Redactor(), retry_after=7.0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, None),
        (201, None),
        (204, None),
        (299, None),
        (300, APIStatusError),
        (301, APIStatusError),
        (307, APIStatusError),
        (400, BadRequestError),
        (401, AuthenticationError),
        (402, APIStatusError),
        (403, APIStatusError),
        (404, NotFoundError),
        (405, APIStatusError),
        (408, APIStatusError),
        (409, APIStatusError),
        (413, BadRequestError),
        (422, BadRequestError),
        (429, RateLimitedError),
        (500, ServerError),
        (503, ServerError),
        (599, ServerError),
    ],
)
@pytest.mark.parametrize("body", [None, {"message": "no such port"}, b"<html>oops</html>", [1, 2, 3]], ids=str)
def test_statuses_map_to_errors(status: int, kind: type[APIStatusError] | None, body: object) -> None:
    error = judged(reply(status, body))
    assert type(error) is (kind or type(None))
    if error is not None:
        assert error.status == status


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 499])
def test_the_key_unauthorized_is_a_refused_token_at_200_and_any_4xx(status: int) -> None:
    response = reply(status, {"Unauthorized": "access denied"})
    assert is_unauthorized(response)
    error = judged(response)
    assert type(error) is AuthenticationError
    assert error.status == status
    assert "access denied" in str(error)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("https://elsewhere.example/login?token=c4nary", "redirects to https://elsewhere.example/login, and redirects"),
        ("/v2/c4nary/login", "redirects to /v2/***/login, and redirects"),
        (None, "redirects, and redirects are never followed: check base_url"),
    ],
)
def test_a_redirect_names_its_target(location: str | None, message: str) -> None:
    redactor = Redactor()
    redactor.add(Secret("c4nary"))
    headers = [] if location is None else [(b"Location", location.encode())]
    error = error_of(Response(status=307, content=b"", headers=headers), redactor, retry_after=None)
    assert error is not None
    assert message in error.message
    assert "c4nary" not in str(error)


def test_a_proxy_that_asks_for_credentials_is_named() -> None:
    error = error_of(Response(status=407, content=b""), Redactor(), retry_after=None)
    assert error is not None
    assert error.message.startswith("a proxy asks for a user and password: put them into the proxy's URL")
    # The proxy may be that of an http_client.
    assert "proxy=" not in error.message


@pytest.mark.parametrize("status", [201, 204, 302, 500, 503])
def test_the_key_means_nothing_at_other_statuses(status: int) -> None:
    assert not is_unauthorized(reply(status, {"Unauthorized": "access denied"}))


@pytest.mark.parametrize(
    "body",
    [
        {"raterequests": {"0": {"commodityname": "Unauthorized copies"}}},
        {"message": "Unauthorized"},
        ["Unauthorized"],
        b"Unauthorized",
        b'{"Unauthorized": ',
        {"Unauthorized": "x", "raterequests": {str(n): {} for n in range(1000)}},
    ],
    ids=["a cargo's name", "a sentence", "a list", "no JSON", "half a JSON", "a long listing"],
)
def test_only_a_short_object_with_the_key_refuses(body: object) -> None:
    assert not is_unauthorized(reply(200, body))
    assert judged(reply(200, body)) is None


def test_401_needs_no_body() -> None:
    assert is_unauthorized(reply(401, b"<html>"))


class TestWhatErrorsCarry:
    def test_the_sentence_and_the_body(self) -> None:
        error = judged(reply(400, {"error": {"message": "offer must be positive"}, "code": 12}))
        assert error is not None
        assert "offer must be positive" in str(error)
        assert error.body == {"error": {"message": "offer must be positive"}, "code": 12}

    def test_text_where_it_is_no_json(self) -> None:
        error = judged(reply(502, b"<html>Bad Gateway</html>"))
        assert error is not None
        assert error.body == "<html>Bad Gateway</html>"
        assert "<html>" not in str(error)

    def test_retry_after_on_429(self) -> None:
        error = judged(reply(429))
        assert isinstance(error, RateLimitedError)
        assert error.retry_after == 7.0

    def test_a_wait_without_end_is_written_in_words(self) -> None:
        error = error_of(reply(429), Redactor(), retry_after=1e9)
        assert str(error) == "the service asks for fewer calls, and to wait more than a day"

    @pytest.mark.parametrize("status", [102, 408])
    def test_body_without_refusal_is_no_refusal(self, status: int) -> None:
        error = judged(reply(status, {"message": "no such port"}))
        assert "refused" not in str(error)
        assert "no such port" in str(error)

    @pytest.mark.parametrize("key", ["refresh_token", "apiToken", "new-password", "proxy_authorization"])
    def test_unregistered_secrets_are_masked_by_their_key(self, key: str) -> None:
        for body in (
            {key: CANARY},
            {"a": [{key: [CANARY]}]},
            f"<p>{key}={CANARY}</p>".encode(),
            f"{{'{key}': '{CANARY}'".encode(),
        ):
            error = judged(reply(500, body))
            assert error is not None
            assert CANARY[:5] not in f"{error} {error!r} {error.body!r}"

    @pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 429, 500])
    @pytest.mark.parametrize("padding", [0, 250, 290, 1990, 3990])
    def test_no_secret_whole_or_half(self, status: int, padding: int) -> None:
        redactor = Redactor()
        redactor.add_token(Secret(CANARY))
        message = "." * padding + CANARY + "." * 3000
        for body in ({"message": message}, {message: message}, [message], message.encode(), (message * 3).encode()):
            error = judged(reply(status, body), redactor)
            assert error is not None
            assert CANARY[:5] not in f"{error} {error!r} {error.body!r}"

    def test_unknown_tokens_are_masked_by_their_key(self) -> None:
        error = judged(reply(500, {"user": {"access_token": CANARY}, "password": "x"}))
        assert error is not None
        assert error.body == {"user": {"access_token": MASK}, "password": MASK}


REJECTED = [200, 400, 401, 403, 422]
OTHER = [404, 405, 408, 409, 413, 429, 500, 502, 503, 301, 307]


class TestLogin:
    @pytest.mark.parametrize("status", REJECTED)
    @pytest.mark.parametrize(
        "body",
        [
            {"message": "The user name or password is invalid"},
            {"Unauthorized": "access denied"},
            {"message": "", "user": None},
            {"message": "no", "user": {"access_token": ""}},
            {"message": "no", "access_token": None},
        ],
        ids=str,
    )
    def test_rejected_by_an_object_with_a_reason_and_without_a_token(self, status: int, body: object) -> None:
        error = judged_login(reply(status, body))
        assert type(error) is LoginRejectedError
        assert error.status == status

    @pytest.mark.parametrize("status", OTHER)
    @pytest.mark.parametrize("body", [{"message": "no"}, {"Unauthorized": "no"}], ids=str)
    def test_no_other_status_rejects(self, status: int, body: object) -> None:
        error = judged_login(reply(status, body))
        expected = (
            NotFoundError
            if status == 404
            else BadRequestError
            if status == 413
            else RateLimitedError
            if status == 429
            else ServerError
            if status >= 500
            else APIStatusError
        )
        assert type(error) is expected

    @pytest.mark.parametrize("status", REJECTED)
    @pytest.mark.parametrize(
        "body", [None, b"<html>Sign in</html>", [1, 2, 3], ["message"], "message", {}, {"status": "ok"}], ids=str
    )
    def test_no_other_body_rejects(self, status: int, body: object) -> None:
        error = judged_login(reply(status, body))
        expected = {200: type(None), 400: BadRequestError, 401: AuthenticationError, 403: APIStatusError}
        assert type(error) is expected.get(status, BadRequestError)

    @pytest.mark.parametrize(
        "body",
        [
            {"user": {"access_token": "t"}},
            {"user": {"access_token": "t"}, "message": "welcome"},
            {"user": {"access_token": "t"}, "Unauthorized": "odd"},
            {"access_token": "t", "message": "welcome"},
        ],
        ids=str,
    )
    def test_reply_with_token_is_a_success(self, body: object) -> None:
        assert judged_login(reply(200, body)) is None

    @pytest.mark.parametrize("padding", [0, 250, 290])
    def test_an_echoed_password_is_masked(self, padding: int) -> None:
        redactor = Redactor()
        redactor.add(Secret(CANARY))
        message = "." * padding + CANARY
        for body in (
            {"message": f"{message} is wrong"},
            {"message": "wrong", "input": {"password": CANARY, "x": message}},
        ):
            error = judged_login(reply(200, body), redactor)
            assert isinstance(error, LoginRejectedError)
            assert CANARY[:5] not in f"{error} {error.body!r}"

    @pytest.mark.parametrize(
        ("location", "message"),
        [
            ("https://h.example/cb/a1b2c3d4", "redirects to https://h.example/cb/***, and redirects"),
            ("/a1b2c3d4/home", "redirects to /***/home, and redirects"),
            ("//a-long-host-name.service.example/down", "redirects to //a-long-host-name.service.example/down, and"),
        ],
    )
    def test_a_token_in_the_path_of_a_redirect_is_masked_before_it_is_known(self, location: str, message: str) -> None:
        response = Response(status=302, content=b"", headers=[(b"Location", location.encode())])
        assert message in str(judged_login(response))

    def test_error_quotes_the_sentence_of_the_service(self) -> None:
        error = judged_login(reply(200, {"message": "The user name or password is invalid"}))
        assert "The user name or password is invalid" in str(error)
        assert "no reason" in str(judged_login(reply(200, {"message": None})))
