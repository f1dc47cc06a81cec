"""`ottla delegation-tokens` with a fake admin client."""

from __future__ import annotations

import json
import time
from types import TracebackType
from typing import Any

import pytest

from ottla.cli.framework import admin_command
from ottla.cli.main import main
from ottla.client.admin.security.delegation_tokens import DelegationToken
from ottla.errors import DelegationTokenNotFoundError

AT = ("delegation-tokens", "--bootstrap-server", "127.0.0.1:1")
HOUR_MS = 3_600_000
TOKEN = DelegationToken(
    "TdxZFxTAQgGzBVQvvdjzVw",
    b"secret" * 8,
    "User:alice",
    "User:bob",
    ("User:carol", "User:dave"),
    0,
    HOUR_MS,
    24 * HOUR_MS,
)
HMAC = "c2VjcmV0" * 8
HEADER = (
    "TOKENID         HMAC                           OWNER           REQUESTER       RENEWERS                  "
    "ISSUEDATE       EXPIRYDATE      MAXDATE        "
)
ROW = (
    f"TdxZFxTAQgGzBVQvvdjzVw {HMAC} User:alice      User:bob        [User:carol, User:dave]   "
    "1970-01-01T00:00 1970-01-01T01:00 1970-01-02T00:00"
)


class Admin:
    """Returns one token, and records the calls."""

    calls: list[tuple[Any, ...]]

    def __init__(self, configs: dict[str, Any]) -> None:
        type(self).calls = []

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def create_delegation_token(self, *arguments: Any) -> DelegationToken:
        self.calls.append(arguments)
        return TOKEN

    def renew_delegation_token(self, *arguments: Any) -> int:
        self.calls.append(arguments)
        return HOUR_MS

    def expire_delegation_token(self, *arguments: Any) -> int:
        self.calls.append(arguments)
        raise DelegationTokenNotFoundError

    def describe_delegation_token(self, *arguments: Any) -> list[DelegationToken]:
        self.calls.append(arguments)
        return [TOKEN, TOKEN]


@pytest.fixture(autouse=True)
def admin(monkeypatch: pytest.MonkeyPatch) -> type[Admin]:
    monkeypatch.setattr(admin_command, "KafkaAdminClient", Admin)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return Admin


def test_create_prints_the_output_of_kafka_delegation_tokens(
    admin: type[Admin], capsys: pytest.CaptureFixture[str]
) -> None:
    renewers = ("--renewer-principal", "User:carol", "--renewer-principal", "User:dave")
    assert main([*AT, "--create", "--max-life-time-period", "-1", "--owner-principal", "User:alice", *renewers]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Calling create token operation with renewers :[User:carol, User:dave] , max-life-time-period :-1",
        "Created delegation token with tokenId : TdxZFxTAQgGzBVQvvdjzVw",
        "",
        HEADER,
        "",
        ROW,
    ]
    assert admin.calls == [(["User:carol", "User:dave"], -1, "User:alice")]


def test_renew_prints_the_new_expiry_date(admin: type[Admin], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, "--renew", "--hmac", HMAC, "--renew-time-period", "5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Calling renew token operation with hmac :{HMAC} , renew-time-period :5",
        "Completed renew operation. New expiry date : 1970-01-01T01:00",
    ]
    assert admin.calls == [(TOKEN.hmac, 5)]


def test_failed_expiry_is_printed_in_one_line(admin: type[Admin], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, "--expire", "--hmac", HMAC, "--expiry-time-period", "-1"]) == 1
    assert capsys.readouterr().err.startswith("ottla delegation-tokens: ")
    assert admin.calls == [(TOKEN.hmac, -1)]


@pytest.mark.parametrize(
    ("owners", "line"),
    [
        ([], "Calling describe token operation for current user."),
        (["User:a", "User:b"], "Calling describe token operation for owners: [User:a, User:b]"),
    ],
)
def test_describe_prints_tokens_as_a_table(
    owners: list[str], line: str, admin: type[Admin], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for owner in owners for word in ("--owner-principal", owner)]
    assert main([*AT, "--describe", *options]) == 0
    expected = [line, "Total number of tokens : 2", HEADER, "", ROW, "", ROW]
    assert capsys.readouterr().out.splitlines() == expected
    assert admin.calls == [(owners or None,)]


def test_describe_prints_tokens_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, "--describe", "--json"]) == 0
    first, _ = json.loads(capsys.readouterr().out)
    assert (first["token_id"], first["hmac"], first["max_timestamp"]) == (TOKEN.token_id, HMAC, 24 * HOUR_MS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--renew", "--hmac", HMAC), "--renew needs --renew-time-period"),
        (("--expire", "--expiry-time-period", "1"), "--expire needs --hmac"),
        (("--renew", "--hmac", "%", "--renew-time-period", "1"), "--hmac: expected base64"),
        (("--create", "--renewer-principal", "carol"), "'carol' is not a principal"),
        (("--create", "--hmac", HMAC), "--hmac cannot be used with --create"),
        (("--describe", "--renewer-principal", "User:a"), "--renewer-principal cannot be used with --describe"),
    ],
)
def test_wrong_usage_is_rejected(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, *arguments]) == 1
    assert message in capsys.readouterr().err
