"""The znodes of delegation tokens, as Kafka 1.1 to 3.9 use them. Kafka's `DelegationTokenInfoZNode`."""

from __future__ import annotations

from typing import Final

from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.metadata_store import UnreadableNodeError
from ottla.security.delegation_token import TokenInformation

TOKENS: Final = znodes.DELEGATION_TOKENS
CHANGES: Final = "/delegation_token/token_changes"
"""The parent of change notifications. The value of each is a token id."""
NODES: Final = ("/delegation_token", CHANGES, TOKENS)
"""The znodes that exist if brokers accept delegation tokens, parents before their children."""
VERSION: Final = 3
"""The version of a token's value since Kafka 3.3. Versions 1 and 2 have no requester."""


def token_path(token_id: str) -> str:
    """Return the path of a delegation token."""
    return f"{TOKENS}/{token_id}"


def token_value(token: TokenInformation) -> bytes:
    """Return the value of `/delegation_token/tokens/ID`.

    It does not contain the secret, which is computed from the master key.
    """
    return znodes.dump(
        {
            "version": VERSION,
            "owner": config_entities.encoded(token.owner),
            "tokenRequester": config_entities.encoded(token.requester),
            "renewers": list(map(config_entities.encoded, token.renewers)),
            "issueTimestamp": token.issue_timestamp,
            "maxTimestamp": token.max_timestamp,
            "expiryTimestamp": token.expiry_timestamp,
            "tokenId": token.token_id,
        }
    )


def parse_token(token_id: str, raw: bytes) -> TokenInformation:
    """Parse `/delegation_token/tokens/ID`. Raises UnreadableNodeError if it is malformed or of a newer version."""
    try:
        value = znodes.load(raw)
        if not 1 <= value["version"] <= VERSION or value["tokenId"] != token_id:
            raise ValueError(f"version {value['version']} of token {value['tokenId']}")
        owner = _principal(value["owner"])
        return TokenInformation(
            token_id,
            owner,
            _principal(value["tokenRequester"]) if "tokenRequester" in value else owner,
            tuple(map(_principal, value["renewers"])),
            int(value["issueTimestamp"]),
            int(value["expiryTimestamp"]),
            int(value["maxTimestamp"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableNodeError(f"{token_path(token_id)} is malformed: {raw[:200]!r}: {error!r}") from None


def _principal(text: str) -> str:
    principal = config_entities.decoded(text)
    if principal is None or not all(principal.partition(":")):
        raise ValueError(f"{text!r} is not a principal")
    return principal
