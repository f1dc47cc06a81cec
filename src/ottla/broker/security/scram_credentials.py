"""SCRAM credentials in Kafka's form in the metadata store (RFC 5802, RFC 7677)."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.cluster.store.config_entities import scram_value
from ottla.security.sasl.scram import Credential


class ScramMechanism(NamedTuple):
    """One SCRAM mechanism: Kafka's name, its hash, and the minimum number of iterations."""

    name: str
    hash: str
    min_iterations: int


MECHANISMS: Final = {
    1: ScramMechanism("SCRAM-SHA-256", "sha256", 4096),
    2: ScramMechanism("SCRAM-SHA-512", "sha512", 4096),
}
"""SCRAM mechanisms by their numbers in the protocol."""


def credential(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """Return the credential to store. The broker can verify logins with it, but it does not allow a login."""
    stored = Credential.of_salted_password(mechanism.hash, salted_password, salt, iterations)
    return scram_value(*stored)


def iterations_of(stored: str) -> int:
    """Return the number of iterations of a stored credential."""
    return int(dict(part.split("=", 1) for part in stored.split(","))["iterations"])
