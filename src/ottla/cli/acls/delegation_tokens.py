"""Create, renew, expire and describe delegation tokens (KIP-48), as kafka-delegation-tokens.sh does."""

from __future__ import annotations

import argparse
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Option, Repeatable
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.security.delegation_tokens import DelegationToken
from ottla.errors import ConfigurationError

HEADER: Final = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
MAX_LIFETIME: Final = -1
"""The maximum lifetime in milliseconds that stands for the broker's delegation.token.max.lifetime.ms."""
WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)
"""The minimum widths of columns in characters, as in Kafka's tool."""


def create(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Create a token, print it, and return it for JSON."""
    renewers, lifetime_ms = args.renewer_principal, args.max_life_time_period
    if lifetime_ms is None:
        lifetime_ms = MAX_LIFETIME
    output.text(
        f"Calling create token operation with renewers :{_list(renewers)} , max-life-time-period :{lifetime_ms}"
    )
    token = admin.create_delegation_token(renewers, lifetime_ms, next(iter(args.owner_principal), None))
    output.text(f"Created delegation token with tokenId : {token.token_id}", *_table([token]))
    return _fields(token)


def renew(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Renew the token with the HMAC in `--hmac`, and print its new expiry time."""
    period_ms = args.renew_time_period
    output.text(f"Calling renew token operation with hmac :{args.hmac} , renew-time-period :{period_ms}")
    expiry = admin.renew_delegation_token(_hmac(args), period_ms)
    output.text(f"Completed renew operation. New expiry date : {_date(expiry)}")
    return {"expiry_timestamp": expiry}


def expire(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Let the token with the HMAC in `--hmac` expire after `--expiry-time-period` (negative: remove it now), and print
    its expiry time.
    """
    period_ms = args.expiry_time_period
    output.text(f"Calling expire token operation with hmac :{args.hmac} , expire-time-period :{period_ms}")
    expiry = admin.expire_delegation_token(_hmac(args), period_ms)
    output.text(f"Completed expire operation. New expiry date : {_date(expiry)}")
    return {"expiry_timestamp": expiry}


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the tokens that the client may describe. With `--owner-principal`, print only those with such an owner or
    renewer.
    """
    owners = args.owner_principal
    if owners:
        output.text(f"Calling describe token operation for owners: {_list(owners)}")
    else:
        output.text("Calling describe token operation for current user.")
    tokens = admin.describe_delegation_token(owners or None)
    output.text(f"Total number of tokens : {len(tokens)}", *_table(tokens)[1:])
    return [_fields(token) for token in tokens]


def _table(tokens: Iterable[DelegationToken]) -> list[str]:
    """Return the lines of the table. An empty line precedes each row, as in Kafka's tool."""
    rows = [HEADER, *map(_row, tokens)]
    lines = [" ".join(f"{cell:<{width}}" for cell, width in zip(row, WIDTHS, strict=True)) for row in rows]
    return [line for row in lines for line in ("", row)]


def _row(token: DelegationToken) -> tuple[str, ...]:
    dates = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
    hmac = b64encode(token.hmac).decode()
    return token.token_id, hmac, token.owner, token.requester, _list(token.renewers), *map(_date, dates)


def _fields(token: DelegationToken) -> dict[str, Any]:
    return {**token._asdict(), "hmac": b64encode(token.hmac).decode()}


def _list(items: Iterable[str]) -> str:
    """Format a list as Java prints it."""
    return f"[{', '.join(items)}]"


def _date(timestamp_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(timestamp_ms / 1000))


def _hmac(args: argparse.Namespace) -> bytes:
    return b64decode(args.hmac)


def _check_principals(args: argparse.Namespace) -> None:
    for principal in (*args.owner_principal, *args.renewer_principal):
        kind, _, name = principal.partition(":")
        if not kind or not name:
            raise ConfigurationError(f"{principal!r} is not a principal: expected Type:name, such as User:alice")


def _check_hmac(args: argparse.Namespace) -> None:
    try:
        b64decode(args.hmac, validate=True)
    except ValueError:
        raise ConfigurationError("--hmac: expected base64, as --create and --describe print it") from None


COMMAND = AdminCommand(
    check=_check_principals,
    actions=(
        Action("create", "create a token for yourself, or for --owner-principal", create),
        Action("renew", "renew a token", renew, requires=("hmac", "renew_time_period"), check=_check_hmac),
        Action("expire", "let a token expire", expire, requires=("hmac", "expiry_time_period"), check=_check_hmac),
        Action("describe", "print tokens with their HMACs", describe),
    ),
    options=(
        *connection(),
        Repeatable(
            "--owner-principal TYPE:NAME",
            "owner of the new token (default: yourself); with --describe: owner or renewer of the tokens to print "
            "(default: all tokens that you may describe)",
            type=str.strip,
            actions="create describe",
        ),
        Repeatable(
            "--renewer-principal TYPE:NAME",
            "principal that may renew and expire the token, besides its owner",
            type=str.strip,
            actions="create",
        ),
        Option(
            "--max-life-time-period MS",
            "maximum lifetime of the token in milliseconds; -1 (the default): the broker's "
            "delegation.token.max.lifetime.ms",
            int,
            actions="create",
        ),
        Option(
            "--hmac HMAC", "HMAC of the token in base64, as --create and --describe print it", actions="renew expire"
        ),
        Option(
            "--renew-time-period MS",
            "time in milliseconds until the token expires, limited by its maximum lifetime; negative: the broker's "
            "delegation.token.expiry.time.ms",
            int,
            actions="renew",
        ),
        Option(
            "--expiry-time-period MS",
            "time in milliseconds until the token expires, limited by its maximum lifetime; negative: remove it now",
            int,
            actions="expire",
        ),
        JSON,
    ),
)
