"""What a client may do with a resource, as the bits that it can ask for (KIP-430).

Nothing restricts clients yet, so that is all that can be done with a resource of its kind.
"""

from __future__ import annotations

from ottla.model import ACLOperation

UNASKED = -0x8000_0000
"""What stands in an answer whose request did not ask."""


def _bits(*operations: ACLOperation) -> int:
    return sum(1 << operation for operation in operations)


_ON_OPTIONS = (ACLOperation.DESCRIBE_CONFIGS, ACLOperation.ALTER_CONFIGS)

TOPIC = _bits(
    ACLOperation.READ,
    ACLOperation.WRITE,
    ACLOperation.CREATE,
    ACLOperation.DESCRIBE,
    ACLOperation.DELETE,
    ACLOperation.ALTER,
    *_ON_OPTIONS,
)
GROUP = _bits(ACLOperation.READ, ACLOperation.DESCRIBE, ACLOperation.DELETE, *_ON_OPTIONS)
CLUSTER = _bits(
    ACLOperation.CREATE,
    ACLOperation.CLUSTER_ACTION,
    ACLOperation.ALTER,
    ACLOperation.DESCRIBE,
    ACLOperation.IDEMPOTENT_WRITE,
    *_ON_OPTIONS,
)
