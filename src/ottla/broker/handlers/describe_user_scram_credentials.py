"""DescribeUserScramCredentials: mechanisms and iterations of users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections import Counter

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.security.scram_credentials import MECHANISMS, iterations_of
from ottla.cluster.store import config_entities
from ottla.errors import DuplicateResourceError, ResourceNotFoundError
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Describe the named users, or all users with credentials."""
    users = Counter(user.name for user in request.users or ())
    results = []
    for user in users or _all_users(context):
        result = DescribeUserScramCredentialsResult(user=user, error_message=None)
        with errors_in(result):
            if users[user] > 1:
                raise DuplicateResourceError(f"Cannot describe SCRAM credentials for the same user twice: {user}")
            result.credential_infos = _credentials(user, context)
        results.append(result)
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _credentials(user: str, context: RequestContext) -> list[CredentialInfo]:
    options = context.broker.image.configs.get(config_entities.entity(config_entities.USERS, user), {})
    credentials = [
        CredentialInfo(mechanism=number, iterations=iterations_of(options[mechanism.name]))
        for number, mechanism in MECHANISMS.items()
        if mechanism.name in options
    ]
    if not credentials:
        raise ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {user}")
    return credentials


def _all_users(context: RequestContext) -> list[str]:
    names = {mechanism.name for mechanism in MECHANISMS.values()}
    users = config_entities.of_type(context.broker.image.configs, config_entities.USERS)
    return sorted(user or "" for user, options in users.items() if names & options.keys())
