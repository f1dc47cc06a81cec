"""AlterUserScramCredentials: set and delete SCRAM credentials (KIP-554). Requires ALTER on the cluster.

Keys derived from the salted password are stored with salt and iterations, in Kafka's format below `/config/users`.
"""

from __future__ import annotations

from ottla import errors
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.security.scram_credentials import MECHANISMS, ScramMechanism, credential
from ottla.cluster.store import config_entities
from ottla.model import ACLOperation
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.security.acl import ResourceType

MAX_ITERATIONS = 16384
Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Apply the changes of each user together. An error of one user does not affect the others."""
    by_user: dict[str, list[Change]] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        by_user.setdefault(change.name, []).append(change)
    authorization_error = context.authorization_error(ACLOperation.ALTER, ResourceType.CLUSTER)
    results = []
    for user, user_changes in by_user.items():
        result = AlterUserScramCredentialsResult(user=user, error_message=None)
        with errors_in(result):
            if authorization_error is not None:
                raise authorization_error
            await _alter(user, user_changes, context)
        results.append(result)
    return AlterUserScramCredentialsResponse(results=results)


async def _alter(user: str, changes: list[Change], context: RequestContext) -> None:
    if not user:
        raise errors.UnacceptableCredentialError("Username must not be empty")
    mechanisms = [change.mechanism for change in changes]
    if len(set(mechanisms)) < len(mechanisms):
        raise errors.DuplicateResourceError(f"the request changes a credential of {user} twice")
    path = config_entities.entity(config_entities.USERS, user)

    async def attempt() -> None:
        options = dict(context.broker.image.configs.get(path, {}))
        for change in changes:
            _apply(change, options)
        await context.broker.config_store.set(path, options)

    await context.broker.config_store.change(path, attempt)
    for change in changes:
        verb = "Set" if isinstance(change, ScramCredentialUpsertion) else "Deleted"
        context.log_change("%s the %s credential of user %s", verb, _mechanism(change.mechanism).name, user)


def _apply(change: Change, options: dict[str, str]) -> None:
    mechanism = _mechanism(change.mechanism)
    if isinstance(change, ScramCredentialUpsertion):
        _check(change, mechanism)
        options[mechanism.name] = credential(mechanism, change.salt, change.salted_password, change.iterations)
    elif options.pop(mechanism.name, None) is None:
        raise errors.ResourceNotFoundError("Attempt to delete a user credential that does not exist")


def _mechanism(number: int) -> ScramMechanism:
    mechanism = MECHANISMS.get(number)
    if mechanism is None:
        raise errors.UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
    return mechanism


def _check(change: ScramCredentialUpsertion, mechanism: ScramMechanism) -> None:
    if change.iterations < mechanism.min_iterations:
        raise errors.UnacceptableCredentialError(
            f"Too few iterations: at least {mechanism.min_iterations} are required"
        )
    if change.iterations > MAX_ITERATIONS:
        raise errors.UnacceptableCredentialError(f"Too many iterations: at most {MAX_ITERATIONS} are allowed")
