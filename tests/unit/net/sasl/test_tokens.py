"""Token providers of OAUTHBEARER clients, and the reuse of tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from ottla.config.oauth import OAuthLoginConfig
from ottla.errors import ConfigurationError, SaslAuthenticationFailedError
from ottla.security.sasl.token_provider import (
    Token,
    TokenProvider,
    b64url_decode,
    b64url_encode,
    expiry,
    from_callable,
    token_provider,
    unsecured_token,
)


def token(**claims: Any) -> str:
    return f"{b64url_encode(b'{}')}.{b64url_encode(json.dumps(claims).encode())}.x"


def claims_of(made: str) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads(b64url_decode(made.split(".")[1]))
    return actual


def get(tokens: TokenProvider) -> Token:
    return asyncio.run(tokens.token())


class Endpoint:
    """A token endpoint with scripted responses, which records its requests."""

    def __init__(self, *responses: tuple[int, Any]) -> None:
        self.responses = list(responses)
        self.requested: list[tuple[dict[str, str], dict[str, list[str]]]] = []
        self.url = ""


@contextmanager
def serving(*responses: tuple[int, Any], tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    endpoint = Endpoint(*responses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            endpoint.requested.append((dict(self.headers), form))
            code, body = endpoint.responses.pop(0)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if tls is None else "https"
    endpoint.url = f"{scheme}://localhost:{server.server_port}/token"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def config(url: str, **more: Any) -> OAuthLoginConfig:
    keys = {name.replace("_", "."): value for name, value in more.items()}
    return OAuthLoginConfig({"sasl.oauthbearer.token.endpoint.url": url, "sasl.login.retry.backoff.ms": 1, **keys})


SECRET = {
    "sasl_oauthbearer_client_credentials_client_id": "id:1",
    "sasl_oauthbearer_client_credentials_client_secret": "s ü",
}


@pytest.mark.option(
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)
def test_token_endpoint_returns_a_token_for_client_id_and_secret() -> None:
    made = token(exp=time.time() + 100)
    with serving((200, {"access_token": made})) as endpoint:
        actual = get(
            token_provider(config(endpoint.url, sasl_oauthbearer_scope="read", **SECRET), {"extension_a": "b"})
        )
    assert (actual.value, actual.extensions) == (made, {"a": "b"})
    headers, form = endpoint.requested[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == "id:1:s ü"
    assert form == {"grant_type": ["client_credentials"], "scope": ["read"]}


@pytest.mark.option("sasl.oauthbearer.header.urlencode")
def test_client_credentials_are_read_from_jaas_and_urlencoded_if_configured() -> None:
    jaas = {"clientId": "id:1", "clientSecret": "s ü", "scope": "x y"}
    with serving((200, {"access_token": "opaque"})) as endpoint:
        get(token_provider(config(endpoint.url, sasl_oauthbearer_header_urlencode=True), jaas))
    headers, form = endpoint.requested[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"id%3A1:s+%C3%BC"
    assert form["scope"] == ["x y"]


def test_token_endpoint_with_tls_is_trusted_by_the_ssl_options_of_the_jaas_config(tmp_path: Path) -> None:
    certificates = pytest.importorskip("tests.unit.net.certificates")
    tls = certificates.localhost_server(tmp_path)
    jaas = {
        "clientId": "id",
        "clientSecret": "secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    with serving((200, {"access_token": "opaque"}), tls=tls) as endpoint:
        assert get(token_provider(config(endpoint.url), jaas)).value == "opaque"
    with pytest.raises(ConfigurationError, match=r"ssl\.truststore\.location"):
        token_provider(config(endpoint.url), {**jaas, "ssl.truststore.location": "/nowhere.pem"})


@pytest.mark.option("sasl.login.retry.backoff.ms")
def test_token_request_is_retried_after_a_server_error() -> None:
    with serving((503, b""), (429, b""), (200, {"access_token": "opaque"})) as endpoint:
        assert get(token_provider(config(endpoint.url, **SECRET), {})).value == "opaque"
    assert len(endpoint.requested) == 3


@pytest.mark.parametrize("response", [(401, b""), (200, b"x"), (200, {}), (200, []), (200, {"access_token": 5})])
def test_rejected_token_request_reports_the_reason_and_is_not_retried(response: tuple[int, Any]) -> None:
    with (
        serving(response) as endpoint,
        pytest.raises(SaslAuthenticationFailedError, match="cannot get a token") as error,
    ):
        get(token_provider(config(endpoint.url, **SECRET), {}))
    assert len(endpoint.requested) == 1
    assert "s ü" not in str(error.value)


@pytest.mark.option("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms")
def test_token_endpoint_without_response_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        waits = {"sasl_login_connect_timeout_ms": 20, "sasl_login_read_timeout_ms": 50}
        with pytest.raises(SaslAuthenticationFailedError, match="timed out"):
            get(token_provider(config(url, sasl_login_retry_backoff_max_ms=0, **waits, **SECRET), {}))


def test_token_request_is_retried_after_a_response_that_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        responses = [b"hello\r\n", b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "opaque"}']

        def respond() -> None:
            for response in responses:
                connection, _ = server.accept()
                with connection:
                    request = b""
                    while not request.endswith(b"client_credentials"):  # unread bytes would reset the connection
                        request += connection.recv(65536)
                    connection.sendall(response)

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        assert get(token_provider(config(url, **SECRET), {})).value == "opaque"
        thread.join()
    with pytest.raises(SaslAuthenticationFailedError, match="cannot get a token"):
        get(token_provider(config("http://127.0.0.1:x/", **SECRET), {}))  # not retried


@pytest.mark.option("sasl.login.retry.backoff.max.ms")
def test_token_request_retries_are_bounded() -> None:
    with serving((503, b""), (503, b"")) as endpoint, pytest.raises(SaslAuthenticationFailedError, match="503"):
        get(token_provider(config(endpoint.url, sasl_login_retry_backoff_max_ms=0, **SECRET), {}))


def test_token_file_is_read_for_each_token(tmp_path: Path) -> None:
    path = tmp_path / "to ken"
    path.write_text("one\n")
    tokens = token_provider(config(path.as_uri()), {})
    assert get(tokens).value == "one"
    path.write_text("two")
    assert get(tokens).value == "two"
    path.unlink()
    with pytest.raises(SaslAuthenticationFailedError, match="to ken"):
        get(tokens)


def test_token_is_reused_for_80_percent_of_its_lifetime() -> None:
    actual = Token("t", 100.0, 200.0, {})
    assert actual.is_fresh(179.0)
    assert not actual.is_fresh(181.0)
    assert not Token("t", 100.0, None, {}).is_fresh(100.0)
    requested = []

    def provider() -> str:
        requested.append(1)
        return token(exp=time.time() + 1000)

    async def several() -> None:
        tokens = from_callable(provider)
        await asyncio.gather(*(tokens.token() for _ in range(5)))

    asyncio.run(several())
    assert len(requested) == 1


@pytest.mark.option("sasl.oauth.token.provider")
def test_token_provider_may_be_a_function_an_object_or_async() -> None:
    class Like:
        def token(self) -> str:
            return "kafka-python's"

        def extensions(self) -> dict[str, str]:
            return {"a": "b"}

    class Async:
        async def token(self) -> str:
            return "aiokafka's"

    assert get(from_callable(lambda: "own")).value == "own"
    assert get(from_callable(Like()))[0] == "kafka-python's"
    assert get(from_callable(Like())).extensions == {"a": "b"}
    assert get(from_callable(Async())).value == "aiokafka's"
    with pytest.raises(ConfigurationError, match=r"sasl\.oauth\.token\.provider"):
        from_callable(object())
    with pytest.raises(SaslAuthenticationFailedError, match="int"):
        get(from_callable(lambda: 5))


def test_exception_of_a_token_provider_is_reported() -> None:
    def down() -> str:
        raise RuntimeError("vault is down")

    async def down_too() -> str:
        raise RuntimeError("vault is down")

    for provider in (down, down_too):
        with pytest.raises(
            SaslAuthenticationFailedError, match=r"token\.provider: RuntimeError: vault is down"
        ) as error:
            get(from_callable(provider))
        assert isinstance(error.value.__cause__, RuntimeError)
    with pytest.raises(SaslAuthenticationFailedError, match="an empty token"):
        get(from_callable(lambda: ""))


def test_unsecured_token_has_the_claims_of_the_jaas_config() -> None:
    made = unsecured_token(
        {
            "unsecuredLoginStringClaim_sub": "alice",
            "unsecuredLoginListClaim_scope": "|read|write",
            "unsecuredLoginNumberClaim_level": "2",
            "unsecuredLoginLifetimeSeconds": "60",
        }
    )
    assert made.endswith(".")
    claims = claims_of(made)
    assert (claims["sub"], claims["scope"], claims["level"]) == ("alice", ["read", "write"], 2.0)
    assert claims["exp"] - claims["iat"] == 60
    assert expiry(made) == claims["exp"]


@pytest.mark.parametrize(
    ("jaas", "url", "option"),
    [
        ({}, None, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginPrincipalClaimName": "user"}, None, "unsecuredLoginStringClaim_user"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"}, None, "LifetimeSeconds"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "²"}, None, "LifetimeSeconds"),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_level": "high"},
            None,
            "unsecuredLoginNumberClaim_level: 'high'.*unsecuredLoginStringClaim_level",
        ),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_level": "nan"},
            None,
            "NumberClaim_level: 'nan'",
        ),
        ({"unsecuredLoginStringClaim_sub": "a", "extension_auth": "x"}, None, "extension 'auth'"),
        ({}, "https://host/token", "client.credentials.client.id"),
        ({"clientId": "x"}, "https://host/token", "client.credentials.client.id"),
    ],
)
def test_missing_or_invalid_login_option_is_named(jaas: dict[str, str], url: str | None, option: str) -> None:
    options = {} if url is None else {"sasl.oauthbearer.token.endpoint.url": url}
    with pytest.raises(ConfigurationError, match=option):
        token_provider(OAuthLoginConfig(options), jaas)


@pytest.mark.parametrize("value", ["ftp://h/x", "host", "https://", "file:"])
def test_invalid_token_endpoint_url_is_rejected(value: str) -> None:
    with pytest.raises(ConfigurationError, match="file:///"):
        config(value)


@pytest.mark.parametrize(
    "value",
    ["", "opaque", "a.b.c", "a.bm8.c", f"a.{b64url_encode(b'[1]')}.c", token(exp="soon"), token(exp=10**400)],
)
def test_opaque_or_malformed_token_has_no_expiry(value: str) -> None:
    assert expiry(value) is None
